//! Deployments, which recreate removed pods.

use super::pods::{default_request, ready};
use super::{Kit, PodHandle, Shape, Shaped};
use crate::wait::wait_for;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use std::time::Duration;

/// Builds a Deployment whose pods have the label `app` with its name.
#[derive(Clone)]
pub struct DeploymentBuilder {
    kit: Kit,
    name: String,
    replicas: usize,
    shape: Shape,
}

impl Shaped for DeploymentBuilder {
    fn shape(&mut self) -> &mut Shape {
        &mut self.shape
    }
}

impl DeploymentBuilder {
    /// Returns a builder of a Deployment with this number of pods, which request 1 CPU each.
    pub fn new(kit: Kit, name: &str, replicas: usize) -> Self {
        Self { kit, name: name.to_owned(), replicas, shape: Shape::default() }.label("app", name)
    }

    /// Creates the Deployment without waiting for its pods.
    ///
    /// # Panics
    /// If it is rejected.
    pub async fn submit(&self) {
        let mut shape = default_request(self.shape.clone());
        let node = shape.node.take();
        assert!(node.is_none(), "the scheduler places the pods of a Deployment");
        let pod = shape.pod(&self.name);
        let labels = json!({"app": self.name});
        let deployment = json!({
            "metadata": {"name": self.name},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": shape.labels, "annotations": pod.metadata.annotations}, "spec": pod.spec}
            }
        });
        let deployment: Deployment = serde_json::from_value(deployment).unwrap();
        self.kit.api::<Deployment>().create(&PostParams::default(), &deployment).await.unwrap();
    }

    /// Creates the Deployment and waits until all its pods run; returns them.
    ///
    /// # Panics
    /// If it is rejected or its pods do not run.
    pub async fn create(self) -> Vec<PodHandle> {
        self.submit().await;
        let mine = ListParams::default().labels(&format!("app={}", self.name));
        let what = format!("{} pods of Deployment {} run", self.replicas, self.name);
        wait_for(&what, Duration::from_secs(60), async || {
            let pods = self.kit.api::<Pod>().list(&mine).await.map_err(|error| error.to_string())?;
            let running: Vec<&Pod> = pods.items.iter().filter(|pod| ready(pod)).collect();
            if running.len() == self.replicas {
                Ok(running.into_iter().map(|pod| PodHandle::new(self.kit.clone(), pod)).collect())
            } else {
                Err(format!("{} do", running.len()))
            }
        })
        .await
    }
}

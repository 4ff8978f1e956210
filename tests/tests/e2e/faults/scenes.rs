//! Scenarios that are played while faults are injected. Each has a namespace and nodes of its own.

use super::PATIENCE;
use giveway_crds::PodGroup;
use giveway_tests::audit::History;
use giveway_tests::audit::log::mark_rest;
use giveway_tests::audit::rest::Objects;
use giveway_tests::cluster::{
    BudgetBuilder, ClassBuilder, FillBuilder, Group, GroupBuilder, Kit, NodesBuilder, PodBuilder, Shaped as _,
};
use giveway_tests::wait::wait_for;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams};

/// Label key of a scene's nodes; the value is the name of the scene.
const POOL: &str = "pool";

/// The kinds of scenes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// A gang preempts a group in mode `PodGroup` and a single pod.
    Preemption,
    /// kube-scheduler preempts one pod of a group in mode `PodGroup`, and the operator evicts the others. Its pods take this
    /// number of seconds to terminate: a preemption is unknown to the operator if the pod is removed while no operator runs.
    Departure(u32),
    /// The class of a group without pods is adopted, that is, deleted and recreated as a managed class. Then the pods of the
    /// group are created and preempt others.
    Adoption,
    /// One pod of a guaranteed budget is evicted within the allowance, then another one by a preemptor that reaches the
    /// threshold.
    Budget,
}

/// A scene whose nodes and background pods exist.
pub struct Scene {
    kit: Kit,
    nodes: Vec<String>,
    scenario: Scenario,
}

impl Scene {
    /// Creates the namespace, the nodes and the background pods of a scene.
    pub async fn set(kit: &Kit, name: &str, scenario: Scenario) -> Self {
        let kit = kit.new_namespace(name).await;
        let cpus = if scenario == Scenario::Budget { 2 } else { 3 };
        let nodes = NodesBuilder::new(kit.clone(), 2).cpus(cpus).prefix(name).label(POOL, name).create().await;
        let scene = Self { kit, nodes, scenario };
        match scenario {
            Scenario::Preemption => {
                let group = GroupBuilder::new(scene.kit.clone(), "low", 4).priority("low").whole();
                let low =
                    group.on(&[&scene.nodes[0], &scene.nodes[0], &scene.nodes[1], &scene.nodes[1]]).create().await;
                low.wait_condition(crate::INITIALLY_SCHEDULED, "True", "Scheduled", PATIENCE).await;
                scene.fill("single").await;
            }
            Scenario::Adoption => {
                scene.fill("low").await;
                ClassBuilder::new(scene.kit.clone(), &scene.class(), 1000).create().await;
            }
            Scenario::Departure(grace) => {
                let low = GroupBuilder::new(scene.kit.clone(), "low", 3).priority("low").whole().grace_seconds(grace);
                let low = low.on(&[&scene.nodes[0]; 3]).create().await;
                low.wait_condition(crate::INITIALLY_SCHEDULED, "True", "Scheduled", PATIENCE).await;
            }
            Scenario::Budget => {
                let fill = FillBuilder::new(scene.kit.clone(), &scene.nodes).prefix("web").priority("guarded");
                fill.label("app", "web").singles().await;
                let budget = BudgetBuilder::new(scene.kit.clone(), "web").matching("app", "web").min_available(3);
                budget.create_allowing(1).await;
            }
        }
        scene
    }

    /// Fills the nodes of the scene with single pods of class `low`.
    async fn fill(&self, prefix: &str) {
        FillBuilder::new(self.kit.clone(), &self.nodes).prefix(prefix).priority("low").singles().await;
    }

    /// Name of the class that is adopted.
    fn class(&self) -> String {
        format!("adopted-{}", self.kit.namespace)
    }

    fn pod(&self, name: &str, class: &str) -> PodBuilder {
        PodBuilder::new(self.kit.clone(), name).priority(class).node_selector(POOL, &self.kit.namespace)
    }

    /// Creates the gang that preempts.
    pub async fn gang(&self) -> Group {
        let gang = GroupBuilder::new(self.kit.clone(), "train", 4).priority("high");
        gang.node_selector(POOL, &self.kit.namespace).create().await
    }

    /// Creates the preemptors of the scene and waits until they are bound.
    pub async fn play(&self) {
        match self.scenario {
            Scenario::Preemption => {
                self.gang().await.wait_bound(PATIENCE).await;
            }
            Scenario::Adoption => {
                let gang = GroupBuilder::new(self.kit.clone(), "train", 4).priority(&self.class());
                let mut gang = gang.node_selector(POOL, &self.kit.namespace).create_group().await;
                Api::<PriorityClass>::all(self.kit.client.clone())
                    .delete(&self.class(), &DeleteParams::default())
                    .await
                    .unwrap();
                ClassBuilder::new(self.kit.clone(), &self.class(), 1000).managed().create().await;
                gang.add_pods(4).await;
                gang.wait_bound(PATIENCE).await;
            }
            Scenario::Departure(_) => {
                // The pod is pinned to the full node, so kube-scheduler has to preempt a pod of the group.
                let pod = self.pod("stock", "stock").node_selector("kubernetes.io/hostname", &self.nodes[0]);
                pod.create().await.wait_bound(PATIENCE).await;
                let pods: Api<Pod> = self.kit.api();
                wait_for("all pods of the group are removed", PATIENCE, async || {
                    let all = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
                    let left = all.items.len() - 1;
                    if left == 0 { Ok(()) } else { Err(format!("{left} pods exist")) }
                })
                .await;
            }
            Scenario::Budget => {
                self.pod("first", "high").create().await.wait_bound(PATIENCE).await;
                self.pod("second", "urgent").create().await.wait_bound(PATIENCE).await;
            }
        }
    }

    /// Waits until no plan of this scene is in flight and no pod is terminating, then writes a mark to the audit log.
    pub async fn rest(&self, history: &History) {
        let namespace = &self.kit.namespace;
        wait_for(&format!("{namespace} is at rest"), PATIENCE, async || {
            let objects = Objects::look(&self.kit.client).await.map_err(|error| error.to_string())?;
            let mut left = objects.left_over(history);
            left.extend(objects.plans.iter().filter(|plan| plan.state.in_flight()).map(|plan| plan.id.clone()));
            let terminating = |pod: &&Pod| {
                pod.metadata.namespace.as_ref() == Some(namespace) && pod.metadata.deletion_timestamp.is_some()
            };
            left.extend(objects.pods.iter().filter(terminating).filter_map(|pod| pod.metadata.name.clone()));
            if left.is_empty() { Ok(()) } else { Err(left.join("; ")) }
        })
        .await;
        mark_rest(&self.kit.client, namespace).await.unwrap();
    }

    /// Deletes all objects of the scene.
    pub async fn clear(self) {
        let (quick, all) = (DeleteParams::default().grace_period(0), ListParams::default());
        self.kit.api::<PodDisruptionBudget>().delete_collection(&quick, &all).await.unwrap();
        self.kit.api::<Pod>().delete_collection(&quick, &all).await.unwrap();
        self.kit.api::<PodGroup>().delete_collection(&quick, &all).await.unwrap();
        if self.scenario == Scenario::Adoption {
            let classes = Api::<PriorityClass>::all(self.kit.client.clone());
            classes.delete(&self.class(), &DeleteParams::default()).await.unwrap();
        }
        for node in &self.nodes {
            Api::<Node>::all(self.kit.client.clone()).delete(node, &quick).await.unwrap();
        }
    }
}

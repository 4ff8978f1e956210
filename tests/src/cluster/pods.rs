//! Single pods and their handles.

use super::events::{self, Happened};
use super::{Kit, Shape, Shaped};
use crate::wait::wait_for;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::Eviction;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use std::time::Duration;

/// Describes a single pod, of 1 CPU unless it asks for something else.
#[derive(Clone)]
pub struct PodBuilder {
    kit: Kit,
    name: String,
    shape: Shape,
}

impl Shaped for PodBuilder {
    fn shape(&mut self) -> &mut Shape {
        &mut self.shape
    }
}

impl PodBuilder {
    /// A pod of this name.
    pub fn new(kit: Kit, name: &str) -> Self {
        Self { kit, name: name.to_owned(), shape: Shape::default() }
    }

    /// Binds the pod to this node when it is created; no scheduler is asked.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.shape.node = Some(node.to_owned());
        self
    }

    /// What it would be created with.
    pub fn kit(&self) -> Kit {
        self.kit.clone()
    }

    /// The pod as it would be created, to change by hand.
    pub fn build(self) -> Pod {
        default_request(self.shape).pod(&self.name)
    }

    /// Creates the pod. A bound one is waited for until it runs.
    ///
    /// # Panics
    /// It is refused, or it is bound and does not run.
    pub async fn create(self) -> PodHandle {
        let kit = self.kit.clone();
        let bound = self.shape.node.is_some();
        let handle = match self.try_create().await {
            Ok(handle) => handle,
            Err(error) => panic!("creating a pod in {}: {error}", kit.namespace),
        };
        if bound {
            handle.wait_running(Duration::from_secs(60)).await;
        }
        handle
    }

    /// Creates the pod, or returns why it was refused.
    ///
    /// # Errors
    /// The API server refused it.
    pub async fn try_create(self) -> Result<PodHandle, kube::Error> {
        let kit = self.kit.clone();
        let pod = kit.api::<Pod>().create(&PostParams::default(), &self.build()).await?;
        Ok(PodHandle::new(kit, &pod))
    }
}

/// A pod of 1 CPU where nothing else was asked for.
pub(super) fn default_request(mut shape: Shape) -> Shape {
    if shape.resources.is_empty() {
        shape
            .resources
            .insert("cpu".to_owned(), k8s_openapi::apimachinery::pkg::api::resource::Quantity("1".to_owned()));
    }
    shape
}

/// A pod that was created: this very one, never a later one of the same name.
#[derive(Clone)]
pub struct PodHandle {
    kit: Kit,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl PodHandle {
    /// The handle of a pod as the API server returned it.
    pub fn new(kit: Kit, pod: &Pod) -> Self {
        let name = pod.metadata.name.clone().unwrap_or_default();
        Self { kit, name, uid: pod.metadata.uid.clone().unwrap_or_default() }
    }

    /// The pod as it is now; `None` when this very pod is gone.
    ///
    /// # Panics
    /// The API server cannot be asked.
    pub async fn get(&self) -> Option<Pod> {
        let pod = self.kit.api::<Pod>().get_opt(&self.name).await.unwrap();
        pod.filter(|pod| pod.metadata.uid.as_deref() == Some(&self.uid))
    }

    /// Waits until the pod has a node, and returns it.
    ///
    /// # Panics
    /// The time is up, or the pod is gone.
    pub async fn wait_bound(&self, limit: Duration) -> String {
        wait_for(&format!("pod {} is bound", self.name), limit, async || {
            let pod = self.get().await.ok_or("it is gone")?;
            node_of(&pod).map(str::to_owned).ok_or_else(|| describe(&pod))
        })
        .await
    }

    /// Waits until the pod runs.
    ///
    /// # Panics
    /// The time is up, or the pod is gone.
    pub async fn wait_running(&self, limit: Duration) {
        wait_for(&format!("pod {} runs", self.name), limit, async || {
            let pod = self.get().await.ok_or("it is gone")?;
            if ready(&pod) { Ok(()) } else { Err(describe(&pod)) }
        })
        .await;
    }

    /// Waits until this very pod is gone.
    ///
    /// # Panics
    /// The time is up.
    pub async fn wait_gone(&self, limit: Duration) {
        wait_for(&format!("pod {} is gone", self.name), limit, async || match self.get().await {
            None => Ok(()),
            Some(pod) => Err(describe(&pod)),
        })
        .await;
    }

    /// Waits until a condition of the pod has this status and reason, and returns its message.
    ///
    /// # Panics
    /// The time is up, or the pod is gone.
    pub async fn wait_condition(&self, type_: &str, status: &str, reason: &str, limit: Duration) -> String {
        wait_for(&format!("pod {} has {type_}={status} {reason}", self.name), limit, async || {
            let pod = self.get().await.ok_or("it is gone")?;
            let conditions = pod.status.clone().and_then(|status| status.conditions).unwrap_or_default();
            conditions
                .into_iter()
                .find(|c| c.type_ == type_ && c.status == status && c.reason.as_deref() == Some(reason))
                .map(|c| c.message.unwrap_or_default())
                .ok_or_else(|| describe(&pod))
        })
        .await
    }

    /// Waits for an event with this reason about the pod, and returns its message.
    ///
    /// # Panics
    /// The time is up.
    pub async fn wait_event(&self, reason: &str, limit: Duration) -> String {
        events::wait_for_event(&self.kit, "Pod", &self.name, reason, limit).await
    }

    /// The events about the pod.
    ///
    /// # Panics
    /// The API server cannot be asked.
    pub async fn events(&self) -> Vec<Happened> {
        events::about(&self.kit, "Pod", &self.name).await.unwrap()
    }

    /// Waits for an event whose reason begins so, and returns its message.
    ///
    /// # Panics
    /// The time is up.
    pub async fn wait_event_like(&self, reason: &str, limit: Duration) -> String {
        wait_for(&format!("there is an event {reason}* about pod {}", self.name), limit, async || {
            let events = events::about(&self.kit, "Pod", &self.name).await.map_err(|error| error.to_string())?;
            let found = events.iter().find(|event| event.reason.starts_with(reason));
            found.map(|event| event.message.clone()).ok_or_else(|| format!("{events:?}"))
        })
        .await
    }

    /// Asks the API server to evict the pod, as `kubectl drain` does. The client should try nothing twice.
    ///
    /// # Errors
    /// It is refused.
    pub async fn evict(&self, client: &Client) -> Result<(), kube::Error> {
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        let eviction = Eviction { metadata, delete_options: None };
        let pods: Api<Pod> = Api::namespaced(client.clone(), &self.kit.namespace);
        let params = PostParams::default();
        let answer = pods.create_subresource::<_, serde_json::Value>("eviction", &self.name, &params, &eviction);
        answer.await.map(drop)
    }

    /// Makes the pod ready or not, as a kubelet would after a probe.
    ///
    /// # Errors
    /// It is refused, or the pod is gone.
    pub async fn set_ready(&self, ready: bool) -> Result<(), kube::Error> {
        let status = if ready { "True" } else { "False" };
        let condition =
            json!({"type": "Ready", "status": status, "lastTransitionTime": jiff::Timestamp::now().to_string()});
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        self.kit.api::<Pod>().patch_status(&self.name, &PatchParams::default(), &patch).await.map(drop)
    }

    /// Deletes the pod as a user would.
    ///
    /// # Panics
    /// The deletion is refused.
    pub async fn delete(&self) {
        self.kit.api::<Pod>().delete(&self.name, &DeleteParams::default()).await.unwrap();
    }
}

/// The node of a pod.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}

/// Whether a pod is ready and nobody deletes it.
pub fn ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

/// The names of a pod's scheduling gates.
pub fn scheduling_gates(pod: &Pod) -> Vec<String> {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    gates.map(|gates| gates.iter().map(|gate| gate.name.clone()).collect()).unwrap_or_default()
}

/// A pod's state in one line, for messages.
pub(super) fn describe(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let mut text = format!(
        "{}: phase {}, node {}",
        pod.metadata.name.as_deref().unwrap_or("?"),
        status.phase.as_deref().unwrap_or("?"),
        node_of(pod).unwrap_or("none")
    );
    let gates = scheduling_gates(pod);
    if !gates.is_empty() {
        text += &format!(", gated by {}", gates.join(" "));
    }
    if let Some(node) = status.nominated_node_name.filter(|node| !node.is_empty()) {
        text += &format!(", nominated to {node}");
    }
    if pod.metadata.deletion_timestamp.is_some() {
        text += ", terminating";
    }
    for condition in status.conditions.unwrap_or_default() {
        if condition.status != "True" || condition.type_ == "DisruptionTarget" {
            let (reason, message) = (condition.reason.unwrap_or_default(), condition.message.unwrap_or_default());
            text += &format!(", {}={} {reason} {message}", condition.type_, condition.status);
        }
    }
    text
}

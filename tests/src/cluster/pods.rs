//! Single pods and their handles.

use super::events::{self, EventRecord};
use super::{Kit, Shape, Shaped};
use crate::wait::wait_for;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::Eviction;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use std::time::Duration;

/// Builds a single pod, which requests 1 CPU by default.
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
    /// Returns a builder of a pod with this name.
    pub fn new(kit: Kit, name: &str) -> Self {
        Self { kit, name: name.to_owned(), shape: Shape::default() }
    }

    /// Binds the pod to this node at creation, without a scheduler.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.shape.node = Some(node.to_owned());
        self
    }

    /// Returns the client and the namespace of the builder.
    pub fn kit(&self) -> Kit {
        self.kit.clone()
    }

    /// Returns the pod without creating it.
    pub fn build(self) -> Pod {
        default_request(self.shape).pod(&self.name)
    }

    /// Creates the pod. If it is bound at creation, waits until it runs.
    ///
    /// # Panics
    /// If it is rejected, or is bound and does not run.
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

    /// Creates the pod without waiting.
    ///
    /// # Errors
    /// If the API server rejects it.
    pub async fn try_create(self) -> Result<PodHandle, kube::Error> {
        let kit = self.kit.clone();
        let pod = kit.api::<Pod>().create(&PostParams::default(), &self.build()).await?;
        Ok(PodHandle::new(kit, &pod))
    }
}

/// Adds a request of 1 CPU if the shape has no requests.
pub(super) fn default_request(mut shape: Shape) -> Shape {
    if shape.resources.is_empty() {
        shape
            .resources
            .insert("cpu".to_owned(), k8s_openapi::apimachinery::pkg::api::resource::Quantity("1".to_owned()));
    }
    shape
}

/// A handle of a created pod, identified by its UID.
#[derive(Clone)]
pub struct PodHandle {
    kit: Kit,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl PodHandle {
    /// Returns a handle of a pod that the API server returned.
    pub fn new(kit: Kit, pod: &Pod) -> Self {
        let name = pod.metadata.name.clone().unwrap_or_default();
        Self { kit, name, uid: pod.metadata.uid.clone().unwrap_or_default() }
    }

    /// Returns the current pod, or `None` if the pod with this UID was removed.
    ///
    /// # Panics
    /// If the API server does not answer.
    pub async fn get(&self) -> Option<Pod> {
        let pod = self.kit.api::<Pod>().get_opt(&self.name).await.unwrap();
        pod.filter(|pod| pod.metadata.uid.as_deref() == Some(&self.uid))
    }

    /// Waits until the pod is bound, and returns its node.
    ///
    /// # Panics
    /// If the deadline has passed or the pod was removed.
    pub async fn wait_bound(&self, limit: Duration) -> String {
        wait_for(&format!("pod {} is bound", self.name), limit, async || {
            let pod = self.get().await.ok_or("it was removed")?;
            node_of(&pod).map(str::to_owned).ok_or_else(|| describe(&pod))
        })
        .await
    }

    /// Waits until the pod runs.
    ///
    /// # Panics
    /// If the deadline has passed or the pod was removed.
    pub async fn wait_running(&self, limit: Duration) {
        wait_for(&format!("pod {} runs", self.name), limit, async || {
            let pod = self.get().await.ok_or("it was removed")?;
            if ready(&pod) { Ok(()) } else { Err(describe(&pod)) }
        })
        .await;
    }

    /// Waits until the pod with this UID is removed.
    ///
    /// # Panics
    /// If the deadline has passed.
    pub async fn wait_removed(&self, limit: Duration) {
        wait_for(&format!("pod {} is removed", self.name), limit, async || match self.get().await {
            None => Ok(()),
            Some(pod) => Err(describe(&pod)),
        })
        .await;
    }

    /// Waits until a condition of the pod has this status and reason, and returns its message.
    ///
    /// # Panics
    /// If the deadline has passed or the pod was removed.
    pub async fn wait_condition(&self, type_: &str, status: &str, reason: &str, limit: Duration) -> String {
        wait_for(&format!("pod {} has {type_}={status} {reason}", self.name), limit, async || {
            let pod = self.get().await.ok_or("it was removed")?;
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
    /// If the deadline has passed.
    pub async fn wait_event(&self, reason: &str, limit: Duration) -> String {
        events::wait_for_event(&self.kit, "Pod", &self.name, reason, limit).await
    }

    /// Returns the events about the pod.
    ///
    /// # Panics
    /// If the API server does not answer.
    pub async fn events(&self) -> Vec<EventRecord> {
        events::events_about(&self.kit, "Pod", &self.name).await.unwrap()
    }

    /// Waits for an event whose reason begins with `reason`, and returns its message.
    ///
    /// # Panics
    /// If the deadline has passed.
    pub async fn wait_event_like(&self, reason: &str, limit: Duration) -> String {
        wait_for(&format!("pod {} has an event {reason}*", self.name), limit, async || {
            let events = events::events_about(&self.kit, "Pod", &self.name).await.map_err(|error| error.to_string())?;
            let found = events.iter().find(|event| event.reason.starts_with(reason));
            found.map(|event| event.message.clone()).ok_or_else(|| format!("{events:?}"))
        })
        .await
    }

    /// Evicts the pod through the Eviction API, as `kubectl drain` does. The client should not retry.
    ///
    /// # Errors
    /// If the eviction is refused.
    pub async fn evict(&self, client: &Client) -> Result<(), kube::Error> {
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        let eviction = Eviction { metadata, delete_options: None };
        let pods: Api<Pod> = Api::namespaced(client.clone(), &self.kit.namespace);
        let params = PostParams::default();
        let answer = pods.create_subresource::<_, serde_json::Value>("eviction", &self.name, &params, &eviction);
        answer.await.map(drop)
    }

    /// Sets the condition `Ready` of the pod, as a kubelet does after a probe.
    ///
    /// # Errors
    /// If the request is rejected or the pod was removed.
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
    /// If the deletion is rejected.
    pub async fn delete(&self) {
        self.kit.api::<Pod>().delete(&self.name, &DeleteParams::default()).await.unwrap();
    }
}

/// Returns the node of a pod.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}

/// Returns true if a pod is ready and not terminating.
pub fn ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

/// Returns the names of a pod's scheduling gates.
pub fn scheduling_gates(pod: &Pod) -> Vec<String> {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    gates.map(|gates| gates.iter().map(|gate| gate.name.clone()).collect()).unwrap_or_default()
}

/// Describes a pod's state in one line, for messages.
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

//! Writes on members: nomination, release, the plan of a single pod, and annotations that admission missed. The UID in
//! each patch is a precondition.

use super::{CallError, FIELD_MANAGER};
use crate::backfill::Missing;
use giveway_crds::keys;
use giveway_crds::plan::StoredPlan;
use giveway_planner::model::ObjectKey;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() }
}

/// Sets or withdraws the nomination of a pod.
pub(super) async fn nominate(client: &Client, pod: &ObjectKey, uid: &str, node: Option<&str>) -> Result<(), CallError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let patch = json!({ "metadata": { "uid": uid }, "status": { "nominatedNodeName": node } });
    pods.patch_status(&pod.name, &params(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Removes our gate, and no other.
pub(super) async fn release(client: &Client, pod: &ObjectKey, uid: &str) -> Result<(), CallError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let patch = json!({
        "metadata": { "uid": uid },
        "spec": { "schedulingGates": [{ "$patch": "delete", "name": keys::GATE }] }
    });
    pods.patch(&pod.name, &params(), &Patch::Strategic(patch)).await?;
    Ok(())
}

/// Stores the plan of a single pod in its annotation, or removes it.
pub(super) async fn store_plan(
    client: &Client,
    pod: &ObjectKey,
    uid: &str,
    plan: Option<&StoredPlan>,
) -> Result<(), CallError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let text = match plan {
        Some(plan) => Value::String(serde_json::to_string(plan).map_err(|e| CallError::Failed(e.to_string()))?),
        None => Value::Null,
    };
    let patch = json!({ "metadata": { "uid": uid, "annotations": { keys::ANNOTATION_PLAN: text } } });
    pods.patch(&pod.name, &params(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Adds those of the annotations that the pod does not have by now; returns what was added. The pod is read first, and
/// its version is a precondition, so that nothing is ever changed.
pub(super) async fn back_fill(
    client: &Client,
    pod: &ObjectKey,
    uid: &str,
    missing: &Missing,
) -> Result<Missing, CallError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let current = pods.get(&pod.name).await?;
    if current.uid().as_deref() != Some(uid) {
        return Err(CallError::Gone);
    }
    let mut added = missing.clone();
    added.annotations.retain(|key, _| !current.annotations().contains_key(key));
    if !added.annotations.is_empty() {
        let version = current.resource_version();
        let patch = json!({ "metadata": { "uid": uid, "resourceVersion": version, "annotations": added.annotations } });
        pods.patch(&pod.name, &params(), &Patch::Merge(patch)).await?;
    }
    Ok(added)
}

//! Writes on members: nomination, release, and the plan of a single pod. The UID in each patch is a precondition.

use super::{CallError, FIELD_MANAGER};
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

/// A patch with another UID than the object's is a conflict: the pod we mean is gone.
fn by_uid(result: Result<Pod, kube::Error>) -> Result<(), CallError> {
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 && status.message.contains("uid") => Err(CallError::Gone),
        Err(error) => Err(error.into()),
    }
}

/// Sets or withdraws the nomination of a pod.
pub(super) async fn nominate(client: &Client, pod: &ObjectKey, uid: &str, node: Option<&str>) -> Result<(), CallError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let patch = json!({ "metadata": { "uid": uid }, "status": { "nominatedNodeName": node } });
    by_uid(pods.patch_status(&pod.name, &params(), &Patch::Merge(patch)).await)
}

/// Removes our gate, and no other.
pub(super) async fn release(client: &Client, pod: &ObjectKey, uid: &str) -> Result<(), CallError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let patch = json!({
        "metadata": { "uid": uid },
        "spec": { "schedulingGates": [{ "$patch": "delete", "name": keys::GATE }] }
    });
    by_uid(pods.patch(&pod.name, &params(), &Patch::Strategic(patch)).await)
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
    let stored = pods.patch(&pod.name, &params(), &Patch::Merge(patch)).await;
    if plan.is_some()
        && let Ok(stored) = &stored
        && stored.annotations().get(keys::ANNOTATION_PLAN).is_none()
    {
        return Err(CallError::Failed("the API server did not keep the plan".into()));
    }
    by_uid(stored)
}

//! Writes on pods: nomination, removal of the scheduling gate, and annotations as the pod's class gives them. Each patch
//! has the pod's UID as a precondition.

use super::object;
use crate::messages::report::CallError;
use crate::views::correction::Correction;
use giveway_crds::keys;
use giveway_crds::plan::StoredDomain;
use giveway_crds::priority::Class;
use giveway_planner::model::ObjectKey;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use std::collections::BTreeMap;

/// Returns the parameters of a patch by the operator, which the API server only checks if `dry_run` is true.
fn params(dry_run: bool) -> PatchParams {
    PatchParams { dry_run, ..object::params() }
}

/// Sets `status.nominatedNodeName` of a pod with this UID, or clears it if `node` is `None`. The API server only checks that if `dry_run`
/// is true.
pub(super) async fn nominate(
    client: &Client,
    pod: &ObjectKey,
    uid: &str,
    node: Option<&str>,
    dry_run: bool,
) -> Result<(), CallError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let patch = json!({ "metadata": { "uid": uid }, "status": { "nominatedNodeName": node } });
    pods.patch_status(&pod.name, &params(dry_run), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Removes Giveway's scheduling gate, and no other, from a pod with this UID. The same request adds the node selector of the PodGroup's
/// topology domain: the API server lets the node selector of a gated pod only be extended. The API server only checks that if `dry_run` is
/// true.
pub(super) async fn ungate(
    client: &Client,
    pod: &ObjectKey,
    uid: &str,
    domain: Option<&StoredDomain>,
    dry_run: bool,
) -> Result<(), CallError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let mut spec = json!({ "schedulingGates": [{ "$patch": "delete", "name": keys::GATE }] });
    if let Some(StoredDomain { key, value }) = domain {
        spec["nodeSelector"] = json!({ key: value });
    }
    let patch = json!({ "metadata": { "uid": uid }, "spec": spec });
    pods.patch(&pod.name, &params(dry_run), &Patch::Strategic(patch)).await?;
    Ok(())
}

/// Makes those changes of the pod's annotations that are still due, and returns them. The pod is read first and its resourceVersion is a
/// precondition, so that no annotation is changed that another process has written meanwhile. If a value is to be replaced or removed, the
/// PriorityClass is read as well, and the call fails if it gives another value: the watch of the classes may lag behind that of the pods.
pub(super) async fn back_fill(
    client: &Client,
    pod: &ObjectKey,
    uid: &str,
    correction: &Correction,
) -> Result<Correction, CallError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let current = pods.get(&pod.name).await?;
    if current.uid().as_deref() != Some(uid) {
        return Err(CallError::Gone);
    }
    let mut made = correction.clone();
    made.changes.retain(|key, change| change.is_due(current.annotations().get(key).map(String::as_str)));
    if let Some(name) = made.class_to_read() {
        let classes: Api<PriorityClass> = Api::all(client.clone());
        let class = Class::from_object(&classes.get(name).await?);
        if !made.agrees_with(&class) {
            return Err(CallError::Failed(format!("priority class {name} has changed")));
        }
    }
    if !made.changes.is_empty() {
        let annotations: BTreeMap<&str, Option<&str>> =
            made.changes.iter().map(|(key, change)| (key.as_str(), change.value())).collect();
        let version = current.resource_version();
        let patch = json!({ "metadata": { "uid": uid, "resourceVersion": version, "annotations": annotations } });
        pods.patch(&pod.name, &params(false), &Patch::Merge(patch)).await?;
    }
    Ok(made)
}

//! Writes on members: nomination, removal of the scheduling gate, and annotations that admission did not add. Each
//! patch has the pod's UID as a precondition.

use super::FIELD_MANAGER;
use crate::messages::report::CallError;
use crate::views::missing::Missing;
use giveway_crds::keys;
use giveway_crds::plan::StoredDomain;
use giveway_planner::model::ObjectKey;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

fn params(dry_run: bool) -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.into()), dry_run, ..PatchParams::default() }
}

/// Sets the nomination of a pod, or withdraws it if `node` is `None`. A dry run only tries it.
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

/// Removes Giveway's scheduling gate and no other. The same request adds the node selector of the PodGroup's topology
/// domain: the API server lets the node selector of a gated pod only be extended. A dry run only tries it.
pub(super) async fn release(
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

/// Adds those of the missing annotations that the pod still does not have, and returns what was added. The pod is read
/// first and its resourceVersion is a precondition, so that no existing annotation is changed.
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
        pods.patch(&pod.name, &params(false), &Patch::Merge(patch)).await?;
    }
    Ok(added)
}

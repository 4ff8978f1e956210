//! Writes on `Preemption`s: the ledger as objects.

use super::FIELD_MANAGER;
use crate::report::CallError;
use giveway_crds::keys;
use giveway_crds::preemption::{Preemption, PreemptionStatus};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::json;

/// Creates one part of a plan. One that exists already is as good if it is the same: an earlier answer was lost.
pub(super) async fn create(client: &Client, part: &Preemption) -> Result<(), CallError> {
    let preemptions: Api<Preemption> = Api::all(client.clone());
    match preemptions.create(&params(), part).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let found = preemptions.get(&part.name_any()).await?;
            if found.spec == part.spec {
                Ok(())
            } else {
                Err(CallError::Failed(format!("another Preemption has the name {}", part.name_any())))
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes how far a plan is.
pub(super) async fn write_status(client: &Client, plan: &str, status: &PreemptionStatus) -> Result<(), CallError> {
    let preemptions: Api<Preemption> = Api::all(client.clone());
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
    preemptions.patch_status(plan, &params, &Patch::Merge(json!({ "status": status }))).await?;
    Ok(())
}

/// Removes the label by which admission keeps others from the node. Its state says the same; but admission looks at every
/// plan with the label.
pub(super) async fn let_node_go(client: &Client, plan: &str) -> Result<(), CallError> {
    let preemptions: Api<Preemption> = Api::all(client.clone());
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
    let patch = json!({ "metadata": { "labels": { keys::LABEL_KEEPS_NODE: null } } });
    preemptions.patch(plan, &params, &Patch::Merge(patch)).await?;
    Ok(())
}

/// Removes an object that is of no use any more; one that is gone already is as good.
pub(super) async fn forget(client: &Client, name: &str, uid: &str) -> Result<(), CallError> {
    let preemptions: Api<Preemption> = Api::all(client.clone());
    let preconditions = Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
    match preemptions.delete(name, &DeleteParams { preconditions, ..DeleteParams::default() }).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() }
}

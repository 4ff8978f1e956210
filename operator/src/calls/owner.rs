//! Reads the owners of gangs, one object at a time, through the kind's row in the table of owner kinds, and writes what follows from them
//! to their PodGroups.

use crate::messages::report::CallError;
use crate::views::origin::{OwnerFacts, OwnerKey};
use giveway_crds::PodGroup;
use giveway_planner::model::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch};
use serde_json::json;

/// Reads what an owner specifies about its PodGroups. Returns `CallError::Gone` if the object or its kind does not
/// exist.
pub(super) async fn read(client: &Client, owner: &OwnerKey) -> Result<OwnerFacts, CallError> {
    let row = owner.row().ok_or(CallError::Gone)?;
    let version = owner.api_version.rsplit_once('/').map_or(owner.api_version.as_str(), |(_, version)| version);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &owner.namespace, &row.resource(version));
    Ok(OwnerFacts::of(row, &api.get(&owner.name).await?))
}

/// Sets `minCount`, the number of pods of a gang that must start together.
pub(super) async fn set_min_count(
    client: &Client,
    group: &ObjectKey,
    uid: &str,
    min_count: i32,
) -> Result<(), CallError> {
    let groups: Api<PodGroup> = Api::namespaced(client.clone(), &group.namespace);
    let policy = json!({ "gang": { "minCount": min_count } });
    let patch = json!({ "metadata": { "uid": uid }, "spec": { "schedulingPolicy": policy } });
    groups.patch(&group.name, &super::object::params(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Makes an object the owner of a PodGroup that had none in this version (UID and resourceVersion).
pub(super) async fn adopt(
    client: &Client,
    group: &ObjectKey,
    (uid, version): (&str, &str),
    owner: &OwnerReference,
) -> Result<(), CallError> {
    let groups: Api<PodGroup> = Api::namespaced(client.clone(), &group.namespace);
    let patch = json!({ "metadata": { "uid": uid, "resourceVersion": version, "ownerReferences": [owner] } });
    groups.patch(&group.name, &super::object::params(), &Patch::Merge(patch)).await?;
    Ok(())
}

//! Reads the owners of gangs, one object at a time, through the kind's row in the table of owner kinds, and the events on controllers of
//! pods; writes what follows from owners to their PodGroups.

use crate::messages::report::CallError;
use crate::views::creation_failure::CreationFailure;
use crate::views::origin::{OwnerFacts, OwnerKey};
use giveway_crds::PodGroup;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch};
use serde_json::json;

/// Maximum number of events that are read of one controller.
const EVENTS: u32 = 100;

/// Reads what the owner of a gang, such as a Job, specifies about its PodGroups. Returns `CallError::Gone` if the object or its kind does
/// not exist.
pub(super) async fn read(client: &Client, owner: &OwnerKey) -> Result<OwnerFacts, CallError> {
    let row = owner.row().ok_or(CallError::Gone)?;
    let version = owner.api_version.rsplit_once('/').map_or(owner.api_version.as_str(), |(_, version)| version);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &owner.namespace, &row.resource(version));
    Ok(OwnerFacts::of(row, &api.get(&owner.name).await?))
}

/// Returns the last pod that a controller with one of these names could not create, with the reason; `None` if no event of the last hour
/// reports one.
pub(super) async fn last_failure(
    client: &Client,
    namespace: &str,
    controllers: &[SmolStr],
) -> Result<Option<CreationFailure>, CallError> {
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let mut last: Option<CreationFailure> = None;
    for name in controllers {
        let of_controller = ListParams::default().fields(&format!("type=Warning,regarding.name={name}")).limit(EVENTS);
        let found = events.list(&of_controller).await?;
        last = found.items.iter().filter_map(CreationFailure::of).chain(last).max_by_key(|failure| failure.at);
    }
    Ok(last)
}

/// Sets `minCount`, the number of pods of a gang that must start together, in a PodGroup with this UID.
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

/// Makes an object the owner of a PodGroup that had none in this version (UID and resourceVersion of the PodGroup).
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

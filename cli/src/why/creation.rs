//! The last pod of a group that could not be created: nothing is stored of such a pod, and without any pod its group does
//! not exist either. Its controller reports it in an event on itself.

use super::events::{self, ObservedEvent};
use crate::connect::Api;
use crate::error::CliError;
use giveway_crds::PodGroup;
use giveway_crds::condition::{self, types};
use giveway_crds::kinds::is_creation_failure;
use giveway_planner::{Cluster, ObjectKey};
use kube::ResourceExt as _;
use std::collections::BTreeSet;

/// Kinds of the controllers that create the pods of an owner of another kind.
const CREATORS: [&str; 3] = ["Job", "StatefulSet", "ReplicaSet"];
/// Maximum number of controllers whose events are read.
const MOST: usize = 8;

/// The owner of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupOwner {
    /// Its kind.
    pub(crate) kind: String,
    /// Its name.
    pub(crate) name: String,
}

impl GroupOwner {
    /// Returns the controller that owns a PodGroup, or `None` if it has none.
    pub(super) fn of(group: &PodGroup) -> Option<Self> {
        let owner = group.owner_references().iter().find(|owner| owner.controller == Some(true))?;
        Some(Self { kind: owner.kind.clone(), name: owner.name.clone() })
    }
}

/// A pod that could not be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedCreation {
    /// Its controller, such as `Job train`.
    pub(crate) controller: String,
    /// The event about it.
    pub(crate) event: ObservedEvent,
}

/// Returns true if the condition of a PodGroup says that it is scheduled.
pub(super) fn is_scheduled(group: &PodGroup) -> bool {
    let conditions = group.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    condition::is_true(conditions, types::SCHEDULED)
}

/// Returns the last pod of a group that could not be created, from the events about the group's owner, the controllers of its members,
/// and a controller with its name. `None` if there is none, or the user may not read events.
pub(super) async fn last_failed_creation(
    api: &Api,
    group: &ObjectKey,
    owner: Option<&GroupOwner>,
    cluster: &Cluster,
) -> Result<Option<FailedCreation>, CliError> {
    let controllers = cluster.members(group).filter_map(|pod| Some(pod.owner.as_ref()?.name.as_str()));
    let names: BTreeSet<&str> =
        owner.map(|owner| owner.name.as_str()).into_iter().chain([group.name.as_str()]).chain(controllers).collect();
    let mut found = Vec::new();
    for name in names.into_iter().take(MOST) {
        let events = events::of_all_kinds(api, &group.namespace, name).await?;
        found.extend(events.into_iter().map(|(kind, event)| (kind, name, event)));
    }
    Ok(last_failure(found, owner))
}

/// Returns the last of these events that reports a pod that could not be created; each has kind and name of its object. Events count
/// that are about an `owner` of this kind or about a controller that creates pods.
fn last_failure(events: Vec<(String, &str, ObservedEvent)>, owner: Option<&GroupOwner>) -> Option<FailedCreation> {
    let is_creator = |kind: &str| CREATORS.contains(&kind) || owner.is_some_and(|owner| owner.kind == kind);
    let failed = events.into_iter().filter(|(kind, _, event)| is_creator(kind) && is_creation_failure(&event.reason));
    let (kind, name, event) = failed.max_by(|(_, _, a), (_, _, b)| a.at.cmp(&b.at))?;
    Some(FailedCreation { controller: format!("{kind} {name}"), event })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pod_that_a_controller_of_the_group_could_not_create_is_found() {
        let event = |kind: &str, reason: &str, second: i64| {
            let at = Some(k8s_openapi::jiff::Timestamp::from_second(second).unwrap());
            let (type_, by) = ("Warning".to_owned(), "job-controller".to_owned());
            let happening = ObservedEvent { at, type_, reason: reason.to_owned(), message: second.to_string(), by };
            (kind.to_owned(), "train", happening)
        };
        let found = |events: &[(String, &'static str, ObservedEvent)], kind: Option<&str>| {
            let owner = kind.map(|kind| GroupOwner { kind: kind.to_owned(), name: "train".to_owned() });
            last_failure(events.to_vec(), owner.as_ref())
                .map(|failed| format!("{}: {}", failed.controller, failed.event.message))
        };
        let events = [
            event("Job", "FailedCreate", 1),
            event("Job", "FailedCreate", 3),
            event("Job", "SuccessfulCreate", 4),
            event("Pod", "FailedCreate", 5),
            event("RayCluster", "FailedToCreateWorkerPod", 6),
        ];
        assert_eq!(found(&events, None).as_deref(), Some("Job train: 3"));
        assert_eq!(found(&events, Some("RayCluster")).as_deref(), Some("RayCluster train: 6"));
        assert_eq!(found(&events[2..4], None), None);
    }
}

//! Members of PodGroups that kube-scheduler preempted, detected by the condition that it writes. [`departures`](crate::departures) handles
//! them.
//!
//! kube-scheduler writes the condition `DisruptionTarget=True, PreemptionByScheduler` to its victim and deletes it. Giveway writes the same
//! reason, but its messages begin with [`OURS`]; drains, users and the Eviction API do not write this reason. The condition alone is not
//! enough: the pod must also be terminating, or no longer exist.

use giveway_crds::condition::{Reason, types};
use giveway_crds::wording::conditions::disruption::OURS;
use giveway_planner::SmolStr;
use giveway_planner::model::{Cluster, ObjectKey, Pod};
use k8s_openapi::api::core::v1::{Pod as PodObject, PodCondition};
use std::collections::BTreeSet;

const NANOSECONDS: i64 = 1_000_000_000;

/// A member of a PodGroup that kube-scheduler preempted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreemptedByScheduler {
    /// The pod.
    pub pod: ObjectKey,
    /// Its PodGroup.
    pub group: ObjectKey,
    /// When the preemption was announced, in seconds since the epoch.
    pub at: i64,
    /// The pods of the PodGroup that were bound at that time.
    pub members: Members,
}

/// The bound pods of a PodGroup at the time of a preemption. Replacement pods are created later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// These pods, by UID, because the preemption was observed.
    Bound(BTreeSet<SmolStr>),
    /// Those that were created before this second, in seconds since the epoch, and not bound after it, because the preemption was not
    /// observed. Times are whole seconds: a pod that was created in the second of the preemption may be a replacement.
    CreatedBefore(i64),
}

impl PreemptedByScheduler {
    /// Returns the members of the PodGroup that were bound when the pod was preempted, and still exist. Pods that were created later are
    /// not among them.
    pub fn remaining_members<'a>(&'a self, cluster: &'a Cluster) -> impl Iterator<Item = &'a Pod> {
        cluster.members(&self.group).filter(|pod| match &self.members {
            Members::Bound(uids) => uids.contains(&pod.uid),
            Members::CreatedBefore(second) => {
                let is_bound_later = pod.bound_at.is_some_and(|at| at / NANOSECONDS > *second);
                pod.existed_at(second.saturating_sub(1)) && !is_bound_later
            }
        })
    }
}

/// Returns the condition `DisruptionTarget` of a pod if its status is `True`: the pod is or was evicted, preempted, or deleted because of a
/// taint.
pub(super) fn disruption_target(pod: &PodObject) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|c| c.type_ == types::DISRUPTION_TARGET && c.status == "True")
}

/// Returns when kube-scheduler announced that it preempts this pod, in seconds since the epoch; `None` if it did not, or if Giveway
/// preempted the pod.
pub fn preempted_at(pod: &PodObject) -> Option<i64> {
    let found = disruption_target(pod)?;
    let theirs = found.reason.as_deref() == Some(Reason::PreemptionByScheduler.as_str())
        && !found.message.as_deref().unwrap_or_default().starts_with(OURS);
    let metadata = &pod.metadata;
    // The time is from the API server's clock if the pod has been deleted, and otherwise from kube-scheduler's.
    let deleted = metadata
        .deletion_timestamp
        .as_ref()
        .map(|time| time.0.as_second().saturating_sub(metadata.deletion_grace_period_seconds.unwrap_or_default()));
    let announced = || found.last_transition_time.as_ref().map_or(i64::MAX, |time| time.0.as_second());
    theirs.then(|| deleted.unwrap_or_else(announced))
}

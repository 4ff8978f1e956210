//! The condition `CapacityRequested` of a PodGroup.

use crate::wording::{counted, pods};

/// How far a ProvisioningRequest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestProgress {
    /// The autoscaler has not accepted it.
    Pending,
    /// The autoscaler has accepted it.
    Accepted,
    /// The autoscaler reports the capacity.
    Provisioned,
}

/// Message of the condition with reasons `CapacityRequested`, `CapacityAccepted` and `CapacityProvisioned`: capacity for `members` pods is
/// requested with the ProvisioningRequest `request`.
pub fn requested(members: usize, request: &str, progress: RequestProgress) -> String {
    let pods = pods(members);
    let end = match progress {
        RequestProgress::Pending => ", which has not been accepted yet.",
        RequestProgress::Accepted => ", which was accepted.",
        RequestProgress::Provisioned => ": the autoscaler reports that the capacity exists.",
    };
    format!("Capacity for {pods} is requested from the cluster autoscaler by ProvisioningRequest {request}{end}")
}

/// Message of the condition with reasons `CapacityRequested` and `CapacityProvisioned`: capacity is requested with one placeholder pod for
/// each of the `members`, of which `bound` are bound.
pub fn placeholders(members: usize, bound: usize) -> String {
    format!(
        "Capacity for {} is requested from the cluster autoscaler by {}, of which {} bound.",
        pods(members),
        counted(members, "placeholder pod", "placeholder pods"),
        counted(bound, "is", "are")
    )
}

/// Message of the condition with reason `CapacityFailed`: an attempt has failed, for the reason of one of the next two functions, and is
/// repeated.
pub fn failed(why: &str, again: k8s_openapi::jiff::Timestamp) -> String {
    format!("The cluster autoscaler did not add enough capacity: {why}. The request is repeated at {again}.")
}

/// Clause for [`failed`]: the attempt to get capacity with the ProvisioningRequest `request` has failed. `why` has the words of the
/// autoscaler.
pub fn request_failed(request: &str, why: &str) -> String {
    format!("ProvisioningRequest {request}: {}", why.trim_end_matches('.'))
}

/// Clause for [`failed`]: the attempt to get capacity with placeholder pods has failed, because only `bound` of the `members` placeholder
/// pods got a node within `minutes`.
pub fn placeholders_not_bound(bound: usize, members: usize, minutes: u64) -> String {
    let all = counted(members, "placeholder pod", "placeholder pods");
    format!("within {minutes} minutes only {bound} of {all} got a node")
}

/// Why no capacity is requested from the cluster autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAsked {
    /// More members are pending than capacity is requested for at most.
    TooMany {
        /// Number of pending members.
        members: usize,
        /// The value of the flag `--provisioning-limit`.
        limit: usize,
    },
    /// The members have more different sets of requirements than a ProvisioningRequest may have.
    TooManySets {
        /// Number of sets, as far as they were counted.
        sets: usize,
        /// The maximum.
        most: usize,
    },
    /// Placeholder pods would have a priority class with which kube-scheduler preempts.
    ClassNotManaged,
}

/// Message of the condition with reason `CapacityFailed`: no capacity is requested from the cluster autoscaler, because of `why`.
pub fn not_asked(why: NotAsked) -> String {
    let why = match why {
        NotAsked::TooMany { members, limit } => format!(
            "{} pending, and the operator's flag --provisioning-limit allows at most {limit}",
            counted(members, "pod is", "pods are")
        ),
        NotAsked::TooManySets { sets, most } => {
            format!("the pods have {sets} different sets of requirements, and a ProvisioningRequest can have at most {most}")
        }
        NotAsked::ClassNotManaged => {
            "the priority class of the pods is not managed, so kube-scheduler would preempt other pods for placeholder pods; `kubectl giveway adopt` makes the class managed"
                .to_owned()
        }
    };
    format!("The cluster autoscaler is not asked for capacity: {why}.")
}

/// Message of `CapacityRequested=False`, reason `CapacityNotNeeded`: the request for capacity was withdrawn.
pub fn not_needed() -> &'static str {
    "No capacity is requested from the cluster autoscaler any more."
}

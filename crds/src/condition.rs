//! The vocabulary of conditions, events and metrics: one enum of reasons for all three, and the rule by which a
//! condition changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Types of the conditions that Giveway writes on its own kinds and on pods.
pub mod types {
    /// False while the group waits; True, for ever, once `minCount` of its pods were bound.
    pub const INITIALLY_SCHEDULED: &str = "PodGroupInitiallyScheduled";
    /// True while `minCount` pods, less those that have succeeded, are bound.
    pub const SCHEDULED: &str = "Scheduled";
    /// True from the moment a plan is stored until it completes or is dropped.
    pub const PREEMPTING: &str = "Preempting";
    /// True on a victim; the same type that Kubernetes uses on pods.
    pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
    /// On a workload: True while every pod group made from it is scheduled.
    pub const GROUPS_SCHEDULED: &str = "PodGroupsScheduled";
    /// True while a member's own priority differs from its group's.
    pub const PODS_NOT_MATCHING_PRIORITY: &str = "PodsNotMatchingPriority";
    /// True while a cluster autoscaler is asked for room.
    pub const CAPACITY_REQUESTED: &str = "CapacityRequested";
}

/// Why a condition has its status, an event was emitted, or a counter went up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The gang has fewer live pods than `minCount`.
    WaitingForPods,
    /// No room now, and none by preemption.
    Unschedulable,
    /// No room now, and preemption would violate a guaranteed budget (KEP-3280).
    UnschedulableGuaranteedBudget,
    /// A plan exists; victims have to go first.
    WaitingForPreemption,
    /// There is a place, and nobody is evicted for it; pods that terminate there already have to go first.
    WaitingForTermination,
    /// The scheduler could not bind what was released.
    SchedulerError,
    /// `minCount` pods were bound.
    Scheduled,
    /// A plan was stored.
    Planned,
    /// Evictions are under way.
    Evicting,
    /// All victims are terminating.
    WaitingForVictims,
    /// The members are released.
    Releasing,
    /// Every placed member is bound.
    Completed,
    /// The plan was dropped because it is not needed or no longer fits.
    Cancelled,
    /// The plan could not be carried out.
    Failed,
    /// A victim: the reason that kube-scheduler uses as well.
    PreemptionByScheduler,
    /// A gang was partially scheduled for too long, and its ungated pods are evicted so that their replacements start together.
    HalfBound,
    /// A pod was evicted for a preemptor (event on the victim).
    Preempted,
    /// The eviction API refused a victim for its budget (event on the victim and on the budget).
    EvictionRefused,
    /// A pod that admission did not see got the annotations of its class (event on the pod).
    BackFilled,
    /// The label that makes gangs came when the owner had pods already (event on the owner).
    GangLabelTooLate,
    /// A pod names a group that does not exist.
    PodGroupNotFound,
    /// A guaranteed budget holds a preemption back (event on the budget, the victim or the preemptor; KEP-3280).
    GuaranteedBudget,
    /// A scheduler wanted to evict a pod although no pending pod has a priority above its.
    NoPreemptor,
    /// Members and group have different priorities.
    PriorityMismatch,
    /// Members and group have one priority.
    PriorityMatches,
    /// A cluster autoscaler was asked for room.
    CapacityAsked,
    /// The autoscaler has taken the question up.
    CapacityAccepted,
    /// The autoscaler says that there is room now.
    CapacityProvisioned,
    /// The autoscaler has no room to give, or could not be asked; it is asked again later.
    CapacityFailed,
    /// The autoscaler is not asked any more.
    CapacityNotNeeded,
    /// A certificate authority was made for the webhook (events on the Secrets, as the next three).
    AuthorityMade,
    /// Another certificate authority signs from now on.
    AuthorityChanged,
    /// The webhook has a new certificate.
    CertificateRenewed,
    /// A certificate or key that is stored cannot be used.
    CertificateUnusable,
    /// No node can be freed for a critical add-on (event on the pod).
    CriticalAddonUnschedulable,
    /// A node has room for a critical add-on, or will have it in a moment (event on the pod).
    CriticalAddonHasRoom,
    /// Nobody is evicted for a critical add-on while kube-scheduler may be down (event on the pod).
    SchedulerSilent,
    /// A node is kept for a critical add-on by a taint (event on the node).
    KeptForCriticalAddon,
    /// That taint was removed (event on the node).
    NotKeptAnyMore,
    /// Giveway observes: what it would do is not done.
    Observing,
    /// Giveway is switched off.
    SwitchedOff,
    /// Groups in this namespace are not served: their pods start one by one.
    NotServed,
    /// The rest of a group stays, because its namespace is protected (event on the group).
    Protected,
    /// The limits of evictions in a minute leave no room now, or allow none at all.
    EvictionsLimited,
    /// The ConfigMap that switches Giveway says nothing that is known (event on it).
    ModeUnknown,
}

impl Reason {
    /// The reason as it is written in conditions, events and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WaitingForPods => "WaitingForPods",
            Self::Unschedulable => "Unschedulable",
            Self::UnschedulableGuaranteedBudget => "UnschedulableGuaranteedBudget",
            Self::WaitingForPreemption => "WaitingForPreemption",
            Self::WaitingForTermination => "WaitingForTermination",
            Self::SchedulerError => "SchedulerError",
            Self::Scheduled => "Scheduled",
            Self::Planned => "Planned",
            Self::Evicting => "Evicting",
            Self::WaitingForVictims => "WaitingForVictims",
            Self::Releasing => "Releasing",
            Self::Completed => "Completed",
            Self::Cancelled => "Cancelled",
            Self::Failed => "Failed",
            Self::PreemptionByScheduler => "PreemptionByScheduler",
            Self::HalfBound => "HalfBound",
            Self::Preempted => "Preempted",
            Self::EvictionRefused => "EvictionRefused",
            Self::BackFilled => "BackFilled",
            Self::GangLabelTooLate => "GangLabelTooLate",
            Self::PodGroupNotFound => "PodGroupNotFound",
            Self::GuaranteedBudget => "GuaranteedBudget",
            Self::NoPreemptor => "NoPreemptor",
            Self::PriorityMismatch => "PriorityMismatch",
            Self::PriorityMatches => "PriorityMatches",
            Self::CapacityAsked => "CapacityAsked",
            Self::CapacityAccepted => "CapacityAccepted",
            Self::CapacityProvisioned => "CapacityProvisioned",
            Self::CapacityFailed => "CapacityFailed",
            Self::CapacityNotNeeded => "CapacityNotNeeded",
            Self::AuthorityMade => "AuthorityMade",
            Self::AuthorityChanged => "AuthorityChanged",
            Self::CertificateRenewed => "CertificateRenewed",
            Self::CertificateUnusable => "CertificateUnusable",
            Self::CriticalAddonUnschedulable => "CriticalAddonUnschedulable",
            Self::CriticalAddonHasRoom => "CriticalAddonHasRoom",
            Self::SchedulerSilent => "SchedulerSilent",
            Self::KeptForCriticalAddon => "KeptForCriticalAddon",
            Self::NotKeptAnyMore => "NotKeptAnyMore",
            Self::Observing => "Observing",
            Self::SwitchedOff => "SwitchedOff",
            Self::NotServed => "NotServed",
            Self::Protected => "Protected",
            Self::EvictionsLimited => "EvictionsLimited",
            Self::ModeUnknown => "ModeUnknown",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Puts a condition into `conditions`, by type. `lastTransitionTime` moves only when the status changes.
/// Returns whether anything changed.
pub fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: bool,
    reason: Reason,
    message: &str,
    generation: Option<i64>,
    now: Time,
) -> bool {
    let status = if status { "True" } else { "False" };
    let wanted = |since: Time| Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.as_str().to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: since,
    };
    match conditions.iter_mut().find(|c| c.type_ == type_) {
        Some(existing) => {
            let since = if existing.status == status { existing.last_transition_time.clone() } else { now };
            let new = wanted(since);
            let changed = *existing != new;
            *existing = new;
            changed
        }
        None => {
            conditions.push(wanted(now));
            true
        }
    }
}

/// The condition of this type, if there is one.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// Whether the condition of this type is True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|c| c.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut list = vec![];
        assert!(set(&mut list, "T", false, Reason::Unschedulable, "no room", Some(1), at(1)));
        assert!(set(&mut list, "T", false, Reason::WaitingForPreemption, "soon", Some(1), at(2)));
        assert_eq!(list[0].last_transition_time, at(1));
        assert!(set(&mut list, "T", true, Reason::Scheduled, "all bound", Some(1), at(3)));
        assert_eq!(list[0].last_transition_time, at(3));
    }

    #[test]
    fn the_same_condition_again_is_no_change() {
        let mut list = vec![];
        set(&mut list, "T", true, Reason::Scheduled, "all bound", Some(1), at(1));
        assert!(!set(&mut list, "T", true, Reason::Scheduled, "all bound", Some(1), at(9)));
        assert_eq!(list.len(), 1);
    }
}

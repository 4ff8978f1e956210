//! Conditions, events and metrics: one enum of reasons for all three, and the function that updates a condition.

use crate::brief::{MOST_OF_MESSAGE, first_characters};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Types of the conditions that Giveway writes on its own kinds and on pods.
pub mod types {
    /// False while the group is pending; True, permanently and with the reason `Scheduled`, after `minCount` of its pods were bound.
    pub const INITIALLY_SCHEDULED: &str = "PodGroupInitiallyScheduled";
    /// True while `minCount` pods, less those that have succeeded, are bound.
    pub const SCHEDULED: &str = "Scheduled";
    /// True from the moment a plan is stored until it completes, fails or is cancelled.
    pub const PREEMPTING: &str = "Preempting";
    /// True on a victim; the condition type that Kubernetes itself uses on pods.
    pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
    /// On a workload: True while every PodGroup created from it is scheduled.
    pub const GROUPS_SCHEDULED: &str = "PodGroupsScheduled";
    /// True while a member's own priority differs from its group's.
    pub const PODS_NOT_MATCHING_PRIORITY: &str = "PodsNotMatchingPriority";
    /// True while a request for capacity to a cluster autoscaler is open.
    pub const CAPACITY_REQUESTED: &str = "CapacityRequested";
}

/// The beginning of the message of `PodGroupInitiallyScheduled=True` while the PodGroup is pending again. Its reason stays `Scheduled`;
/// the reason why the PodGroup is pending is that of the condition `Scheduled`.
pub const PENDING_AGAIN: &str = "The PodGroup was scheduled and is pending again.";

/// Why a condition has its status, an event was emitted, or a counter was incremented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The gang has fewer live pods than `minCount`.
    WaitingForPods,
    /// The pods do not fit, and preemption would not help.
    Unschedulable,
    /// The pods do not fit, and preemption would violate a guaranteed budget (KEP-3280).
    UnschedulableGuaranteedBudget,
    /// The search for a plan reached its limit of effort: it is not known whether the pods fit.
    SearchLimitReached,
    /// A plan exists; its victims have to terminate first.
    WaitingForPreemption,
    /// The pods will fit when pods that are already terminating have terminated; no eviction is needed.
    WaitingForTermination,
    /// kube-scheduler did not bind pods that were ungated.
    SchedulerError,
    /// `minCount` pods were bound.
    Scheduled,
    /// A plan was stored.
    Planned,
    /// Evictions are under way.
    Evicting,
    /// All victims are terminating.
    WaitingForVictims,
    /// The members are being ungated.
    Ungating,
    /// Every placed member is bound.
    Completed,
    /// The plan was cancelled because it is not needed or no longer fits.
    Cancelled,
    /// The plan could not be carried out.
    Failed,
    /// The pod is a victim; the reason that kube-scheduler uses as well.
    PreemptionByScheduler,
    /// A gang was partially scheduled for too long, and its ungated pods are evicted so that their replacements start together.
    PartiallyScheduled,
    /// A pod was evicted for a preemptor (event on the victim).
    Preempted,
    /// The Eviction API refused to evict a victim because of its budget (event on the victim and on the budget).
    EvictionRefused,
    /// A pod that the admission webhook did not process got the annotations of its class (event on the pod).
    BackFilled,
    /// The label that requests gangs was added when the owner already had pods (event on the owner).
    GangLabelTooLate,
    /// A controller created an owner whose settings have an effect on the gang that its user may not expect, for example
    /// that a preemption fails it (event on the user's object).
    GangSettings,
    /// A pod names a group that does not exist.
    PodGroupNotFound,
    /// A guaranteed budget blocks a preemption (event on the budget, the victim or the preemptor; KEP-3280).
    GuaranteedBudget,
    /// A scheduler tried to preempt a pod although no pending pod has a higher priority.
    NoPreemptor,
    /// Some members have another priority than their group.
    PriorityMismatch,
    /// All members have the priority of their group.
    PriorityMatches,
    /// Capacity was requested from a cluster autoscaler.
    CapacityRequested,
    /// The autoscaler accepted the request.
    CapacityAccepted,
    /// The autoscaler reports that the capacity is provisioned.
    CapacityProvisioned,
    /// The autoscaler cannot provide the capacity, or the request failed; it is retried later.
    CapacityFailed,
    /// The request for capacity was withdrawn.
    CapacityNotNeeded,
    /// A certificate authority was created for the webhook (events on the Secrets, as the next three).
    AuthorityCreated,
    /// Certificates are signed by another certificate authority from now on.
    AuthorityChanged,
    /// The webhook has a new certificate.
    CertificateRenewed,
    /// A stored certificate or key is invalid.
    CertificateUnusable,
    /// No node can be freed for a critical add-on (event on the pod).
    CriticalAddonUnschedulable,
    /// A critical add-on fits on a node, or will fit when terminating pods have terminated (event on the pod).
    CriticalAddonFits,
    /// No pod is evicted for a critical add-on while kube-scheduler may be down (event on the pod).
    SchedulerNotResponding,
    /// A taint reserves a node for a critical add-on (event on the node).
    ReservedForCriticalAddon,
    /// That taint was removed (event on the node).
    ReservationEnded,
    /// Giveway only observes: the action was not carried out.
    Observing,
    /// Giveway is switched off.
    SwitchedOff,
    /// Giveway does not serve PodGroups in this namespace: their pods are scheduled one by one.
    NotServed,
    /// The other pods of a partially disrupted group are not evicted, because their namespace is protected (event on
    /// the group).
    Protected,
    /// The limit of evictions per minute is reached, or allows no eviction at all.
    EvictionsLimited,
    /// Admission rejected a call that the pods need, for example the removal of their scheduling gate. It is rehearsed until it is accepted.
    Rejected,
    /// Plans evicted pods and their preemptors were not bound: no pod is evicted for this preemptor, or for any, for some minutes.
    CircuitBreakerOpen,
    /// The ConfigMap that sets Giveway's mode has an unknown value (event on it).
    ModeUnknown,
}

impl Reason {
    /// Returns the reason as written in conditions, events and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WaitingForPods => "WaitingForPods",
            Self::Unschedulable => "Unschedulable",
            Self::UnschedulableGuaranteedBudget => "UnschedulableGuaranteedBudget",
            Self::SearchLimitReached => "SearchLimitReached",
            Self::WaitingForPreemption => "WaitingForPreemption",
            Self::WaitingForTermination => "WaitingForTermination",
            Self::SchedulerError => "SchedulerError",
            Self::Scheduled => "Scheduled",
            Self::Planned => "Planned",
            Self::Evicting => "Evicting",
            Self::WaitingForVictims => "WaitingForVictims",
            Self::Ungating => "Ungating",
            Self::Completed => "Completed",
            Self::Cancelled => "Cancelled",
            Self::Failed => "Failed",
            Self::PreemptionByScheduler => "PreemptionByScheduler",
            Self::PartiallyScheduled => "PartiallyScheduled",
            Self::Preempted => "Preempted",
            Self::EvictionRefused => "EvictionRefused",
            Self::BackFilled => "BackFilled",
            Self::GangLabelTooLate => "GangLabelTooLate",
            Self::GangSettings => "GangSettings",
            Self::PodGroupNotFound => "PodGroupNotFound",
            Self::GuaranteedBudget => "GuaranteedBudget",
            Self::NoPreemptor => "NoPreemptor",
            Self::PriorityMismatch => "PriorityMismatch",
            Self::PriorityMatches => "PriorityMatches",
            Self::CapacityRequested => "CapacityRequested",
            Self::CapacityAccepted => "CapacityAccepted",
            Self::CapacityProvisioned => "CapacityProvisioned",
            Self::CapacityFailed => "CapacityFailed",
            Self::CapacityNotNeeded => "CapacityNotNeeded",
            Self::AuthorityCreated => "AuthorityCreated",
            Self::AuthorityChanged => "AuthorityChanged",
            Self::CertificateRenewed => "CertificateRenewed",
            Self::CertificateUnusable => "CertificateUnusable",
            Self::CriticalAddonUnschedulable => "CriticalAddonUnschedulable",
            Self::CriticalAddonFits => "CriticalAddonFits",
            Self::SchedulerNotResponding => "SchedulerNotResponding",
            Self::ReservedForCriticalAddon => "ReservedForCriticalAddon",
            Self::ReservationEnded => "ReservationEnded",
            Self::Observing => "Observing",
            Self::SwitchedOff => "SwitchedOff",
            Self::NotServed => "NotServed",
            Self::Protected => "Protected",
            Self::EvictionsLimited => "EvictionsLimited",
            Self::Rejected => "Rejected",
            Self::CircuitBreakerOpen => "CircuitBreakerOpen",
            Self::ModeUnknown => "ModeUnknown",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Adds the condition of type `type_` to `conditions`, or changes it there. `status` true is `True`, false `False`. `generation` becomes
/// `observedGeneration`; `now` becomes `lastTransitionTime` only if the status changes. A message that is longer than the schema
/// allows is cut. Returns true if anything changed.
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
        message: first_characters(message, MOST_OF_MESSAGE).to_owned(),
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

/// Returns the condition of this type, if there is one.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// Returns true if the condition of this type is True.
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
        assert!(set(&mut list, "T", false, Reason::Unschedulable, "no node fits", Some(1), at(1)));
        assert!(set(&mut list, "T", false, Reason::WaitingForPreemption, "soon", Some(1), at(2)));
        assert_eq!(list[0].last_transition_time, at(1));
        assert!(set(&mut list, "T", true, Reason::Scheduled, "all bound", Some(1), at(3)));
        assert_eq!(list[0].last_transition_time, at(3));
    }

    #[test]
    fn an_equal_condition_is_no_change() {
        let mut list = vec![];
        set(&mut list, "T", true, Reason::Scheduled, "all bound", Some(1), at(1));
        assert!(!set(&mut list, "T", true, Reason::Scheduled, "all bound", Some(1), at(9)));
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn a_message_is_cut_to_the_length_that_the_schema_allows() {
        let (mut list, long) = (vec![], "é".repeat(MOST_OF_MESSAGE + 1));
        set(&mut list, "T", false, Reason::Rejected, &long, Some(1), at(1));
        assert_eq!(list[0].message.chars().count(), MOST_OF_MESSAGE);
        assert!(!set(&mut list, "T", false, Reason::Rejected, &long, Some(1), at(2)), "it is not written again");
    }
}

//! Why a new leader ends plans that an earlier leader stored: messages of `Preemption`s and of `Preempting=False`.

use crate::object_key::ObjectKey;
use crate::plan::StoredDomain;
use crate::wording::Sentence;

/// Message of a plan that has been cancelled: the stored plan does not match the cluster. `why` is a sentence of this file, or one of [the
/// end of a plan](super::plan_end).
pub fn not_valid(why: Sentence) -> Sentence {
    Sentence::from("An earlier leader stored this plan, which is no longer valid: ").then(why)
}

/// Why a stored plan does not match the cluster: its preemptor does not exist any more.
pub fn preemptor_deleted() -> &'static str {
    "the preemptor was deleted."
}

/// Why a stored plan does not match the cluster: another object, with another UID, has the name of its preemptor.
pub fn preemptor_replaced() -> &'static str {
    "the preemptor was deleted, and another object has the name."
}

/// Why a stored plan does not match the cluster: the preemption policy of its preemptor is `Never` now.
pub fn preemptor_never_preempts() -> &'static str {
    "the preemptor may not preempt: its preemptionPolicy is Never."
}

/// Why a stored plan does not match the cluster: the priority of its preemptor is `now`, and was `planned` when the plan was made.
pub fn priority_changed(now: i32, planned: i32) -> String {
    format!("the preemptor has priority {now}; the plan was made with priority {planned}.")
}

/// Why a stored plan does not match the cluster: it places `pod`, which does not belong to its preemptor.
pub fn foreign_member(pod: &ObjectKey) -> String {
    format!("pod {pod}, which the plan places, does not belong to the preemptor.")
}

/// Why a stored plan does not match the cluster: the preemptor must stay within one topology domain of the label `key`, and the plan has
/// none.
pub fn domain_missing(key: &str) -> String {
    format!("the preemptor must stay on nodes with one value of label {key}, and the plan names no value.")
}

/// Why a stored plan does not match the cluster: its topology domain is of another label than `key`, that of the preemptor.
pub fn domain_of_another_key(key: &str, domain: &StoredDomain) -> String {
    format!("the preemptor must stay on nodes with one value of label {key}, and the plan is for {domain}.")
}

/// Why a stored plan does not match the cluster: it has a topology domain, and the preemptor needs none.
pub fn domain_not_asked_for(domain: &StoredDomain) -> String {
    format!("the plan is for {domain}, and the preemptor asks for no topology domain.")
}

/// Why a victim must not be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsoundVictim {
    /// It is a static pod.
    Static,
    /// Its namespace is protected.
    Protected,
    /// It is a critical add-on.
    CriticalAddon,
    /// Its priority is not below the preemptor's.
    NotOfLowerPriority,
    /// It belongs to another unit.
    OtherUnit,
}

/// Why a stored plan does not match the cluster: its victim `pod` must not be evicted for it.
pub fn unsound_victim(pod: &ObjectKey, uid: &str, why: UnsoundVictim) -> Sentence {
    Sentence::default().object("pod", pod, uid).text(match why {
        UnsoundVictim::Static => " is a static pod.",
        UnsoundVictim::Protected => " is in a protected namespace.",
        UnsoundVictim::CriticalAddon => " is a critical add-on.",
        UnsoundVictim::NotOfLowerPriority => " is not of lower priority than the preemptor.",
        UnsoundVictim::OtherUnit => " would now be evicted alone or with other pods than in the plan.",
    })
}

/// Why a stored plan does not match the cluster: a PodGroup that would be disrupted as a whole has more pods than the plan lists.
pub fn group_has_grown(group: &ObjectKey, uid: &str) -> Sentence {
    Sentence::default().object("pod group", group, uid).text(" has more pods now.")
}

/// Why a stored plan does not match the cluster: a guaranteed budget does not allow the eviction of its victim `pod`. `why` is shown only
/// in the namespace of the victim.
pub fn budget_guaranteed(pod: &ObjectKey, uid: &str, why: &str) -> Sentence {
    let sentence = Sentence::default().object("pod", pod, uid).text(" has a guaranteed budget");
    sentence.detail(&pod.namespace, format!(": {why}."), " that allows no eviction.")
}

/// Message of a plan that has been cancelled: some objects of the plan are missing. `why` says which.
pub fn partially_stored(why: &str) -> String {
    format!("An earlier leader ended while it stored this plan: {why}; no pod was evicted.")
}

/// Message of a plan that has been cancelled: the earlier leader wrote no status of the plan, so that it had evicted no pod.
pub fn without_status() -> &'static str {
    "An earlier leader ended before it wrote the status of this plan; no pod was evicted."
}

/// Message of a plan that has been cancelled: the preemptor has two plans, and this is the older one.
pub fn older_plan() -> &'static str {
    "The preemptor of this plan has a newer plan."
}

/// Message of a plan that has been cancelled: a stored departure (the eviction of a PodGroup's pods without a preemptor) names no
/// PodGroup.
pub fn departure_without_group() -> &'static str {
    "This Preemption names no PodGroup."
}

/// Message of a plan that has been cancelled: critical add-ons were switched off since the plan was made.
pub fn addons_switched_off() -> &'static str {
    "Giveway no longer preempts for critical add-ons."
}

/// Message of a plan that has been cancelled: the `Preemption` belongs to no plan that this leader made or resumed.
pub fn unknown_plan() -> &'static str {
    "The operator did not make or resume this plan; no pod is evicted for it."
}

/// Message for a PodGroup whose status shows a plan in flight that has ended.
pub fn plan_has_ended() -> &'static str {
    "The plan has ended."
}

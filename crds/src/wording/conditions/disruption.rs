//! Why pods are disrupted: condition `DisruptionTarget` of victims, which are pods and PodGroups, and events on them.

use super::plan::NamedPreemptor;
use crate::object_key::ObjectKey;
use crate::wording::{Sentence, counted, part_of};

/// The beginning of every message with which Giveway marks a victim. kube-scheduler writes the same reason with other messages.
pub const OURS: &str = "Preempted by ";

/// A grace period that an eviction shortens.
#[derive(Clone, Copy, Debug)]
pub struct ShortenedGrace {
    /// The grace period of the pod in seconds.
    pub own: i64,
    /// The grace period of the eviction in seconds.
    pub longest: i64,
}

/// Returns the sentence that says to what a plan shortens a victim's grace period; empty for `None`.
fn shortened(grace: Option<ShortenedGrace>) -> String {
    let words = |ShortenedGrace { own, longest }| format!(" Its grace period of {own} s is shortened to {longest} s.");
    grace.map(words).unwrap_or_default()
}

/// Message written on a victim of a plan: a whole PodGroup (`is_group`) or a single pod. `priority` is that of the victim; `grace` is set
/// if the plan shortens its grace period.
pub fn preempted(
    preemptor: NamedPreemptor<'_>,
    preemptor_priority: i32,
    is_group: bool,
    priority: i32,
    grace: Option<ShortenedGrace>,
) -> Sentence {
    let (kind, grace) = (if is_group { "group" } else { "pod" }, shortened(grace));
    preemptor.after(OURS.into()).text(format!(
        " of priority {preemptor_priority}, which needs its capacity; the priority of this {kind} is {priority}.{grace}"
    ))
}

/// Message written on a victim of a plan for a critical add-on of this `priority`; `grace` is set if the plan shortens the victim's grace
/// period.
pub fn preempted_by_addon(addon: NamedPreemptor<'_>, priority: i32, grace: Option<ShortenedGrace>) -> Sentence {
    let grace = shortened(grace);
    addon.after(OURS.into()).text(format!(" of priority {priority}, a critical add-on that needs its capacity.{grace}"))
}

/// Message written on a PodGroup in mode `PodGroup` and its pods when `scheduler` has preempted `pod` of it, so that the other pods,
/// `others` in number, are evicted.
pub fn member_preempted(scheduler: &str, pod: &str, others: usize) -> String {
    let others_are = others_are(others);
    format!("{OURS}{scheduler}: it preempted pod {pod}, so the {others_are} evicted.")
}

/// Returns subject and verb of a sentence about this number of other pods of a PodGroup: `2 other pods of the PodGroup are`.
pub(in crate::wording) fn others_are(count: usize) -> String {
    counted(count, "other pod of the PodGroup is", "other pods of the PodGroup are")
}

/// Message written on a PodGroup in mode `PodGroup` and on its `remaining` pods that plan `plan` had not evicted when it was cancelled.
/// They are evicted too.
pub fn partially_disrupted(plan: &str, group: &ObjectKey, remaining: usize) -> String {
    let pods = counted(remaining, "remaining pod is", "remaining pods are");
    format!(
        "{OURS}plan {plan}, which was cancelled after it evicted a part of PodGroup {group}, so its {pods} evicted too."
    )
}

/// What is done about a gang that has been partially scheduled for too long.
#[derive(Clone, Copy, Debug)]
pub enum PartialGangRemedy<'a> {
    /// All its ungated pods are evicted.
    Evict,
    /// No pod is evicted, because this one would not be replaced.
    NoController(&'a str),
    /// No pod is evicted for this reason.
    NotPermitted(&'a str),
}

/// A gang that has been partially scheduled for too long.
#[derive(Clone, Copy, Debug)]
pub struct PartialGangFacts<'a> {
    /// For how many seconds.
    pub seconds: u64,
    /// Number of bound members.
    pub bound: usize,
    /// Number of members that it needs, less those that have succeeded.
    pub needed: usize,
    /// A pending member, and what kube-scheduler says about it.
    pub said: Option<(&'a str, &'a str)>,
}

/// Message written on a gang that has been partially scheduled for too long and on its pods: `DisruptionTarget`, reason
/// `PartiallyScheduled`, if they are evicted, and otherwise an event.
pub fn partially_scheduled(gang: PartialGangFacts<'_>, remedy: PartialGangRemedy<'_>) -> String {
    let PartialGangFacts { seconds, bound, needed, said } = gang;
    let said = said.map(|(pod, said)| format!(" kube-scheduler says of pod {pod}: {said}")).unwrap_or_default();
    let are = part_of(bound, needed, ("needed pod", "needed pods"), ("is", "are"));
    let what = match remedy {
        PartialGangRemedy::Evict => {
            "All its ungated pods are evicted, so that the pods that replace them start together.".to_owned()
        }
        PartialGangRemedy::NoController(pod) => format!(
            "The bound pods are not evicted, because pod {pod} has no controller that would replace it: delete the pods yourself."
        ),
        PartialGangRemedy::NotPermitted(why) => format!("Its pods are not evicted: {why}."),
    };
    format!("The gang has been partially scheduled for {seconds} s: {are} bound. {what}{said}")
}

/// Message of a plan of a PodGroup that was cancelled because kube-scheduler has preempted one of the PodGroup's pods.
pub fn own_plan_ends_for_scheduler() -> &'static str {
    "kube-scheduler preempted a pod of the PodGroup, so all its pods are evicted."
}

/// Message of a plan of a PodGroup that was cancelled because the PodGroup is a victim of another plan.
pub fn own_plan_ends_for_plan() -> &'static str {
    "The PodGroup is preempted, so all its pods are evicted."
}

/// Last message of a departure (the eviction of a PodGroup's pods without a preemptor) whose pods, `total` in number and not 0, have all
/// terminated.
pub fn no_pod_left(total: usize) -> String {
    match total {
        1 => "The pod that this Preemption evicts has terminated.".to_owned(),
        total => format!("The {total} pods that this Preemption evicts have terminated."),
    }
}

/// Last message of a departure (the eviction of a PodGroup's pods without a preemptor) whose pods are all evicted by another departure;
/// also of one without pods.
pub fn evicted_by_another() -> &'static str {
    "Another Preemption evicts the pods of this one."
}

/// Last message of a departure (the eviction of a PodGroup's pods without a preemptor) whose `Preemption` was deleted before its first
/// eviction.
pub fn departure_deleted() -> &'static str {
    "The Preemption was deleted before a pod was evicted."
}

/// Returns subject and verb of a sentence about the pods of a PodGroup that were not evicted, of `total`: `2 of 8 pods are`.
fn left_are(remaining: usize, total: usize) -> String {
    part_of(remaining, total, ("pod", "pods"), ("is", "are"))
}

/// Last message of a departure (the eviction of a PodGroup's pods without a preemptor) that ended because the namespace of the pods is
/// protected now. `remaining` of `total` pods were not evicted; `why` says what protects them.
pub fn rest_protected(remaining: usize, total: usize, why: &str) -> String {
    format!("{} not evicted: {why}.", left_are(remaining, total))
}

/// Last message of a departure (the eviction of a PodGroup's pods without a preemptor) that ended because enough pods of the PodGroup are
/// bound. `remaining` of `total` pods were not evicted.
pub fn enough_bound(remaining: usize, total: usize) -> String {
    let are = left_are(remaining, total);
    format!("{are} not evicted, because the PodGroup again has as many bound pods as it needs.")
}

/// Last message of a departure (the eviction of a PodGroup's pods without a preemptor) that ended before its first eviction, because
/// evictions are switched off. `why` says by what.
pub fn departure_restrained(why: &str) -> String {
    format!("No pod was evicted: {why}.")
}

/// Message for a partially scheduled gang whose pods are not evicted after all, because another member, `pod`, was bound before the first
/// eviction.
pub fn member_bound(pod: &ObjectKey) -> String {
    format!("No pod was evicted, because pod {pod} has been bound.")
}

/// Sentence added to the message about the eviction of a PodGroup's pods: the eviction of `pod` was refused and is retried. `why` is shown
/// only in the pod's namespace.
pub fn eviction_retried(pod: &ObjectKey, uid: &str, why: &str) -> Sentence {
    let eviction = Sentence::from("The eviction of ").object("pod", pod, uid);
    eviction.text(" was refused and is retried: ").detail(&pod.namespace, why, "it is not allowed now")
}

/// Clause that says why the eviction of a pod would violate a budget, in the words of the Eviction API (which do not agree with a count of
/// 1): `wanted` healthy pods are needed, and `healthy` exist, of which plans of higher priority evict `claimed`.
pub fn budget_violated(budget: &str, wanted: i32, healthy: usize, claimed: usize) -> String {
    let others = match claimed {
        0 => String::new(),
        claimed => format!(", of which plans of higher priority evict {claimed}"),
    };
    format!("The disruption budget {budget} needs {wanted} healthy pods and has {healthy} currently{others}")
}

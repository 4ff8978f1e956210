//! Why a plan ends: the message of `Preempting=False`, of its `Preemption`, and of an event on the preemptor.

use crate::object_key::ObjectKey;
use crate::plan::StoredDomain;
use crate::wording::{Sentence, agree, part_of};

/// Message of a plan that has completed: `bound` of the `placed` members of the plan exist and are bound. The others were deleted in state
/// `Ungating`, before or after kube-scheduler bound them.
pub fn completed(bound: usize, placed: usize) -> String {
    let noun = ("pod of the plan", "pods of the plan");
    let deleted = placed.saturating_sub(bound);
    if deleted == 0 {
        return format!("{} bound.", part_of(bound, placed, noun, ("was", "were")));
    }
    let others = match (bound, deleted) {
        (0, _) => agree(deleted, "it was", "they were").to_owned(),
        (_, 1) => "the other one was".to_owned(),
        _ => format!("the other {deleted} were"),
    };
    let (state, all) = (part_of(bound, placed, noun, ("is", "are")), agree(placed, "it", "them"));
    format!("{state} bound; {others} deleted after the operator had started to ungate {all}.")
}

/// Message of a plan that has been cancelled: the preemptor does not exist any more.
pub fn group_deleted() -> &'static str {
    "The pod group was deleted."
}

/// Message of a plan that has been cancelled: `have` members are left of the `needed` ones of the gang.
pub fn too_few_members(have: usize, needed: usize) -> String {
    match needed {
        1 => "The needed pod does not fit any more.".to_owned(),
        needed => format!("Only {have} of the {needed} needed pods still {}.", agree(have, "fits", "fit")),
    }
}

/// Message of a plan that has been cancelled: a member that has a placement in the plan was deleted.
pub fn member_deleted(pod: &ObjectKey) -> String {
    format!("Pod {pod}, which has a placement in the plan, was deleted.")
}

/// Message of a plan that has been cancelled: a member has ended or is terminating.
pub fn member_ended(pod: &ObjectKey) -> String {
    format!("Pod {pod}, which has a placement in the plan, has ended or is being deleted.")
}

/// Message of a plan that was cancelled before its first eviction: kube-scheduler has bound all members meanwhile.
pub fn bound_without_evictions() -> &'static str {
    "kube-scheduler bound the pods before the first eviction; no pod was evicted."
}

/// Message of a plan that was cancelled before its first eviction: the members fit now without evictions.
pub fn capacity_became_free() -> &'static str {
    "Capacity became free; no pod was evicted."
}

/// Message of a plan that was cancelled before its first eviction: a new plan has fewer victims.
pub fn fewer_victims() -> &'static str {
    "Capacity became free for some of the pods: a new plan evicts fewer pods."
}

/// Message of a plan that was cancelled while its victims terminate: the members fit elsewhere.
pub fn other_capacity_is_free() -> &'static str {
    "The victims terminate slowly, and the pods fit on other free capacity now."
}

/// Message of a plan that was cancelled before its first eviction. `why` is a sentence of this file about a victim.
pub fn no_pod_evicted(why: Sentence) -> Sentence {
    Sentence::from("No pod was evicted: ").then(why)
}

/// Message of a plan that was cancelled before its first eviction: the planner says why the members do not fit.
pub fn outdated(why: &str) -> String {
    format!("The plan does not fit any more; no pod was evicted: {why}")
}

/// Message of a plan that was cancelled between two evictions, for a reason of this file or of the planner.
pub fn does_not_fit(why: Sentence) -> Sentence {
    Sentence::from("The plan does not fit any more; no other pod is evicted: ").then(why)
}

/// Message of a plan that has been cancelled: the preemptor has changed, or a victim of a critical add-on.
pub fn not_valid(why: Sentence) -> Sentence {
    Sentence::from("The plan is no longer valid: ").then(why)
}

/// Message of a plan that has been cancelled: a plan without evictions does not fit any more.
pub fn became_infeasible(why: &str) -> String {
    format!("The plan became infeasible: {why}")
}

/// Message of a plan that has been cancelled: a plan whose victims terminate does not fit any more.
pub fn became_infeasible_after_evictions(why: &str) -> String {
    format!("The plan became infeasible while victims terminated: {why}")
}

/// Message of a plan that has been cancelled: a plan does not fit while this victim terminates, which takes too long.
pub fn victim_is_overdue(pod: &ObjectKey, uid: &str, why: &str) -> Sentence {
    Sentence::about("pod", pod, uid)
        .text(format!(" has not terminated in time, and the plan does not wait for it any more: {why}"))
}

/// Message of a plan that was cancelled before its first eviction: the members fit only after evictions that may still be rejected.
pub fn depends_for_too_long() -> &'static str {
    "The pods of the plan fit only after the evictions of another plan, whose dry run has not succeeded for a minute."
}

/// How a victim has changed since the plan was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimChange {
    /// Its priority is not below the preemptor's any more.
    NotOfLowerPriority,
    /// It is a critical add-on now.
    CriticalAddon,
    /// It belongs to another unit now.
    OtherUnit,
    /// It is a critical pod now, which is not evicted for a critical add-on.
    Critical,
}

/// Why a plan is cancelled, a sentence for the functions above: the victim `pod` has changed since the plan was made.
pub fn victim_changed(pod: &ObjectKey, uid: &str, change: VictimChange) -> Sentence {
    Sentence::default().object("pod", pod, uid).text(match change {
        VictimChange::NotOfLowerPriority => " is not of lower priority than the preemptor any more.",
        VictimChange::CriticalAddon => " is a critical add-on now.",
        VictimChange::OtherUnit => " would now be evicted alone or with other pods than in the plan.",
        VictimChange::Critical => " is a critical pod now, which is not evicted for a critical add-on.",
    })
}

/// Why a plan is cancelled, a sentence for the functions above: a PodGroup that would be disrupted as a whole has more pods than when the
/// plan was made.
pub fn victim_group_has_grown(group: &ObjectKey, uid: &str) -> Sentence {
    Sentence::default().object("pod group", group, uid).text(" has more pods than when the plan was made.")
}

/// Why a plan for a critical add-on is cancelled, a sentence for the functions above: the pod is no critical add-on any more.
pub fn not_critical_any_more(pod: &ObjectKey, uid: &str) -> Sentence {
    Sentence::default().object("pod", pod, uid).text(" is not a critical add-on any more.")
}

/// Message of a plan that has been cancelled: the namespace of a victim is protected now. `evicted` is true if the plan has evicted a pod.
pub fn victim_protected(evicted: bool, pod: &ObjectKey, uid: &str, why: &str) -> Sentence {
    let what = if evicted { "No other pod is evicted: " } else { "No pod was evicted: " };
    Sentence::from(what).object("pod", pod, uid).text(format!(" must not be evicted: {why}."))
}

/// Why a victim cannot be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionFailure {
    /// A budget refuses it.
    Budget,
    /// Admission rejects it.
    Rejected,
    /// The call failed repeatedly.
    Failed,
}

/// Message of a plan that has been cancelled: a victim cannot be evicted. `why` is the answer of the API server, which is shown only in the
/// victim's namespace.
pub fn eviction_failed(pod: &ObjectKey, uid: &str, failure: EvictionFailure, why: &str) -> Sentence {
    let (what, elsewhere) = match failure {
        EvictionFailure::Budget => (" was refused: ", "its disruption budget does not allow it"),
        EvictionFailure::Rejected => (" was rejected: ", "it is not allowed"),
        EvictionFailure::Failed => (" failed repeatedly: ", "the operator's log has the answers of the API server"),
    };
    let eviction = Sentence::from("The eviction of ").object("pod", pod, uid);
    eviction.text(what).detail(&pod.namespace, why, elsewhere)
}

/// Message of a plan that was cancelled, or failed after an eviction: the nomination of a member was rejected. Ends with the words of the
/// component that rejected it.
pub fn nomination_rejected(pod: &ObjectKey, uid: &str, words: &str) -> Sentence {
    let call = Sentence::from("The nomination of a node for ").object("pod", pod, uid);
    call.text(format!(" was rejected: {words}"))
}

/// Message of a plan that was cancelled, or failed after an eviction: the removal of a member's scheduling gate was rejected. Ends with the
/// words of the component that rejected it.
pub fn ungating_rejected(pod: &ObjectKey, uid: &str, words: &str) -> Sentence {
    let call = Sentence::from("The removal of the scheduling gate of ").object("pod", pod, uid);
    call.text(format!(" was rejected: {words}"))
}

/// Message of a plan that has failed: the nodes of members are not feasible any more. `said` is a member that kube-scheduler could not bind
/// to a feasible node, and what it says about it.
pub fn could_not_bind(why: &str, said: Option<(&str, &str)>) -> String {
    let said = said.map(|(pod, said)| format!(" kube-scheduler says of pod {pod}: {said}")).unwrap_or_default();
    format!("kube-scheduler could not bind every ungated pod: {why}{said}")
}

/// What kube-scheduler says about a member that it did not bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnboundReport<'a> {
    /// This.
    Said(&'a str),
    /// Nothing, although it had the time to consider the member.
    NoneInTime,
    /// Nothing.
    None,
}

/// Message of a plan that has failed: kube-scheduler did not bind `pod` and maybe others within `seconds`, although they fit.
pub fn not_bound_in_time(seconds: u64, pod: &str, report: UnboundReport<'_>) -> String {
    let report = match report {
        UnboundReport::Said(said) => format!("says of pod {pod}: {said}"),
        UnboundReport::NoneInTime => format!(
            "wrote no reason on pod {pod}, although it decided about as many other pods as were pending; see what it logs of that pod."
        ),
        UnboundReport::None => {
            format!("wrote no reason on pod {pod}; see whether kube-scheduler runs and what it logs of that pod.")
        }
    };
    format!("kube-scheduler did not bind every ungated pod within {seconds} s and {report}")
}

/// Why a plan does not fit any more: `node`, on which it places `pod`, is not in the plan's topology domain any more.
pub fn node_outside_domain(node: &str, pod: &ObjectKey, domain: &StoredDomain) -> String {
    format!("Node {node}, planned for pod {pod}, is not in {domain} any more.")
}

/// Why a plan does not fit any more: another member, `pod`, is bound to a node outside of the plan's topology domain.
pub fn member_outside_domain(pod: &ObjectKey, node: &str, domain: &StoredDomain) -> String {
    format!("Pod {pod} of the group has node {node}, which is not in {domain}.")
}

/// Why a plan does not fit any more: another member, `pod`, was ungated with a node selector for the topology domain `asked`, which is not
/// that of the plan (`domain`).
pub fn member_ungated_for(pod: &ObjectKey, asked: &StoredDomain, domain: &StoredDomain) -> String {
    format!("Pod {pod} of the group was ungated for {asked}, and not for {domain}.")
}

/// Why a plan does not fit any more: the node selector of the member `pod` asks for the topology domain `asked`, which is not that of the
/// plan (`domain`).
pub fn member_asks_for(pod: &ObjectKey, asked: &StoredDomain, domain: &StoredDomain) -> String {
    format!("Pod {pod} asks for {asked} in its own nodeSelector, and its group is placed in {domain}.")
}

/// Message of a plan that has been cancelled: the `Preemption` of a plan was deleted.
pub fn preemption_deleted() -> &'static str {
    "The Preemption of the plan was deleted."
}

/// Message of a plan that has failed: the plan could not be stored. `has_evicted` is true if it may have evicted a pod.
pub fn could_not_be_stored(has_evicted: bool, why: &str) -> String {
    let so = if has_evicted { "it is not continued" } else { "no pod was evicted" };
    format!("The plan could not be stored, so {so}: {why}")
}

/// Message of a plan that has been cancelled: the mode or a limit of 0 permits no eviction. `restraint` says which; `has_victims` is true
/// if the plan has victims.
pub fn restrained(restraint: &str, has_victims: bool) -> String {
    match has_victims {
        true => format!("{restraint}; disruptions that have started are finished, and no other pod is evicted."),
        false => format!("{restraint}."),
    }
}

/// Sentence added to the message of an ended plan while the next plan of the preemptor is postponed.
pub fn next_plan_at(at: k8s_openapi::jiff::Timestamp) -> String {
    format!("Capacity that becomes free is used at once; the next plan is made at {at}.")
}

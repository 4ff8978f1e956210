//! Why a preemptor is pending without a plan in flight: condition `Scheduled=False` of a PodGroup, and events on PodGroups and pods. The
//! planner says itself why a preemptor does not fit.

use crate::mode::Mode;
use crate::object_key::ObjectKey;
use crate::wording::{Sentence, counted};
use k8s_openapi::jiff::Timestamp;

/// Message of the condition with reason `SwitchedOff`: the mode of Giveway is `off`, so that no pod is evicted.
pub fn switched_off() -> String {
    format!("{}.", Mode::Off.restraint())
}

/// Returns why no pod is evicted while a limit on evictions per minute is 0, as the beginning of a sentence. `limit` is a value of the
/// chart.
pub fn limit_is_zero(limit: &str) -> String {
    format!("Evictions are switched off by {limit}, which is 0")
}

/// Message of the condition with reason `NotServed`: Giveway serves no groups in this namespace.
pub fn not_served(namespace: &str) -> String {
    format!(
        "Giveway serves no groups in namespace {namespace}: pods there start one by one. An administrator chooses the namespaces (chart value namespaces.selector)."
    )
}

/// Message of the condition with reason `PartiallyScheduled`: the pods of a partially scheduled gang were evicted a short while ago.
pub fn backs_off_after_disruption(until: Timestamp) -> String {
    format!(
        "The gang was only partially scheduled, so its bound pods were evicted. Scheduling is retried after {until}."
    )
}

/// Message of the condition with reason `Rejected`: a call for a member is rejected. `rejection` is the sentence of the plan that ended
/// because of it.
pub fn rehearsal_rejected(rejection: &str, until: Timestamp) -> String {
    let rejection = rejection.trim_end_matches('.');
    format!("{rejection}. No pod is evicted until this is permitted; a dry run is made after {until}.")
}

/// Message of the condition with reason `WaitingForPods`: the placements need capacity that is reserved for the successor of a PodGroup,
/// whose name is `None` if it must not be shown.
pub fn reserved_for_successor(node: &str, predecessor: Option<&ObjectKey>, until: Timestamp) -> String {
    let predecessor = match predecessor {
        Some(predecessor) => format!("PodGroup {predecessor}"),
        None => "a PodGroup of another namespace".to_owned(),
    };
    format!(
        "The pods fit on node {node}, but capacity there is reserved until {until} for the PodGroup that replaces {predecessor}, whose pods were deleted."
    )
}

/// Message of the condition with reason `Unschedulable`: Giveway does not preempt for pods of this scheduler.
pub fn foreign_scheduler(name: &str) -> String {
    format!("Giveway does not preempt for pods of scheduler {name}, which is not in operator.schedulerNames.")
}

/// Sentence added to `Unschedulable` while new pods are excluded as victims, because their PodGroup or namespace, which may protect them,
/// is not known yet.
pub fn new_pods_excluded() -> &'static str {
    "New pods whose PodGroup or namespace is not known yet are not evicted, for at most 20 seconds."
}

/// Message of the condition with reason `EvictionsLimited`: `count` plans for preemptors of at least this priority are in flight, and
/// `most` may be.
pub fn too_many_plans(count: usize, priority: i32, most: usize) -> String {
    let plans = counted(count, "plan is", "plans are");
    format!(
        "{plans} in flight for preemptors of priority {priority} or higher, and --max-plans is {most}. No pod is evicted for this preemptor until one of them has ended."
    )
}

/// Sentence added to `Unschedulable`, and alone: kube-scheduler did not bind pods like `pod` to `node` (`None`: to any node)
/// after evictions, so that they are not placed there until `until`. `why` is the message of the last plan.
pub fn placement_banned(pod: &str, node: Option<&str>, until: Timestamp, why: &str) -> String {
    let node = node.map_or_else(|| "any node".to_owned(), |node| format!("node {node}"));
    format!("No pod is evicted for pod {pod} on {node} until {until}. {why}")
}

/// Sentence added to `Unschedulable`: the eviction of a pod with a lower priority was rejected. `why` is shown only in the pod's namespace.
pub fn victim_banned(pod: &ObjectKey, uid: &str, until: Timestamp, why: &str) -> Sentence {
    let sentence = Sentence::from("The eviction of ").object("pod", pod, uid);
    let sentence = sentence.text(format!(" was rejected, and the pod is not evicted until {until}: "));
    sentence.detail(&pod.namespace, why, "it is not allowed")
}

/// Message of the condition with reason `CircuitBreakerOpen`: `plans` plans in a row evicted pods for this preemptor, and it was not bound.
/// They are at least [`PLANS`](crate::breaker::PLANS).
pub fn breaker_open(plans: usize, until: Timestamp) -> String {
    format!(
        "{plans} plans in a row evicted pods for this preemptor, and it was not bound. No pod is evicted for it until {until}: its events say how each plan ended, and capacity that becomes free is used at once."
    )
}

/// Why a breaker that preemptors share is open.
#[derive(Clone, Copy, Debug)]
pub struct SharedBreakerFacts {
    /// True if it is of one namespace, false if it is of the cluster.
    pub of_namespace: bool,
    /// Number of preemptors that were not bound: at least [`OF_A_NAMESPACE`](crate::breaker::OF_A_NAMESPACE).
    pub preemptors: usize,
}

impl SharedBreakerFacts {
    /// Returns the clause that says why the circuit breaker of a namespace or of the cluster is open: for how many preemptors plans failed
    /// in a row.
    fn reason(self) -> String {
        let (preemptors, of) = (self.preemptors, if self.of_namespace { " of this namespace" } else { "" });
        format!("Plans for {preemptors} preemptors{of} in a row evicted pods, and none of these preemptors was bound.")
    }

    /// Returns the phrase ` of the namespace` for the circuit breaker of a namespace, and an empty text for that of the cluster.
    fn of(self) -> &'static str {
        if self.of_namespace { " of the namespace" } else { "" }
    }
}

/// Message of the condition with reason `CircuitBreakerOpen`: no pod is evicted for any preemptor of the namespace or the cluster.
pub fn shared_breaker_open(breaker: SharedBreakerFacts, until: Timestamp) -> String {
    let (reason, of) = (breaker.reason(), breaker.of());
    format!(
        "{reason} No pod is evicted for any preemptor{of} until {until}: an administrator finds the cause with `kubectl giveway check`, and capacity that becomes free is used at once."
    )
}

/// When a preemptor has its turn while one plan is made at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerTurn {
    /// After this time.
    After(Timestamp),
    /// After the plan that is in flight.
    AfterCurrent,
}

/// Message of the condition with reason `CircuitBreakerOpen`: one plan with evictions is made at a time in the namespace or the cluster.
/// `turn` says when it is the preemptor's turn.
pub fn shared_breaker_half_open(breaker: SharedBreakerFacts, turn: BreakerTurn) -> String {
    let reason = breaker.reason();
    let of = if breaker.of_namespace { " for preemptors of the namespace" } else { "" };
    let next = match turn {
        BreakerTurn::After(time) => format!("this preemptor is considered after {time}"),
        BreakerTurn::AfterCurrent => "this preemptor is considered after the current plan".to_owned(),
    };
    format!(
        "{reason} One plan with evictions is made at a time{of} until one completes: {next}, and capacity that becomes free is used at once."
    )
}

/// Message of a plan that was cancelled before its first eviction, because the circuit breaker of the namespace or the cluster has opened.
pub fn plan_stopped_by_breaker(breaker: SharedBreakerFacts) -> String {
    format!("No pod was evicted for this plan: {}", breaker.reason())
}

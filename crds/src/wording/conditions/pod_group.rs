//! Conditions of a PodGroup: `Scheduled`, `PodGroupInitiallyScheduled`, `PodsNotMatchingPriority`, and the end of `DisruptionTarget`.

use crate::condition::PENDING_AGAIN;
use crate::object_key::ObjectKey;
use crate::plan::StoredDomain;
use crate::wording::{agree, counted, pods};

/// Returns the phrase about a topology domain as in "16 pods fit in rack=r3", with a space before it; empty for `None`.
pub(in crate::wording) fn within(domain: Option<&StoredDomain>) -> String {
    domain.map(|domain| format!(" in {domain}")).unwrap_or_default()
}

/// The bound members of a PodGroup.
#[derive(Clone, Copy, Debug)]
pub struct BoundMembers<'a> {
    /// Number of bound members.
    pub bound: usize,
    /// How many of them are ready.
    pub ready: usize,
    /// Number of members that have finished.
    pub finished: usize,
    /// Number of members that the PodGroup needs.
    pub needed: usize,
    /// The topology domain of their nodes, if all of them are in one.
    pub domain: Option<&'a StoredDomain>,
}

/// Message of `Scheduled`: how many members are bound. While enough are bound, or none of the others is pending for a reason that is known.
pub fn bound(members: BoundMembers<'_>) -> String {
    let BoundMembers { bound, ready, finished, needed, domain } = members;
    let have = counted(bound, "pod has", "pods have");
    let unready = match ready {
        ready if ready == bound => String::new(),
        _ if bound == 1 => " It is not ready.".to_owned(),
        ready => format!(" {} ready.", counted(ready, "of them is", "of them are")),
    };
    format!("{have} a node{}{}, {needed} needed.{unready}", within(domain), having_finished(finished))
}

/// The members of a PodGroup that exist and count.
#[derive(Clone, Copy, Debug)]
pub struct ExistingMembers {
    /// Number of members that the PodGroup needs.
    pub needed: usize,
    /// Number of members that exist and count.
    pub live: usize,
    /// Number of members that have finished, and count as scheduled.
    pub finished: usize,
    /// Number of pending members that do not count, because their priority is below the group's.
    pub below: usize,
    /// Number of members that do not count yet, because of another controller's scheduling gate.
    pub gated: usize,
}

/// Message of `Scheduled=False`, reason `WaitingForPods`: fewer members exist than the PodGroup needs, and nothing was decided for it yet.
pub fn members_missing(members: ExistingMembers) -> String {
    format!("{}.", existing(members))
}

/// Message of `Scheduled=False`, reason `WaitingForPods`: the planner found fewer members of a gang than it needs.
pub fn gang_incomplete(members: ExistingMembers) -> String {
    let all = match members.needed.saturating_sub(members.finished) {
        1 => "the needed one fits".to_owned(),
        needed => format!("all {needed} fit"),
    };
    format!("{}. None starts before {all}.", existing(members))
}

/// Returns the sentence that says how many of the needed members exist, have finished, are below the group's priority, or are gated.
fn existing(ExistingMembers { needed, live, finished, below, gated }: ExistingMembers) -> String {
    let below = match below {
        0 => String::new(),
        n => format!(
            "; {} priority is below the group's",
            counted(n, "more does not count because its", "more do not count because their")
        ),
    };
    let (one, more) = (
        "more does not count because it has a scheduling gate",
        "more do not count because they have scheduling gates",
    );
    let gated = match gated {
        0 => String::new(),
        n => format!("; {} of another component", counted(n, one, more)),
    };
    let exist = counted(live, "exists", "exist");
    format!("{} needed{}, {exist}{below}{gated}", pods(needed), having_finished(finished))
}

/// Returns the clause that says how many members have finished; empty for 0.
fn having_finished(finished: usize) -> String {
    match finished {
        0 => String::new(),
        n => format!(", {} finished", counted(n, "has", "have")),
    }
}

/// Message of `PodGroupInitiallyScheduled=True` while fewer members are bound than the PodGroup needs, and nothing was decided for the
/// others. `now` is the message of `Scheduled`.
pub fn was_scheduled(now: &str) -> String {
    format!("The PodGroup was scheduled before. Now {now}")
}

/// Message of `PodGroupInitiallyScheduled=True` while the PodGroup is pending again. `why` is the message of `Scheduled`.
pub fn pending_again(why: &str) -> String {
    format!("{PENDING_AGAIN} {why}")
}

/// Message of `Scheduled=False`, reason `SchedulerError`: the PodGroup cannot be used, for example because its priority class does not
/// exist.
pub fn unusable(problem: &str) -> String {
    format!("The group cannot be scheduled: {problem}")
}

/// What a pod of a PodGroup with a topology key requires or shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DomainClaim<'a> {
    /// It is pending and asks for this value in its node selector.
    AsksFor(&'a str),
    /// It is on a node with this value.
    IsIn(&'a str),
    /// It is on this node, which has no such label.
    OnUnlabelledNode(&'a str),
}

/// Sentence added to `Scheduled` and `Unschedulable`: the pods of a PodGroup can never be within one topology domain. `claims` has one pod
/// for each domain, by name; `more` is the number of further domains, which are not named.
pub fn no_common_domain(key: &str, claims: &[(&str, DomainClaim<'_>)], more: usize) -> String {
    let claim = |(pod, claim): &(&str, DomainClaim<'_>)| match claim {
        DomainClaim::AsksFor(value) => format!("pod {pod} asks for {value} in its nodeSelector"),
        DomainClaim::IsIn(value) => format!("pod {pod} is in {value}"),
        DomainClaim::OnUnlabelledNode(node) => format!("pod {pod} is on node {node}, which has no such label"),
    };
    let mut named: Vec<String> = claims.iter().map(claim).collect();
    if more > 0 {
        named.push(format!("other pods are in or ask for {more} more"));
    }
    format!("The pods of the group cannot all be on nodes with one value of label {key}: {}.", named.join(", "))
}

/// Members whose priority differs from the group's.
#[derive(Clone, Copy, Debug)]
pub struct OtherPriority {
    /// Their number.
    pub count: usize,
    /// Their lowest priority.
    pub low: i32,
    /// Their highest priority.
    pub high: i32,
    /// The priority of the group.
    pub asked: i32,
}

impl OtherPriority {
    /// Returns the priority of these members as text, or the lowest and the highest one if they differ.
    fn range(&self) -> String {
        let Self { low, high, .. } = self;
        if low == high { format!("{low}") } else { format!("{low} to {high}") }
    }
}

/// Message of `PodsNotMatchingPriority=True`: pending members are below the group's priority. `remedy` is what a user can do, as the rules
/// of [priority](crate::lending) say it.
pub fn pending_below_priority(members: OtherPriority, remedy: &str) -> String {
    let are = counted(members.count, "pod is", "pods are");
    let (range, asked) = (members.range(), members.asked);
    format!(
        "{are} never ungated and not counted: priority {range} is below the group's, {asked}, and a PodGroup does not raise the priority of its pods. To start, {remedy}."
    )
}

/// Message of `PodsNotMatchingPriority=True`: bound members are below the group's priority.
pub fn bound_below_priority(members: OtherPriority) -> String {
    let run = counted(members.count, "pod runs", "pods run");
    let (range, asked) = (members.range(), members.asked);
    format!("{run} with priority {range}, below the group's, {asked}; the lower priority counts for preemption.")
}

/// Message of `PodsNotMatchingPriority=True`: members have a higher priority than the group, whose priority counts for them.
pub fn above_priority(members: OtherPriority) -> String {
    let have = counted(members.count, "pod has", "pods have");
    let (range, asked) = (members.range(), members.asked);
    format!("{have} priority {range}; the group's priority {asked} counts instead.")
}

/// Message of `PodsNotMatchingPriority=False`: the priorities of all members are the group's again.
pub fn priorities_match() -> &'static str {
    "All pods have the group's priority."
}

/// Message of `DisruptionTarget=False`, reason `WaitingForPods`: the pods of a partially scheduled gang have terminated.
pub fn replacements_start_together() -> &'static str {
    "All ungated pods of the gang were evicted. The pods that replace them start together."
}

/// Message of `DisruptionTarget=False`, reason `Scheduled`: enough members are bound after a disruption.
pub fn bound_again(bound: usize) -> String {
    format!("{} bound again.", counted(bound, "pod is", "pods are"))
}

/// Sentence added to `Scheduled=False`, reason `WaitingForPods`: the only member is the driver of a Spark application.
pub fn spark_driver_is_member(pod: &str) -> String {
    format!(
        "Pod {pod} is the driver of a Spark application, which creates its executors after it has started: give the executors a PodGroup of their own."
    )
}

/// Sentence added to `Scheduled=False`, reason `WaitingForPods`: some members were created, and no other one since.
pub fn no_further_member_created() -> &'static str {
    "No other pod has been created for a minute, and no failure is reported. If the other pods are created only after one of these has started, they cannot be members of the same gang: lower minCount."
}

/// Sentence added to `Scheduled=False`, reason `WaitingForPods`, and an event on the PodGroup: the controller could not create a member.
/// `message` is the controller's.
pub fn member_not_created(controller: &str, message: &str) -> String {
    format!("{controller} could not create a pod: {message}")
}

/// Message of `Scheduled=False`, reason `WaitingForPods`: the pods of a PodGroup belong to a newer Job than itself.
pub fn pods_of_newer_job() -> &'static str {
    "The pods belong to a newer Job than this PodGroup. They get a PodGroup of their own when the last pod of the earlier Job has terminated."
}

/// Message of `Scheduled=False`, reason `WaitingForPods`: replacement pods wait until `running` pods of their PodGroup, which is disrupted
/// as a whole, are terminating.
pub fn replacements_wait(running: usize) -> String {
    format!(
        "All pods of the PodGroup are evicted, and {} not terminating yet. Replacement pods stay gated until all of them terminate, for at most 1m.",
        counted(running, "pod is", "pods are")
    )
}

/// Message of `Scheduled=False`, reason `WaitingForPods`: a PodGroup may be the successor of another one, whose pods still run.
pub fn predecessor_may_be_deleted(predecessor: &ObjectKey) -> String {
    format!(
        "The owner of PodGroup {predecessor} has the same controller as the owner of this one, and may be deleted: scheduling waits for at most 10s until the pods of PodGroup {predecessor} terminate."
    )
}

/// Returns what a sentence says for this number of pods mentioned before: `1` for one pod, otherwise `them`.
pub(super) fn them(count: usize) -> &'static str {
    agree(count, "1", "them")
}

//! Why a PodGroup is pending while a plan is in flight for it: condition `Scheduled=False`.

use super::pod_group::{them, within};
use crate::plan::StoredDomain;
use crate::wording::{Sentence, agree, counted, part_of, pods};
use k8s_openapi::jiff::Timestamp;

/// Ungated members of a plan.
#[derive(Clone, Copy, Debug)]
pub struct UngatedMembers<'a> {
    /// Number of members that the plan places.
    pub placed: usize,
    /// How many of them are bound.
    pub bound: usize,
    /// Number of other bound members of the PodGroup, which an earlier plan placed.
    pub others: usize,
    /// The topology domain of the plan.
    pub domain: Option<&'a StoredDomain>,
}

impl UngatedMembers<'_> {
    /// Returns subject and verb of a sentence: how many members were ungated, and for which topology domain.
    fn were_ungated(&self) -> String {
        format!("{} ungated{}", counted(self.placed, "pod was", "pods were"), within(self.domain))
    }

    /// Returns the sentence that says how many other members of the group are bound already; empty if there are none.
    fn others(&self) -> String {
        match self.others {
            0 => String::new(),
            others => {
                format!(" {} bound.", counted(others, "other pod of the group is", "other pods of the group are"))
            }
        }
    }
}

/// Message of the condition with reason `Ungating`: the members were ungated, and kube-scheduler binds them.
pub fn ungated(members: UngatedMembers<'_>) -> String {
    let UngatedMembers { placed, bound, .. } = members;
    let (were, them, others) = (members.were_ungated(), them(placed), members.others());
    format!("{were}, kube-scheduler has bound {bound} of {them}.{others}")
}

/// Message of the condition with reason `SchedulerError`: all members were ungated, and kube-scheduler could not bind one of them.
/// [`scheduler_says`] follows.
pub fn ungated_not_bound(members: UngatedMembers<'_>) -> String {
    let (were, are, others) = (members.were_ungated(), counted(members.bound, "is", "are"), members.others());
    format!("{were}, {are} bound.{others}")
}

/// Message of the condition with reason `SchedulerError`: what kube-scheduler says about a member.
pub fn scheduler_says(said: &str) -> String {
    format!("kube-scheduler says: {said}")
}

/// Sentence added to the message of a plan in flight while the plan waits for kube-scheduler, which is down.
pub fn scheduler_is_down() -> &'static str {
    "The plan waits for at most ten minutes for kube-scheduler, which does not renew its Lease and may be down."
}

/// Sentence added to the message of a plan in flight while the plan waits for kube-scheduler, which has made no decision.
pub fn scheduler_is_idle() -> &'static str {
    "The plan waits for at most ten minutes for kube-scheduler, which has decided about no pod since the pods were ungated."
}

/// Sentence added to the message of a plan in flight while victims of other plans terminate on the same nodes.
pub fn nodes_are_crowded() -> &'static str {
    "The plan waits for at most ten minutes until pods have terminated that other plans evict from the same nodes. Until then kube-scheduler has capacity for only some of the nominated pods."
}

/// Sentence added to the message of a plan in flight while the plan waits for kube-scheduler, which binds this number of other pods per
/// minute.
pub fn scheduler_is_busy(bindings_per_minute: u64) -> String {
    format!("The plan waits for kube-scheduler, which binds {} per minute.", pods(bindings_per_minute))
}

/// Message of the condition with reason `WaitingForPreemption`: `placed` members will fit when all `victims` have terminated, of which
/// `removed` have already. `victims` is not 0.
pub fn victims_terminate(placed: usize, domain: Option<&StoredDomain>, removed: usize, victims: usize) -> String {
    format!(
        "{} for capacity{}: {} terminated. {} when {} terminated.",
        counted(placed, "pod waits", "pods wait"),
        within(domain),
        part_of(removed, victims, ("victim", "victims"), ("has", "have")),
        agree(placed, "The pod starts", "The pods start together"),
        agree(victims, "the victim has", "all victims have")
    )
}

/// Sentence added to the message of a plan in flight while the members fit only after the evictions of another plan.
pub fn depends_on_another_plan() -> &'static str {
    "The evictions of this plan begin when the dry run of another plan has succeeded, because the pods fit only after the evictions of that plan."
}

/// Message of the condition with reason `Ungating`: `placed` members fit without an eviction, and get a nomination.
pub fn capacity_reserved(placed: usize, domain: Option<&StoredDomain>) -> String {
    format!("Capacity{} for {} is being reserved. No pod is evicted.", within(domain), pods(placed))
}

/// Message of the condition with reason `WaitingForTermination`: `placed` members fit when `leaving` pods have terminated that no plan
/// evicts. `leaving` is not 0.
pub fn fits_after_termination(placed: usize, domain: Option<&StoredDomain>, leaving: usize) -> String {
    format!(
        "{}{} once {} been deleted. No pod is evicted.",
        counted(placed, "pod fits", "pods fit"),
        within(domain),
        counted(leaving, "pod that already terminates has", "pods that already terminate have")
    )
}

/// Sentence added to the message of a plan (or of the eviction of a PodGroup's pods without a preemptor) that cannot be stored at present.
/// `why` has the words of the component that rejected the last write.
pub fn not_stored(why: &str) -> String {
    format!("No pod is evicted until the Preemption can be stored, which the operator retries. The last answer: {why}")
}

/// Message of the condition with reason `EvictionsLimited`, and an event: the limit of `most` evictions per minute is reached, in a
/// namespace or in the cluster (`None`), until `at`. Readers of other namespaces do not see the name of the namespace.
pub fn limit_reached(namespace: Option<&str>, most: u32, at: Timestamp) -> Sentence {
    let begin = Sentence::from("Evictions in ");
    let sentence = match namespace {
        Some(namespace) => begin.detail(namespace, format!("namespace {namespace}"), "a namespace of the victims"),
        None => begin.text("the cluster"),
    };
    sentence.text(format!(" are limited to {most} a minute; more are allowed at {at}."))
}

//! The message of a plan while it is in flight or only observed: conditions `Preempting`, events on the preemptor, and `Preemption`s.

use super::pod_group::within;
use crate::object_key::ObjectKey;
use crate::plan::{PlanState, StoredDomain};
use crate::wording::{Sentence, agree, counted, pods};

/// The preemptor of a plan, as sentences name it.
#[derive(Clone, Copy, Debug)]
pub struct NamedPreemptor<'a> {
    /// True for a PodGroup, false for a single pod.
    pub is_group: bool,
    /// Its namespace and name.
    pub key: &'a ObjectKey,
    /// Its UID, which readers of other namespaces see.
    pub uid: &'a str,
}

impl NamedPreemptor<'_> {
    /// Returns what messages call this kind of preemptor: `pod group` or `pod`.
    pub(in crate::wording) fn kind(self) -> &'static str {
        if self.is_group { "pod group" } else { "pod" }
    }

    /// Appends the preemptor, as kind and name, to a sentence.
    pub(in crate::wording) fn after(self, sentence: Sentence) -> Sentence {
        sentence.object(self.kind(), self.key, self.uid)
    }
}

/// How a plan frees a node for a critical add-on.
#[derive(Clone, Copy, Debug)]
pub struct AddonStep<'a> {
    /// The node.
    pub node: &'a str,
    /// The effect of the step on evicted pods, as the planner says it.
    pub means: &'a str,
}

/// The effect of a plan with evictions.
#[derive(Clone, Copy, Debug)]
pub struct PlanEffect<'a> {
    /// The state of the plan.
    pub state: PlanState,
    /// The preemptor.
    pub preemptor: NamedPreemptor<'a>,
    /// Its priority.
    pub priority: i32,
    /// Number of pods that the plan places.
    pub members: usize,
    /// The topology domain of the plan.
    pub domain: Option<&'a StoredDomain>,
    /// Set if the preemptor is a critical add-on.
    pub addon: Option<AddonStep<'a>>,
    /// Number of victims.
    pub victims: usize,
    /// Number of victims whose eviction was accepted.
    pub accepted: usize,
    /// Number of PodGroups that are disrupted as a whole.
    pub whole_groups: usize,
    /// The highest priority of a victim.
    pub highest_priority: i32,
    /// Number of evictions that violate a budget.
    pub violations: i32,
    /// The least number of victims that any plan has, if it is known.
    pub least: Option<usize>,
}

impl PlanEffect<'_> {
    /// Returns the clause that says how many whole PodGroups are among the victims of the plan; empty if none is.
    fn among_them(&self) -> String {
        match (self.whole_groups, self.victims) {
            (0, _) => String::new(),
            (_, 1) => ", a whole pod group,".to_owned(),
            (groups, _) => format!(", among them {},", counted(groups, "whole pod group", "whole pod groups")),
        }
    }

    /// Returns the sentence that says how many evictions of the plan violate a budget; `singular` and `plural` are its verb and object.
    /// Empty if none does.
    fn violations(&self, singular: &str, plural: &str) -> String {
        match self.violations {
            0 => String::new(),
            count => format!(" {} {}.", counted(count, "eviction", "evictions"), agree(count, singular, plural)),
        }
    }

    /// Returns the sentence that says how many pods any plan has to evict at least; empty if this plan evicts no more, or has ended.
    fn least_victims(&self) -> String {
        let is_open = self.state.in_flight() || self.state == PlanState::Observed;
        match self.least.filter(|least| is_open && *least < self.victims) {
            Some(least) => format!(" At least {} of that priority must be evicted.", pods(least)),
            None => String::new(),
        }
    }

    /// Returns the clause that says how many pods the plan would evict for how many pods, if it were carried out. It contains no names.
    fn would_evict(&self) -> String {
        let (victims, of) = (pods(self.victims), self.among_them());
        let violations = self.violations("would violate a budget", "would violate budgets");
        if self.addon.is_some() {
            return format!("it would evict {victims}{of} for this critical add-on.{violations}");
        }
        let members = if self.preemptor.is_group { pods(self.members) } else { "this pod".to_owned() };
        let (highest, within) = (self.highest_priority, within(self.domain));
        format!("it would evict {victims}{of} of priority {highest} or less for {members}{within}.{violations}")
    }
}

/// Message of a stored plan: how many pods it evicts for which preemptor. It is in the past tense for a plan that has ended, with the
/// number of pods that were evicted, and in the conditional for a plan that is not carried out.
pub fn planned(plan: PlanEffect<'_>) -> Sentence {
    let (count, are, violate) = match plan.state {
        PlanState::Observed => {
            (plan.victims, ("would be", "would be"), ("would violate a budget", "would violate budgets"))
        }
        state if state.in_flight() => (plan.victims, ("is", "are"), ("violates a budget", "violate budgets")),
        _ => (plan.accepted, ("was", "were"), ("violated a budget", "violated budgets")),
    };
    let (victims, of, violations) = match count == plan.victims {
        true => (pods(plan.victims), plan.among_them(), plan.violations(violate.0, violate.1)),
        false => (format!("{count} of {}", pods(plan.victims)), String::new(), String::new()),
    };
    let (are, priority) = (agree(count, are.0, are.1), plan.priority);
    if let Some(AddonStep { node, means }) = plan.addon {
        let begin = plan.preemptor.after(format!("{victims} {are} evicted to free node {node} for ").into());
        return begin.text(format!(", a critical add-on with priority {priority}: {means}.{violations}"));
    }
    let members = if plan.preemptor.is_group { format!("{} of ", pods(plan.members)) } else { String::new() };
    let (highest, within) = (plan.highest_priority, within(plan.domain));
    let begin = format!("{victims}{of} of priority {highest} or less {are} evicted for {members}");
    let end = format!(" with priority {priority}{within}.{}{violations}", plan.least_victims());
    plan.preemptor.after(begin.into()).text(end)
}

/// Message of the `Preemption` and of the condition `Preempting` for a plan that is stored but not carried out. `restraint`, the beginning
/// of the message, says why no pod is evicted.
pub fn observed(restraint: &str, plan: PlanEffect<'_>) -> Sentence {
    Sentence::from(format!("{restraint}. What would be done: ")).then(planned(plan))
}

/// Message of `Scheduled=False`, reasons `Observing` and `EvictionsLimited`: the preemptor needs evictions that are switched off.
/// `restraint` says why.
pub fn would_evict(restraint: &str, plan: PlanEffect<'_>) -> String {
    format!("{restraint}: {}", plan.would_evict())
}

/// Message of an event on a critical add-on: a plan would free `node` for it, but evictions are switched off. `restraint` says why.
pub fn would_free_node(restraint: &str, plan: PlanEffect<'_>, node: &str) -> String {
    format!("{restraint}: {} Node {node} would be freed.", plan.would_evict())
}

/// Sentence added to the message of a pending preemptor while Giveway observes and has stored as many plans in a minute as it may
/// (`most_per_minute`).
pub fn observed_plan_not_stored(most_per_minute: usize) -> String {
    format!(
        "No Preemption is stored for this plan yet: Giveway stores at most {most_per_minute} per minute while it observes."
    )
}

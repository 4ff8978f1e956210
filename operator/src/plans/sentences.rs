//! Texts about a plan: what it does, the name of its preemptor, and the message for its victims.

use super::{AddonRescue, Flight};
use crate::speaker::words::{Sentence, agree, counted, pods};
use giveway_crds::critical::LONGEST_GRACE;
use giveway_crds::plan::{PlanState, StoredDomain};
use giveway_crds::pod_group::PreemptorReference;
use giveway_planner::Preemptor;
use giveway_planner::model::MAX_GRACEFUL_TERMINATION;

/// Returns the name of the preemptor for use within a sentence.
pub fn describe(flight: &Flight) -> Sentence {
    let kind = if matches!(flight.preemptor, Preemptor::Group(_)) { "pod group" } else { "pod" };
    Sentence::default().object(kind, flight.preemptor.key(), &flight.plan.preemptor.uid)
}

/// Returns the message for a victim. `kind` is the kind of its unit; `shortened` is its own grace period in seconds if
/// the eviction shortened it.
pub fn victim_message(flight: &Flight, kind: &str, priority: i32, shortened: Option<i64>) -> Sentence {
    let kind = if kind == "PodGroup" { "group" } else { "pod" };
    let subject = Sentence::from("Preempted by ").then(describe(flight));
    let longest = if flight.rescue.is_some() { LONGEST_GRACE } else { MAX_GRACEFUL_TERMINATION };
    let grace = shortened
        .map(|grace| format!(" Its grace period of {grace} s is shortened to {longest} s."))
        .unwrap_or_default();
    if flight.rescue.is_none() {
        return subject.text(format!(
            " of priority {}, which needs its capacity; the priority of this {kind} is {priority}.{grace}",
            flight.priority
        ));
    }
    subject.text(format!(" of priority {}, a critical add-on that needs its capacity.{grace}", flight.own_priority()))
}

/// Returns the reference to the preemptor for the statuses of its victims.
pub fn preemptor_reference(flight: &Flight) -> PreemptorReference {
    let kind = if matches!(flight.preemptor, Preemptor::Group(_)) { "PodGroup" } else { "Pod" };
    let key = flight.preemptor.key();
    PreemptorReference {
        kind: kind.to_owned(),
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
        uid: Some(flight.plan.preemptor.uid.clone()),
    }
}

/// Returns the domain as in "16 pods fit in rack=r3", or an empty string if there is none.
pub fn within(domain: Option<&StoredDomain>) -> String {
    domain.map(|domain| format!(" in {domain}")).unwrap_or_default()
}

/// Returns the effect of a plan that is not carried out, as a clause without names.
pub fn would_evict(flight: &Flight) -> String {
    let (victims, of) = (pods(flight.victims.len()), among_them(flight));
    let violations = violations(flight, "would violate a budget", "would violate budgets");
    if flight.rescue.is_some() {
        return format!("it would evict {victims}{of} for this critical add-on.{violations}");
    }
    let members = match flight.preemptor {
        Preemptor::Group(_) => pods(flight.members.len()),
        Preemptor::Pod(_) => "this pod".to_owned(),
    };
    let (highest, within) = (highest_priority(flight), within(flight.plan.domain.as_ref()));
    format!("it would evict {victims}{of} of priority {highest} or less for {members}{within}.{violations}")
}

/// Returns the sentence that summarizes a plan: which pods it evicts for which preemptor. It is in the past for a plan that has ended, with
/// the number of pods that were evicted, and in the conditional for a plan that is not carried out.
pub fn plan_message(flight: &Flight) -> Sentence {
    let all = flight.victims.len();
    let accepted = flight.victims.iter().filter(|victim| victim.accepted).count();
    let (count, are, violate) = match flight.plan.state {
        PlanState::Observed => (all, ("would be", "would be"), ("would violate a budget", "would violate budgets")),
        state if state.in_flight() => (all, ("is", "are"), ("violates a budget", "violate budgets")),
        _ => (accepted, ("was", "were"), ("violated a budget", "violated budgets")),
    };
    let (victims, of, violations) = match count == all {
        true => (pods(all), among_them(flight), violations(flight, violate.0, violate.1)),
        false => (format!("{count} of {}", pods(all)), String::new(), String::new()),
    };
    let are = agree(count, are.0, are.1);
    if let Some(rescue) = &flight.rescue {
        let begin = Sentence::from(format!("{victims} {are} evicted for critical add-on "));
        return begin.then(describe(flight)).text(format!("{}{violations}", step(flight, rescue)));
    }
    let members = match flight.preemptor {
        Preemptor::Group(_) => format!("{} of ", pods(flight.members.len())),
        Preemptor::Pod(_) => String::new(),
    };
    let (highest, within) = (highest_priority(flight), within(flight.plan.domain.as_ref()));
    Sentence::from(format!("{victims}{of} of priority {highest} or less {are} evicted for {members}"))
        .then(describe(flight))
        .text(format!(" with priority {}{within}.{}{violations}", flight.priority, necessary(flight)))
}

/// Returns the sentence with the least number of victims, if it is known, lower than that of the plan, and the plan has not ended.
fn necessary(flight: &Flight) -> String {
    let (plan, all) = (&flight.plan, flight.victims.len());
    let least = plan.cost.least_victim_pods.and_then(|least| usize::try_from(least).ok());
    let is_open = plan.state.in_flight() || plan.state == PlanState::Observed;
    match least.filter(|least| is_open && *least < all) {
        Some(least) => format!(" At least {} of that priority must be evicted.", pods(least)),
        None => String::new(),
    }
}

fn highest_priority(flight: &Flight) -> i32 {
    flight.plan.cost.highest_victim_priority.unwrap_or_default()
}

/// Returns the end of the sentence about a plan for a critical add-on: its node, and how disruptive the evictions are.
fn step(flight: &Flight, rescue: &AddonRescue) -> String {
    let node = flight.members.first().map_or("", |member| &member.node);
    let (priority, step, means) = (flight.own_priority(), rescue.step.number(), rescue.step.means());
    format!(" with priority {priority} on node {node} (step {step}): {means}.")
}

/// Returns the clause for the victims that are whole PodGroups.
fn among_them(flight: &Flight) -> String {
    let groups = flight.plan.victims.iter().filter(|v| v.kind == "PodGroup").count();
    match (groups, flight.victims.len()) {
        (0, _) => String::new(),
        (_, 1) => ", a whole pod group,".to_owned(),
        _ => format!(", among them {},", counted(groups, "whole pod group", "whole pod groups")),
    }
}

/// Returns a sentence with the number of evictions that violate a budget.
fn violations(flight: &Flight, one: &str, more: &str) -> String {
    match flight.plan.cost.budget_violations {
        0 => String::new(),
        count => format!(" {} {}.", counted(count, "eviction", "evictions"), agree(count, one, more)),
    }
}

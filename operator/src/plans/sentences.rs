//! Plans as the catalogue of sentences needs them.

use super::Flight;
use giveway_crds::critical::LONGEST_GRACE;
use giveway_crds::pod_group::PreemptorReference;
use giveway_crds::wording::Sentence;
use giveway_crds::wording::conditions::disruption::{self, ShortenedGrace};
use giveway_crds::wording::conditions::plan::{self, AddonStep, NamedPreemptor, PlanEffect};
use giveway_planner::Preemptor;
use giveway_planner::model::MAX_GRACEFUL_TERMINATION;

/// Returns the preemptor of a plan in the form in which sentences name it.
pub fn named_preemptor(flight: &Flight) -> NamedPreemptor<'_> {
    let is_group = matches!(flight.preemptor, Preemptor::Group(_));
    NamedPreemptor { is_group, key: flight.preemptor.key(), uid: &flight.plan.preemptor.uid }
}

/// Returns the message for a victim pod. `kind` and `priority` are those of its unit of eviction, `Pod` or `PodGroup`; `shortened` is the
/// pod's own grace period in seconds if the eviction shortened it.
pub fn victim_message(flight: &Flight, kind: &str, priority: i32, shortened: Option<i64>) -> Sentence {
    let longest = if flight.rescue.is_some() { LONGEST_GRACE } else { MAX_GRACEFUL_TERMINATION };
    let grace = shortened.map(|own| ShortenedGrace { own, longest });
    match flight.rescue {
        Some(_) => disruption::preempted_by_addon(named_preemptor(flight), flight.own_priority(), grace),
        None => disruption::preempted(named_preemptor(flight), flight.priority, kind == "PodGroup", priority, grace),
    }
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

/// Returns the numbers and names that sentences about a plan contain: its preemptor, its victims and how many evictions were accepted.
pub fn effect(flight: &Flight) -> PlanEffect<'_> {
    let (plan, cost) = (&flight.plan, &flight.plan.cost);
    let addon = flight.rescue.as_ref().map(|rescue| AddonStep {
        node: flight.members.first().map_or("", |member| &member.node),
        means: rescue.step.means(),
    });
    PlanEffect {
        state: plan.state,
        preemptor: named_preemptor(flight),
        priority: flight.own_priority(),
        members: flight.members.len(),
        domain: plan.domain.as_ref(),
        addon,
        victims: flight.victims.len(),
        accepted: flight.victims.iter().filter(|victim| victim.accepted).count(),
        whole_groups: plan.victims.iter().filter(|unit| unit.kind == "PodGroup").count(),
        highest_priority: cost.highest_victim_priority.unwrap_or_default(),
        violations: cost.budget_violations,
        least: cost.least_victim_pods.and_then(|least| usize::try_from(least).ok()),
    }
}

/// Returns the sentence that summarizes a plan: which pods it evicts for which preemptor.
pub fn plan_message(flight: &Flight) -> Sentence {
    plan::planned(effect(flight))
}

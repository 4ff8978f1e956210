//! Turns the result of a search into a plan with its explanation.

use super::verify::verify;
use crate::api::{Decision, Plan, Shortfall, Victim, VictimPod};
use crate::filters::{Occupancy, Rank};
use crate::limits::VICTIMS_READ_AHEAD;
use crate::model::{ObjectKey, PodIndex, Unit, UnitKind};
use crate::problem::{Problem, UnitIndex, placements};
use crate::search::Found;
use giveway_crds::wording::pods;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the decision for a search result, after it is [verified](super::verify): the plan with its explanation, or that no pod is
/// evicted because verification failed. `occupancy` contains neither the evictions nor the placements of the result.
pub(super) fn decision(problem: &Problem<'_>, occupancy: Occupancy<'_>, found: Found) -> Decision {
    match verified(problem, occupancy, found) {
        Ok(plan) => Decision::Preempt(Box::new(plan)),
        Err(flaw) => Decision::Unschedulable(Shortfall::flawed(problem.demand.need, problem.demand.priority, flaw)),
    }
}

/// Returns the plan for a search result, with its explanation, if verification finds it correct. `occupancy` contains neither the evictions
/// nor the placements of the result.
///
/// # Errors
/// What is wrong with the result of the search, as a sentence.
pub(super) fn verified(problem: &Problem<'_>, occupancy: Occupancy<'_>, found: Found) -> Result<Plan, String> {
    verify(problem, &occupancy, &found)?;
    Ok(assemble(problem, occupancy, found))
}

/// Returns the plan for a search result, with its explanation; it is not verified here. `occupancy` contains neither the evictions nor the
/// placements of the result.
pub(super) fn assemble(problem: &Problem<'_>, mut occupancy: Occupancy<'_>, found: Found) -> Plan {
    let Found { placed, victims, cost, trace, least } = found;
    if !problem.leaving.is_empty() {
        victims.iter().for_each(|unit| occupancy.take(&problem.potential.units[*unit].pods));
        placed.iter().for_each(|(pod, rank)| occupancy.add(*pod, *rank));
    }
    let pods = victims.iter().flat_map(|unit| problem.potential.units[*unit].pods.iter().copied());
    let violating: BTreeSet<PodIndex> = problem.budgets.violating(problem.cluster, pods).into_iter().collect();
    let ranks: BTreeSet<Rank> = placed.iter().map(|(_, rank)| *rank).collect();
    let mut reasons = BTreeMap::new();
    let mut list = Vec::with_capacity(victims.len());
    for some in victims.chunks(VICTIMS_READ_AHEAD) {
        prefetch_uids(problem, some);
        list.extend(some.iter().map(|unit| victim_entry(problem, *unit, &ranks, &violating, &mut reasons)));
    }
    let not_modeled = placed.iter().filter_map(|(index, _)| problem.cluster.pod_at(*index));
    let not_modeled: BTreeSet<String> = not_modeled.flat_map(|pod| problem.cluster.not_modeled(pod)).collect();
    Plan {
        strategy: problem.context.strategy.as_str(),
        domain: None,
        placements: placements(problem.cluster, problem.nodes, &placed),
        victims: list,
        awaited: awaited(problem, &mut occupancy, &placed, &ranks),
        cost,
        least,
        trace,
        not_modeled: not_modeled.into_iter().collect(),
    }
}

/// Reads the UIDs of the pods of these units (single pods or whole groups) in advance and discards them, so that the processor waits for
/// many memory accesses at the same time. That saves a fifth of the time to write a plan with tens of thousands of victims.
fn prefetch_uids(problem: &Problem<'_>, units: &[UnitIndex]) {
    let pods = units.iter().flat_map(|unit| problem.potential.units[*unit].pods.iter());
    let bytes = pods.filter_map(|pod| problem.cluster.pod_at(*pod)?.uid.bytes().next());
    std::hint::black_box(bytes.fold(0, |seen, byte| seen ^ byte));
}

/// Returns the keys of the leaving pods that must terminate before the members in `placed` fit, sorted; `ranks` are the nodes of the
/// members. In `occupancy`, the members are placed and no leaving pod is present; those beside which the members fit are added to it.
fn awaited(
    problem: &Problem<'_>,
    occupancy: &mut Occupancy<'_>,
    placed: &[(PodIndex, Rank)],
    ranks: &BTreeSet<Rank>,
) -> Vec<ObjectKey> {
    let (mut list, anywhere) = (Vec::new(), occupancy.has_inter_pod_constraints());
    let watched = occupancy.anti_affinity_counters(placed);
    let mut placed_on: BTreeMap<Rank, Vec<(PodIndex, Rank)>> = BTreeMap::new();
    placed.iter().for_each(|place| placed_on.entry(place.1).or_default().push(*place));
    for (index, rank) in problem.leaving.iter().filter(|(_, rank)| anywhere || ranks.contains(rank)) {
        occupancy.add(*index, *rank);
        let holds = placed_on.get(rank).is_none_or(|here| occupancy.holds_here(here, |_| true))
            && occupancy.leave_in_place(&[*index], &watched).unwrap_or_else(|| occupancy.holds_around(placed));
        if !holds {
            occupancy.remove(*index, *rank);
            list.extend(problem.cluster.pod_at(*index).map(|pod| pod.key.clone()));
        }
    }
    list.sort();
    list
}

/// Returns the plan's entry for a victim, with the reason why it is evicted. `unit` is its index in the problem, `ranks` are the nodes of
/// the placement, `violating` the victim pods that violate a budget. `reasons` caches the reasons of single pods by priority, because many
/// pods share one.
fn victim_entry(
    problem: &Problem<'_>,
    unit: usize,
    ranks: &BTreeSet<Rank>,
    violating: &BTreeSet<PodIndex>,
    reasons: &mut BTreeMap<i32, SmolStr>,
) -> Victim {
    let (unit, preemptor) = (&problem.potential.units[unit], problem.demand.priority);
    let pod = |index: &PodIndex| {
        let pod = problem.cluster.pod_at(*index)?;
        Some(VictimPod { key: pod.key.clone(), uid: pod.uid.clone(), node: pod.node.clone()? })
    };
    let needed = |index: &&PodIndex| {
        let node = problem.cluster.node_index_of(**index).and_then(|node| problem.nodes.rank(node));
        node.is_some_and(|rank| ranks.contains(&rank))
    };
    Victim {
        kind: unit.kind,
        key: unit.key.clone(),
        priority: unit.priority,
        pods: unit.pods.iter().filter_map(pod).collect(),
        violates_budget: !violating.is_empty() && unit.pods.iter().any(|pod| violating.contains(pod)),
        why: match unit.kind {
            UnitKind::Pod => reasons.entry(unit.priority).or_insert_with(|| why(unit, preemptor, 1).into()).clone(),
            UnitKind::PodGroup => why(unit, preemptor, unit.pods.iter().filter(needed).count()).into(),
        },
    }
}

/// Returns the sentence why a unit (a single pod or a whole group) is evicted. `preemptor` is the priority of the preemptor, `needed` the
/// number of the unit's pods on nodes of the placement.
fn why(unit: &Unit, preemptor: i32, needed: usize) -> String {
    let below = format!("Its priority {} is below {preemptor}", unit.priority);
    match unit.kind {
        UnitKind::Pod => format!("{below}, and its capacity is needed."),
        UnitKind::PodGroup => format!(
            "{below}, and the capacity of {needed} of its {} is needed; all its pods are disrupted together.",
            pods(unit.pods.len())
        ),
    }
}

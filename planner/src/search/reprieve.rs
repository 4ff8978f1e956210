//! Reprieve: with the preemptor placed, potential victims are put back on their nodes if they still fit, the most important
//! first (KEP-5710, preemption algorithm; kube-scheduler's `SelectVictimsOnNode`).
//!
//! The remaining units are the victims, and each of them is needed: it was checked with all more important units put back, and putting
//! back others later can only reduce free capacity.

use crate::filters::{Occupancy, Rank, Slack};
use crate::model::PodIndex;
use crate::problem::{Problem, UnitIndex};
use std::collections::BTreeMap;

/// Returns a copy of the occupancy `room` with the `victims` evicted, which are units (single pods or whole groups), and the members in
/// `placed` on their nodes.
pub(super) fn with_plan<'a>(
    problem: &Problem<'_>,
    room: &Occupancy<'a>,
    victims: &[UnitIndex],
    placed: &[(PodIndex, Rank)],
) -> Occupancy<'a> {
    let mut room = room.clone();
    victims.iter().for_each(|unit| room.take(&problem.potential.units[*unit].pods));
    placed.iter().for_each(|(pod, rank)| room.add(*pod, *rank));
    room
}

/// Puts those of `candidates` back into the occupancy `room` beside which the placed members still fit, in the order of [`order`]. Before,
/// all candidates must be removed from `room`, and the members in `placed` must be in it. Returns the units (single pods or whole groups)
/// that are not put back, the victims, from the most to the least important.
pub(crate) fn reprieve(
    problem: &Problem<'_>,
    room: &mut Occupancy<'_>,
    placed: &[(PodIndex, Rank)],
    candidates: &[UnitIndex],
) -> Vec<UnitIndex> {
    reprieve_by(problem, room, placed, candidates, |unit| &problem.potential.units[unit].pods)
}

/// Reprieves units as [`reprieve`] does, but only those pods of a unit (a single pod or a whole group) that `pods` returns are put back;
/// only these may be removed from `room` before. Used if the other pods do not matter for the placed members.
pub(crate) fn reprieve_by<'l>(
    problem: &Problem<'_>,
    room: &mut Occupancy<'_>,
    placed: &[(PodIndex, Rank)],
    candidates: &[UnitIndex],
    pods: impl Fn(UnitIndex) -> &'l [PodIndex],
) -> Vec<UnitIndex> {
    let potential = &problem.potential;
    let mut victims = Vec::new();
    let watched = room.anti_affinity_counters(placed);
    // A unit can only displace members on its own nodes, unless inter-pod constraints refer to its pods.
    let mut placed_on: BTreeMap<Rank, Vec<(PodIndex, Rank)>> = BTreeMap::new();
    for place in placed {
        placed_on.entry(place.1).or_default().push(*place);
    }
    let mut slack = None;
    for number in order(problem, candidates) {
        let pods = pods(number);
        room.put(pods);
        let mut touched = pods.iter().filter_map(|pod| placed_on.get(&room.rank_of(*pod)?));
        let holds = touched.all(|placed| room.holds_here(placed, |_| true))
            && room.leave_in_place(pods, &watched).unwrap_or_else(|| holds_around(room, &mut slack, placed, pods));
        if !holds {
            room.take(pods);
            victims.push(number);
        }
    }
    victims.sort_by(|a, b| potential.compare(*a, *b));
    victims
}

/// Returns true if inter-pod constraints admit the placed members after these `pods` were put back into the occupancy `room`. `slack`
/// caches between calls how many more pods each topology domain may get before a member's spread constraint is violated: it is computed at
/// the first call, and then updated; if the result is false, it is left as before the pods were put back.
fn holds_around(
    room: &mut Occupancy<'_>,
    slack: &mut Option<Option<Slack>>,
    placed: &[(PodIndex, Rank)],
    pods: &[PodIndex],
) -> bool {
    let slack = slack.get_or_insert_with(|| {
        room.take(pods);
        let slack = room.slack_around(placed);
        room.put(pods);
        slack
    });
    let Some(known) = slack else {
        *slack = room.slack_around(placed);
        return slack.is_some();
    };
    let holds = room.shift_slack(known, pods, true).unwrap_or_else(|| room.holds_around(placed));
    if !holds {
        room.shift_slack(known, pods, false);
    }
    holds
}

/// Returns the order in which units (single pods or whole groups) are reprieved: first those whose eviction would violate a guaranteed
/// budget, then those whose eviction would violate another budget, then the others. Within each of these three, the most important unit
/// comes first.
pub(crate) fn order(problem: &Problem<'_>, candidates: &[UnitIndex]) -> Vec<UnitIndex> {
    let (potential, budgets) = (&problem.potential, &problem.budgets);
    let mut units = candidates.to_vec();
    units.sort_by(|a, b| potential.compare(*a, *b));
    if budgets.is_empty() {
        return units;
    }
    let violating = budgets.violating_in_order(units.iter().map(|unit| &potential.units[*unit]));
    let mut classed: Vec<(u8, UnitIndex)> = units
        .into_iter()
        .zip(violating)
        .map(|(unit, violates)| match (violates, budgets.guards(&potential.units[unit])) {
            (true, true) => (0, unit),
            (true, false) => (1, unit),
            (false, _) => (2, unit),
        })
        .collect();
    classed.sort_by_key(|(class, _)| *class);
    classed.into_iter().map(|(_, unit)| unit).collect()
}

//! Reprieve: with the preemptor in place, potential victims stay where they run if they still fit, the most important
//! first (KEP-5710, preemption algorithm; kube-scheduler's SelectVictimsOnNode).
//!
//! What is left are the victims, and none of them is evicted for nothing: each was asked with everybody more important
//! in place, and putting others back later can only take room away.

use crate::domain::{UnitIndex, ranks};
use crate::feasibility::{Rank, Room};
use crate::model::PodIndex;
use crate::problem::Problem;

/// Decides who of `candidates` has to go. They must be out of `room` and `placed` in it; afterwards those who stay are
/// back in it. Returns the victims from the most to the least important.
pub(crate) fn reprieve(
    problem: &Problem<'_>,
    room: &mut Room<'_>,
    placed: &[(PodIndex, Rank)],
    candidates: &[UnitIndex],
) -> Vec<UnitIndex> {
    let potential = &problem.potential;
    let mut victims = Vec::new();
    for number in order(problem, candidates) {
        let unit = &potential.units[number];
        let touched: Vec<Rank> = ranks(problem.cluster, problem.nodes, unit).collect();
        room.put(&unit.pods);
        if !room.holds(placed, |rank| touched.contains(&rank)) {
            room.take(&unit.pods);
            victims.push(number);
        }
    }
    victims.sort_by(|a, b| potential.compare(*a, *b));
    victims
}

/// The order of mercy: first those whose guaranteed budget would be violated, then those whose budget would be, then
/// the others; in each class the most important first.
fn order(problem: &Problem<'_>, candidates: &[UnitIndex]) -> Vec<UnitIndex> {
    let (potential, budgets) = (&problem.potential, &problem.budgets);
    let mut units = candidates.to_vec();
    units.sort_by(|a, b| potential.compare(*a, *b));
    if budgets.is_empty() {
        return units;
    }
    let violating = budgets.split(units.iter().map(|unit| &potential.units[*unit]));
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

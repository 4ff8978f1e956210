//! Strategy `least-cost`: chooses victims and placement together, and minimises the cost by the order of step 9 (design, section 4).
//!
//! It starts from the plan of `kep5710` and only replaces it by a cheaper one, so that the result is never worse and places as many
//! members. Small inputs are searched exhaustively ([`branch_and_bound`]); larger ones by removing part of a plan and completing it
//! again ([`ruin_and_recreate`] for members of one class without inter-pod constraints, [`restarts`] otherwise), unless a
//! lower bound proves that no plan is cheaper ([`lower_bound`]). The effort is bounded by counting, never by a clock, and random choices
//! come from a fixed sequence of numbers: the same cluster gives the same plan. Of victims of one priority, those are exchanged at the end that
//! lose more than others on their nodes ([`ties`]).

mod branch_and_bound;
mod chance;
mod completion;
mod lower_bound;
#[cfg(test)]
mod lower_bound_tests;
mod one_pod;
mod restarts;
mod ruin_and_recreate;
mod ties;
mod under;

use crate::api::{Cost, CostBound};
use crate::filters::{Occupancy, Rank};
use crate::limits::{MATRIX_CHECKS, MATRIX_UNITS, PLACED_CHECKS, PLACED_LOOKS, PLACED_UNITS};
use crate::model::PodIndex;
use crate::problem::{Problem, UnitIndex};
use crate::search::found::Found;
use crate::search::kep5710;
use crate::search::matrix::Matrix;
use crate::search::packing;
use branch_and_bound::Exact;
use completion::{OccupancyTrial, complete};
use giveway_crds::wording::{counted, part_of};
use lower_bound::Bound;
pub(crate) use one_pod::search as one_pod;

/// A plan under comparison.
#[derive(Clone)]
struct CandidatePlan {
    placed: Vec<(PodIndex, Rank)>,
    /// From the most to the least important.
    victims: Vec<UnitIndex>,
    cost: Cost,
}

/// Searches victims in `room`, which is the cluster after the pods that are leaving anyway have terminated. `None` if not enough
/// members fit whatever is evicted.
pub(crate) fn search(problem: &Problem<'_>, room: &Occupancy<'_>) -> Option<Found> {
    let first = kep5710::search(problem, room);
    if problem.demand.single {
        return one_pod(problem, room, first);
    }
    match first {
        Some(first) => Some(improve(problem, room, first, None)),
        None => from_nothing(problem, room),
    }
}

/// Searches a plan that is cheaper than `first`. `matrix` is the problem as a matrix, if that has been computed already.
pub(crate) fn improve(problem: &Problem<'_>, room: &Occupancy<'_>, first: Found, matrix: Option<Matrix>) -> Found {
    let goal = first.placed.len();
    let mut best = CandidatePlan { placed: first.placed, victims: first.victims, cost: first.cost };
    let least = if let Some(mut matrix) =
        matrix.or_else(|| Matrix::new(problem, room, &useful(problem, &best.cost), goal, usize::MAX))
    {
        improve_matrix(problem, &mut matrix, &mut best)
    } else {
        improve_room(problem, room, &mut best, goal)
    };
    ties::settle(problem, room, &mut best);
    found(best, first.trace, &first.cost, least)
}

/// Returns the best plan as a result of the search: `trace` explains it, with a further sentence if it costs less than `first`, and `least`
/// is what every plan costs at least.
fn found(best: CandidatePlan, mut trace: Vec<String>, first: &Cost, least: CostBound) -> Found {
    if best.cost < *first {
        trace.push(format!("Choosing victims and placement together found a cheaper plan: {}.", best.cost));
    }
    Found { placed: best.placed, victims: best.victims, cost: best.cost, trace, least }
}

/// Returns the units that a plan cheaper than this cost can contain: none above its highest priority, unless that avoids a budget
/// violation.
fn useful(problem: &Problem<'_>, cost: &Cost) -> Vec<UnitIndex> {
    let units = &problem.potential.units;
    let ceiling = cost.highest_priority.filter(|_| cost.budget_violations == 0).unwrap_or(i32::MAX);
    (0..units.len()).filter(|unit| units[*unit].priority <= ceiling).collect()
}

/// Improves a plan for members of one class without inter-pod constraints: how many fit is a sum over nodes. Returns what every plan costs
/// at least.
fn improve_matrix(problem: &Problem<'_>, matrix: &mut Matrix, best: &mut CandidatePlan) -> CostBound {
    let mut bound = Bound::new(matrix, best);
    if bound.reached(&best.cost) && matrix.units.len() > MATRIX_UNITS {
        return best.cost.bound();
    }
    let units = matrix.units();
    if units.len() <= MATRIX_UNITS {
        let mut exact = Exact::new(problem, best.cost, MATRIX_CHECKS);
        let ended = exact.run(&mut matrix.clone(), &mut matrix.clone(), &units, true);
        let other = exact.into_best().and_then(|victims| complete(problem, matrix, &victims));
        matrix.clear();
        take_better(other, best);
        if ended {
            return best.cost.bound();
        }
    }
    if !bound.negligible(&best.cost) {
        let highest = best.cost.highest_priority;
        let victims = ruin_and_recreate::run(problem, matrix, &best.victims, bound.weight(), bound.ceiling_is_tight());
        matrix.clear();
        let other = victims.and_then(|victims| complete(problem, matrix, &victims));
        matrix.clear();
        take_better(other, best);
        if best.cost.highest_priority != highest {
            bound = Bound::new(matrix, best);
        }
    }
    bound.least(&best.cost)
}

/// Improves a plan for `goal` members of several classes, or with inter-pod constraints. Returns what every plan costs at least.
fn improve_room(problem: &Problem<'_>, room: &Occupancy<'_>, best: &mut CandidatePlan, goal: usize) -> CostBound {
    let units = useful(problem, &best.cost);
    let trial = || OccupancyTrial::new(problem, room, goal);
    let looks = problem.nodes.len().max(1) * problem.demand.members.len().max(1);
    if units.len() <= PLACED_UNITS {
        let exhausted_times = problem.effort.exhausted_times();
        let mut exact = Exact::new(problem, best.cost, PLACED_CHECKS.min(PLACED_LOOKS / looks));
        let ended = exact.run(&mut trial(), &mut trial(), &units, !room.looks_around());
        take_better(exact.into_best().and_then(|victims| complete(problem, &mut trial(), &victims)), best);
        if ended && packing::exact(problem) && problem.effort.exhausted_times() == exhausted_times {
            return best.cost.bound();
        }
    }
    restarts::run(problem, room, best, goal);
    CostBound::default()
}

/// Replaces the best plan if the other one costs less.
fn take_better(other: Option<CandidatePlan>, best: &mut CandidatePlan) {
    if let Some(better) = other.filter(|other| other.cost < best.cost) {
        *best = better;
    }
}

/// Searches a plan where the strategy `kep5710` found none: its placement is greedy, and guaranteed budgets do not permit the eviction of
/// all units at once. If there are few units, every subset is tried. `None` if it finds none.
fn from_nothing(problem: &Problem<'_>, room: &Occupancy<'_>) -> Option<Found> {
    let units: Vec<UnitIndex> = (0..problem.potential.units.len()).collect();
    if units.len() > PLACED_UNITS || !packing::small(problem) {
        return None;
    }
    for goal in (problem.demand.need..=problem.demand.wanted).rev() {
        let trial = || OccupancyTrial::new(problem, room, goal);
        let mut exact = Exact::unbounded(problem, PLACED_CHECKS);
        exact.run(&mut trial(), &mut trial(), &units, !room.looks_around());
        let Some(best) = exact.into_best().and_then(|victims| complete(problem, &mut trial(), &victims)) else {
            continue;
        };
        let trace = vec![format!(
            "{} if the best choice among {} of a priority below {} is evicted: {}.",
            part_of(goal, problem.demand.members.len(), ("member", "members"), ("fits", "fit")),
            counted(units.len(), "unit", "units"),
            problem.demand.priority,
            best.cost
        )];
        let (placed, victims, least) = (best.placed, best.victims, CostBound::default());
        return Some(Found { placed, victims, cost: best.cost, trace, least });
    }
    None
}

//! Strategy `least-cost`: chooses victims and placement together, and minimises the cost by the order of step 9 (design, section 4).
//!
//! It starts from the plan of `kep5710` and only replaces it by a cheaper one, so that the result is never worse and places as many
//! members. Small inputs are searched exhaustively ([`branch and bound`](crate::search::branch_and_bound)); larger ones by removing part of a plan and completing it again
//! ([`ruin_and_recreate`] for members of one class without inter-pod constraints, [`restarts`] otherwise), unless a lower bound proves that
//! no plan is cheaper ([`lower_bound`]). The effort is bounded by counting, never by a clock, and random choices come from a fixed sequence
//! of numbers: the same cluster gives the same plan. Of victims of one priority, those are exchanged at the end that lose more than others
//! on their nodes ([`ties`]).

mod chance;
mod cheapest;
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
use crate::search::branch_and_bound::BranchAndBound;
use crate::search::found::Found;
use crate::search::kep5710;
use crate::search::matrix::Matrix;
use crate::search::packing;
use cheapest::Cheapest;
use completion::{OccupancyTrial, complete};
use giveway_crds::wording::{counted, part_of};
use lower_bound::Bound;
pub(crate) use one_pod::search as one_pod;

/// A plan that is compared with others: members with the ranks of their nodes, victims, and cost.
#[derive(Clone)]
struct CandidatePlan {
    placed: Vec<(PodIndex, Rank)>,
    /// From the most to the least important.
    victims: Vec<UnitIndex>,
    cost: Cost,
}

/// Searches victims for the members of the problem, starting from `occupancy`: the cluster after the pods that are leaving anyway have
/// terminated. `None` if not enough members fit whatever is evicted.
pub(crate) fn search(problem: &Problem<'_>, occupancy: &Occupancy<'_>) -> Option<Found> {
    let first = kep5710::search(problem, occupancy);
    if problem.demand.single {
        return one_pod(problem, occupancy, first);
    }
    match first {
        Some(first) => Some(improve(problem, occupancy, first, None)),
        None => search_exhaustively(problem, occupancy),
    }
}

/// Returns a cheaper plan than `first` if the search finds one, otherwise `first`; in both cases with a lower bound on the cost of every
/// plan. `matrix` is the problem as a matrix of amounts, if that was computed before.
pub(crate) fn improve(problem: &Problem<'_>, occupancy: &Occupancy<'_>, first: Found, matrix: Option<Matrix>) -> Found {
    let goal = first.placed.len();
    let mut best = CandidatePlan { placed: first.placed, victims: first.victims, cost: first.cost };
    let least = if let Some(mut matrix) =
        matrix.or_else(|| Matrix::new(problem, occupancy, &useful(problem, &best.cost), goal, usize::MAX))
    {
        improve_matrix(problem, &mut matrix, &mut best)
    } else {
        improve_by_placement(problem, occupancy, &mut best, goal)
    };
    ties::exchange_for_less_loss(problem, occupancy, &mut best);
    found(best, first.trace, &first.cost, least)
}

/// Returns the best plan as a search result. `trace` explains the search so far; a sentence is added if the plan costs less than `first`.
/// `least` is a lower bound on the cost of every plan.
fn found(best: CandidatePlan, mut trace: Vec<String>, first: &Cost, least: CostBound) -> Found {
    if best.cost < *first {
        trace.push(format!("Choosing victims and placement together found a cheaper plan: {}.", best.cost));
    }
    Found { placed: best.placed, victims: best.victims, cost: best.cost, trace, least }
}

/// Returns the units (single pods or whole groups) that a plan cheaper than this cost can evict: none above its highest priority, unless
/// the plan violates budgets, which units above could avoid.
fn useful(problem: &Problem<'_>, cost: &Cost) -> Vec<UnitIndex> {
    let units = &problem.potential.units;
    let ceiling = cost.highest_priority.filter(|_| cost.budget_violations == 0).unwrap_or(i32::MAX);
    (0..units.len()).filter(|unit| units[*unit].priority <= ceiling).collect()
}

/// Replaces `best` by a cheaper plan if one is found, for members of one class without inter-pod constraints: how many of them fit is a sum
/// over nodes. Returns a lower bound on the cost of every plan.
fn improve_matrix(problem: &Problem<'_>, matrix: &mut Matrix, best: &mut CandidatePlan) -> CostBound {
    let mut bound = Bound::new(matrix, best);
    if bound.reached(&best.cost) && matrix.units.len() > MATRIX_UNITS {
        return best.cost.bound();
    }
    let units = matrix.units();
    if units.len() <= MATRIX_UNITS {
        let cheapest = Cheapest::below(problem, Some(best.cost));
        let mut exact = BranchAndBound::new(problem, cheapest, MATRIX_CHECKS, true);
        let ended = exact.run(&mut matrix.clone(), &mut matrix.clone(), &in_order(problem, &units));
        let other = exact.objective.victims.and_then(|victims| complete(problem, matrix, &victims));
        matrix.put_all_back();
        keep_cheaper(other, best);
        if ended {
            return best.cost.bound();
        }
    }
    if !bound.negligible(&best.cost) {
        let highest = best.cost.highest_priority;
        let victims = ruin_and_recreate::run(problem, matrix, &best.victims, bound.weight(), bound.ceiling_is_tight());
        matrix.put_all_back();
        let other = victims.and_then(|victims| complete(problem, matrix, &victims));
        matrix.put_all_back();
        keep_cheaper(other, best);
        if best.cost.highest_priority != highest {
            bound = Bound::new(matrix, best);
        }
    }
    bound.least(&best.cost)
}

/// Replaces `best` by a cheaper plan if one is found, for `goal` members of several classes, or with inter-pod constraints. Returns a lower
/// bound on the cost of every plan.
fn improve_by_placement(
    problem: &Problem<'_>,
    occupancy: &Occupancy<'_>,
    best: &mut CandidatePlan,
    goal: usize,
) -> CostBound {
    let units = useful(problem, &best.cost);
    let trial = || OccupancyTrial::new(problem, occupancy, goal);
    let looks = problem.nodes.len().max(1) * problem.demand.members.len().max(1);
    if units.len() <= PLACED_UNITS {
        let exhausted_times = problem.effort.exhausted_times();
        let (checks, monotone) = (PLACED_CHECKS.min(PLACED_LOOKS / looks), !occupancy.has_inter_pod_constraints());
        let cheapest = Cheapest::below(problem, Some(best.cost));
        let mut exact = BranchAndBound::new(problem, cheapest, checks, monotone);
        let ended = exact.run(&mut trial(), &mut trial(), &in_order(problem, &units));
        let victims = exact.objective.victims;
        keep_cheaper(victims.and_then(|victims| complete(problem, &mut trial(), &victims)), best);
        if ended && packing::is_exact(problem) && problem.effort.exhausted_times() == exhausted_times {
            return best.cost.bound();
        }
    }
    restarts::run(problem, occupancy, best, goal);
    CostBound::default()
}

/// Returns units (single pods or whole groups) in the order in which branch and bound decides on them: the most important first.
fn in_order(problem: &Problem<'_>, units: &[UnitIndex]) -> Vec<UnitIndex> {
    let mut order = units.to_vec();
    order.sort_by(|a, b| problem.potential.compare(*a, *b));
    order
}

/// Replaces `best` by the other plan if there is one and it costs less.
fn keep_cheaper(other: Option<CandidatePlan>, best: &mut CandidatePlan) {
    if let Some(better) = other.filter(|other| other.cost < best.cost) {
        *best = better;
    }
}

/// Tries every subset of the units (single pods or whole groups) as victims, where the strategy `kep5710` found no plan: its placement is
/// greedy, and guaranteed budgets do not permit the eviction of all units at once. `None` if no subset is a plan, or if there are too many
/// units, members or nodes.
fn search_exhaustively(problem: &Problem<'_>, occupancy: &Occupancy<'_>) -> Option<Found> {
    let units: Vec<UnitIndex> = (0..problem.potential.units.len()).collect();
    if units.len() > PLACED_UNITS || !packing::is_small(problem) {
        return None;
    }
    for goal in (problem.demand.need..=problem.demand.wanted).rev() {
        let trial = || OccupancyTrial::new(problem, occupancy, goal);
        let (cheapest, monotone) = (Cheapest::below(problem, None), !occupancy.has_inter_pod_constraints());
        let mut exact = BranchAndBound::new(problem, cheapest, PLACED_CHECKS, monotone);
        exact.run(&mut trial(), &mut trial(), &in_order(problem, &units));
        let victims = exact.objective.victims;
        let Some(best) = victims.and_then(|victims| complete(problem, &mut trial(), &victims)) else { continue };
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

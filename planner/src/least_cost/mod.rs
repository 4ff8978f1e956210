//! Strategy `least-cost`: chooses victims and placement together, so that the plan costs as little as can be found by
//! the order of step 9 (design, section 4).
//!
//! It starts from the plan of `kep5710` and only ever replaces it by a cheaper one, so it is never worse, and places as
//! many members. Small inputs are searched exhaustively ([`exact`]); larger ones by taking a plan partly apart and
//! putting it together again ([`rebuild`] where members are alike and look at nobody, [`retry`] otherwise), unless a
//! bound says that nothing can be cheaper ([`bound`]). The effort is bounded by counting, never by a clock, and what
//! looks like chance comes from a fixed sequence of numbers: the same cluster gives the same plan.

mod bound;
mod exact;
mod lot;
mod numbers;
pub(crate) mod packing;
mod rebuild;
mod retry;
mod settle;
mod single;
mod under;

use crate::cost::Cost;
use crate::domain::UnitIndex;
use crate::feasibility::{Rank, Room};
use crate::kep5710::{self, Found};
use crate::model::PodIndex;
use crate::problem::Problem;
use bound::Bound;
use exact::Exact;
pub(crate) use lot::Lot;
use settle::{RoomGround, settle, settle_lot};
pub(crate) use single::search as single;

/// Up to so many units, all their subsets are searched: where trying one is cheap, and where it takes a placement of all
/// members.
const FEW_UNITS: usize = 18;
const VERY_FEW_UNITS: usize = 12;
/// So many subsets are tried then.
const CHEAP_CHECKS: usize = 40_000;
const DEAR_CHECKS: usize = 1_500;
/// So many looks at a node for a member, in all those placements together.
const LOOKS: usize = 400_000;

/// A plan under comparison.
#[derive(Clone)]
struct Candidate {
    placed: Vec<(PodIndex, Rank)>,
    /// From the most to the least important.
    victims: Vec<UnitIndex>,
    cost: Cost,
}

/// Looks for victims in `room`, which is the cluster once everybody who leaves anyway is gone. `None` when not enough
/// members fit whoever goes.
pub(crate) fn search(problem: &Problem<'_>, room: &Room<'_>) -> Option<Found> {
    let first = kep5710::search(problem, room);
    if problem.demand.single {
        return single(problem, room, first).map(|(found, _)| found);
    }
    match first {
        Some(first) => Some(improve(problem, room, first, None)),
        None => from_nothing(problem, room),
    }
}

/// Looks for something cheaper than `first`. `lot` is the question in numbers, where that is known already.
pub(crate) fn improve(problem: &Problem<'_>, room: &Room<'_>, first: Found, lot: Option<Lot>) -> Found {
    let goal = first.placed.len();
    let mut best = Candidate { placed: first.placed, victims: first.victims, cost: first.cost };
    let outcome = if let Some(mut lot) =
        lot.or_else(|| Lot::new(problem, room, &useful(problem, &best.cost), goal, usize::MAX))
    {
        improve_lot(problem, &mut lot, &mut best)
    } else {
        improve_room(problem, room, &mut best, goal)
    };
    found(best, first.trace, &first.cost, outcome)
}

/// How sure it is that nothing is cheaper.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It is.
    Proven,
    /// A bounded search found nothing.
    Searched,
}

fn found(best: Candidate, mut trace: Vec<String>, first: &Cost, outcome: Outcome) -> Found {
    if best.cost < *first {
        trace.push(format!("Choosing victims and placement together found a cheaper plan: {}.", best.cost));
    }
    trace.push(outcome_in_words(outcome == Outcome::Proven));
    Found { placed: best.placed, victims: best.victims, cost: best.cost, trace }
}

/// How sure it is that nothing is cheaper, as a sentence.
pub(crate) fn outcome_in_words(proven: bool) -> String {
    let sentence =
        if proven { "Nothing cheaper exists." } else { "Nothing cheaper was found; a cheaper plan may exist." };
    sentence.to_owned()
}

/// The units that a plan better than one of this cost can contain: none above its highest priority, unless that spares a
/// budget.
fn useful(problem: &Problem<'_>, cost: &Cost) -> Vec<UnitIndex> {
    let units = &problem.potential.units;
    let ceiling = cost.highest_priority.filter(|_| cost.budget_violations == 0).unwrap_or(i32::MAX);
    (0..units.len()).filter(|unit| units[*unit].priority <= ceiling).collect()
}

/// Members that are alike and look at no other pod: how many fit is a sum over nodes.
fn improve_lot(problem: &Problem<'_>, lot: &mut Lot, best: &mut Candidate) -> Outcome {
    let bound = Bound::new(lot, best);
    if bound.reached(&best.cost) && lot.units.len() > FEW_UNITS {
        return Outcome::Proven;
    }
    let units = lot.units();
    if units.len() <= FEW_UNITS {
        let mut exact = Exact::new(problem, best.cost, CHEAP_CHECKS);
        let complete = exact.run(&mut lot.clone(), &mut lot.clone(), &units, true);
        take_better(exact.into_best().and_then(|victims| settle_lot(problem, lot, &victims)), best);
        if complete {
            return Outcome::Proven;
        }
    }
    if !bound.negligible(&best.cost) {
        let victims = rebuild::run(problem, lot, &best.victims, bound.weight(), bound.ceiling_is_tight());
        lot.clear();
        take_better(victims.and_then(|victims| settle_lot(problem, lot, &victims)), best);
    }
    if bound.reached(&best.cost) { Outcome::Proven } else { Outcome::Searched }
}

/// Members of several kinds, or such as look at other pods.
fn improve_room(problem: &Problem<'_>, room: &Room<'_>, best: &mut Candidate, goal: usize) -> Outcome {
    let units = useful(problem, &best.cost);
    let looks = problem.nodes.len().max(1) * problem.demand.members.len().max(1);
    if units.len() <= VERY_FEW_UNITS {
        let mut exact = Exact::new(problem, best.cost, DEAR_CHECKS.min(LOOKS / looks));
        let (mut least, mut most) = (RoomGround::new(problem, room, goal), RoomGround::new(problem, room, goal));
        let complete = exact.run(&mut least, &mut most, &units, !room.wide());
        take_better(exact.into_best().and_then(|victims| settle(problem, room, &victims, goal)), best);
        if complete && packing::exact(problem) {
            return Outcome::Proven;
        }
    }
    retry::run(problem, room, best, goal);
    Outcome::Searched
}

fn take_better(other: Option<Candidate>, best: &mut Candidate) {
    if let Some(better) = other.filter(|other| other.cost < best.cost) {
        *best = better;
    }
}

/// KEP-5710 step by step finds no plan: its placement is greedy, and with guaranteed budgets not everybody can go at
/// once. Where few can go, every choice is tried.
fn from_nothing(problem: &Problem<'_>, room: &Room<'_>) -> Option<Found> {
    let units: Vec<UnitIndex> = (0..problem.potential.units.len()).collect();
    if units.len() > VERY_FEW_UNITS || !packing::small(problem) {
        return None;
    }
    for goal in (problem.demand.need..=problem.demand.members.len()).rev() {
        let mut exact = Exact::unbounded(problem, DEAR_CHECKS);
        let (mut least, mut most) = (RoomGround::new(problem, room, goal), RoomGround::new(problem, room, goal));
        exact.run(&mut least, &mut most, &units, !room.wide());
        let Some(best) = exact.into_best().and_then(|victims| settle(problem, room, &victims, goal)) else { continue };
        let trace = vec![format!(
            "{goal} of {} members fit when the right ones of {} units of a priority below {} go: {}.",
            problem.demand.members.len(),
            units.len(),
            problem.demand.priority,
            best.cost
        )];
        return Some(Found { placed: best.placed, victims: best.victims, cost: best.cost, trace });
    }
    None
}

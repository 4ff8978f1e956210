//! Improves a plan for members of several classes, or with inter-pod constraints: some victims are put back and excluded, and the greedy
//! placement starts again without them.

use super::CandidatePlan;
use super::completion::{OccupancyTrial, complete};
use crate::filters::Occupancy;
use crate::limits::{RESTART_LOOKS, RESTARTS};
use crate::problem::{Problem, UnitIndex};
use crate::search::greedy::place;
use crate::search::numbers::RandomNumbers;
use crate::search::reprieve::with_plan;

/// Tries several times to place `goal` members with some of the victims of `best` evicted from the start and others excluded as victims,
/// chosen at random. Replaces `best` by a cheaper plan if one is found.
pub(super) fn run(problem: &Problem<'_>, occupancy: &Occupancy<'_>, best: &mut CandidatePlan, goal: usize) {
    let floor = problem.effort.left().saturating_sub(RESTART_LOOKS);
    let mut numbers = RandomNumbers::new();
    drop_victims_one_by_one(problem, occupancy, best, goal, problem.effort.left().saturating_sub(RESTART_LOOKS / 2));
    for attempt in 0..RESTARTS {
        if best.victims.is_empty() || problem.effort.left() <= floor {
            return;
        }
        let banned: Vec<UnitIndex> = match attempt {
            0 => Vec::new(),
            _ => (0..1 + numbers.below(2)).map(|_| best.victims[numbers.below(best.victims.len())]).collect(),
        };
        let keeps = attempt % 3 != 0;
        let kept: Vec<UnitIndex> = best
            .victims
            .iter()
            .copied()
            .filter(|unit| keeps && !banned.contains(unit) && numbers.below(4) > 0)
            .collect();
        let cleared = with_plan(problem, occupancy, &kept, &[]);
        let ceiling = best.cost.highest_priority.filter(|_| best.cost.budget_violations == 0).unwrap_or(i32::MAX);
        let units = &problem.potential.units;
        let available: Vec<bool> = (0..units.len())
            .map(|unit| units[unit].priority <= ceiling && !banned.contains(&unit) && !kept.contains(&unit))
            .collect();
        let layout = place(problem, &cleared, &available);
        if layout.placed.len() < goal {
            continue;
        }
        let victims: Vec<UnitIndex> = kept.into_iter().chain(layout.evicted).collect();
        if let Some(better) = complete(problem, &mut OccupancyTrial::new(problem, occupancy, goal), &victims)
            && better.cost < best.cost
        {
            *best = better;
        }
    }
}

/// Tries for each victim of `best`, the most important first, whether `goal` members fit without its eviction, and replaces `best` by the
/// plan if it costs less. Stops when the effort of the decision has no more than `floor` looks (checks of a node or pod) left.
fn drop_victims_one_by_one(
    problem: &Problem<'_>,
    occupancy: &Occupancy<'_>,
    best: &mut CandidatePlan,
    goal: usize,
    floor: usize,
) {
    for unit in best.victims.clone().into_iter().take(RESTARTS) {
        if problem.effort.left() <= floor {
            return;
        }
        let without: Vec<UnitIndex> = best.victims.iter().copied().filter(|other| *other != unit).collect();
        if without.len() < best.victims.len()
            && let Some(better) = complete(problem, &mut OccupancyTrial::new(problem, occupancy, goal), &without)
            && better.cost < best.cost
        {
            *best = better;
        }
    }
}

//! Improves a plan for members of several classes, or with inter-pod constraints: some victims are put back and excluded, and the greedy
//! placement starts again without them.

use super::CandidatePlan;
use super::completion::{OccupancyTrial, complete};
use crate::filters::Occupancy;
use crate::limits::{RESTART_LOOKS, RESTARTS};
use crate::problem::{Problem, UnitIndex};
use crate::search::greedy::place;
use crate::search::numbers::Numbers;
use crate::search::reprieve::with_plan;

/// Places `goal` members again, several times, with some of the victims of `best` kept and others excluded. Replaces `best` by a cheaper
/// plan if one is found.
pub(super) fn run(problem: &Problem<'_>, room: &Occupancy<'_>, best: &mut CandidatePlan, goal: usize) {
    let floor = problem.effort.left().saturating_sub(RESTART_LOOKS);
    let mut numbers = Numbers::new();
    spare_one_by_one(problem, room, best, goal, problem.effort.left().saturating_sub(RESTART_LOOKS / 2));
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
        let cleared = with_plan(problem, room, &kept, &[]);
        let ceiling = best.cost.highest_priority.filter(|_| best.cost.budget_violations == 0).unwrap_or(i32::MAX);
        let units = &problem.potential.units;
        let available: Vec<bool> = (0..units.len())
            .map(|unit| units[unit].priority <= ceiling && !banned.contains(&unit) && !kept.contains(&unit))
            .collect();
        let layout = place(problem, &cleared, &available);
        if layout.placed.len() < goal {
            continue;
        }
        let victims: Vec<UnitIndex> = kept.into_iter().chain(layout.doomed).collect();
        if let Some(better) = complete(problem, &mut OccupancyTrial::new(problem, room, goal), &victims)
            && better.cost < best.cost
        {
            *best = better;
        }
    }
}

/// Tries for every victim of `best`, the most important first, to place `goal` members without its eviction, as long as more than `floor`
/// looks are left.
fn spare_one_by_one(problem: &Problem<'_>, room: &Occupancy<'_>, best: &mut CandidatePlan, goal: usize, floor: usize) {
    for unit in best.victims.clone().into_iter().take(RESTARTS) {
        if problem.effort.left() <= floor {
            return;
        }
        let without: Vec<UnitIndex> = best.victims.iter().copied().filter(|other| *other != unit).collect();
        if without.len() < best.victims.len()
            && let Some(better) = complete(problem, &mut OccupancyTrial::new(problem, room, goal), &without)
            && better.cost < best.cost
        {
            *best = better;
        }
    }
}

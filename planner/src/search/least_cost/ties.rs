//! Exchanges victims for others on their nodes that lose less: of plans with the same budget violations and priorities, step 9 prefers
//! those whose victims fit elsewhere, and then those that lose least work.

use super::CandidatePlan;
use crate::api::{Cost, LostWork};
use crate::filters::{Occupancy, Rank};
use crate::limits::{REPLACEMENT_LOOKS, REPLACEMENT_TRIES};
use crate::model::{PodIndex, UnitKind};
use crate::problem::{Problem, UnitIndex};
use crate::search::reprieve::{reprieve, with_plan};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What the eviction of one pod loses, in the order of step 9.
type Loss = (bool, LostWork, Reverse<i64>);

/// Exchanges single pods among the victims of `best` for other pods of the same priority on the same node, if the plan then costs less
/// because of the work that is lost, or because more victims fit on other nodes. A plan with inter-pod constraints is left as it is.
pub(super) fn exchange_for_less_loss(problem: &Problem<'_>, occupancy: &Occupancy<'_>, best: &mut CandidatePlan) {
    let Some(victims) = exchanged(problem, occupancy, best) else { return };
    let units = &problem.potential.units;
    let mut cleared = with_plan(problem, occupancy, &victims, &best.placed);
    let victims = reprieve(problem, &mut cleared, &best.placed, &victims);
    if problem.budgets.may_evict(&mut problem.budgets.tally(), victims.iter().map(|unit| &units[*unit]))
        && let Some(cost) = Cost::below(problem, &victims, &best.placed, Some(&best.cost))
    {
        (best.victims, best.cost) = (victims, cost);
    }
}

/// Returns the victims of `best` after such exchanges; `None` if no exchange lowers the loss.
fn exchanged(problem: &Problem<'_>, occupancy: &Occupancy<'_>, best: &CandidatePlan) -> Option<Vec<UnitIndex>> {
    let elsewhere = problem.elsewhere.filter(|_| !occupancy.has_inter_pod_constraints())?;
    let units = &problem.potential.units;
    let single = |unit: UnitIndex| match (&units[unit].pods[..], units[unit].kind) {
        ([pod], UnitKind::Pod) => Some(*pod),
        _ => None,
    };
    // Groups are not exchanged.
    if !best.victims.iter().any(|unit| single(*unit).is_some()) {
        return None;
    }
    let mut placed_on: BTreeMap<Rank, Vec<(PodIndex, Rank)>> = BTreeMap::new();
    best.placed.iter().for_each(|place| placed_on.entry(place.1).or_default().push(*place));
    let mut evicted = vec![false; units.len()];
    best.victims.iter().for_each(|unit| evicted[*unit] = true);
    // The nodes after the plan, if any victim has an alternative.
    let mut state = None;
    let (mut looks, mut changed) = (REPLACEMENT_LOOKS, false);
    for victim in &best.victims {
        let Some(pod) = single(*victim) else { continue };
        let Some((rank, placed)) = occupancy.rank_of(pod).and_then(|rank| Some((rank, placed_on.get(&rank)?))) else {
            continue;
        };
        looks = looks.saturating_sub(problem.potential.on[rank].len());
        if looks == 0 {
            break;
        }
        let like = |unit: UnitIndex, other: PodIndex| {
            let budgets = problem.budgets.of_pod(other);
            units[unit].priority == units[*victim].priority
                && (budgets.is_empty() || budgets == problem.budgets.of_pod(pod))
        };
        let others = problem.potential.on[rank].iter().copied().filter(|unit| !evicted[*unit]);
        let others = others.filter_map(|unit| Some((unit, single(unit).filter(|other| like(unit, *other))?)));
        let others: Vec<(UnitIndex, PodIndex)> = others.collect();
        if others.is_empty() {
            continue;
        }
        if state.is_none() {
            let after = problem.after(&best.victims, &best.placed)?;
            state = Some((after, with_plan(problem, occupancy, &best.victims, &best.placed)));
        }
        let Some((after, cleared)) = &mut state else { continue };
        let loss = |unit: UnitIndex, pod: PodIndex| -> Loss {
            let started = units[unit].started.unwrap_or(i64::MAX);
            (!elsewhere.fits_elsewhere(pod, after), problem.lost_work(&[unit]), Reverse(started))
        };
        let own = loss(*victim, pod);
        let others = others.into_iter().map(|(unit, other)| (loss(unit, other), unit, other));
        let mut cheaper: Vec<(Loss, UnitIndex, PodIndex)> = others.filter(|(loss, ..)| *loss < own).collect();
        cheaper.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| problem.potential.compare(b.1, a.1)));
        for (_, unit, other) in cheaper.into_iter().take(REPLACEMENT_TRIES) {
            cleared.put(&[pod]);
            cleared.take(&[other]);
            if cleared.holds_here(placed, |_| true) {
                (evicted[*victim], evicted[unit]) = (false, true);
                changed = true;
                break;
            }
            cleared.put(&[other]);
            cleared.take(&[pod]);
        }
    }
    changed.then(|| (0..units.len()).filter(|unit| evicted[*unit]).collect())
}

//! Turns a choice of victims into a plan: places and checks it in the occupancy itself, without relying on the search, and reprieves
//! every unit whose eviction is not needed.

use super::CandidatePlan;
use crate::api::Cost;
use crate::filters::{Occupancy, Rank};
use crate::model::PodIndex;
use crate::problem::{Problem, UnitIndex};
use crate::search::least_cost::branch_and_bound::EvictionTrial;
use crate::search::matrix::Matrix;
use crate::search::near::Near;
use crate::search::packing;
use crate::search::reprieve::{order, reprieve};
/// Returns the plan with these victims; `None` when fewer than `goal` members fit, or a guaranteed budget would be
/// violated.
pub(super) fn complete(
    problem: &Problem<'_>,
    room: &Occupancy<'_>,
    victims: &[UnitIndex],
    goal: usize,
) -> Option<CandidatePlan> {
    let units = &problem.potential.units;
    if !problem.budgets.may_evict(&problem.budgets.tally(), victims.iter().map(|unit| &units[*unit])) {
        return None;
    }
    let mut room = room.clone();
    victims.iter().for_each(|unit| room.take(&units[*unit].pods));
    let placed = packing::pack(problem, &room, goal)?;
    placed.iter().for_each(|(pod, rank)| room.add(*pod, *rank));
    let victims = reprieve(problem, &mut room, &placed, victims);
    Some(CandidatePlan { cost: Cost::of(problem, &victims, &placed), placed, victims })
}

/// Returns the plan with these victims, computed by amounts, for units of `matrix`, of which none is removed; `None`
/// as in [`complete`].
pub(super) fn complete_matrix(
    problem: &Problem<'_>,
    matrix: &mut Matrix,
    victims: &[UnitIndex],
) -> Option<CandidatePlan> {
    let units = &problem.potential.units;
    if !problem.budgets.may_evict(&problem.budgets.tally(), victims.iter().map(|unit| &units[*unit])) {
        return None;
    }
    let order: Vec<usize> =
        order(problem, victims).into_iter().map(|unit| matrix.local(unit)).collect::<Option<_>>()?;
    order.iter().for_each(|unit| matrix.flip(*unit));
    let (placed, used) = matrix.fill(problem);
    let enough = placed.len() >= matrix.goal;
    let mut victims = Vec::new();
    for unit in order {
        if enough && !matrix.may_return(unit, &used) {
            victims.push(unit);
        } else {
            matrix.flip(unit);
        }
    }
    victims.iter().for_each(|unit| matrix.flip(*unit));
    let mut victims: Vec<UnitIndex> = victims.into_iter().map(|unit| matrix.units[unit].number).collect();
    victims.sort_by(|a, b| problem.potential.compare(*a, *b));
    enough.then(|| CandidatePlan { cost: Cost::of(problem, &victims, &placed), placed, victims })
}

/// An occupancy from which units are removed and to which they are put back.
pub(super) struct OccupancyTrial<'p, 'a> {
    problem: &'p Problem<'a>,
    room: Occupancy<'a>,
    goal: usize,
}

impl<'p, 'a> OccupancyTrial<'p, 'a> {
    pub(super) fn new(problem: &'p Problem<'a>, room: &Occupancy<'a>, goal: usize) -> Self {
        Self { problem, room: room.clone(), goal }
    }
}

impl EvictionTrial for OccupancyTrial<'_, '_> {
    fn take(&mut self, unit: UnitIndex) {
        self.room.take(&self.problem.potential.units[unit].pods);
    }

    fn put(&mut self, unit: UnitIndex) {
        self.room.put(&self.problem.potential.units[unit].pods);
    }

    fn enough(&mut self) -> bool {
        packing::pack(self.problem, &self.room, self.goal).is_some()
    }

    fn placement(&mut self, problem: &Problem<'_>) -> Vec<(PodIndex, Rank)> {
        packing::pack(problem, &self.room, self.goal).unwrap_or_default()
    }
}

/// The same for one pod on one node.
pub(super) struct NodeTrial<'p, 'a> {
    pub(super) room: Occupancy<'a>,
    pub(super) member: PodIndex,
    pub(super) rank: Rank,
    pub(super) near: &'p Near<'p, 'a>,
}

impl EvictionTrial for NodeTrial<'_, '_> {
    fn take(&mut self, unit: UnitIndex) {
        self.room.take(&self.near.pods(unit, self.rank));
    }

    fn put(&mut self, unit: UnitIndex) {
        self.room.put(&self.near.pods(unit, self.rank));
    }

    fn enough(&mut self) -> bool {
        self.room.refuse(self.member, self.rank).is_none()
    }

    fn placement(&mut self, _: &Problem<'_>) -> Vec<(PodIndex, Rank)> {
        vec![(self.member, self.rank)]
    }
}

impl EvictionTrial for Matrix {
    fn take(&mut self, unit: UnitIndex) {
        if let Some(unit) = self.local(unit).filter(|unit| !self.gone[*unit]) {
            self.flip(unit);
        }
    }

    fn put(&mut self, unit: UnitIndex) {
        if let Some(unit) = self.local(unit).filter(|unit| self.gone[*unit]) {
            self.flip(unit);
        }
    }

    fn enough(&mut self) -> bool {
        self.total >= self.goal
    }

    fn placement(&mut self, problem: &Problem<'_>) -> Vec<(PodIndex, Rank)> {
        self.fill(problem).0
    }
}

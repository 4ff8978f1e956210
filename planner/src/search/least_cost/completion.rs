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

/// Capacity on which a choice of victims becomes a plan.
pub(super) trait PlanTrial: EvictionTrial {
    /// Reprieves those of the removed units beside which the members can stay where they were placed. Returns the victims from the most to the
    /// least important.
    fn reprieve(&mut self, problem: &Problem<'_>, placed: &[(PodIndex, Rank)], units: &[UnitIndex]) -> Vec<UnitIndex>;
}

/// Returns the plan with these victims; `None` if fewer than the wanted members fit, or a guaranteed budget would be violated. No unit is
/// removed from `trial` before; afterwards some are.
pub(super) fn complete<T: PlanTrial>(
    problem: &Problem<'_>,
    trial: &mut T,
    victims: &[UnitIndex],
) -> Option<CandidatePlan> {
    let units = &problem.potential.units;
    if !problem.budgets.may_evict(&problem.budgets.tally(), victims.iter().map(|unit| &units[*unit])) {
        return None;
    }
    victims.iter().for_each(|unit| trial.take(*unit));
    let placed = trial.placement(problem)?;
    let victims = trial.reprieve(problem, &placed, victims);
    Some(CandidatePlan { cost: Cost::of(problem, &victims, &placed), placed, victims })
}

/// An occupancy from which units are removed and to which they are put back.
pub(super) struct OccupancyTrial<'p, 'a> {
    problem: &'p Problem<'a>,
    room: Occupancy<'a>,
    goal: usize,
}

impl<'p, 'a> OccupancyTrial<'p, 'a> {
    /// Creates a trial that asks whether `goal` members fit, beginning with a copy of `room`.
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

    fn placement(&mut self, problem: &Problem<'_>) -> Option<Vec<(PodIndex, Rank)>> {
        packing::pack(problem, &self.room, self.goal)
    }
}

impl PlanTrial for OccupancyTrial<'_, '_> {
    fn reprieve(&mut self, problem: &Problem<'_>, placed: &[(PodIndex, Rank)], units: &[UnitIndex]) -> Vec<UnitIndex> {
        placed.iter().for_each(|(pod, rank)| self.room.add(*pod, *rank));
        reprieve(problem, &mut self.room, placed, units)
    }
}

/// An occupancy in which victims for one pod are tried on one node.
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

    fn placement(&mut self, _: &Problem<'_>) -> Option<Vec<(PodIndex, Rank)>> {
        Some(vec![(self.member, self.rank)])
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

    fn placement(&mut self, problem: &Problem<'_>) -> Option<Vec<(PodIndex, Rank)>> {
        let (nodes, mut placed, mut used) = (0..self.on.len(), Vec::new(), vec![0; self.on.len()]);
        self.fill(problem, nodes, self.goal, &mut placed, &mut used);
        (placed.len() >= self.goal).then_some(placed)
    }
}

impl PlanTrial for Matrix {
    fn reprieve(&mut self, problem: &Problem<'_>, placed: &[(PodIndex, Rank)], units: &[UnitIndex]) -> Vec<UnitIndex> {
        let removed = order(problem, units).into_iter().filter_map(|unit| self.local(unit)).collect();
        let used = self.used(placed);
        let victims = Matrix::reprieve(self, removed, &used);
        let mut victims: Vec<UnitIndex> = victims.into_iter().map(|unit| self.units[unit].number).collect();
        victims.sort_by(|a, b| problem.potential.compare(*a, *b));
        victims
    }
}

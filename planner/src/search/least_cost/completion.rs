//! Turns a choice of victims into a plan: places and checks it in the occupancy itself, without relying on the search, and reprieves
//! every unit whose eviction is not needed.

use super::CandidatePlan;
use crate::api::Cost;
use crate::filters::{Occupancy, Rank};
use crate::model::PodIndex;
use crate::problem::{Problem, UnitIndex};
use crate::search::branch_and_bound::EvictionTrial;
use crate::search::matrix::Matrix;
use crate::search::packing;
use crate::search::reprieve::{order, reprieve};

/// Capacity on which a choice of victims is turned into a plan.
pub(super) trait PlanTrial: EvictionTrial {
    /// Puts those of `units` (single pods or whole groups, all removed before) back beside which the members still fit where they are
    /// `placed`. Returns the others, the victims, from the most to the least important.
    fn reprieve(&mut self, problem: &Problem<'_>, placed: &[(PodIndex, Rank)], units: &[UnitIndex]) -> Vec<UnitIndex>;
}

/// Returns the plan with these victims or some of them: places the members without them, and reprieves those whose eviction is not needed.
/// `None` if fewer than the wanted members fit, or a guaranteed budget would be violated. No unit is removed from `trial` before;
/// afterwards some are.
pub(super) fn complete<T: PlanTrial>(
    problem: &Problem<'_>,
    trial: &mut T,
    victims: &[UnitIndex],
) -> Option<CandidatePlan> {
    let units = &problem.potential.units;
    if !problem.budgets.may_evict(&mut problem.budgets.tally(), victims.iter().map(|unit| &units[*unit])) {
        return None;
    }
    victims.iter().for_each(|unit| trial.take(*unit));
    let placed = trial.placement(problem)?;
    let victims = trial.reprieve(problem, &placed, victims);
    Some(CandidatePlan { cost: Cost::of(problem, &victims, &placed), placed, victims })
}

/// An occupancy from which units are removed and to which they are put back, to try whether a number of members fits.
pub(super) struct OccupancyTrial<'p, 'a> {
    problem: &'p Problem<'a>,
    occupancy: Occupancy<'a>,
    goal: usize,
}

impl<'p, 'a> OccupancyTrial<'p, 'a> {
    /// Creates a trial with a copy of `occupancy`, which asks whether `goal` members fit.
    pub(super) fn new(problem: &'p Problem<'a>, occupancy: &Occupancy<'a>, goal: usize) -> Self {
        Self { problem, occupancy: occupancy.clone(), goal }
    }
}

impl EvictionTrial for OccupancyTrial<'_, '_> {
    /// Removes all pods of the unit (a single pod or a whole group) from the occupancy.
    fn take(&mut self, unit: UnitIndex) {
        self.occupancy.take(&self.problem.potential.units[unit].pods);
    }

    /// Puts all pods of the unit (a single pod or a whole group) back on their nodes.
    fn put(&mut self, unit: UnitIndex) {
        self.occupancy.put(&self.problem.potential.units[unit].pods);
    }

    /// Returns true if a placement of `goal` members is found.
    fn enough(&mut self) -> bool {
        packing::pack(self.problem, &self.occupancy, self.goal).is_some()
    }

    /// Returns a placement of `goal` members without the removed units (single pods or whole groups); `None` if none is found.
    fn placement(&mut self, problem: &Problem<'_>) -> Option<Vec<(PodIndex, Rank)>> {
        packing::pack(problem, &self.occupancy, self.goal)
    }
}

impl PlanTrial for OccupancyTrial<'_, '_> {
    /// Places the members as in `placed`, and reprieves units (single pods or whole groups) in the order of step 8.
    fn reprieve(&mut self, problem: &Problem<'_>, placed: &[(PodIndex, Rank)], units: &[UnitIndex]) -> Vec<UnitIndex> {
        placed.iter().for_each(|(pod, rank)| self.occupancy.add(*pod, *rank));
        reprieve(problem, &mut self.occupancy, placed, units)
    }
}

impl EvictionTrial for Matrix {
    /// Removes the unit (a single pod or a whole group) from the matrix, if it is in the matrix and not removed yet.
    fn take(&mut self, unit: UnitIndex) {
        if let Some(unit) = self.number_of(unit).filter(|unit| !self.removed[*unit]) {
            self.toggle(unit);
        }
    }

    /// Puts the unit (a single pod or a whole group) back into the matrix, if it is removed.
    fn put(&mut self, unit: UnitIndex) {
        if let Some(unit) = self.number_of(unit).filter(|unit| self.removed[*unit]) {
            self.toggle(unit);
        }
    }

    /// Returns true if the numbers of members that fit on each node add up to the goal.
    fn enough(&mut self) -> bool {
        self.total >= self.goal
    }

    /// Returns a placement of as many members as the goal says, without the removed units (single pods or whole groups); `None` if fewer
    /// fit.
    fn placement(&mut self, problem: &Problem<'_>) -> Option<Vec<(PodIndex, Rank)>> {
        let (nodes, mut placed, mut used) = (0..self.on.len(), Vec::new(), vec![0; self.on.len()]);
        self.fill(problem, nodes, self.goal, &mut placed, &mut used);
        (placed.len() >= self.goal).then_some(placed)
    }
}

impl PlanTrial for Matrix {
    /// Puts units (single pods or whole groups) back into the matrix in the order of step 8, if they leave enough capacity for the placed
    /// members.
    fn reprieve(&mut self, problem: &Problem<'_>, placed: &[(PodIndex, Rank)], units: &[UnitIndex]) -> Vec<UnitIndex> {
        let removed = order(problem, units).into_iter().filter_map(|unit| self.number_of(unit)).collect();
        let used = self.used(placed);
        let victims = Matrix::reprieve(self, removed, &used);
        let mut victims: Vec<UnitIndex> = victims.into_iter().map(|unit| self.units[unit].number).collect();
        victims.sort_by(|a, b| problem.potential.compare(*a, *b));
        victims
    }
}

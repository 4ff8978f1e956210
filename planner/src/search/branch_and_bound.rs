//! Branch and bound over all sets of victims, unit by unit: sets that cannot become better than the best one so far, or cannot become
//! sufficient, are skipped.

use crate::filters::Rank;
use crate::model::PodIndex;
use crate::problem::{Problem, Tally, UnitIndex};

/// Capacity on which branch and bound tries sets of victims: units are removed and put back one by one, and it says whether the wanted
/// number of members fits without the removed ones. It is an occupancy, one node of an occupancy, or a matrix of amounts.
pub(super) trait EvictionTrial {
    /// Removes a unit (a single pod or a whole group) from the capacity, as if it were evicted.
    fn take(&mut self, unit: UnitIndex);
    /// Puts a removed unit back: reverts [`Self::take`].
    fn put(&mut self, unit: UnitIndex);
    /// Returns true if the wanted number of members fits without the removed units (single pods or whole groups).
    fn enough(&mut self) -> bool;
    /// Returns the wanted members with the ranks (indexes in the list of nodes) of their nodes, placed without the removed units (single
    /// pods or whole groups); `None` if fewer fit.
    fn placement(&mut self, problem: &Problem<'_>) -> Option<Vec<(PodIndex, Rank)>>;
}

/// What a search minimizes, and the best set of victims so far.
pub(super) trait Objective {
    /// Returns true if the set `chosen` of units (single pods or whole groups), perhaps with some of `rest`, can be better than the best one
    /// so far. `tally` counts the chosen ones by budget.
    fn can_improve(&self, chosen: &[UnitIndex], rest: &[UnitIndex], tally: &Tally) -> bool;
    /// Makes the set `chosen` of units (single pods or whole groups) the best one if it is better. `tally` counts them by budget, and `trial`
    /// is the capacity without them, on which enough members fit.
    fn keep_if_better(&mut self, chosen: &[UnitIndex], tally: &Tally, trial: &mut impl EvictionTrial);
    /// Returns true if it makes no difference which of two units (single pods or whole groups) is evicted, except that it should be the
    /// first one. Such units follow each other in the order in which the search decides on units.
    fn are_alike(&self, first: UnitIndex, second: UnitIndex) -> bool;
}

/// Branch and bound over all subsets of units: finds the best set of victims with which enough members fit.
pub(super) struct BranchAndBound<'p, 'a, O> {
    problem: &'p Problem<'a>,
    pub(super) objective: O,
    /// Remaining number of checks whether enough members fit.
    checks: usize,
    /// The units that the current branch evicts, and the same counted by budget.
    chosen: Vec<UnitIndex>,
    tally: Tally,
    /// True if further evictions never reduce how many members fit. With inter-pod constraints they can.
    monotone: bool,
}

impl<'p, 'a, O: Objective> BranchAndBound<'p, 'a, O> {
    /// Creates a search for the best set of victims, with at most `checks` checks whether enough members fit. `monotone` says that further
    /// evictions never reduce how many members fit.
    pub(super) fn new(problem: &'p Problem<'a>, objective: O, checks: usize, monotone: bool) -> Self {
        Self { problem, objective, checks, chosen: Vec::new(), tally: problem.budgets.tally(), monotone }
    }

    /// Returns how many more checks the search may make whether enough members fit.
    pub(super) fn checks_left(&self) -> usize {
        self.checks
    }

    /// Tries the subsets of `units` (single pods or whole groups), and returns true if the search was not cut short. It decides on the units
    /// in this order, first for keeping each. `least` and `most` are the same capacity with no unit removed, before and afterwards; during
    /// the search, the evicted units are removed from `least`, and from `most` also those not decided on.
    pub(super) fn run<T: EvictionTrial>(&mut self, least: &mut T, most: &mut T, units: &[UnitIndex]) -> bool {
        units.iter().for_each(|unit| most.take(*unit));
        if !self.monotone || most.enough() {
            self.branch(least, most, units);
        }
        units.iter().for_each(|unit| most.put(*unit));
        self.checks > 0 && !self.problem.effort.spent()
    }

    /// Decides on the first unit (a single pod or a whole group) of `rest`, first for keeping it and then for evicting it, and on the
    /// others in turn. In `least`, the units chosen for eviction are removed, and in `most` those of `rest` as well.
    fn branch<T: EvictionTrial>(&mut self, least: &mut T, most: &mut T, rest: &[UnitIndex]) {
        let Some((&unit, others)) = rest.split_first() else { return };
        if self.checks < 2 {
            self.checks = 0;
            return;
        }
        // Of units that are alike the first ones are evicted: where one stays, those after it stay.
        let alike = others.iter().take_while(|other| self.objective.are_alike(unit, **other)).count();
        let (stay, later) = rest.split_at(alike + 1);
        stay.iter().for_each(|unit| most.put(*unit));
        if !self.monotone || self.check(most) {
            self.branch(least, most, later);
        }
        stay.iter().for_each(|unit| most.take(*unit));
        if self.checks == 0 {
            return;
        }
        let victim = &self.problem.potential.units[unit];
        self.chosen.push(unit);
        self.problem.budgets.add(&mut self.tally, victim);
        if !self.problem.budgets.is_breached(&self.tally)
            && self.objective.can_improve(&self.chosen, others, &self.tally)
        {
            least.take(unit);
            if self.check(least) {
                self.objective.keep_if_better(&self.chosen, &self.tally, least);
            } else {
                self.branch(least, most, others);
            }
            least.put(unit);
        }
        self.problem.budgets.remove(&mut self.tally, victim);
        self.chosen.pop();
    }

    /// Returns true if enough members fit on `trial`, and counts the check.
    fn check(&mut self, trial: &mut impl EvictionTrial) -> bool {
        self.checks = if self.problem.effort.spent() { 0 } else { self.checks.saturating_sub(1) };
        trial.enough()
    }
}

//! Branch and bound over all sets of victims, unit by unit: sets that cannot become cheaper than the best one so far, or cannot become
//! sufficient, are skipped.

use crate::api::Cost;
use crate::filters::Rank;
use crate::limits::MOST_TIES;
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

/// Branch and bound over all subsets of units: finds the cheapest set of victims with which enough members fit.
pub(super) struct BranchAndBound<'p, 'a> {
    problem: &'p Problem<'a>,
    /// The cheapest set found.
    best: Option<Vec<UnitIndex>>,
    /// Cost of `best`, or the cost that a set must be below; `None` if any set is accepted.
    cost: Option<Cost>,
    /// Remaining number of checks whether enough members fit.
    checks: usize,
    /// Remaining number of choices that are compared although they are equal before ties.
    ties: usize,
    /// The units that the current branch evicts.
    chosen: Vec<UnitIndex>,
    /// True if further evictions never reduce how many members fit. With inter-pod constraints they can.
    monotone: bool,
}

impl<'p, 'a> BranchAndBound<'p, 'a> {
    /// Creates a search for a set of victims that costs less than `cost`, with at most `checks` checks whether enough members fit.
    pub(super) fn new(problem: &'p Problem<'a>, cost: Cost, checks: usize) -> Self {
        Self { cost: Some(cost), ..Self::unbounded(problem, checks) }
    }

    /// Creates a search for the cheapest set of victims, whatever it costs, with at most `checks` checks whether enough members fit.
    pub(super) fn unbounded(problem: &'p Problem<'a>, checks: usize) -> Self {
        Self { problem, best: None, cost: None, checks, ties: MOST_TIES, chosen: Vec::new(), monotone: true }
    }

    /// Returns the cheapest set of victims that was found; `None` if there is none, or none that costs less than the cost given to
    /// [`Self::new`].
    pub(super) fn into_best(self) -> Option<Vec<UnitIndex>> {
        self.best
    }

    /// Returns how many more checks the search may make whether enough members fit.
    pub(super) fn checks_left(&self) -> usize {
        self.checks
    }

    /// Tries the subsets of `units` (single pods or whole groups), and returns true if the search was not cut short. `least` and `most` are
    /// the same capacity with no unit removed, before and afterwards; during the search, the evicted units are removed from `least`, and
    /// from `most` also those not decided on. `monotone` says that further evictions never reduce how many members fit.
    pub(super) fn run<T: EvictionTrial>(
        &mut self,
        least: &mut T,
        most: &mut T,
        units: &[UnitIndex],
        monotone: bool,
    ) -> bool {
        let mut order = units.to_vec();
        order.sort_by(|a, b| self.problem.potential.compare(*a, *b));
        order.iter().for_each(|unit| most.take(*unit));
        self.monotone = monotone;
        if !monotone || most.enough() {
            let tally = self.problem.budgets.tally();
            self.branch(least, most, &order, &tally);
        }
        order.iter().for_each(|unit| most.put(*unit));
        self.checks > 0 && !self.problem.effort.spent()
    }

    /// Decides on the first unit (a single pod or a whole group) of `rest`, first for keeping it and then for evicting it, and on the
    /// others in turn. In `least`, the units chosen for eviction are removed, and in `most` those of `rest` as well; `tally` counts the
    /// chosen ones by budget.
    fn branch<T: EvictionTrial>(&mut self, least: &mut T, most: &mut T, rest: &[UnitIndex], tally: &Tally) {
        let Some((unit, rest)) = rest.split_first() else { return };
        if self.checks < 2 {
            self.checks = 0;
            return;
        }
        most.put(*unit);
        if !self.monotone || self.check(most) {
            self.branch(least, most, rest, tally);
        }
        most.take(*unit);
        let mut tally = tally.clone();
        self.problem.budgets.add(&mut tally, &self.problem.potential.units[*unit]);
        if self.checks == 0 || self.problem.budgets.first_breached(&tally).is_some() {
            return;
        }
        self.chosen.push(*unit);
        let violations = self.problem.budgets.violations_of(&tally);
        let cost = violations.map_or_else(
            || Cost::of_evictions(self.problem, &self.chosen),
            |violations| Cost::with(self.problem, &self.chosen, violations),
        );
        if self.cost.as_ref().is_none_or(|best| cost.bound() <= best.bound()) {
            least.take(*unit);
            if self.check(least) {
                self.keep_if_cheaper(least, cost);
            } else {
                self.branch(least, most, rest, &tally);
            }
            least.put(*unit);
        }
        self.chosen.pop();
    }

    /// Makes the chosen units (single pods or whole groups) the best set of victims if they cost less than it. `cost` is their cost without
    /// the losses (pods that fit on no other node, and work), which are added here if the problem compares them; `trial` is the capacity
    /// without the chosen units.
    fn keep_if_cheaper<T: EvictionTrial>(&mut self, trial: &mut T, mut cost: Cost) {
        let ties = self.cost.as_ref().is_some_and(|best| cost.bound() == best.bound());
        if ties && self.ties == 0 {
            return;
        }
        self.ties -= usize::from(ties);
        if self.problem.elsewhere.is_some() {
            let placed = trial.placement(self.problem).unwrap_or_default();
            cost = cost.with_losses(self.problem, &self.chosen, &placed);
        }
        if self.cost.as_ref().is_none_or(|best| cost < *best) {
            self.best = Some(self.chosen.clone());
            self.cost = Some(cost);
        }
    }

    /// Returns true if enough members fit on `trial`, and counts the check.
    fn check<T: EvictionTrial>(&mut self, trial: &mut T) -> bool {
        self.checks = if self.problem.effort.spent() { 0 } else { self.checks.saturating_sub(1) };
        trial.enough()
    }
}

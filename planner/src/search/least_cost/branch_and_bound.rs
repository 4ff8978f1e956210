//! Branch and bound over all sets of victims, unit by unit: sets that cannot become cheaper than the best one so far, or cannot become
//! sufficient, are skipped.

use crate::api::Cost;
use crate::filters::Rank;
use crate::limits::MOST_TIES;
use crate::model::PodIndex;
use crate::problem::{Problem, Tally, UnitIndex};

/// The capacity on which branch and bound tries sets of victims: units are removed and put back one by one, and it tells whether the wanted
/// number of members fits without those that are removed. It is an occupancy, one node of it, or a matrix of amounts.
pub(super) trait EvictionTrial {
    /// Removes a unit from the capacity, as if it were evicted.
    fn take(&mut self, unit: UnitIndex);
    /// Puts a removed unit back: reverts [`Self::take`].
    fn put(&mut self, unit: UnitIndex);
    /// Returns true if the wanted number of members fits without the removed units.
    fn enough(&mut self) -> bool;
    /// Returns the node of each of the wanted members, with the units evicted that are taken now. `None` if fewer fit.
    fn placement(&mut self, problem: &Problem<'_>) -> Option<Vec<(PodIndex, Rank)>>;
}

/// Branch and bound over all subsets of units: finds the cheapest victims.
pub(super) struct Exact<'p, 'a> {
    problem: &'p Problem<'a>,
    best: Option<Vec<UnitIndex>>,
    cost: Option<Cost>,
    checks: usize,
    /// Remaining number of choices that are compared although they are equal before ties.
    ties: usize,
    chosen: Vec<UnitIndex>,
    /// True if further evictions never reduce how many members fit. With inter-pod constraints they can.
    monotone: bool,
}

impl<'p, 'a> Exact<'p, 'a> {
    /// Creates a search for a choice cheaper than `cost`, with at most `checks` checks whether enough members fit.
    pub(super) fn new(problem: &'p Problem<'a>, cost: Cost, checks: usize) -> Self {
        Self { cost: Some(cost), ..Self::unbounded(problem, checks) }
    }

    /// Creates a search for the cheapest choice, without an upper bound on its cost, with at most `checks` checks whether enough members
    /// fit.
    pub(super) fn unbounded(problem: &'p Problem<'a>, checks: usize) -> Self {
        Self { problem, best: None, cost: None, checks, ties: MOST_TIES, chosen: Vec::new(), monotone: true }
    }

    /// Returns the cheapest victims found; `None` if none are cheaper than the known cost.
    pub(super) fn into_best(self) -> Option<Vec<UnitIndex>> {
        self.best
    }

    /// Returns how many more checks the search may make whether enough members fit.
    pub(super) fn checks_left(&self) -> usize {
        self.checks
    }

    /// Tries all subsets of `units`, and returns true if the search was complete. From `least`, the chosen units are removed during the
    /// search, and from `most` also those not yet decided on; both are unchanged afterwards. `monotone` says that further evictions never
    /// reduce how many members fit.
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
            self.decide(least, most, &order, &tally);
        }
        order.iter().for_each(|unit| most.put(*unit));
        self.checks > 0 && !self.problem.effort.spent()
    }

    /// Branches on the first unit of `rest`: first kept, then evicted. The chosen units are removed from `least`, and those of `rest` from
    /// `most` as well.
    fn decide<T: EvictionTrial>(&mut self, least: &mut T, most: &mut T, rest: &[UnitIndex], tally: &Tally) {
        let Some((unit, rest)) = rest.split_first() else { return };
        if self.checks < 2 {
            self.checks = 0;
            return;
        }
        most.put(*unit);
        if !self.monotone || self.ask(most) {
            self.decide(least, most, rest, tally);
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
            if self.ask(least) {
                self.compare(least, cost);
            } else {
                self.decide(least, most, rest, &tally);
            }
            least.put(*unit);
        }
        self.chosen.pop();
    }

    /// Replaces the best choice by the chosen units if they cost less; `cost` is their cost without what they lose.
    fn compare<T: EvictionTrial>(&mut self, trial: &mut T, mut cost: Cost) {
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

    /// Returns true if enough members fit, and counts the check.
    fn ask<T: EvictionTrial>(&mut self, trial: &mut T) -> bool {
        self.checks = if self.problem.effort.spent() { 0 } else { self.checks.saturating_sub(1) };
        trial.enough()
    }
}

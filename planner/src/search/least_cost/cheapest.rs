//! What branch and bound minimizes for the strategy `least-cost`: the cost of step 9.

use crate::api::Cost;
use crate::limits::MOST_TIES;
use crate::problem::{Problem, Tally, UnitIndex};
use crate::search::branch_and_bound::{EvictionTrial, Objective};

/// The cheapest set of victims so far.
pub(super) struct Cheapest<'p, 'a> {
    problem: &'p Problem<'a>,
    /// The set; `None` if none was found that costs less than the search was given.
    pub(super) victims: Option<Vec<UnitIndex>>,
    /// Cost of `victims`, or the cost that a set must be below; `None` if any set is accepted.
    cost: Option<Cost>,
    /// Remaining number of sets that are compared although they are equal before ties.
    ties: usize,
}

impl<'p, 'a> Cheapest<'p, 'a> {
    /// Accepts sets of victims that cost less than `cost`; any set without a cost.
    pub(super) fn below(problem: &'p Problem<'a>, cost: Option<Cost>) -> Self {
        Self { problem, victims: None, cost, ties: MOST_TIES }
    }

    /// Returns the cost of a set of units (single pods or whole groups) without the losses: pods that fit on no other node, and work.
    /// `tally` counts them by budget.
    fn cost_without_losses(&self, chosen: &[UnitIndex], tally: &Tally) -> Cost {
        match self.problem.budgets.violations_of(tally) {
            Some(violations) => Cost::with(self.problem, chosen, violations),
            None => Cost::of_evictions(self.problem, chosen),
        }
    }
}

impl Objective for Cheapest<'_, '_> {
    /// Returns true unless the set `chosen` costs more than the best one without its other units; further units only add to it.
    fn can_improve(&self, chosen: &[UnitIndex], _: &[UnitIndex], tally: &Tally) -> bool {
        let cost = self.cost_without_losses(chosen, tally);
        self.cost.as_ref().is_none_or(|best| cost.bound() <= best.bound())
    }

    /// Makes the set `chosen` the best one if it costs less. Losses are compared if the problem has them.
    fn keep_if_better(&mut self, chosen: &[UnitIndex], tally: &Tally, trial: &mut impl EvictionTrial) {
        let mut cost = self.cost_without_losses(chosen, tally);
        let ties = self.cost.as_ref().is_some_and(|best| cost.bound() == best.bound());
        if ties && self.ties == 0 {
            return;
        }
        self.ties -= usize::from(ties);
        if self.problem.elsewhere.is_some() {
            let placed = trial.placement(self.problem).unwrap_or_default();
            cost = cost.with_losses(self.problem, chosen, &placed);
        }
        if self.cost.as_ref().is_none_or(|best| cost < *best) {
            (self.victims, self.cost) = (Some(chosen.to_vec()), Some(cost));
        }
    }

    /// Returns false: units differ in what their eviction costs, or at least in ties.
    fn are_alike(&self, _: UnitIndex, _: UnitIndex) -> bool {
        false
    }
}

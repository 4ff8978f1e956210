//! Which preemptors wait for a plan, in which order, and what was planned for them in mode `observe`.

pub mod observed;
pub mod queue;
pub mod round;
pub mod survey;

use giveway_planner::Preemptor;
use observed::ObservedPlans;
use queue::{Candidates, PendingPreemptor};
use round::Round;
use std::collections::BTreeMap;

/// The pending preemptors, and the round of decisions for them. It is not the stored object of this name.
#[derive(Debug, Default)]
pub struct Preemption {
    /// What is remembered about pending preemptors without a plan in flight.
    pub waiting: BTreeMap<Preemptor, PendingPreemptor>,
    /// The same of preemptors with a plan in flight, which passes do not visit.
    planned: BTreeMap<Preemptor, PendingPreemptor>,
    /// The PodGroups that may need a plan.
    pub candidates: Candidates,
    /// The current round of decisions.
    pub round: Round,
    /// The plans that were made in mode `observe`.
    pub observed: ObservedPlans,
}

impl Preemption {
    /// Moves the state of a preemptor out of `waiting`, because a plan for it is in flight now. It is kept for the time after the plan.
    pub fn planned(&mut self, preemptor: &Preemptor) {
        self.planned.extend(self.waiting.remove_entry(preemptor));
    }

    /// Moves the state of a preemptor back to `waiting`, because its plan has ended.
    pub fn ended(&mut self, preemptor: &Preemptor) {
        self.waiting.extend(self.planned.remove_entry(preemptor));
    }

    /// Returns the state of a preemptor, with or without a plan in flight. A new state is created if it has none.
    pub fn remembered(&mut self, preemptor: Preemptor) -> &mut PendingPreemptor {
        let is_planned = self.planned.contains_key(&preemptor);
        let all = if is_planned { &mut self.planned } else { &mut self.waiting };
        all.entry(preemptor).or_default()
    }

    /// Removes the state of a preemptor, because another object has its name now.
    pub fn forget(&mut self, preemptor: &Preemptor) {
        self.waiting.remove(preemptor);
        self.planned.remove(preemptor);
    }
}

//! Which preemptors wait for a plan, in which order, and what was planned for them in mode `observe`.

pub mod observed;
pub mod queue;
pub mod round;
pub mod survey;

use giveway_planner::Preemptor;
use observed::Observed;
use queue::Waiting;
use round::Round;
use std::collections::BTreeMap;

/// The state of decisions.
#[derive(Debug, Default)]
pub struct Preemption {
    /// What is remembered about pending preemptors.
    pub waiting: BTreeMap<Preemptor, Waiting>,
    /// The current round of decisions.
    pub round: Round,
    /// The plans that were made in mode `observe`.
    pub observed: Observed,
}

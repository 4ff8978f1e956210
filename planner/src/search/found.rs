//! What a search found.

use crate::api::{Cost, Strategy};
use crate::filters::Rank;
use crate::model::PodIndex;
use crate::problem::UnitIndex;
/// The result of a search: members with their nodes, and the victims.
pub(crate) struct Found {
    pub(crate) placed: Vec<(PodIndex, Rank)>,
    /// From the most to the least important.
    pub(crate) victims: Vec<UnitIndex>,
    pub(crate) cost: Cost,
    pub(crate) trace: Vec<String>,
    /// Whether it is proven that no cheaper choice of victims exists in the problem, apart from tie-breaks.
    pub(crate) proven: bool,
}

impl Found {
    /// Returns a result without victims: the members fit after the pods that are leaving anyway have terminated.
    pub(crate) fn by_waiting(placed: Vec<(PodIndex, Rank)>) -> Self {
        let trace = vec!["Enough members fit once the pods that are leaving anyway have terminated.".to_owned()];
        Self { placed, victims: Vec::new(), cost: Cost::default(), trace, proven: true }
    }

    /// Appends to the trace whether the plan is proven to be the cheapest. Only `least-cost` searches for it.
    pub(crate) fn tell_outcome(&mut self, strategy: Strategy) {
        if strategy == Strategy::LeastCost {
            self.trace.push(outcome_in_words(self.proven).to_owned());
        }
    }
}

/// Returns whether the plan is proven to be the cheapest, as a sentence.
pub(crate) fn outcome_in_words(proven: bool) -> &'static str {
    if proven { "Nothing cheaper exists." } else { "Nothing cheaper was found; a cheaper plan may exist." }
}

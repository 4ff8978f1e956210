//! What a search found.

use crate::api::{Cost, CostBound, Strategy};
use crate::filters::Rank;
use crate::model::PodIndex;
use crate::problem::UnitIndex;
/// The result of a search: members with their nodes, and the victims.
pub(crate) struct Found {
    pub(crate) placed: Vec<(PodIndex, Rank)>,
    /// From the most to the least important.
    pub(crate) victims: Vec<UnitIndex>,
    pub(crate) cost: Cost,
    /// The explanation of the search, in sentences.
    pub(crate) trace: Vec<String>,
    /// What every choice of victims in the problem costs at least.
    pub(crate) least: CostBound,
}

impl Found {
    /// Returns a result without victims: the members are placed as in `placed` (member and rank of its node), where they fit after the pods
    /// that are leaving anyway have terminated.
    pub(crate) fn by_waiting(placed: Vec<(PodIndex, Rank)>) -> Self {
        let trace = vec!["Enough members fit once the pods that are leaving anyway have terminated.".to_owned()];
        Self { placed, victims: Vec::new(), cost: Cost::default(), trace, least: CostBound::default() }
    }

    /// Returns true if it is proven that no cheaper choice of victims exists in the problem, apart from tie-breaks.
    pub(crate) fn is_proven(&self) -> bool {
        self.least >= self.cost.bound()
    }

    /// Appends to the trace a sentence that says what is proven about the cost. Only with the strategy `least-cost`, which searches for
    /// that.
    pub(crate) fn append_outcome(&mut self, strategy: Strategy) {
        if strategy == Strategy::LeastCost {
            self.trace.push(self.least.sentence(&self.cost));
        }
    }
}

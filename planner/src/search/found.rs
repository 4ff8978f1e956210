//! What a search found.

use crate::api::Cost;
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
}

impl Found {
    /// Returns a result without victims: the members fit after the pods that are leaving anyway have terminated.
    pub(crate) fn by_waiting(placed: Vec<(PodIndex, Rank)>) -> Self {
        let trace = vec!["Enough members fit once the pods that are leaving anyway have terminated.".to_owned()];
        Self { placed, victims: Vec::new(), cost: Cost::default(), trace }
    }
}

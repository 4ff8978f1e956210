//! What a search found.

use crate::api::Cost;
use crate::filters::Rank;
use crate::model::PodIndex;
use crate::problem::UnitIndex;
/// Members with their nodes, and who has to go for them.
pub(crate) struct Found {
    pub(crate) placed: Vec<(PodIndex, Rank)>,
    /// From the most to the least important.
    pub(crate) victims: Vec<UnitIndex>,
    pub(crate) cost: Cost,
    pub(crate) trace: Vec<String>,
}

impl Found {
    /// Nobody has to be evicted for the members to fit there.
    pub(crate) fn by_waiting(placed: Vec<(PodIndex, Rank)>) -> Self {
        let trace = vec!["Enough members fit once the pods that leave anyway are gone.".to_owned()];
        Self { placed, victims: Vec::new(), cost: Cost::default(), trace }
    }
}

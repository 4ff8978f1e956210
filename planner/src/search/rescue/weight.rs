//! Weight of evictions on a node for a critical add-on, which defines the order within each of the three steps.

use crate::api::Step;
use crate::filters::Rank;
use crate::model::ObjectKey;
/// Weight of the evictions that free a node for a critical add-on; the least weight is chosen. The fields are compared in the order in
/// which they are declared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Weight<'a> {
    /// The least disruptive step that permits the evictions.
    pub(crate) step: Step,
    /// Number of pods whose eviction violates a budget, plus number of pods whose grace period is shortened.
    pub(crate) disturbances: usize,
    /// Number of evicted pods.
    pub(crate) pods: usize,
    /// Number of pods that fit on no other node without evictions.
    pub(crate) stranded: usize,
    /// Their requests, as shares of what all nodes offer.
    pub(crate) requests: i128,
    /// Pods without a controller, which are not recreated.
    pub(crate) uncontrolled: usize,
    /// The rank of the node.
    pub(crate) node: Rank,
    /// The evicted units, sorted by name.
    pub(crate) names: Vec<&'a ObjectKey>,
}

//! What it weighs to evict some pods of a node for a critical add-on: the order within each of the three steps.

use crate::api::Step;
use crate::filters::Rank;
use crate::model::ObjectKey;
/// What some evictions weigh; the lightest are made. The fields are compared in the order in which they are declared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Weight<'a> {
    pub(crate) step: Step,
    /// Pods whose eviction violates a budget, and pods whose grace is shortened.
    pub(crate) disturbances: usize,
    pub(crate) pods: usize,
    /// Pods that fit on no other node as it is.
    pub(crate) homeless: usize,
    /// What they ask for, in shares of what all nodes offer.
    pub(crate) requests: i128,
    /// Pods without a controller, which are not recreated.
    pub(crate) uncontrolled: usize,
    /// The node.
    pub(crate) node: Rank,
    /// The units, by name.
    pub(crate) names: Vec<&'a ObjectKey>,
}

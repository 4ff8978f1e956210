//! An occupancy in which victims for a single pod are tried on one node.

use crate::filters::{Occupancy, Rank};
use crate::model::PodIndex;
use crate::problem::{Problem, UnitIndex};
use crate::search::branch_and_bound::EvictionTrial;
use crate::search::near::RelevantPods;

/// An occupancy in which victims for a single pod are tried on one node.
pub(super) struct NodeTrial<'p, 'a> {
    pub(super) occupancy: Occupancy<'a>,
    pub(super) member: PodIndex,
    pub(super) rank: Rank,
    pub(super) near: &'p RelevantPods<'p, 'a>,
}

impl EvictionTrial for NodeTrial<'_, '_> {
    /// Removes those pods of the unit (a single pod or a whole group) from the occupancy that matter for the node.
    fn take(&mut self, unit: UnitIndex) {
        self.occupancy.take(&self.near.pods(unit, self.rank));
    }

    /// Puts those pods of the unit (a single pod or a whole group) back that matter for the node.
    fn put(&mut self, unit: UnitIndex) {
        self.occupancy.put(&self.near.pods(unit, self.rank));
    }

    /// Returns true if the pod fits on the node without the removed units (single pods or whole groups).
    fn enough(&mut self) -> bool {
        self.occupancy.refuse(self.member, self.rank).is_none()
    }

    /// Returns the pod with the rank of the node. Whether it fits there is not checked again.
    fn placement(&mut self, _: &Problem<'_>) -> Option<Vec<(PodIndex, Rank)>> {
        Some(vec![(self.member, self.rank)])
    }
}

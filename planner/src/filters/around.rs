//! What the filters that look at other nodes see of a room.
//!
//! A place that is held by a nomination counts against a pod, and never for it: kube-scheduler asks these filters twice,
//! with the nominated pods in place and without them, and both must agree.

use crate::filters::nodes::Rank;
use crate::filters::occupancy::Occupancy;
use crate::model::{Cluster, Node, Pod};
/// A room, with or without the pods whose places are only held.
#[derive(Clone, Copy)]
pub(super) struct Around<'r, 'a> {
    room: &'r Occupancy<'a>,
    held_too: bool,
}

impl<'r, 'a> Around<'r, 'a> {
    /// Everything in the room.
    pub(super) fn with_held(room: &'r Occupancy<'a>) -> Self {
        Self { room, held_too: true }
    }

    /// Without the pods whose places are only held; `None` when there are none.
    pub(super) fn without_held(room: &'r Occupancy<'a>) -> Option<Self> {
        (!room.held.is_empty()).then_some(Self { room, held_too: false })
    }

    /// The same room, without the pods whose places are only held.
    pub(super) fn only_there(self) -> Self {
        Self { held_too: false, ..self }
    }

    /// The cluster.
    pub(super) fn cluster(&self) -> &'a Cluster {
        self.room.cluster
    }

    /// The node at a rank.
    pub(super) fn node(&self, rank: Rank) -> &'a Node {
        self.room.nodes.at(rank)
    }

    /// How many nodes there are.
    pub(super) fn nodes(&self) -> usize {
        self.room.nodes.len()
    }

    /// Pods on a node.
    pub(super) fn occupants(&self, rank: Rank) -> impl Iterator<Item = &'a Pod> + use<'r, 'a> {
        let (room, held_too) = (self.room, self.held_too);
        room.occupant_indexes(rank)
            .iter()
            .filter(move |index| held_too || !room.held.contains(index))
            .filter_map(move |index| room.cluster.pod_at(*index))
    }

    /// The topology keys that matter.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> + use<'r, 'a> {
        self.room.topology.keys().copied()
    }

    /// The domains of a topology key that matters: ranks by label value.
    pub(super) fn domains(&self, key: &str) -> impl Iterator<Item = (&'a str, &'r [Rank])> + use<'r, 'a> {
        let domains = self.room.topology.get(key);
        domains.into_iter().flatten().map(|(value, ranks)| (*value, ranks.as_slice()))
    }

    /// The nodes of a node's domain; none when it has no label for the key.
    pub(super) fn domain(&self, key: &str, rank: Rank) -> &'r [Rank] {
        let value = self.node(rank).labels.get(key);
        let domain = value.and_then(|value| self.room.topology.get(key)?.get(value.as_str()));
        domain.map_or(&[], Vec::as_slice)
    }
}

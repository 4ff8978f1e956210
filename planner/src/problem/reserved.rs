//! The reservations that count against a preemptor.

use crate::api::Respect;
use crate::filters::{Nomination, Rank};
use crate::model::{Cluster, NodeIndex, PodIndex, Reservation};
use std::collections::BTreeSet;

/// Which reservations count against a preemptor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reserved {
    /// Its priority.
    pub(crate) priority: i32,
    /// Which reservations it respects.
    pub(crate) respect: Respect,
    /// Those of its own pods for which capacity is set aside, which reserve nothing against themselves.
    pub(crate) own: BTreeSet<PodIndex>,
}

impl Reserved {
    /// Returns true if this reservation of capacity for `pod` counts against the preemptor: it must respect it, and `pod` is not one of its
    /// own.
    fn counts(&self, pod: PodIndex, reservation: Reservation) -> bool {
        self.respect.counts(reservation, self.priority) && !self.own.contains(&pod)
    }

    /// Returns the pods for which capacity of this node is reserved, as far as the reservation counts against the preemptor.
    pub(crate) fn on<'c>(&'c self, cluster: &'c Cluster, node: NodeIndex) -> impl Iterator<Item = PodIndex> + 'c {
        cluster.reserved_on(node).filter(|(pod, reservation)| self.counts(*pod, *reservation)).map(|(pod, _)| pod)
    }

    /// Returns the reservations that count against the preemptor on the nodes with these ranks (positions among all nodes): the pod, and
    /// the rank.
    pub(crate) fn among(&self, cluster: &Cluster, ranks: impl Iterator<Item = Rank>) -> Vec<Nomination> {
        let nodes = cluster.node_order();
        let on = |rank: Rank| nodes.get(rank).into_iter().flat_map(|(node, _)| self.on(cluster, *node));
        ranks.flat_map(|rank| on(rank).map(move |pod| (pod, rank))).collect()
    }

    /// Returns the reservations that count against the preemptor, on all nodes that exist: the pod, and the rank of the node among all
    /// nodes; sorted by node.
    pub(crate) fn all(&self, cluster: &Cluster) -> Vec<Nomination> {
        let counts = cluster.reserved().filter(|(pod, _, reservation)| self.counts(*pod, *reservation));
        let mut reservations: Vec<Nomination> =
            counts.filter_map(|(pod, node, _)| Some((pod, cluster.rank_of(node)?))).collect();
        reservations.sort_unstable_by_key(|(pod, rank)| (*rank, *pod));
        reservations
    }

    /// Returns the pods with required anti-affinity for which capacity is reserved, as far as the reservation counts against the preemptor.
    pub(crate) fn repelling<'c>(&'c self, cluster: &'c Cluster) -> impl Iterator<Item = PodIndex> + 'c {
        cluster.reserved_repelling().filter(|(pod, held)| self.counts(*pod, *held)).map(|(pod, _)| pod)
    }
}

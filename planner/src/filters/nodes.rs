//! The nodes of a decision, in the order of their names, and the topology domains they form.

use crate::limits::FEW_NODES;
use crate::model::{Cluster, Node, NodeIndex, PodIndex};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Position of a node, from 0, in a list of nodes that is sorted by name ([`Nodes`]).
pub(crate) type Rank = usize;
/// A nomination: the pod, and the rank of its nominated node among all nodes.
pub(crate) type Nomination = (PodIndex, Rank);

/// A list of nodes, sorted by name: all nodes of the cluster, or some of them. A *rank* is a position in this list; a
/// *place* is the position of the same node among all nodes.
pub(crate) struct Nodes<'a> {
    cluster: &'a Cluster,
    order: &'a [(NodeIndex, Arc<Node>)],
    /// Set if only some of the nodes belong to the decision.
    chosen: Option<Chosen>,
}

/// Some of the nodes.
struct Chosen {
    /// Their positions in the order of all nodes, ascending.
    places: Vec<Rank>,
    /// By position among all nodes: one more than the rank here, or 0 if the node is not included. Empty if they are few.
    ranks: Vec<u32>,
    /// Whether they are known to pass all filters that do not depend on other pods.
    suitable: bool,
}

impl<'a> Nodes<'a> {
    /// Creates the list of all nodes of a cluster.
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        Self { cluster, order: cluster.node_order(), chosen: None }
    }

    /// Creates the list of some nodes of a cluster; `places` are their positions among all nodes, ascending.
    pub(crate) fn some(cluster: &'a Cluster, places: Vec<Rank>) -> Self {
        Self::chosen(cluster, places, false)
    }

    /// Creates the list of some nodes that are known to pass all filters that do not depend on other pods; `places` are
    /// their positions among all nodes, ascending.
    pub(crate) fn suitable(cluster: &'a Cluster, places: Vec<Rank>) -> Self {
        Self::chosen(cluster, places, true)
    }

    /// Creates the list of some nodes; `places` are their positions among all nodes, ascending. `suitable` says that the nodes are known to
    /// pass all filters that do not depend on other pods.
    fn chosen(cluster: &'a Cluster, places: Vec<Rank>, suitable: bool) -> Self {
        let order = cluster.node_order();
        let mut ranks = Vec::new();
        if places.len() > FEW_NODES {
            ranks.resize(order.len(), 0);
            (1u32..).zip(&places).for_each(|(rank, place)| ranks[*place] = rank);
        }
        Self { cluster, order, chosen: Some(Chosen { places, ranks, suitable }) }
    }

    /// Returns true if the nodes are known to pass all filters that do not depend on other pods.
    pub(crate) fn all_suitable(&self) -> bool {
        self.chosen.as_ref().is_some_and(|chosen| chosen.suitable)
    }

    /// Returns the position among all nodes of the node with this rank in the list.
    pub(crate) fn place(&self, rank: Rank) -> Rank {
        self.chosen.as_ref().map_or(rank, |chosen| chosen.places[rank])
    }

    /// Returns the rank in this list of the node at this position among all nodes; `None` if the list does not contain
    /// it.
    pub(crate) fn rank_of_place(&self, place: Rank) -> Option<Rank> {
        match &self.chosen {
            None => Some(place),
            Some(chosen) if chosen.ranks.is_empty() => chosen.places.binary_search(&place).ok(),
            Some(chosen) => (chosen.ranks[place] as usize).checked_sub(1),
        }
    }

    /// Returns the number of all nodes of the cluster, of which this list may have only some.
    pub(super) fn cluster_len(&self) -> usize {
        self.order.len()
    }

    /// Returns the keys of all labels of all nodes of the cluster. There are few, because only administrators and kubelets write them.
    pub(super) fn label_keys(&self) -> BTreeSet<&'a str> {
        self.order.iter().flat_map(|(_, node)| node.labels.keys().map(String::as_str)).collect()
    }

    /// Returns the node at this position among all nodes.
    pub(super) fn at_place(&self, place: Rank) -> &'a Node {
        &self.order[place].1
    }

    /// Returns the model's index of the node at this position among all nodes.
    pub(super) fn index_at_place(&self, place: Rank) -> NodeIndex {
        self.order[place].0
    }

    /// Returns the number of nodes in this list.
    pub(crate) fn len(&self) -> usize {
        self.chosen.as_ref().map_or(self.order.len(), |chosen| chosen.places.len())
    }

    /// Returns the node with this rank in the list.
    pub(crate) fn at(&self, rank: Rank) -> &'a Node {
        &self.order[self.place(rank)].1
    }

    /// Returns the model's index of the node with this rank in the list.
    pub(crate) fn index(&self, rank: Rank) -> NodeIndex {
        self.order[self.place(rank)].0
    }

    /// Returns the rank in this list of the node that has this index in the model; `None` if the node does not exist or the list does not
    /// contain it.
    pub(crate) fn rank(&self, index: NodeIndex) -> Option<Rank> {
        self.rank_of_place(self.cluster.rank_of(index)?)
    }
}

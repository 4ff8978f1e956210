//! The nodes of a decision, in the order of their names, and the topology domains they form.

use crate::limits::FEW_NODES;
use crate::model::{Cluster, Node, NodeIndex, PodIndex};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Position of a node in the order of names.
pub(crate) type Rank = usize;
/// A nomination: the pod, and the rank of its nominated node among all nodes.
pub(crate) type Held = (PodIndex, Rank);

/// The nodes by rank.
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
    suit: bool,
}

impl<'a> Nodes<'a> {
    /// All nodes of a cluster.
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        Self { cluster, order: cluster.node_order(), chosen: None }
    }

    /// Some of the nodes of a cluster, given by their ranks among all of them, ascending.
    pub(crate) fn some(cluster: &'a Cluster, places: Vec<Rank>) -> Self {
        Self::chosen(cluster, places, false)
    }

    /// Returns some of the nodes, which are known to pass all filters that do not depend on other pods.
    pub(crate) fn suitable(cluster: &'a Cluster, places: Vec<Rank>) -> Self {
        Self::chosen(cluster, places, true)
    }

    /// Creates a list of some nodes; `places` are their ranks among all nodes, ascending.
    fn chosen(cluster: &'a Cluster, places: Vec<Rank>, suit: bool) -> Self {
        let order = cluster.node_order();
        let mut ranks = Vec::new();
        if places.len() > FEW_NODES {
            ranks.resize(order.len(), 0);
            (1u32..).zip(&places).for_each(|(rank, place)| ranks[*place] = rank);
        }
        Self { cluster, order, chosen: Some(Chosen { places, ranks, suit }) }
    }

    /// Returns true if the nodes are known to pass all filters that do not depend on other pods.
    pub(crate) fn suit(&self) -> bool {
        self.chosen.as_ref().is_some_and(|chosen| chosen.suit)
    }

    /// Returns the position of a node of this list among all nodes.
    pub(crate) fn place(&self, rank: Rank) -> Rank {
        self.chosen.as_ref().map_or(rank, |chosen| chosen.places[rank])
    }

    /// The rank here of the node that has this rank among all nodes.
    pub(crate) fn local(&self, place: Rank) -> Option<Rank> {
        match &self.chosen {
            None => Some(place),
            Some(chosen) if chosen.ranks.is_empty() => chosen.places.binary_search(&place).ok(),
            Some(chosen) => (chosen.ranks[place] as usize).checked_sub(1),
        }
    }

    /// Returns the number of nodes of the cluster.
    pub(super) fn everywhere(&self) -> usize {
        self.order.len()
    }

    /// The keys of all labels that nodes have: only administrators and kubelets write them, so that there are few.
    pub(super) fn label_keys(&self) -> BTreeSet<&'a str> {
        self.order.iter().flat_map(|(_, node)| node.labels.keys().map(String::as_str)).collect()
    }

    /// The node that has this rank among all nodes.
    pub(super) fn in_place(&self, place: Rank) -> &'a Node {
        &self.order[place].1
    }

    /// The model's index of the node that has this rank among all nodes.
    pub(super) fn index_in_place(&self, place: Rank) -> NodeIndex {
        self.order[place].0
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.chosen.as_ref().map_or(self.order.len(), |chosen| chosen.places.len())
    }

    /// Returns the node with this rank, its position in this list.
    pub(crate) fn at(&self, rank: Rank) -> &'a Node {
        &self.order[self.place(rank)].1
    }

    /// Returns the model's index of the node at a rank.
    pub(crate) fn index(&self, rank: Rank) -> NodeIndex {
        self.order[self.place(rank)].0
    }

    /// The rank of a node by the model's index; `None` when the node does not exist.
    pub(crate) fn rank(&self, index: NodeIndex) -> Option<Rank> {
        self.local(self.cluster.rank_of(index)?)
    }
}

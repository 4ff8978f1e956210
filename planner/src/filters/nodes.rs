//! The nodes of a decision, in the order of their names, and the topology domains they form.

use crate::model::{Cluster, Node, NodeIndex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Place of a node in the order of names.
pub(crate) type Rank = usize;

/// The nodes by rank.
pub(crate) struct Nodes<'a> {
    cluster: &'a Cluster,
    order: &'a [(NodeIndex, Arc<Node>)],
    /// Set where not all nodes are meant.
    chosen: Option<Chosen>,
}

/// Some of the nodes.
struct Chosen {
    /// Their places in the order of all nodes, ascending.
    places: Vec<Rank>,
    /// By place in that order: one more than the rank here, or 0.
    ranks: Vec<u32>,
}

impl<'a> Nodes<'a> {
    /// All nodes of a cluster.
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        Self { cluster, order: cluster.node_order(), chosen: None }
    }

    /// Some of the nodes of a cluster, given by their ranks among all of them, ascending.
    pub(crate) fn some(cluster: &'a Cluster, places: Vec<Rank>) -> Self {
        let order = cluster.node_order();
        let mut ranks = vec![0; order.len()];
        (1u32..).zip(&places).for_each(|(rank, place)| ranks[*place] = rank);
        Self { cluster, order, chosen: Some(Chosen { places, ranks }) }
    }

    /// Whether these are all nodes; some are chosen only among those that suit the members.
    pub(crate) fn all(&self) -> bool {
        self.chosen.is_none()
    }

    /// The rank among all nodes.
    pub(crate) fn place(&self, rank: Rank) -> Rank {
        self.chosen.as_ref().map_or(rank, |chosen| chosen.places[rank])
    }

    /// The rank here of the node that has this rank among all nodes.
    pub(crate) fn local(&self, place: Rank) -> Option<Rank> {
        match &self.chosen {
            None => Some(place),
            Some(chosen) => (chosen.ranks[place] as usize).checked_sub(1),
        }
    }

    /// How many nodes the cluster has.
    pub(super) fn everywhere(&self) -> usize {
        self.order.len()
    }

    /// The node that has this rank among all nodes.
    pub(super) fn in_place(&self, place: Rank) -> &'a Node {
        &self.order[place].1
    }

    /// The model's index of the node that has this rank among all nodes.
    pub(super) fn index_in_place(&self, place: Rank) -> NodeIndex {
        self.order[place].0
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.chosen.as_ref().map_or(self.order.len(), |chosen| chosen.places.len())
    }

    /// The node at a rank.
    pub(crate) fn at(&self, rank: Rank) -> &'a Node {
        &self.order[self.place(rank)].1
    }

    /// The model's index of the node at a rank.
    pub(crate) fn index(&self, rank: Rank) -> NodeIndex {
        self.order[self.place(rank)].0
    }

    /// The rank of a node by the model's index; `None` when the node does not exist.
    pub(crate) fn rank(&self, index: NodeIndex) -> Option<Rank> {
        self.local(self.cluster.rank_of(index)?)
    }

    /// The domains of a topology key: ranks by label value. Nodes without the label are in none.
    pub(crate) fn domains(&self, key: &str) -> BTreeMap<&'a str, Vec<Rank>> {
        let mut domains: BTreeMap<&str, Vec<Rank>> = BTreeMap::new();
        for rank in 0..self.len() {
            if let Some(value) = self.at(rank).labels.get(key) {
                domains.entry(value).or_default().push(rank);
            }
        }
        domains
    }
}

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
}

impl<'a> Nodes<'a> {
    /// All nodes of a cluster.
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        Self { cluster, order: cluster.node_order() }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// The node at a rank.
    pub(crate) fn at(&self, rank: Rank) -> &'a Node {
        &self.order[rank].1
    }

    /// The model's index of the node at a rank.
    pub(crate) fn index(&self, rank: Rank) -> NodeIndex {
        self.order[rank].0
    }

    /// The rank of a node by the model's index; `None` when the node does not exist.
    pub(crate) fn rank(&self, index: NodeIndex) -> Option<Rank> {
        self.cluster.rank_of(index)
    }

    /// The domains of a topology key: ranks by label value. Nodes without the label are in none.
    pub(crate) fn domains(&self, key: &str) -> BTreeMap<&'a str, Vec<Rank>> {
        let mut domains: BTreeMap<&str, Vec<Rank>> = BTreeMap::new();
        for (rank, (_, node)) in self.order.iter().enumerate() {
            if let Some(value) = node.labels.get(key) {
                domains.entry(value).or_default().push(rank);
            }
        }
        domains
    }
}

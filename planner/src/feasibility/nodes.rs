//! The nodes of a decision, in the order of their names, and the topology domains they form.

use crate::model::{Cluster, Node, NodeIndex};
use std::collections::BTreeMap;

/// Place of a node in the order of names.
pub(crate) type Rank = usize;

/// The nodes by rank.
pub(crate) struct Nodes<'a> {
    nodes: Vec<&'a Node>,
    indexes: Vec<NodeIndex>,
    ranks: Vec<Option<Rank>>,
}

impl<'a> Nodes<'a> {
    /// All nodes of a cluster.
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        let indexes: Vec<NodeIndex> = cluster.node_indexes().collect();
        let mut ranks = vec![None; cluster.node_bound()];
        for (rank, index) in indexes.iter().enumerate() {
            ranks[*index as usize] = Some(rank);
        }
        Self { nodes: indexes.iter().filter_map(|index| cluster.node_at(*index)).collect(), indexes, ranks }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The node at a rank.
    pub(crate) fn at(&self, rank: Rank) -> &'a Node {
        self.nodes[rank]
    }

    /// The model's index of the node at a rank.
    pub(crate) fn index(&self, rank: Rank) -> NodeIndex {
        self.indexes[rank]
    }

    /// The rank of a node by the model's index; `None` when the node does not exist.
    pub(crate) fn rank(&self, index: NodeIndex) -> Option<Rank> {
        self.ranks.get(index as usize).copied().flatten()
    }

    /// The domains of a topology key: ranks by label value. Nodes without the label are in none.
    pub(crate) fn domains(&self, key: &str) -> BTreeMap<&'a str, Vec<Rank>> {
        let mut domains: BTreeMap<&str, Vec<Rank>> = BTreeMap::new();
        for (rank, node) in self.nodes.iter().enumerate() {
            if let Some(value) = node.labels.get(key) {
                domains.entry(value).or_default().push(rank);
            }
        }
        domains
    }
}

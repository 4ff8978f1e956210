//! The few nodes to which labels restrict a pod, found without looking at all nodes: a node selector, required node affinity, also that of
//! a scheduler's configuration, or the topology of a bound volume often names a node, a zone or a pool.

use super::nodes::{Nodes, Rank};
use crate::model::{Cluster, Constraints, NodeTerm, Requirement};
use std::collections::BTreeMap;

/// Index of the nodes of a list by label and value, to find the few nodes that a node selector or node affinity allows. A label key is
/// indexed when it is first needed.
pub(crate) struct NodesByLabel<'a> {
    cluster: &'a Cluster,
    nodes: &'a Nodes<'a>,
    by_key: BTreeMap<String, BTreeMap<&'a str, Vec<Rank>>>,
}

impl<'a> NodesByLabel<'a> {
    /// Returns an index of these nodes, in which no label key is indexed yet.
    pub(crate) fn new(cluster: &'a Cluster, nodes: &'a Nodes<'a>) -> Self {
        Self { cluster, nodes, by_key: BTreeMap::new() }
    }

    /// Returns the ranks (indexes in the list of nodes) of some nodes, ascending: all nodes that the node selector, node affinity and
    /// volumes of these constraints allow are among them, and possibly others. `None` if these do not restrict the nodes in a way that the
    /// index can find.
    pub(crate) fn allowed_by(&mut self, constraints: &Constraints) -> Option<Vec<Rank>> {
        let mut fewest: Option<Vec<Rank>> = None;
        let mut note = |found: Option<Vec<Rank>>| {
            if let Some(found) = found
                && fewest.as_ref().is_none_or(|fewest| found.len() < fewest.len())
            {
                fewest = Some(found);
            }
        };
        for (key, value) in &constraints.node_selector {
            note(Some(self.with_value(key, value).to_vec()));
        }
        for terms in constraints.node_affinity.iter().chain(&constraints.added_affinity).chain(&constraints.volumes) {
            note(self.of_terms(terms));
        }
        fewest
    }

    /// Returns the ranks (indexes in the list of nodes) of nodes, ascending, among which are all that match any of these node selector
    /// terms; `None` if a term has no `In` requirement, and may match any node.
    fn of_terms(&mut self, terms: &[NodeTerm]) -> Option<Vec<Rank>> {
        let mut all = Vec::new();
        for term in terms {
            let label = term.labels.iter().find(|rule| rule.operator == "In");
            let field = term.fields.iter().find(|rule| rule.operator == "In" && rule.key == "metadata.name");
            match (field, label) {
                (Some(rule), _) => all.extend(rule.values.iter().filter_map(|name| self.named(name))),
                (None, Some(Requirement { key, values, .. })) => {
                    values.iter().for_each(|value| all.extend(self.with_value(key, value)));
                }
                // A term without requirements matches no node.
                (None, None) if term.labels.is_empty() && term.fields.is_empty() => {}
                (None, None) => return None,
            }
        }
        all.sort_unstable();
        all.dedup();
        Some(all)
    }

    /// Returns the rank (index in the list of nodes) of the node with this name; `None` if the list has no such node.
    fn named(&self, name: &str) -> Option<Rank> {
        self.nodes.rank(self.cluster.node_index(name)?)
    }

    /// Returns the ranks (indexes in the list of nodes) of the nodes with this value of the label `key`, ascending. The label key is
    /// indexed at the first call.
    fn with_value(&mut self, key: &str, value: &str) -> &[Rank] {
        let nodes = self.nodes;
        let by_value = self.by_key.entry(key.to_owned()).or_insert_with(|| {
            let mut by_value: BTreeMap<&'a str, Vec<Rank>> = BTreeMap::new();
            for rank in 0..nodes.len() {
                if let Some(value) = nodes.at(rank).labels.get(key) {
                    by_value.entry(value).or_default().push(rank);
                }
            }
            by_value
        });
        by_value.get(value).map_or(&[], Vec::as_slice)
    }
}

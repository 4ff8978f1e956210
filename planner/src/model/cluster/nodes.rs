//! Nodes of the model, and what the pods on them use.

use super::{Cluster, NodeSlot};
use crate::error::ModelError;
use crate::model::{Node, NodeIndex, Pod, PodIndex, ResourceId};
use k8s_openapi::api::core::v1::Node as NodeObject;

impl Cluster {
    /// Adds or replaces a node.
    ///
    /// # Errors
    /// A quantity cannot be read; the node is then not in the model.
    pub fn upsert_node(&mut self, object: &NodeObject) -> Result<bool, ModelError> {
        let node = match Node::from_object(object, &mut self.names) {
            Ok(node) => node,
            Err(error) => {
                self.remove_node(&error.object);
                return Err(error);
            }
        };
        let index = self.node_slot(&node.name);
        let Some(slot) = self.nodes.get_mut(index) else { return Ok(false) };
        if slot.node.as_ref() == Some(&node) {
            return Ok(false);
        }
        slot.node = Some(node);
        Ok(true)
    }

    /// Removes a node. Returns whether it was there.
    pub fn remove_node(&mut self, name: &str) -> bool {
        let Some(&index) = self.node_index.get(name) else { return false };
        let was_there = self.nodes.get_mut(index).is_some_and(|slot| slot.node.take().is_some());
        self.drop_node_slot_if_unused(index);
        was_there
    }

    /// Every node, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.node_index.values().filter_map(|index| self.node_at(*index))
    }

    /// A node by name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.node_at(self.node_index(name)?)
    }

    /// The pods that are bound to a node and have not ended, by key; also of a node that is not known.
    pub fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a Pod> + use<'a> {
        let pods = self.node_index(node).map(|index| self.pods_at(index)).unwrap_or_default();
        pods.iter().filter_map(|index| self.pod_at(*index))
    }

    /// The name of a resource number.
    pub fn resource_name(&self, id: ResourceId) -> &str {
        self.names.name(id)
    }

    pub(crate) fn resource_count(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn node_index(&self, name: &str) -> Option<NodeIndex> {
        self.node_index.get(name).copied()
    }

    pub(crate) fn node_at(&self, index: NodeIndex) -> Option<&Node> {
        self.nodes.get(index)?.node.as_ref()
    }

    /// Indexes of the nodes that exist, by name.
    pub(crate) fn node_indexes(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.node_index.values().copied().filter(|index| self.node_at(*index).is_some())
    }

    pub(crate) fn pods_at(&self, index: NodeIndex) -> &[PodIndex] {
        self.nodes.get(index).map_or(&[], |slot| &slot.pods)
    }

    /// What the pods bound to a node ask for, by resource number; what is missing is 0.
    pub(crate) fn used_at(&self, index: NodeIndex) -> &[i128] {
        self.nodes.get(index).map_or(&[], |slot| &slot.used)
    }

    /// One more than the largest node index.
    pub(crate) fn node_bound(&self) -> usize {
        self.nodes.bound()
    }

    pub(super) fn node_slot(&mut self, name: &str) -> NodeIndex {
        if let Some(index) = self.node_index.get(name) {
            return *index;
        }
        let index = self.nodes.insert(NodeSlot { name: name.to_owned(), ..NodeSlot::default() });
        self.node_index.insert(name.to_owned(), index);
        index
    }

    pub(super) fn drop_node_slot_if_unused(&mut self, index: NodeIndex) {
        if self.nodes.get(index).is_some_and(|slot| slot.node.is_none() && slot.pods.is_empty())
            && let Some(slot) = self.nodes.remove(index)
        {
            self.node_index.remove(&slot.name);
        }
    }
}

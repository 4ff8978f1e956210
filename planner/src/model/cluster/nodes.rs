//! Nodes of the model, and what the pods on them use.

use super::{CandidatePages, Cluster, Evictable, Free, NodeSlot};
use crate::model::ModelError;
use crate::model::resources::UNOFFERED;
use crate::model::{Change, Node, NodeIndex, Pod, PodIndex, ResourceId, Resources, Row};
use k8s_openapi::api::core::v1::Node as NodeObject;
use std::sync::Arc;

impl Cluster {
    /// Adds or replaces a node. Returns whether anything changed that a decision can depend on.
    ///
    /// # Errors
    /// A quantity cannot be read; the node is then not in the model.
    pub fn upsert_node(&mut self, object: &NodeObject) -> Result<bool, ModelError> {
        let numbered = self.names.len();
        let mut node = match Node::from_object(object, &mut self.names) {
            Ok(node) => node,
            Err(error) => {
                self.remove_node(&error.object);
                return Err(error);
            }
        };
        self.count_on(&mut node);
        let index = self.node_slot(&node.name);
        let were_compared = self.declaring > 0;
        let changed = self.put_node(index, Arc::new(node));
        self.update_requesters(numbered);
        self.node_features_changed(were_compared);
        Ok(changed)
    }

    /// Stores a node under its index, and updates the order of nodes, the totals of the cluster and the node's free amounts. Returns true
    /// if the node differs from the stored version.
    pub(super) fn put_node(&mut self, index: NodeIndex, node: Arc<Node>) -> bool {
        let Some(slot) = self.nodes.get_mut(index) else { return false };
        if slot.node.as_ref() == Some(&node) {
            return false;
        }
        let old = slot.node.replace(Arc::clone(&node));
        self.changes.note(Change::Node(index));
        if let Some(old) = old {
            self.add_to_offered(&old.allocatable, -1);
            self.declaring -= usize::from(!old.features.is_empty());
        }
        self.add_to_offered(&node.allocatable, 1);
        self.declaring += usize::from(!node.features.is_empty());
        self.add_to_order(index, node);
        self.set_free(index);
        true
    }

    /// Removes a node. Returns whether it was there.
    pub fn remove_node(&mut self, name: &str) -> bool {
        let Some(&index) = self.node_index.get(name) else { return false };
        let were_compared = self.declaring > 0;
        let removed = self.nodes.get_mut(index).and_then(|slot| slot.node.take());
        if let Some(node) = &removed {
            self.changes.note(Change::Node(index));
            self.add_to_offered(&node.allocatable, -1);
            self.declaring -= usize::from(!node.features.is_empty());
            self.remove_from_order(index);
            self.set_free(index);
        }
        self.drop_node_slot_if_unused(index);
        self.node_features_changed(were_compared);
        removed.is_some()
    }

    /// Adds the allocatable amounts of a node to the totals of the cluster (`sign` 1), or subtracts them (-1).
    fn add_to_offered(&mut self, amounts: &[i128], sign: i128) {
        self.offered.resize(self.offered.len().max(amounts.len()), 0);
        for (total, amount) in self.offered.iter_mut().zip(amounts) {
            *total += sign * amount;
        }
    }

    /// Inserts a node into the list of nodes sorted by name, or replaces it there.
    fn add_to_order(&mut self, index: NodeIndex, node: Arc<Node>) {
        match self.order.binary_search_by(|(_, other)| other.name.cmp(&node.name)) {
            Ok(place) => self.order[place] = (index, node),
            Err(place) => {
                self.order.insert(place, (index, node));
                self.renumber_from(place);
            }
        }
    }

    /// Removes a node from the list of nodes sorted by name.
    fn remove_from_order(&mut self, index: NodeIndex) {
        let Some(place) = self.ranks.get_mut(index as usize).and_then(Option::take) else { return };
        self.order.remove(place as usize);
        self.renumber_from(place as usize);
    }

    /// Records again at which position of the list sorted by name each node is, from the position `first` on.
    fn renumber_from(&mut self, first: usize) {
        self.ranks.resize(self.nodes.bound(), None);
        for (rank, (index, _)) in (0u32..).zip(&self.order).skip(first) {
            self.ranks[*index as usize] = Some(rank);
        }
    }

    /// Recomputes the free amounts of a node: its allocatable amounts less what the pods on it request.
    fn set_free(&mut self, index: NodeIndex) {
        self.free.widen(self.names.len());
        let Some(slot) = self.nodes.get(index) else { return };
        let row = self.free.row_mut(index);
        row.fill(0);
        for (free, offered) in row.iter_mut().zip(slot.node.iter().flat_map(|node| &node.allocatable)) {
            *free += offered;
        }
        for (free, used) in row.iter_mut().zip(&slot.used) {
            *free -= used;
        }
        self.most_free.renew_all(&self.free, index);
    }

    /// Returns the free amounts of every node: its allocatable amounts less the requests of all pods that are bound to it and have not
    /// ended.
    pub(crate) fn free(&self) -> &Free {
        &self.free
    }

    /// Returns the pages (blocks of nodes) on which these requests may fit beside all bound pods. On the nodes of all other pages they do
    /// not fit.
    pub(crate) fn candidates(&self, requests: &Resources) -> CandidatePages {
        self.most_free.candidates(requests)
    }

    /// Returns the sum of the allocatable amounts of a resource over all nodes.
    pub(crate) fn offered(&self, id: ResourceId) -> i128 {
        self.offered.get(usize::from(id)).copied().unwrap_or(0)
    }

    /// Returns how much of the cluster a pod with these requests takes: the share of the allocatable amount of all nodes that it requests,
    /// in trillionths, summed over the resources. A request that no node offers counts as a very large share.
    pub(crate) fn share_of(&self, requests: &Resources) -> i128 {
        self.share(requests.iter())
    }

    /// Returns [`Self::share_of`] for amounts that are given by resource number.
    pub(crate) fn share(&self, amounts: impl Iterator<Item = (ResourceId, i128)>) -> i128 {
        let share = |(id, amount): (ResourceId, i128)| match self.offered(id) {
            offered if offered > 0 => amount.saturating_mul(1_000_000_000_000) / offered,
            _ => i128::MAX / 4,
        };
        amounts.map(share).fold(0, i128::saturating_add)
    }

    /// Subtracts the requests of a pod from the free amounts of a node (`sign` 1), or adds them (-1).
    pub(super) fn change_usage(&mut self, index: NodeIndex, requests: &Resources, sign: i128) {
        self.free.widen(self.names.len());
        if let Some(slot) = self.nodes.get_mut(index) {
            slot.used.resize(slot.used.len().max(self.names.len()), 0);
            for (id, amount) in requests.iter() {
                slot.used[usize::from(id)] += sign * amount;
                let free = &mut self.free.row_mut(index)[usize::from(id)];
                let before = *free;
                *free -= sign * amount;
                self.most_free.renew(&self.free, index, id, before);
            }
        }
    }

    /// Returns all nodes that exist, sorted by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.order.iter().map(|(_, node)| node.as_ref())
    }

    /// Returns the node with this name; `None` if it does not exist.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.node_at(self.node_index(name)?)
    }

    /// Returns the pods that are bound to a node and have not ended, by key; also of a node that is not in the model.
    pub fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a Pod> + use<'a> {
        let rows = self.node_index(node).into_iter().flat_map(|index| self.rows_at(index));
        rows.filter_map(|(index, _)| self.pod_at(index))
    }

    /// Sorts resources in an order that does not depend on when they were first seen: `cpu`, `memory`, `ephemeral-storage` and `pods`, then
    /// [`UNOFFERED`], then all others by name.
    pub(crate) fn in_order(&self, mut ids: Vec<ResourceId>) -> Vec<ResourceId> {
        ids.sort_by_key(|id| if *id <= UNOFFERED { (*id, "") } else { (UNOFFERED + 1, self.names.name(*id)) });
        ids
    }

    /// Returns the changes of the model that were logged after the first `seen` ones; `None` if some of them are not in the log any more.
    pub(crate) fn changes_since(&self, seen: u64) -> Option<impl Iterator<Item = Change> + '_> {
        self.changes.since(seen)
    }

    /// Returns how many changes of the model were ever logged, and records that a cache has read all of them.
    pub(crate) fn mark_changes_read(&self) -> u64 {
        self.changes.mark_read()
    }

    /// Returns the index of the node with this name; `None` if neither the node nor a pod on it is in the model.
    pub(crate) fn node_index(&self, name: &str) -> Option<NodeIndex> {
        self.node_index.get(name).copied()
    }

    /// Returns the node with this index; `None` if only pods name it and it does not exist.
    pub(crate) fn node_at(&self, index: NodeIndex) -> Option<&Node> {
        self.nodes.get(index)?.node.as_deref()
    }

    /// Returns the nodes that exist, sorted by name, each with its index. A node's position is its rank among all nodes.
    pub(crate) fn node_order(&self) -> &[(NodeIndex, Arc<Node>)] {
        &self.order
    }

    /// Returns the position of a node in [`Self::node_order`]; `None` if it does not exist.
    pub(crate) fn rank_of(&self, index: NodeIndex) -> Option<usize> {
        self.ranks.get(index as usize).copied().flatten().map(|rank| rank as usize)
    }

    /// Returns the pods that are bound to a node and have not ended, sorted by key, each with its summary row.
    pub(crate) fn rows_at(&self, index: NodeIndex) -> impl Iterator<Item = (PodIndex, Row)> + '_ {
        self.nodes.get(index).into_iter().flat_map(|slot| slot.rows.iter().copied())
    }

    /// Returns, for a node, the sums over the pods that preemptors of a higher priority may evict; `None` if the model has no node with
    /// this index.
    pub(crate) fn evictable_on(&self, index: NodeIndex) -> Option<&Evictable> {
        self.nodes.get(index).map(|slot| &slot.evictable)
    }

    /// Returns the index of the node with this name. Creates an empty entry for it if neither the node nor a pod that is bound to it is in
    /// the model.
    pub(super) fn node_slot(&mut self, name: &str) -> NodeIndex {
        if let Some(index) = self.node_index.get(name) {
            return *index;
        }
        let index = self.nodes.insert(NodeSlot { name: name.into(), ..NodeSlot::default() });
        self.node_index.insert(name.into(), index);
        index
    }

    /// Returns the index of the node whose capacity a pod uses; `None` if the pod is not bound or has ended. A node that is not in the
    /// model gets an index. The text of the node's name is shared with the pod, to use less memory.
    pub(super) fn node_slot_of(&mut self, pod: &mut Pod) -> Option<NodeIndex> {
        let name = pod.node.as_ref().filter(|_| !pod.ended())?;
        let index = self.node_slot(name);
        if let Some(slot) = self.nodes.get(index) {
            pod.node = Some(slot.name.clone());
        }
        Some(index)
    }

    /// Removes the entry of a node, and frees its index, if neither the node nor a pod that is bound to it is in the model any more.
    pub(super) fn drop_node_slot_if_unused(&mut self, index: NodeIndex) {
        if self.nodes.get(index).is_some_and(|slot| slot.node.is_none() && slot.rows.is_empty())
            && let Some(slot) = self.nodes.remove(index)
        {
            self.node_index.remove(&slot.name);
            self.free.row_mut(index).fill(0);
            self.most_free.renew_all(&self.free, index);
        }
    }
}

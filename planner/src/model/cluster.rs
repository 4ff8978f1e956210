//! The model of the cluster: objects by key, and the indexes that decisions need (pods by node, members by group,
//! resources in use by node), all of them kept as objects come and go.

use super::budget::Budget;
use super::group::Group;
use super::key::ObjectKey;
use super::node::Node;
use super::pod::Pod;
use super::resources::{Names, ResourceId};
use super::slab::Slab;
use super::{GroupIndex, NodeIndex, PodIndex};
use crate::error::ModelError;
use giveway_crds::PodGroup;
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::priority::{Class, Classes};
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod as PodObject};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use std::collections::BTreeMap;

/// Everything the planner knows of the cluster.
///
/// `upsert_*` return whether anything changed that a decision can depend on. When they return an error the object's
/// old version is dropped as well: an object that cannot be read is better absent than wrong.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// For snapshots of clusters without Giveway: a pod without Giveway's annotation has the preemption policy of its
    /// spec, instead of `Never`.
    pub trust_pod_policy: bool,
    names: Names,
    nodes: Slab<NodeSlot>,
    node_index: BTreeMap<String, NodeIndex>,
    pods: Slab<PodSlot>,
    pod_index: BTreeMap<ObjectKey, PodIndex>,
    groups: Slab<GroupSlot>,
    group_index: BTreeMap<ObjectKey, GroupIndex>,
    budgets: BTreeMap<ObjectKey, Budget>,
    classes: Classes,
}

/// A node, or the name of one that pods are bound to and that is not known (yet, or any more).
#[derive(Clone, Debug, Default)]
struct NodeSlot {
    name: String,
    node: Option<Node>,
    /// Pods bound to it that have not ended, by key.
    pods: Vec<PodIndex>,
    /// What they ask for, by resource number.
    used: Vec<i128>,
}

#[derive(Clone, Debug)]
struct PodSlot {
    pod: Pod,
    /// Set while the pod is bound and has not ended.
    node: Option<NodeIndex>,
    group: Option<GroupIndex>,
}

/// A group, or the name of one that pods belong to and that does not exist (yet, or any more).
#[derive(Clone, Debug, Default)]
struct GroupSlot {
    key: ObjectKey,
    group: Option<Group>,
    /// Its members, by key.
    members: Vec<PodIndex>,
}

/// Nodes.
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
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Pod> {
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

    fn node_slot(&mut self, name: &str) -> NodeIndex {
        if let Some(index) = self.node_index.get(name) {
            return *index;
        }
        let index = self.nodes.insert(NodeSlot { name: name.to_owned(), ..NodeSlot::default() });
        self.node_index.insert(name.to_owned(), index);
        index
    }

    fn drop_node_slot_if_unused(&mut self, index: NodeIndex) {
        if self.nodes.get(index).is_some_and(|slot| slot.node.is_none() && slot.pods.is_empty())
            && let Some(slot) = self.nodes.remove(index)
        {
            self.node_index.remove(&slot.name);
        }
    }
}

/// Pods.
impl Cluster {
    /// Adds or replaces a pod.
    ///
    /// # Errors
    /// A quantity cannot be read; the pod is then not in the model, and what it takes of its node is not counted.
    pub fn upsert_pod(&mut self, object: &PodObject) -> Result<bool, ModelError> {
        let pod = match Pod::from_object(object, &mut self.names) {
            Ok(pod) => pod,
            Err(error) => {
                let metadata = &object.metadata;
                let namespace = metadata.namespace.clone().unwrap_or_default();
                self.remove_pod(&ObjectKey::new(namespace, metadata.name.clone().unwrap_or_default()));
                return Err(error);
            }
        };
        if self.pod(&pod.key) == Some(&pod) {
            return Ok(false);
        }
        self.remove_pod(&pod.key);
        self.insert_pod(pod);
        Ok(true)
    }

    fn insert_pod(&mut self, pod: Pod) {
        let key = pod.key.clone();
        let node = pod.node.clone().filter(|_| !pod.ended()).map(|name| self.node_slot(&name));
        let group = pod.group_key().map(|key| self.group_slot(&key));
        let requests = pod.requests.clone();
        let index = self.pods.insert(PodSlot { pod, node, group });
        let pods = &self.pods;
        let position = |list: &[PodIndex]| {
            list.partition_point(|other| pods.get(*other).is_some_and(|slot| slot.pod.key < key))
        };
        if let Some(slot) = node.and_then(|node| self.nodes.get_mut(node)) {
            slot.pods.insert(position(&slot.pods), index);
            slot.used.resize(slot.used.len().max(self.names.len()), 0);
            for (id, amount) in requests.iter() {
                slot.used[usize::from(id)] += amount;
            }
        }
        if let Some(slot) = group.and_then(|group| self.groups.get_mut(group)) {
            slot.members.insert(position(&slot.members), index);
        }
        self.pod_index.insert(key, index);
    }

    /// Removes a pod. Returns whether it was there.
    pub fn remove_pod(&mut self, key: &ObjectKey) -> bool {
        let Some(index) = self.pod_index.remove(key) else { return false };
        let Some(removed) = self.pods.remove(index) else { return false };
        if let Some(node) = removed.node {
            if let Some(slot) = self.nodes.get_mut(node) {
                slot.pods.retain(|pod| *pod != index);
                for (id, amount) in removed.pod.requests.iter() {
                    slot.used[usize::from(id)] -= amount;
                }
            }
            self.drop_node_slot_if_unused(node);
        }
        if let Some(group) = removed.group {
            if let Some(slot) = self.groups.get_mut(group) {
                slot.members.retain(|pod| *pod != index);
            }
            self.drop_group_slot_if_unused(group);
        }
        true
    }

    /// Every pod, by key.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pod_index.values().filter_map(|index| self.pod_at(*index))
    }

    /// A pod by key.
    pub fn pod(&self, key: &ObjectKey) -> Option<&Pod> {
        self.pod_at(self.pod_index(key)?)
    }

    /// The priority that counts for a pod: its group's, or its own when it has none, the group does not exist, or the
    /// group's class is unknown.
    pub fn effective_priority(&self, pod: &Pod) -> i32 {
        let group = self.group_of(pod).filter(|group| group.class_problem.is_none());
        group.map_or(pod.priority, |group| group.priority)
    }

    /// Whether Giveway preempts for a pod: its group's policy; or its annotation's, or else `Never`
    /// (see [`Cluster::trust_pod_policy`]).
    pub fn effective_policy(&self, pod: &Pod) -> PreemptionPolicy {
        if let Some(group) = self.group_of(pod) {
            return group.policy;
        }
        let fallback = if self.trust_pod_policy { pod.spec_policy } else { PreemptionPolicy::Never };
        pod.annotation_policy.unwrap_or(fallback)
    }

    /// The budgets that a pod is under, by name.
    pub fn budgets_of<'a>(&'a self, pod: &Pod) -> Vec<&'a Budget> {
        self.budgets_in(&pod.key.namespace).filter(|budget| budget.matches(&pod.labels)).collect()
    }

    pub(crate) fn pod_index(&self, key: &ObjectKey) -> Option<PodIndex> {
        self.pod_index.get(key).copied()
    }

    pub(crate) fn pod_at(&self, index: PodIndex) -> Option<&Pod> {
        self.pods.get(index).map(|slot| &slot.pod)
    }

    /// Every pod with its index and the node it takes room on, in no particular order that lasts.
    pub(crate) fn pods_with_nodes(&self) -> impl Iterator<Item = (PodIndex, &Pod, Option<NodeIndex>)> {
        self.pods.iter().map(|(index, slot)| (index, &slot.pod, slot.node))
    }

    /// The node a pod takes room on.
    pub(crate) fn node_index_of(&self, index: PodIndex) -> Option<NodeIndex> {
        self.pods.get(index)?.node
    }

    /// One more than the largest pod index.
    pub(crate) fn pod_bound(&self) -> usize {
        self.pods.bound()
    }
}

/// Groups, budgets and classes.
impl Cluster {
    /// Adds or replaces a group.
    ///
    /// # Errors
    /// Its scheduling policy cannot be read; the group is then not in the model.
    pub fn upsert_group(&mut self, object: &PodGroup) -> Result<bool, ModelError> {
        let group = match Group::from_object(object, &self.classes) {
            Ok(group) => group,
            Err(error) => {
                let metadata = &object.metadata;
                let namespace = metadata.namespace.clone().unwrap_or_default();
                self.remove_group(&ObjectKey::new(namespace, metadata.name.clone().unwrap_or_default()));
                return Err(error);
            }
        };
        let index = self.group_slot(&group.key);
        let Some(slot) = self.groups.get_mut(index) else { return Ok(false) };
        if slot.group.as_ref() == Some(&group) {
            return Ok(false);
        }
        slot.group = Some(group);
        Ok(true)
    }

    /// Removes a group. Returns whether it was there.
    pub fn remove_group(&mut self, key: &ObjectKey) -> bool {
        let Some(&index) = self.group_index.get(key) else { return false };
        let was_there = self.groups.get_mut(index).is_some_and(|slot| slot.group.take().is_some());
        self.drop_group_slot_if_unused(index);
        was_there
    }

    /// Every group, by key.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.group_index.values().filter_map(|index| self.group_at(*index))
    }

    /// A group by key.
    pub fn group(&self, key: &ObjectKey) -> Option<&Group> {
        self.group_at(*self.group_index.get(key)?)
    }

    /// The group of a pod, if that group exists.
    pub fn group_of(&self, pod: &Pod) -> Option<&Group> {
        pod.group.as_ref()?;
        let slot = self.pod_index(&pod.key).and_then(|index| self.pods.get(index));
        match slot.filter(|slot| slot.pod.group == pod.group) {
            Some(slot) => self.group_at(slot.group?),
            None => self.group(&pod.group_key()?),
        }
    }

    /// The members of a group, by name; also of a group that does not exist.
    pub fn members(&self, group: &ObjectKey) -> impl Iterator<Item = &Pod> {
        let slot = self.group_index.get(group).and_then(|index| self.groups.get(*index));
        slot.into_iter().flat_map(|slot| &slot.members).filter_map(|index| self.pod_at(*index))
    }

    pub(crate) fn group_at(&self, index: GroupIndex) -> Option<&Group> {
        self.groups.get(index)?.group.as_ref()
    }

    /// The group slot a pod belongs to; the group need not exist.
    pub(crate) fn group_index_of(&self, index: PodIndex) -> Option<GroupIndex> {
        self.pods.get(index)?.group
    }

    pub(crate) fn members_at(&self, index: GroupIndex) -> &[PodIndex] {
        self.groups.get(index).map_or(&[], |slot| &slot.members)
    }

    fn group_slot(&mut self, key: &ObjectKey) -> GroupIndex {
        if let Some(index) = self.group_index.get(key) {
            return *index;
        }
        let index = self.groups.insert(GroupSlot { key: key.clone(), ..GroupSlot::default() });
        self.group_index.insert(key.clone(), index);
        index
    }

    fn drop_group_slot_if_unused(&mut self, index: GroupIndex) {
        if self.groups.get(index).is_some_and(|slot| slot.group.is_none() && slot.members.is_empty())
            && let Some(slot) = self.groups.remove(index)
        {
            self.group_index.remove(&slot.key);
        }
    }

    /// Adds or replaces a budget.
    ///
    /// # Errors
    /// It has no name.
    pub fn upsert_budget(&mut self, object: &PodDisruptionBudget) -> Result<bool, ModelError> {
        let budget = Budget::from_object(object)?;
        if self.budgets.get(&budget.key) == Some(&budget) {
            return Ok(false);
        }
        self.budgets.insert(budget.key.clone(), budget);
        Ok(true)
    }

    /// Removes a budget. Returns whether it was there.
    pub fn remove_budget(&mut self, key: &ObjectKey) -> bool {
        self.budgets.remove(key).is_some()
    }

    /// Every budget, by key.
    pub fn budgets(&self) -> impl Iterator<Item = &Budget> {
        self.budgets.values()
    }

    /// The budgets of a namespace, by name.
    pub(crate) fn budgets_in<'a, 'n>(&'a self, namespace: &'n str) -> impl Iterator<Item = &'a Budget> + use<'a, 'n> {
        let first = ObjectKey::new(namespace, "");
        self.budgets.range(first..).take_while(move |(key, _)| key.namespace == namespace).map(|(_, budget)| budget)
    }

    /// Adds or replaces a priority class. Returns whether anything changed.
    pub fn upsert_class(&mut self, object: &PriorityClass) -> bool {
        let changed = self.classes.upsert(Class::from_object(object));
        if changed {
            self.resolve_groups();
        }
        changed
    }

    /// Removes a priority class. Returns whether it was there.
    pub fn remove_class(&mut self, name: &str) -> bool {
        let was_there = self.classes.remove(name);
        if was_there {
            self.resolve_groups();
        }
        was_there
    }

    /// The priority classes.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    fn resolve_groups(&mut self) {
        for group in self.groups.values_mut().filter_map(|slot| slot.group.as_mut()) {
            group.resolve(&self.classes);
        }
    }
}

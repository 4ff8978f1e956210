//! Pods that go on: they get a node, start, become ready, end. Most of what a cluster tells is of this kind, and it changes
//! neither what a pod asks for nor whom it belongs to, so that little has to be looked up again.

use super::Cluster;
use crate::model::{Change, NodeIndex, Pod, PodIndex, Resources, Row};

impl Cluster {
    /// Takes in a new version of a pod that asks for the same as before ([`Pod::goes_on_as`]).
    pub(super) fn go_on(&mut self, index: PodIndex, pod: Pod) {
        let node = pod.node.clone().filter(|_| !pod.ended()).map(|name| self.node_slot(&name));
        let Some(slot) = self.pods.get_mut(index) else { return };
        let (old, left) = (std::mem::replace(&mut slot.pod, pod), std::mem::replace(&mut slot.node, node));
        let group = slot.group;
        self.special.renew(index, (&old, left.is_some()), slot);
        if left != node {
            if let Some(left) = left {
                self.take_from_node(index, left, &old.requests);
            }
            if let Some(node) = node {
                self.put_on_node(index, node, &old.requests);
            }
        }
        let before = self.row(index);
        match group.filter(|group| (left.is_some() || node.is_some()) && self.goes_whole(*group)) {
            Some(group) => self.renew_group_for(group, Some(index)),
            None => self.renew_pod(index, before.class),
        }
        if self.row(index) == before {
            // What it costs to evict it, and whom its budgets count, can have changed all the same.
            if let Some(node) = node {
                self.changes.note(Change::Pods(node));
            }
            self.budgets_changed(index);
        }
        if let Some(left) = left.filter(|left| Some(*left) != node) {
            self.drop_node_slot_if_unused(left);
        }
    }

    /// Lists a pod on a node, by key, and takes what it asks for from what is free there.
    pub(super) fn put_on_node(&mut self, index: PodIndex, node: NodeIndex, requests: &Resources) {
        let pods = &self.pods;
        let Some(key) = pods.get(index).map(|slot| &slot.pod.key) else { return };
        let before = |other: PodIndex| pods.get(other).is_some_and(|slot| slot.pod.key < *key);
        if let Some(slot) = self.nodes.get_mut(node) {
            let at = slot.rows.partition_point(|(other, _)| before(*other));
            slot.rows.insert(at, (index, Row::default()));
        }
        self.use_node(node, requests, 1);
    }

    /// Takes a pod off a node, and gives back what it asks for.
    pub(super) fn take_from_node(&mut self, index: PodIndex, node: NodeIndex, requests: &Resources) {
        if let Some(slot) = self.nodes.get_mut(node) {
            slot.rows.retain(|(pod, _)| *pod != index);
        }
        self.use_node(node, requests, -1);
    }
}

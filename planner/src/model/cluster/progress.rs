//! Updates of pods that only make progress: they are bound, start, become ready, finish. Most events of a cluster are of this kind. They
//! change neither the requests of a pod nor its group, so that little has to be computed again.

use super::Cluster;
use crate::model::{Change, NodeIndex, Pod, PodIndex, Resources, Row};

impl Cluster {
    /// Replaces a stored pod by a newer version that differs only in its progress, such as node, phase or readiness
    /// ([`Pod::differs_only_in_progress`]).
    pub(super) fn update_progress(&mut self, index: PodIndex, mut pod: Pod) {
        let node = self.node_slot_of(&mut pod);
        let key = pod.key.clone();
        let Some(slot) = self.pods.get_mut(index) else { return };
        self.shared.share_known(&mut pod, &slot.pod);
        let (old, left) = (std::mem::replace(&mut slot.pod, pod), std::mem::replace(&mut slot.node, node));
        let group = slot.group;
        self.pod_lists.renew(index, (&old, left.is_some()), slot);
        if left != node {
            if let Some(left) = left {
                self.take_from_node(index, left, &old.requests);
            }
            if let Some(node) = node {
                self.put_on_node(index, node, &old.requests);
            }
        }
        let before = self.row(index);
        match group.filter(|group| (left.is_some() || node.is_some()) && self.is_disrupted_together(*group)) {
            Some(group) => self.renew_group_for(group, index, &key),
            None => self.renew_pod(index, before.class),
        }
        self.renew_reservation(index);
        if self.row(index) == before {
            // The cost of its eviction, and the pods that its budgets count, can have changed nevertheless.
            if let Some(node) = node {
                self.changes.note(Change::Pods(node));
            }
            self.budgets_changed(index);
        }
        if let Some(left) = left.filter(|left| Some(*left) != node) {
            self.drop_node_slot_if_unused(left);
        }
    }

    /// Adds a pod to the node's list of pods, which is sorted by key, and subtracts its requests from the node's free amounts.
    pub(super) fn put_on_node(&mut self, index: PodIndex, node: NodeIndex, requests: &Resources) {
        let pods = &self.pods;
        let Some(key) = pods.get(index).map(|slot| &slot.pod.key) else { return };
        let before = |other: PodIndex| pods.get(other).is_some_and(|slot| slot.pod.key < *key);
        if let Some(slot) = self.nodes.get_mut(node) {
            let at = slot.rows.partition_point(|(other, _)| before(*other));
            slot.rows.insert(at, (index, Row::default()));
        }
        self.change_usage(node, requests, 1);
    }

    /// Removes a pod from the node's list of pods, and adds its requests to the node's free amounts.
    pub(super) fn take_from_node(&mut self, index: PodIndex, node: NodeIndex, requests: &Resources) {
        if let Some(slot) = self.nodes.get_mut(node) {
            slot.rows.retain(|(pod, _)| *pod != index);
        }
        self.change_usage(node, requests, -1);
    }
}

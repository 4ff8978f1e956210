//! The few pods that every decision has to read: those without a node, those that are leaving, and those with host ports or claims for one
//! pod. Without these lists every decision would read every pod.

use super::{Cluster, PodSlot};
use crate::model::{ObjectKey, Pod, PodIndex};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Lists of the few pods that some calls need, and an index of all pods by UID.
#[derive(Clone, Debug, Default)]
pub(super) struct PodLists {
    /// Live, and without a node.
    unbound: BTreeMap<ObjectKey, PodIndex>,
    /// On a node, and leaving it.
    leaving: BTreeSet<PodIndex>,
    /// On a node, with host ports or claims for one pod.
    with_exclusive: BTreeSet<PodIndex>,
    /// Every pod, by a hash of its UID.
    uids: BTreeSet<(u64, PodIndex)>,
}

/// Returns a hash of a pod's UID: the index of UIDs stores it instead of the text, to use less memory.
fn hash(uid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    hasher.finish()
}

/// Returns whether a pod belongs on each of three lists: live pods without a node, leaving pods on a node, and pods on a node with host
/// ports or claims that only one pod may use. `on_node` says that the pod is bound and has not ended.
fn list_membership(pod: &Pod, on_node: bool) -> [bool; 3] {
    [pod.live() && !pod.bound(), on_node && pod.leaves, on_node && !pod.constraints.exclusive.is_empty()]
}

impl PodLists {
    /// Adds a pod to the lists on which it belongs, and to the index of UIDs.
    pub(super) fn insert(&mut self, index: PodIndex, slot: &PodSlot) {
        self.update_lists(index, &slot.pod.key, list_membership(&slot.pod, slot.node.is_some()));
        self.uids.insert((hash(&slot.pod.uid), index));
    }

    /// Removes a pod from all lists and from the index of UIDs.
    pub(super) fn remove(&mut self, index: PodIndex, pod: &Pod) {
        self.update_lists(index, &pod.key, [false; 3]);
        self.uids.remove(&(hash(&pod.uid), index));
    }

    /// Updates the lists after a pod changed: `old` is its previous version, with true if that was bound and had not ended.
    pub(super) fn renew(&mut self, index: PodIndex, old: (&Pod, bool), slot: &PodSlot) {
        let now = list_membership(&slot.pod, slot.node.is_some());
        if now != list_membership(old.0, old.1) {
            self.update_lists(index, &slot.pod.key, now);
        }
    }

    /// Adds a pod to each list for which the flag is true, and removes it from the others; the flags are those of [`list_membership`].
    fn update_lists(&mut self, index: PodIndex, key: &ObjectKey, [unbound, leaving, ports]: [bool; 3]) {
        if unbound {
            self.unbound.insert(key.clone(), index);
        } else {
            self.unbound.remove(key);
        }
        for (list, listed) in [(&mut self.leaving, leaving), (&mut self.with_exclusive, ports)] {
            let _ = if listed { list.insert(index) } else { list.remove(&index) };
        }
    }
}

impl Cluster {
    /// Returns the pods without a node that have neither ended nor a `deletionTimestamp`, sorted by key.
    pub fn unbound(&self) -> impl Iterator<Item = &Pod> {
        self.pod_lists.unbound.values().filter_map(|index| self.pod_at(*index))
    }

    /// Returns the pods on a node that are leaving it ([`Pod::leaves`]): they terminate with a grace period that preemptors wait for.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = (PodIndex, &Pod)> {
        self.with_pods(&self.pod_lists.leaving)
    }

    /// Returns the terminating pods that are still on a node, except those whose grace period is too long for preemptors to wait for
    /// ([`Pod::leaves`]).
    pub fn terminating(&self) -> impl Iterator<Item = &Pod> {
        self.leaving().map(|(_, pod)| pod)
    }

    /// Returns the bound pods with host ports, or with claims that only one pod may use, each with its index.
    pub(crate) fn with_exclusive(&self) -> impl Iterator<Item = (PodIndex, &Pod)> {
        self.with_pods(&self.pod_lists.with_exclusive)
    }

    /// Returns the index of the pod with this UID; `None` if it is not in the model.
    pub(crate) fn pod_with_uid(&self, uid: &str) -> Option<PodIndex> {
        let hash = hash(uid);
        let mut same =
            self.pod_lists.uids.range((hash, PodIndex::MIN)..=(hash, PodIndex::MAX)).map(|(_, index)| *index);
        same.find(|index| self.pod_at(*index).is_some_and(|pod| pod.uid == uid))
    }

    /// Returns the pods whose indexes are in `list`, each with its index.
    fn with_pods<'a>(&'a self, list: &'a BTreeSet<PodIndex>) -> impl Iterator<Item = (PodIndex, &'a Pod)> {
        list.iter().filter_map(|index| Some((*index, self.pod_at(*index)?)))
    }
}

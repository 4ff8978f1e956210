//! The changes since the last pass on which a plan in flight may depend.

use giveway_planner::SmolStr;
use giveway_planner::model::{Cluster, ObjectKey, Pod};
use std::collections::BTreeSet;

/// Maximum number of changes that are stored one by one; with more, everything counts as changed. Before every kind is listed
/// no pass handles them.
const MOST: usize = 10_000;

/// The objects that changed since the last pass.
#[derive(Debug, Default)]
pub struct ChangedObjects {
    /// UIDs of pods that were added, changed or removed.
    pub pods: BTreeSet<SmolStr>,
    /// Nodes that changed, and the nodes on which such pods run or for which they are nominated.
    pub nodes: BTreeSet<SmolStr>,
    /// True if a pod changed at all.
    pub any_pod: bool,
    /// True if a PodDisruptionBudget changed.
    pub budgets: bool,
    /// True if something changed that any plan may depend on.
    pub everything: bool,
}

/// The part of a pod on which the scheduling of other pods may depend.
#[derive(Debug, Default)]
pub(super) struct Footprint {
    uid: SmolStr,
    nodes: Vec<SmolStr>,
    repels: bool,
}

impl Footprint {
    /// Returns the part of a pod's present state in the model on which other pods may depend; `None` if the pod does not exist.
    pub(super) fn of(cluster: &Cluster, key: &ObjectKey) -> Option<Self> {
        let pod: &Pod = cluster.pod(key)?;
        let nodes = pod.node.iter().chain(&pod.nominated_node).cloned().collect();
        Some(Self { uid: pod.uid.clone(), nodes, repels: pod.repels_from_other_nodes() })
    }
}

impl ChangedObjects {
    /// Records that a pod changed. `before` is the part of its earlier state on which other pods may depend, `None` if it is new; `now` is
    /// the part of its present state, `None` if it was removed.
    pub(super) fn note_pod(&mut self, before: Option<Footprint>, now: Option<Footprint>) {
        self.any_pod = true;
        for footprint in before.into_iter().chain(now) {
            self.everything |= footprint.repels;
            self.pods.insert(footprint.uid);
            self.nodes.extend(footprint.nodes);
        }
        self.limit();
    }

    /// Records that this node was added, changed or removed.
    pub fn note_node(&mut self, node: &str) {
        self.nodes.insert(node.into());
        self.limit();
    }

    /// Records that an object of this kind changed, was added or was removed. Does nothing for pods ([`Self::note_pod`]) and for kinds
    /// whose changes are recorded elsewhere, such as PodGroups ([`Model::touched`](super::Model::touched)).
    pub(super) fn note(&mut self, kind: &'static str, key: &ObjectKey) {
        match kind {
            "Node" => self.note_node(&key.name),
            "Pod" | "PodGroup" | "Workload" | "Preemption" | "ProvisioningRequest" => {}
            "PodDisruptionBudget" => self.budgets = true,
            _ => self.everything = true,
        }
    }

    /// Replaces more than [`MOST`] changes by the statement that everything may have changed.
    fn limit(&mut self) {
        if self.pods.len() > MOST || self.nodes.len() > MOST {
            *self = Self { any_pod: true, budgets: true, everything: true, ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_changes_only_their_existence_is_noted() {
        let mut changes = ChangedObjects::default();
        for number in 0..=MOST {
            assert!(!changes.everything, "after {number}");
            changes.note_node(&format!("n{number}"));
        }
        assert!(changes.everything && changes.nodes.is_empty(), "{changes:?}");
    }
}

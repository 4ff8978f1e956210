//! Log of changes to the model, from which cached results are brought up to date in as many steps as there were changes.
//!
//! An entry names the object to read again, not its old state. An object with an unread entry gets no second one, so the log is never
//! longer than the number of objects, however often they change.

use super::equivalence::ClassId;
use super::{BudgetIndex, GroupIndex, NodeIndex};
use crate::limits::CHANGES_KEPT;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// A change of something in the model on which decisions can depend, with the index of the changed object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A node was added, removed or changed. Its number may have been that of another node before.
    Node(NodeIndex),
    /// Pods on a node were added, removed, or count differently.
    Pods(NodeIndex),
    /// A whole group became larger, smaller, older or younger.
    Unit(GroupIndex),
    /// A budget changed, or its pods, or how these count.
    Budget(BudgetIndex),
    /// An equivalence class has a number that another class may have had before.
    Class(ClassId),
    /// A namespace was added, removed, or relabelled: namespace selectors may match other namespaces.
    Namespaces,
}

impl Change {
    /// Returns the key under which the log finds its last entry of this change: the number of the enum variant, and the index of the
    /// changed object.
    fn log_position(self) -> (usize, usize) {
        match self {
            Self::Node(node) => (0, node as usize),
            Self::Pods(node) => (1, node as usize),
            Self::Unit(group) => (2, group as usize),
            Self::Budget(budget) => (3, budget as usize),
            Self::Class(class) => (4, class as usize),
            Self::Namespaces => (5, 0),
        }
    }
}

/// The last changes, numbered from the first one on.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    kept: VecDeque<Change>,
    dropped: u64,
    /// By kind and number of a change: the number of changes up to its last entry, inclusive.
    noted: [Vec<u64>; 6],
    /// Number of changes when a cache last caught up.
    read: AtomicU64,
}

impl Clone for ChangeLog {
    fn clone(&self) -> Self {
        let read = AtomicU64::new(self.read.load(Ordering::Relaxed));
        Self { kept: self.kept.clone(), dropped: self.dropped, noted: self.noted.clone(), read }
    }
}

impl ChangeLog {
    /// Adds a change to the end of the log, unless the same change is in the log already and no cache has read it since.
    pub(super) fn note(&mut self, change: Change) {
        let (kind, number) = change.log_position();
        let noted = &mut self.noted[kind];
        if noted.len() <= number {
            noted.resize(number + 1, 0);
        }
        if noted[number] > *self.read.get_mut() {
            return;
        }
        if self.kept.len() == CHANGES_KEPT {
            self.kept.pop_front();
            self.dropped += 1;
        }
        self.kept.push_back(change);
        noted[number] = self.dropped + self.kept.len() as u64;
    }

    /// Returns how many changes were ever recorded, and records that a cache has read all of them.
    pub(super) fn mark_read(&self) -> u64 {
        let count = self.dropped + self.kept.len() as u64;
        self.read.store(count, Ordering::Relaxed);
        count
    }

    /// Returns the changes that were recorded after the first `seen` ones; `None` if some of them were dropped from the log.
    pub(super) fn since(&self, seen: u64) -> Option<impl Iterator<Item = Change> + '_> {
        let skip = usize::try_from(seen.checked_sub(self.dropped)?).ok()?;
        Some(self.kept.iter().skip(skip).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cluster, ObjectKey};
    use serde_json::{Value, json};

    #[test]
    fn an_unread_change_is_not_noted_twice() {
        let mut changes = ChangeLog::default();
        let since = |changes: &ChangeLog, seen| changes.since(seen).unwrap().collect::<Vec<_>>();
        changes.note(Change::Budget(3));
        changes.note(Change::Budget(3));
        assert_eq!(since(&changes, 0), [Change::Budget(3)]);
        let first = changes.mark_read();
        changes.note(Change::Pods(3));
        let second = changes.mark_read();
        changes.note(Change::Budget(3));
        changes.note(Change::Budget(3));
        assert_eq!(since(&changes, second), [Change::Budget(3)]);
        assert_eq!(
            since(&changes, first),
            [Change::Pods(3), Change::Budget(3)],
            "a reader that is behind misses no change"
        );
    }

    #[test]
    fn binding_512_pods_of_a_whole_group_under_a_budget_is_as_many_notes_as_nodes() {
        let mut cluster = Cluster::default();
        let budget = json!({"metadata": {"namespace": "d", "name": "b"}, "spec": {"selector": {}}});
        cluster.upsert_budget(&serde_json::from_value(budget).unwrap()).unwrap();
        let group = json!({"metadata": {"namespace": "d", "name": "g"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 512}}, "disruptionMode": "PodGroup", "priority": 1}});
        cluster.upsert_group(&serde_json::from_value(group).unwrap()).unwrap();
        let upsert = |cluster: &mut Cluster, at: usize, node: Option<String>| {
            let object: Value = json!({"metadata": {"namespace": "d", "name": format!("p{at}"),
                "labels": {"scheduling.giveway.dev/pod-group": "g"}}, "spec": {"containers": [], "nodeName": node}});
            cluster.upsert_pod(&serde_json::from_value(object).unwrap()).unwrap();
        };
        (0..512).for_each(|at| upsert(&mut cluster, at, None));
        let before = cluster.mark_changes_read();
        (0..512).for_each(|at| upsert(&mut cluster, at, Some(format!("n{}", at / 8))));
        let notes: Vec<Change> = cluster.changes_since(before).unwrap().collect();
        let budgets = notes.iter().filter(|change| matches!(change, Change::Budget(_))).count();
        assert_eq!((budgets, notes.len() <= 64 + 3), (1, true), "{} notes", notes.len());
        assert_eq!(cluster.members(&ObjectKey::new("d", "g")).count(), 512);
    }
}

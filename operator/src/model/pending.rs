//! The live pods without a node, by PodGroup.

use crate::model::index::Index;
use giveway_planner::model::{ObjectKey, Pod};
use std::collections::{BTreeMap, BTreeSet};

/// The live pods without a node. It contains every such pod of the cluster.
#[derive(Debug, Default)]
pub struct Pending {
    /// By pod: the PodGroup that it names.
    groups: BTreeMap<ObjectKey, Option<ObjectKey>>,
    /// By PodGroup: the pods that name it.
    members: Index<ObjectKey, ObjectKey>,
    /// The pods without a PodGroup.
    single: BTreeSet<ObjectKey>,
}

impl Pending {
    /// Updates whether the pod `key` is pending, and of which PodGroup it is. `pod` is its present state, `None` if it was removed.
    pub(super) fn note(&mut self, key: &ObjectKey, pod: Option<&Pod>) {
        let group = pod.filter(|pod| pod.live() && !pod.bound()).map(Pod::group_key);
        if self.groups.get(key) == group.as_ref() {
            return;
        }
        match self.groups.remove(key) {
            Some(Some(before)) => self.members.remove(&before, key),
            Some(None) => drop(self.single.remove(key)),
            None => {}
        }
        let Some(group) = group else { return };
        match &group {
            Some(group) => self.members.insert(group.clone(), key.clone()),
            None => drop(self.single.insert(key.clone())),
        }
        self.groups.insert(key.clone(), group);
    }

    /// Returns the PodGroups with at least one pod that has no node and has not ended.
    pub fn groups(&self) -> impl Iterator<Item = &ObjectKey> {
        self.members.iter().map(|(group, _)| group)
    }

    /// Returns the pods of a PodGroup that have no node and have not ended.
    pub fn of_group(&self, group: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.members.of(group)
    }

    /// Returns the pods without a PodGroup that have no node and have not ended.
    pub fn single(&self) -> impl Iterator<Item = &ObjectKey> {
        self.single.iter()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestPod, World};

    fn known(world: &World) -> (Vec<String>, Vec<String>) {
        let pending = &world.model.pending;
        let of_groups = pending.groups().map(|group| format!("{}: {}", group.name, pending.of_group(group).count()));
        (of_groups.collect(), pending.single().map(|pod| pod.name.to_string()).collect())
    }

    #[test]
    fn a_pod_is_pending_under_its_group_until_it_has_a_node_terminates_or_is_removed() {
        let mut world = World::new();
        world.node("n1", 8);
        world.pod(TestPod::new("a", 0).of("g").gated()).pod(TestPod::new("b", 0).of("g")).pod(TestPod::new("c", 0));
        assert_eq!(known(&world), (vec!["g: 2".to_owned()], vec!["c".to_owned()]));
        world.pod(TestPod::new("a", 0).of("g").on("n1")).pod(TestPod::new("c", 0).terminating());
        assert_eq!(known(&world), (vec!["g: 1".to_owned()], vec![]));
        world.remove_pod("b");
        assert_eq!(known(&world), (vec![], vec![]));
        world.pod(TestPod::new("d", 0)).pod(TestPod::new("d", 0).of("g"));
        assert_eq!(known(&world), (vec!["g: 1".to_owned()], vec![]), "it names a group now");
    }
}

//! Queries about PodGroups in a history: effective priorities, policies and members.

use super::history::History;
use super::record::{Key, PodRecord};
use jiff::Timestamp;

impl History {
    /// The effective priority of a pod: the lower one of its own priority and the priority of its PodGroup, if that has one; for a
    /// PodGroup of `scheduling.k8s.io` the priority of the group.
    pub fn effective_priority(&self, uid: &str) -> Option<i32> {
        let pod = self.pods.get(uid)?;
        let group = self.group_of(uid);
        let native = group.as_ref().and_then(|key| self.groups.get(key)).is_some_and(|group| group.native);
        let of_group = group.and_then(|key| self.priority_of_group(&key));
        Some(of_group.map_or(pod.priority, |group| if native { group } else { group.min(pod.priority) }))
    }

    /// The PodGroup of the pod with this UID, which may not exist; `None` if the pod is unknown or names no PodGroup.
    pub fn group_of(&self, uid: &str) -> Option<Key> {
        let pod = self.pods.get(uid)?;
        pod.group.as_ref().map(|group| (pod.key.0.clone(), group.clone()))
    }

    /// The priority of a PodGroup: its own, or else the priority of its PriorityClass.
    pub fn priority_of_group(&self, key: &Key) -> Option<i32> {
        let group = self.groups.get(key)?;
        group.priority.or_else(|| Some(self.classes.get(group.class.as_ref()?)?.value))
    }

    /// Returns true if the preemption policy of the PodGroup, or else of its PriorityClass, is `Never`; `None` if neither is known.
    pub(super) fn group_never(&self, key: &Key) -> Option<bool> {
        let group = self.groups.get(key)?;
        group.never.or_else(|| Some(self.classes.get(group.class.as_ref()?)?.never))
    }

    /// The UID of the PodGroup that had this name at this time.
    pub fn incarnation(&self, key: &Key, at: Timestamp) -> Option<&str> {
        let all = self.incarnations.get(key)?;
        all.iter().rev().find(|(since, _)| *since <= at).map(|(_, uid)| uid.as_str())
    }

    /// The created members of a PodGroup, with their UIDs.
    pub fn members<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = (&'a String, &'a PodRecord)> {
        self.pods.iter().filter(move |(_, pod)| pod.key.0 == key.0 && pod.group.as_ref() == Some(&key.1))
    }
}

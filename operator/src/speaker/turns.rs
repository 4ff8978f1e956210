//! A queue of PodGroups that take turns: the namespaces in turn, and within a namespace its PodGroups. So a tenant with thousands of
//! PodGroups does not delay the events of other tenants.

use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Instant;

/// Round-robin queue of the PodGroups whose events are still to be published: the namespaces take turns, and in a namespace its PodGroups.
/// A PodGroup is in it at most once, and [`RoundRobinQueue::retain`] removes those that are not needed any more.
#[derive(Debug, Default)]
pub(super) struct RoundRobinQueue {
    /// The PodGroups that were added and have not ended.
    queued: BTreeSet<ObjectKey>,
    /// PodGroups whose turns begin at that time.
    later: BTreeSet<(Instant, ObjectKey)>,
    /// PodGroups whose turns have started, by namespace; no queue is empty.
    due: BTreeMap<SmolStr, VecDeque<ObjectKey>>,
    /// The namespace of the last turn.
    last: SmolStr,
}

impl RoundRobinQueue {
    /// Queues a PodGroup whose events may be published from `begin` on. One that is queued already stays as it is.
    pub(super) fn add(&mut self, group: &ObjectKey, begin: Instant) {
        if self.queued.insert(group.clone()) {
            self.later.insert((begin, group.clone()));
        }
    }

    /// Takes and returns the PodGroup whose turn it is at `now`, or `None` if none is due. The caller then calls [`RoundRobinQueue::again`]
    /// if there are more events for it, and otherwise [`RoundRobinQueue::end`].
    pub(super) fn take(&mut self, now: Instant) -> Option<ObjectKey> {
        while self.later.first().is_some_and(|(begin, _)| *begin <= now)
            && let Some((_, group)) = self.later.pop_first()
        {
            self.again(group);
        }
        let after = (Bound::Excluded(self.last.clone()), Bound::Unbounded);
        let next = self.due.range(after).next().or_else(|| self.due.iter().next());
        let namespace = next.map(|(namespace, _)| namespace.clone())?;
        let groups = self.due.get_mut(&namespace)?;
        let group = groups.pop_front();
        if groups.is_empty() {
            self.due.remove(&namespace);
        }
        self.last = namespace;
        group
    }

    /// Gives a PodGroup another turn, after the other due PodGroups of its namespace.
    pub(super) fn again(&mut self, group: ObjectKey) {
        self.due.entry(group.namespace.clone()).or_default().push_back(group);
    }

    /// Removes a PodGroup that [`RoundRobinQueue::take`] has returned, so that it can be queued again.
    pub(super) fn end(&mut self, group: &ObjectKey) {
        self.queued.remove(group);
    }

    /// Removes the PodGroups for which `is_needed` returns false.
    pub(super) fn retain(&mut self, is_needed: impl FnMut(&ObjectKey) -> bool) {
        self.queued.retain(is_needed);
        self.later.retain(|(_, group)| self.queued.contains(group));
        self.due.retain(|_, groups| {
            groups.retain(|group| self.queued.contains(group));
            !groups.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_group_has_one_turn_however_often_its_reason_changes() {
        let (mut turns, now) = (RoundRobinQueue::default(), Instant::now());
        let (group, later) = (ObjectKey::new("default", "g"), |seconds| now + Duration::from_secs(seconds));
        turns.add(&group, later(5));
        turns.add(&group, later(6));
        assert_eq!(turns.take(later(4)), None);
        assert_eq!(turns.take(later(5)), Some(group.clone()));
        turns.add(&group, later(5));
        assert_eq!(turns.take(later(6)), None);
        turns.end(&group);
        turns.add(&group, later(6));
        assert_eq!(turns.take(later(6)), Some(group));
    }

    #[test]
    fn namespaces_take_turns_and_so_do_the_groups_of_a_namespace() {
        let (mut turns, now) = (RoundRobinQueue::default(), Instant::now());
        for (namespace, name) in [("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"), ("c", "1")] {
            turns.add(&ObjectKey::new(namespace, name), now);
        }
        let mut order = Vec::new();
        for _ in 0..8 {
            let group = turns.take(now).unwrap();
            order.push(group.to_string());
            turns.again(group);
        }
        assert_eq!(order, ["a/1", "b/1", "c/1", "a/2", "b/1", "c/1", "a/3", "b/1"]);
    }

    #[test]
    fn groups_that_are_not_needed_leave_the_queue() {
        let (mut turns, now) = (RoundRobinQueue::default(), Instant::now());
        let groups = ["now", "later", "kept"].map(|name| ObjectKey::new("default", name));
        turns.add(&groups[0], now);
        turns.add(&groups[2], now);
        let taken = turns.take(now).unwrap();
        turns.again(taken);
        turns.add(&groups[1], now + Duration::from_secs(5));
        turns.retain(|group| *group == groups[2]);
        assert_eq!(turns.take(now + Duration::from_secs(5)), Some(groups[2].clone()));
        assert_eq!(turns.take(now + Duration::from_secs(5)), None);
        turns.retain(|_| false);
        assert!(turns.queued.is_empty() && turns.later.is_empty() && turns.due.is_empty(), "{turns:?}");
    }
}

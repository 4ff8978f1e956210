//! Deletion of PodGroups that no pod refers to any more, if Giveway created them from a template or for a replica of a
//! labelled owner, or if their owner was deleted without its pods. They are not garbage-collected because their owner
//! still exists, or because they have none. They are deleted after a delay; the next pod that refers to one causes its
//! creation again.

use super::Housekeeping;
use crate::messages::command::Command;
use crate::model::{GroupRecord, Model};
use giveway_planner::model::ObjectKey;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Since when PodGroups have had no pods. It has one entry for each such PodGroup.
#[derive(Debug, Default)]
pub(super) struct Unused {
    since: BTreeMap<ObjectKey, Instant>,
    /// The same entries in order of time. An entry whose time differs from the one in the map is outdated.
    queue: VecDeque<(Instant, ObjectKey)>,
}

impl Housekeeping {
    /// Updates, after a change of the PodGroup `key` or of its pods, since when no pod has referred to it. Only PodGroups that Giveway
    /// created, and may delete, are recorded.
    pub(super) fn note_use(&mut self, model: &Model, key: &ObjectKey, record: &GroupRecord, now: Instant) {
        if !is_unused(model, key, record) {
            self.unused.since.remove(key);
        } else if !self.unused.since.contains_key(key) {
            self.unused.since.insert(key.clone(), now);
            self.unused.queue.push_back((now, key.clone()));
        }
    }

    /// Returns the calls that delete the PodGroups created by Giveway to which no pod has referred for `after`. If a PodGroup still exists
    /// afterwards, because the call failed or the PodGroup had just changed, its deletion is retried after the same delay.
    pub fn delete_unused(&mut self, model: &Model, after: Duration, now: Instant) -> Vec<Command> {
        let mut commands = Vec::new();
        while self.unused.queue.front().is_some_and(|(since, _)| now.duration_since(*since) >= after) {
            let Some((since, key)) = self.unused.queue.pop_front() else { break };
            if self.unused.since.get(&key) != Some(&since) {
                continue;
            }
            self.unused.since.remove(&key);
            let Some(record) = model.groups.get(&key) else { continue };
            self.note_use(model, &key, record, now);
            if self.unused.since.contains_key(&key) {
                let (uid, version) = (record.uid.clone(), record.resource_version.clone());
                commands.push(Command::DeleteGroup { group: key, uid, version });
            }
        }
        commands
    }
}

/// Returns true if a PodGroup may be deleted because no pod refers to it: it has no pods, its status records no finished ones, and Giveway
/// created it from a template, for a replica, or for an owner that was deleted without its pods.
fn is_unused(model: &Model, key: &ObjectKey, record: &GroupRecord) -> bool {
    let from_template = record.managed && record.template.is_some();
    let ours = (from_template || record.of_replica || record.orphaned) && !record.deleting;
    ours && record.status.finished.count == 0 && model.cluster.members(key).next().is_none()
}

#[cfg(test)]
mod tests {
    use super::super::tests::pass;
    use super::*;
    use crate::testing::{TestPod, World};
    use serde_json::json;

    const AFTER: Duration = Duration::from_secs(600);

    fn deleted(housekeeping: &mut Housekeeping, world: &mut World, now: Instant) -> Vec<String> {
        pass(housekeeping, world, now);
        let commands = housekeeping.delete_unused(&world.model, AFTER, now);
        let names = commands.into_iter().map(|command| match command {
            Command::DeleteGroup { group, .. } => group.name.to_string(),
            other => panic!("{other:?}"),
        });
        names.collect()
    }

    #[test]
    fn a_group_of_a_replica_or_without_an_owner_is_deleted_and_one_of_a_whole_owner_stays_with_it() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.made_for("train", "u1", 2);
        world.made_for_owner("serve-0", ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve", "u2"), 2);
        world.made_for_owner("set-w-0", ("jobset.x-k8s.io/v1alpha2", "JobSet", "set", "u3"), 2);
        world.made_for_owner("db", ("apps/v1", "StatefulSet", "db", "u4"), 2).orphaned("left", 2);
        assert!(deleted(&mut housekeeping, &mut world, now).is_empty());
        assert_eq!(deleted(&mut housekeeping, &mut world, now + AFTER), ["left", "serve-0", "set-w-0"]);
    }

    #[test]
    fn a_group_from_a_template_is_deleted_when_it_is_unused_for_long() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.made_by_giveway("a", json!({})).made_from("serve", "worker", "of-a-user", json!({}));
        world.made_by_giveway("remembers", json!({"finished": {"count": 1}}));
        world.node("n1", 1).pod(TestPod::new("p", 0).of("a").on("n1"));
        assert!(deleted(&mut housekeeping, &mut world, now).is_empty());
        world.remove_pod("p");
        assert!(deleted(&mut housekeeping, &mut world, now + AFTER).is_empty(), "its time begins now");
        let later = now + AFTER + AFTER / 2;
        world.pod(TestPod::new("q", 0).of("a").on("n1"));
        assert!(deleted(&mut housekeeping, &mut world, later).is_empty());
        world.remove_pod("q");
        assert!(deleted(&mut housekeeping, &mut world, later).is_empty());
        assert!(deleted(&mut housekeeping, &mut world, now + 2 * AFTER).is_empty(), "it was used meanwhile");
        assert_eq!(deleted(&mut housekeeping, &mut world, later + AFTER), ["a"]);
        assert!(deleted(&mut housekeeping, &mut world, later + AFTER).is_empty(), "once");
        assert_eq!(deleted(&mut housekeeping, &mut world, later + 2 * AFTER), ["a"], "it is still there");
    }
}

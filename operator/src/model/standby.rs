//! The model of a standby: it is kept up to date like that of a leader, and what only the passes of a leader handle is dropped.

use super::Model;
use crate::model::changed::ChangedObjects;

impl Model {
    /// Drops the changes that only a leader's next pass would handle; a new leader begins with all objects. Preemptions by kube-scheduler
    /// within `unhandled` seconds before or after `second`, the time since the epoch, are kept, because the leader may have ended before it
    /// handled them. A departure that it began for one of them is stored, and does not begin a second time.
    pub fn drop_changes(&mut self, second: i64, unhandled: i64) {
        self.changes = ChangedObjects::default();
        self.touched.clear();
        self.touched_workloads.clear();
        self.namesakes.clear();
        self.pod_deletions.clear();
        let kept = second.saturating_sub(unhandled)..=second.saturating_add(unhandled);
        self.preempted_by_scheduler.retain(|_, preempted| kept.contains(&preempted.at));
    }

    /// Marks all PodGroups, Workloads and other objects as changed, for the first pass of a leader.
    pub fn touch_all(&mut self) {
        self.touched.extend(self.groups.keys().cloned());
        self.touched_workloads.extend(self.workloads.keys().cloned());
        self.changes.everything = true;
    }
}

#[cfg(test)]
mod tests {
    use crate::messages::input::{Input, Update};
    use crate::testing::{TestPod, World};

    /// Time of the preemption, in seconds since the epoch.
    const AT: i64 = 1_767_225_600;

    /// Returns a PodGroup of two pods, one of which kube-scheduler preempts.
    fn world() -> World {
        let mut world = World::new();
        let member = |name: &str| TestPod::new(name, 10).of("low").on("n1").created(AT - 100);
        world.node("n1", 4).namespace("default").group("low", 2, 10, "PodGroup").pod(member("l1")).pod(member("l2"));
        world.pod(member("l1").preempted(AT, "default-scheduler: preempting to accommodate").terminating());
        world
    }

    #[test]
    fn a_standby_keeps_a_preemption_that_the_leader_may_not_have_handled_and_drops_an_older_one() {
        let mut world = world();
        world.model.drop_changes(AT + 75, 75);
        assert_eq!(world.model.preempted_by_scheduler.len(), 1);
        world.model.drop_changes(AT + 76, 75);
        assert!(world.model.take_preempted_by_scheduler().is_empty(), "a leader has handled it");
        world.remove_pod("l1");
        assert!(world.model.take_preempted_by_scheduler().is_empty(), "its removal is no other preemption");
    }

    #[test]
    fn changes_do_not_accumulate_in_a_standby_and_a_leader_begins_with_all_objects() {
        let mut world = world();
        for number in 0..100 {
            let name = format!("gone-{number}");
            let key = world.key(&name);
            world.group(&name, 1, 10, "Pod");
            world.model.apply(Input::Group(Update::Deleted(key)));
        }
        world.workload("train", "workers");
        world.model.drop_changes(AT, 75);
        let model = &world.model;
        assert!(model.touched.is_empty() && model.touched_workloads.is_empty() && model.namesakes.is_empty());
        assert!(model.changes.pods.is_empty() && model.pod_deletions.is_empty());
        world.model.touch_all();
        let model = &world.model;
        assert!(model.changes.everything && model.touched.contains(&world.key("low")) && model.touched.len() == 1);
        assert_eq!(model.touched_workloads.len(), 1);
    }

    #[test]
    fn the_cluster_is_known_when_every_kind_but_the_stored_plans_has_been_listed() {
        let model = &mut World::new().model;
        model.synced.remove("Preemption");
        assert!(model.knows_cluster() && !model.synced());
        model.synced.remove("Pod");
        assert!(!model.knows_cluster());
        model.apply(Input::Preemption(Update::Replaced(Vec::new())));
        assert!(!model.knows_cluster(), "the stored plans are no part of it");
        model.apply(Input::Pod(Update::Replaced(Vec::new())));
        assert!(model.knows_cluster() && model.synced());
    }
}

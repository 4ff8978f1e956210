//! Marks of preempted pods in the status of PodGroups.
//!
//! The webhook's guard marks a pod before it permits kube-scheduler to delete it. An operator that is running observes that the pod is
//! terminating, and does not need the mark. If no operator was running, or its watch had an outage, the pod no longer exists and only the
//! mark shows the preemption. The deletion may also have failed: then the pod keeps running, and the mark is ignored after a minute.

use super::preempted_by_scheduler::{Members, PreemptedByScheduler};
use giveway_crds::pod_group::PreemptedPod;
use giveway_planner::SmolStr;
use giveway_planner::model::{Cluster, ObjectKey};
use std::collections::{BTreeMap, BTreeSet};

/// Seconds after its mark during which the deletion of a pod may still be observed.
const DELETION_FOLLOWS: i64 = 60;

/// The marks of preempted pods in the status of all PodGroups, at most 64 in each. A mark is open until its preemption has been handled or
/// found not to have taken place; a closed one is not handled again.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(BTreeMap<ObjectKey, BTreeMap<SmolStr, PreemptionMark>>);

#[derive(Clone, Debug)]
struct PreemptionMark {
    pod: ObjectKey,
    /// When the guard added it, in seconds since the epoch.
    at: i64,
    /// True until the mark has been handled.
    open: bool,
}

impl Marks {
    /// Replaces the known marks of preempted pods in the status of a PodGroup by `marks`, by UID of the pod. A mark that is known stays
    /// open or closed; a new one is open.
    pub(super) fn note(&mut self, group: &ObjectKey, marks: &BTreeMap<String, PreemptedPod>) {
        let before = self.0.remove(group).unwrap_or_default();
        let marks = marks.iter().map(|(uid, PreemptedPod { name, time })| {
            let mark =
                PreemptionMark { pod: ObjectKey::new(&group.namespace, name), at: time.0.as_second(), open: true };
            (SmolStr::from(uid.as_str()), before.get(uid.as_str()).cloned().unwrap_or(mark))
        });
        let marks: BTreeMap<_, _> = marks.collect();
        if !marks.is_empty() {
            self.0.insert(group.clone(), marks);
        }
    }

    /// Closes the open marks of preempted pods that no longer exist, and returns their preemptions, by UID of the pod. Open marks of the
    /// pods in `seen` are closed, too: the model has observed that these terminate, and records their preemption itself.
    pub(super) fn take_preempted(
        &mut self,
        cluster: &Cluster,
        seen: &BTreeSet<SmolStr>,
    ) -> Vec<(SmolStr, PreemptedByScheduler)> {
        let mut preempted = Vec::new();
        for (group, marks) in &mut self.0 {
            for (uid, mark) in marks.iter_mut().filter(|(_, mark)| mark.open) {
                let exists = cluster.pod(&mark.pod).is_some_and(|pod| pod.uid == *uid);
                mark.open = exists && !seen.contains(uid);
                if !exists {
                    let (pod, group, members) = (mark.pod.clone(), group.clone(), Members::CreatedBefore(mark.at));
                    let pod = PreemptedByScheduler { pod, group, at: mark.at, members };
                    preempted.push((uid.clone(), pod));
                }
            }
        }
        preempted
    }

    /// Closes the open marks of pods that still run a minute after their mark: they were not deleted. `second` is the time since the epoch.
    /// Returns the PodGroups of these pods.
    pub(super) fn close_outdated(&mut self, cluster: &Cluster, second: i64) -> BTreeSet<ObjectKey> {
        let mut groups = BTreeSet::new();
        for (group, marks) in &mut self.0 {
            for (uid, mark) in marks.iter_mut().filter(|(_, mark)| mark.open) {
                let is_old = second.saturating_sub(mark.at) >= DELETION_FOLLOWS;
                if is_old && cluster.pod(&mark.pod).is_some_and(|pod| pod.uid == *uid && pod.live()) {
                    mark.open = false;
                    groups.insert(group.clone());
                }
            }
        }
        groups
    }

    /// Returns true if the pod with this UID has a mark in the PodGroup's status that is open.
    pub(super) fn is_open(&self, group: &ObjectKey, uid: &str) -> bool {
        self.0.get(group).and_then(|marks| marks.get(uid)).is_some_and(|mark| mark.open)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestPod, World};

    /// Time of the marks.
    const AT: i64 = 1_767_225_600;

    fn member(name: &str) -> TestPod {
        TestPod::new(name, 10).of("low").on("n1").created(AT - 100)
    }

    /// Returns a gang of two pods, the first of which is marked.
    fn world() -> World {
        let mut world = World::new();
        world.node("n1", 4).group("low", 2, 10, "PodGroup").pod(member("l1")).pod(member("l2"));
        world.marked("low", &[("l1", AT)]);
        world
    }

    fn preempted(world: &mut World) -> Vec<String> {
        let preempted = world.model.take_preempted_by_scheduler().into_values();
        preempted
            .map(|preempted| format!("{} of {} at {}", preempted.pod, preempted.group, preempted.at - AT))
            .collect()
    }

    fn open(world: &World) -> Vec<String> {
        world.model.open_marks(&world.key("low")).into_keys().collect()
    }

    #[test]
    fn a_marked_pod_that_does_not_exist_any_more_was_preempted_and_the_mark_is_closed() {
        let mut world = world();
        assert!(preempted(&mut world).is_empty(), "it was not deleted yet");
        assert_eq!(open(&world), ["uid-l1"]);
        world.remove_pod("l1");
        assert_eq!(preempted(&mut world), ["default/l1 of default/low at 0"]);
        assert!(open(&world).is_empty());
        world.marked("low", &[("l1", AT), ("l2", AT + 1)]);
        assert!(preempted(&mut world).is_empty(), "the status still has it: once is enough");
        assert_eq!(open(&world), ["uid-l2"], "another one");
        world.marked("low", &[]).marked("low", &[("l0", AT)]);
        assert_eq!(preempted(&mut world), ["default/l0 of default/low at 0"], "no operator ran");
    }

    #[test]
    fn another_pod_of_the_name_is_not_the_marked_one() {
        let mut world = world();
        world.pod(member("l1").uid("uid-new"));
        assert_eq!(preempted(&mut world), ["default/l1 of default/low at 0"]);
    }

    #[test]
    fn nothing_follows_from_the_mark_of_a_pod_that_was_seen_to_terminate() {
        let mut world = world();
        let words = "default-scheduler: preempting to accommodate a higher priority pod";
        world.pod(member("l1").preempted(AT + 1, words).terminating());
        assert_eq!(preempted(&mut world), ["default/l1 of default/low at 1"], "by what was seen");
        assert!(open(&world).is_empty());
        world.remove_pod("l1");
        assert!(preempted(&mut world).is_empty());
    }

    #[test]
    fn a_pod_that_was_not_deleted_within_a_minute_was_not_preempted() {
        let mut world = world();
        world.model.close_outdated_marks(AT + 59);
        assert_eq!(open(&world), ["uid-l1"]);
        world.model.touched.clear();
        world.model.close_outdated_marks(AT + 60);
        assert!(open(&world).is_empty());
        assert!(world.model.touched.contains(&world.key("low")), "its status is written");
        world.remove_pod("l1");
        assert!(preempted(&mut world).is_empty(), "deleted for another reason");
    }
}

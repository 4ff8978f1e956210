//! Bound pods whose PodGroup or namespace is not known yet.
//!
//! Each kind has a watch of its own, and one may lag behind another or restart. A bound pod that names an unknown PodGroup may belong to a
//! group that is disrupted together, with its own priority. Such a pod is not a victim until it is so old that its PodGroup would be known:
//! by then the watch of PodGroups is complete, or has been broken for so long that nothing is decided
//! ([`watches`](crate::leadership::watches)). After that the PodGroup is treated as missing, because users can write any name on a pod.

use super::preempted_by_scheduler::PreemptedByScheduler;
use crate::leadership::watches::TRUSTED;
use giveway_planner::SmolStr;
use giveway_planner::model::{Cluster, ObjectKey};
use giveway_serving::patience;
use std::collections::{BTreeMap, BTreeSet};

/// Seconds after its creation during which the PodGroup of a pod may be unknown: the time until a watch without [answers](patience::WATCH)
/// is no longer [trusted](crate::leadership::watches::TRUSTED), and the difference of two clocks.
const LAG: i64 = 20;
/// Rounding to whole seconds, and a clock that is wrong by less than three seconds.
const CLOCKS: u64 = 4;
const _: () = assert!(patience::WATCH.as_secs() + TRUSTED.as_secs() + CLOCKS < LAG as u64);

/// Bound pods whose PodGroup or namespace the watches may deliver soon. They must not be victims before.
#[derive(Debug, Default)]
pub(super) struct PodsOfUnknownGroups {
    /// UID and creation time, in seconds since the epoch. An entry is removed after at most [`LAG`].
    young: BTreeMap<ObjectKey, (SmolStr, i64)>,
    /// UIDs of the pods that must not be victims, as of the last update.
    pub(super) excluded: BTreeSet<SmolStr>,
    /// The lowest priority of these pods.
    pub(super) lowest: Option<i32>,
    /// Time of the last update, in seconds since the epoch.
    noted: i64,
}

/// Returns true if the pod exists and its namespace, or the PodGroup that it names, is not known.
fn has_unknown_group(cluster: &Cluster, namespaces: &BTreeSet<SmolStr>, key: &ObjectKey) -> bool {
    let Some(pod) = cluster.pod(key) else { return false };
    !namespaces.contains(&key.namespace) || (pod.group.is_some() && cluster.group_of(pod).is_none())
}

impl PodsOfUnknownGroups {
    /// Updates whether the pod `key`, after a change, may be of an unknown PodGroup. Only a live pod with a node may, because others cannot
    /// be victims. `namespaces` are the known ones.
    pub(super) fn note(&mut self, cluster: &Cluster, namespaces: &BTreeSet<SmolStr>, key: &ObjectKey) {
        let pod = cluster
            .pod(key)
            .filter(|pod| pod.live() && pod.bound() && has_unknown_group(cluster, namespaces, &pod.key));
        match pod.and_then(|pod| Some((pod.uid.clone(), pod.created? / 1_000_000_000))) {
            Some(pod) => drop(self.young.insert(key.clone(), pod)),
            None => self.forget(key),
        }
    }

    /// Removes a pod that no longer exists.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.young.remove(key);
    }

    /// Updates which pods must not be victims at `second`, the time since the epoch. `namespaces` are the known ones. Returns true if that
    /// changed.
    pub(super) fn renew(&mut self, cluster: &Cluster, namespaces: &BTreeSet<SmolStr>, second: i64) -> bool {
        self.noted = second;
        if self.young.is_empty() && self.excluded.is_empty() {
            return false;
        }
        self.young.retain(|key, (_, created)| {
            second.saturating_sub(*created) < LAG && has_unknown_group(cluster, namespaces, key)
        });
        let excluded: BTreeSet<SmolStr> = self.young.values().map(|(uid, _)| uid.clone()).collect();
        self.lowest = self.young.keys().filter_map(|key| cluster.pod(key)).map(|pod| pod.priority).min();
        let changed = excluded != self.excluded;
        self.excluded = excluded;
        changed
    }

    /// Returns true if a pod that kube-scheduler preempted names an unknown PodGroup, which may become known within seconds. Its departure
    /// is delayed until then.
    pub(super) fn may_become_known(&self, cluster: &Cluster, preempted: &PreemptedByScheduler) -> bool {
        cluster.group(&preempted.group).is_none() && (-LAG..LAG).contains(&self.noted.saturating_sub(preempted.at))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestPod, World};

    /// Creation time of the pods.
    const THEN: i64 = 1_767_225_600;

    fn world() -> World {
        let mut world = World::new();
        world.node("n1", 4);
        world
    }

    fn excluded(world: &mut World, second: i64) -> Vec<String> {
        world.model.note_time(second);
        world.model.pods_of_unknown_groups().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pod_is_no_victim_before_its_group_is_observed() {
        let mut world = world();
        world.namespace("default");
        world.pod(TestPod::new("gated", 0).of("late").gated().created(THEN));
        world
            .pod(TestPod::new("a", 0).of("late").on("n1").created(THEN))
            .pod(TestPod::new("b", 0).on("n1").created(THEN));
        assert_eq!(excluded(&mut world, THEN + 1), ["uid-a"]);
        let version = world.model.version;
        world.group("late", 1, 10, "PodGroup");
        assert_eq!(excluded(&mut world, THEN + 2), Vec::<String>::new());
        assert!(world.model.version > version, "pending preemptors are decided again");
    }

    #[test]
    fn a_pod_of_a_missing_group_is_excluded_as_a_victim_for_a_limited_time() {
        let mut world = world();
        world.namespace("default");
        world.pod(TestPod::new("a", 0).of("missing").on("n1").created(THEN));
        assert_eq!(excluded(&mut world, THEN + 19), ["uid-a"]);
        assert!(
            world.model.excludes_victims_below(1) && !world.model.excludes_victims_below(0),
            "no preemptor of its priority evicts it anyway"
        );
        let version = world.model.version;
        assert_eq!(excluded(&mut world, THEN + 20), Vec::<String>::new());
        assert_eq!(world.model.version, version + 1, "time alone changes decisions by it");
        world.pod(TestPod::new("a", 0).of("missing").on("n1").created(THEN).labelled("again", "and again"));
        assert_eq!(excluded(&mut world, THEN + 21), Vec::<String>::new(), "an update makes no pod young");
    }

    #[test]
    fn a_pod_is_no_victim_before_its_namespace_is_observed() {
        let mut world = world();
        world.pod(TestPod::new("a", 0).on("n1").created(THEN));
        assert_eq!(excluded(&mut world, THEN), ["uid-a"]);
        world.namespace("default");
        assert_eq!(excluded(&mut world, THEN), Vec::<String>::new());
    }

    #[test]
    fn a_preemption_by_kube_scheduler_is_noted_when_the_group_is_known() {
        let mut world = world();
        world.namespace("default");
        world.pod(TestPod::new("a", 0).of("late").on("n1").created(THEN));
        world.pod(TestPod::new("b", 0).of("late").on("n1").created(THEN));
        world.pod(
            TestPod::new("a", 0).of("late").on("n1").created(THEN).preempted(THEN + 1, "preempting").terminating(),
        );
        world.model.note_time(THEN + 2);
        assert!(world.model.take_preempted_by_scheduler().is_empty());
        world.group("late", 1, 10, "PodGroup");
        let preempted = world.model.take_preempted_by_scheduler();
        assert_eq!(preempted.into_values().map(|one| one.group.to_string()).collect::<Vec<_>>(), ["default/late"]);
        assert!(world.model.take_preempted_by_scheduler().is_empty(), "once");
    }
}

//! Counts pending PodGroups for the metrics, every two seconds. Only unbound pods and their PodGroups are examined.

use crate::clock::Clock;
use crate::model::Model;
use crate::observability::metrics::{Metrics, PendingGroups};
use crate::plans::Flights;
use crate::preemption::queue::PendingPreemptor;
use crate::status;
use giveway_crds::condition::{self, Reason, types};
use giveway_planner::model::{Cluster, Finished, Group, ObjectKey};
use giveway_planner::{Preemptor, SmolStr};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Interval between two counts.
const EVERY: Duration = Duration::from_secs(2);

/// Since when the pending PodGroups have been pending.
#[derive(Debug, Default)]
pub struct Survey {
    next: Option<Instant>,
    /// In seconds since the epoch, by UID of the PodGroup.
    since: BTreeMap<SmolStr, i64>,
}

/// Returns when the first live pod of a PodGroup was created, in seconds since the epoch; `None` if it has no live pod.
pub fn submitted(cluster: &Cluster, group: &ObjectKey) -> Option<i64> {
    let live = cluster.members(group).filter(|pod| pod.live());
    live.filter_map(|pod| pod.created).min().map(|nanoseconds| nanoseconds / 1_000_000_000)
}

impl Survey {
    /// Returns true if pending PodGroups must be counted now, every two seconds, and then records that they are.
    pub fn due(&mut self, now: Instant) -> bool {
        let due = self.next.is_none_or(|next| next <= now);
        if due {
            self.next = Some(now + EVERY);
        }
        due
    }

    /// Counts the pending PodGroups by reason and PriorityClass, and the gated pods. The result also has the age of the oldest PodGroup of
    /// each class, in seconds. `waiting` is the state of the preemptors without a plan.
    pub fn count_pending(
        &mut self,
        model: &Model,
        flights: &Flights,
        waiting: &BTreeMap<Preemptor, PendingPreemptor>,
        metrics: &Metrics,
        clock: Clock,
    ) -> PendingGroups {
        let cluster = &model.cluster;
        let mut pending = PendingGroups::default();
        let mut groups: BTreeSet<&ObjectKey> = BTreeSet::new();
        for pod in cluster.unbound() {
            pending.gated += usize::from(pod.gated);
            groups.extend(cluster.group_of(pod).filter(|group| !group.native).map(|group| &group.key));
        }
        let mut since = BTreeMap::new();
        for key in groups {
            let (Some(group), Some(record)) = (cluster.group(key), model.groups.get(key)) else { continue };
            let finished = Finished::of(&record.status.finished, cluster.members(key)).count;
            if !is_pending(cluster, group, finished) {
                continue;
            }
            // A PodGroup that was scheduled before counts as pending since it was first observed to be pending again.
            let pending_since = match condition::is_true(&record.status.conditions, types::INITIALLY_SCHEDULED) {
                true => None,
                false => submitted(cluster, key),
            };
            let pending_since =
                pending_since.or_else(|| self.since.get(&group.uid).copied()).unwrap_or(clock.epoch_seconds);
            since.insert(group.uid.clone(), pending_since);
            let preemptor = Preemptor::Group(key.clone());
            let wait_reason = waiting.get(&preemptor).and_then(|waiting| waiting.wait_reason.as_ref());
            let reported =
                status::waits_for(model, group.class_problem.as_deref(), flights.get(&preemptor), wait_reason);
            let reason = reported.map_or(Reason::WaitingForPods, |(reason, _)| reason);
            let class = metrics.class(group.class_name.as_deref(), |name| cluster.classes().get(name).is_some());
            let age = (clock.epoch_seconds - pending_since).max(0);
            *pending.groups.entry((reason, class.clone())).or_default() += 1;
            let oldest = pending.oldest.entry(class).or_default();
            *oldest = age.max(*oldest);
        }
        self.since = since;
        pending
    }
}

/// Returns true if a PodGroup with unbound pods is pending: fewer members are bound or `finished` than its gang needs; in a group without
/// gang scheduling, no pod is bound, and one is gated or unschedulable.
fn is_pending(cluster: &Cluster, group: &Group, finished: usize) -> bool {
    let live = || cluster.members(&group.key).filter(|pod| pod.live());
    let bound = live().filter(|pod| pod.node.is_some()).count();
    match group.min_count {
        Some(needed) => bound + finished < needed,
        // The pods of a PodGroup without gang scheduling start independently of each other.
        None => bound == 0 && live().any(|pod| pod.gated || pod.unschedulable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observability::metrics::ClassLabel;
    use crate::status::WaitReason;
    use crate::testing::{TestPod, World};

    const EPOCH: i64 = 1_800_000_000;

    struct Look {
        survey: Survey,
        metrics: Metrics,
        words: BTreeMap<Preemptor, PendingPreemptor>,
    }

    impl Look {
        fn at(&mut self, world: &World, seconds: i64) -> PendingGroups {
            let clock = Clock { now: Instant::now(), epoch_seconds: EPOCH + seconds };
            self.survey.count_pending(&world.model, &Flights::default(), &self.words, &self.metrics, clock)
        }

        fn none(&self) -> ClassLabel {
            self.metrics.class(None, |_| false)
        }
    }

    fn look() -> Look {
        Look { survey: Survey::default(), metrics: Metrics::default(), words: BTreeMap::new() }
    }

    #[test]
    fn groups_wait_by_reason_and_a_group_without_pods_does_not_wait() {
        let (mut world, mut look) = (World::new(), look());
        world.node("n1", 4).group("young", 2, 10, "Pod").group("full", 1, 10, "Pod").group("empty", 1, 10, "Pod");
        world.group("bound", 1, 10, "Pod");
        world.pod(TestPod::new("y", 0).of("young").gated()).pod(TestPod::new("f", 0).of("full").gated());
        world.pod(TestPod::new("b", 0).of("bound").on("n1")).pod(TestPod::new("more", 0).of("bound").gated());
        let wait_reason = WaitReason { reason: Reason::Unschedulable, message: String::new() };
        let waiting = PendingPreemptor { wait_reason: Some(wait_reason), ..PendingPreemptor::default() };
        look.words.insert(Preemptor::Group(world.key("full")), waiting);
        let pending = look.at(&world, 0);
        let none = look.none();
        let groups = [((Reason::WaitingForPods, none.clone()), 1), ((Reason::Unschedulable, none), 1)];
        assert_eq!(pending.groups, groups.into());
        assert_eq!(pending.gated, 3, "a pod that its group does not need is gated, too");
    }

    #[test]
    fn the_time_of_a_pending_group_starts_when_it_is_observed_and_again_after_it_was_scheduled() {
        let (mut world, mut look) = (World::new(), look());
        let none = look.none();
        world.node("n1", 4).group("g", 1, 10, "Pod").pod(TestPod::new("p", 0).of("g").gated());
        assert_eq!(look.at(&world, 0).oldest, [(none.clone(), 0)].into());
        assert_eq!(look.at(&world, 90).oldest, [(none.clone(), 90)].into());
        world.pod(TestPod::new("p", 0).of("g").on("n1"));
        assert!(look.at(&world, 95).oldest.is_empty());
        world.pod(TestPod::new("p", 0).of("g").gated());
        assert_eq!(look.at(&world, 100).oldest, [(none, 0)].into());
    }

    #[test]
    fn groups_are_counted_every_two_seconds() {
        let (mut survey, now) = (Survey::default(), Instant::now());
        assert!(survey.due(now) && !survey.due(now + Duration::from_millis(1999)));
        assert!(survey.due(now + Duration::from_secs(2)));
    }
}

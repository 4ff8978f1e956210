//! Publishes events on the owner of a PodGroup and on its gated pods: what the PodGroup waits for.
//!
//! A gang of thousands of pods must not cause thousands of events at once. Events are published if the PodGroup still waits some seconds
//! after its reason changed: first one on its owner for each reason, then one on each gated pod. The number of events per second is
//! limited, and PodGroups take turns.

use super::Arbiter;
use crate::clock::Clock;
use crate::messages::command::Command;
use crate::speaker::event_budget::EventBudget;
use crate::speaker::notice::{Notice, Subject};
use crate::status;
use giveway_crds::condition::Reason;
use giveway_planner::model::{Cluster, ObjectKey};
use giveway_planner::{Preemptor, SmolStr};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// How long a PodGroup waits before its events: most gangs fit at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// Objects with and without an event about their PodGroup.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// PodGroups whose events are published in turn.
    due: VecDeque<ObjectKey>,
    /// PodGroups whose turns begin at that time, sorted by time.
    fresh: VecDeque<(ObjectKey, Instant)>,
    /// The PodGroups in `due` and `fresh`.
    queued: BTreeSet<ObjectKey>,
    /// UIDs of gated pods with an event.
    pods: BTreeSet<SmolStr>,
    /// The reason in the last event on an owner, by UID of the PodGroup.
    owners: BTreeMap<SmolStr, Reason>,
    event_budget: EventBudget,
}

/// The object of an event.
struct Told {
    kind: Subject,
    key: ObjectKey,
    uid: SmolStr,
}

impl Waiters {
    /// Records that the wait reason of a PodGroup has changed.
    pub(super) fn note(&mut self, group: &ObjectKey, now: Instant) {
        if self.queued.insert(group.clone()) {
            self.fresh.push_back((group.clone(), now + PATIENCE));
        }
    }

    /// Begins the turns that are due. Returns the number of PodGroups with a turn.
    fn begin(&mut self, now: Instant) -> usize {
        let begun = self.fresh.partition_point(|(_, not_before)| *not_before <= now);
        self.due.extend(self.fresh.drain(..begun).map(|(group, _)| group));
        self.due.len()
    }

    /// Removes pods that are no longer gated and PodGroups that no longer exist.
    pub(super) fn forget(&mut self, cluster: &Cluster) {
        if !self.pods.is_empty() {
            let held: BTreeSet<&SmolStr> = cluster.unbound().filter(|pod| pod.held).map(|pod| &pod.uid).collect();
            self.pods.retain(|uid| held.contains(uid));
        }
        if !self.owners.is_empty() {
            let groups: BTreeSet<&SmolStr> = cluster.groups().map(|group| &group.uid).collect();
            self.owners.retain(|uid, _| groups.contains(uid));
        }
    }

    /// Returns the next object for an event with this reason; `None` if all have one.
    fn next(&mut self, cluster: &Cluster, group: &ObjectKey, reason: Reason) -> Option<Told> {
        let uid = &cluster.group(group)?.uid;
        let held = || cluster.members(group).filter(|pod| pod.held && pod.live());
        if self.owners.get(uid) != Some(&reason)
            && let Some(owner) = held().find_map(|pod| pod.owner.as_ref())
        {
            self.owners.insert(uid.clone(), reason);
            let kind = Subject::Other { api_version: owner.api_version.clone(), kind: owner.kind.clone() };
            let key = ObjectKey::new(&group.namespace, &owner.name);
            return Some(Told { kind, key, uid: owner.uid.as_str().into() });
        }
        let pod = held().find(|pod| !self.pods.contains(&pod.uid))?;
        self.pods.insert(pod.uid.clone());
        Some(Told { kind: "Pod".into(), key: pod.key.clone(), uid: pod.uid.clone() })
    }
}

impl Arbiter {
    /// Publishes as many events as the budget allows.
    pub(super) fn tell_waiters(&mut self, clock: Clock) {
        for _ in 0..self.waiters.begin(clock.now) {
            if !self.waiters.event_budget.may(clock.now) {
                return;
            }
            let Some(group) = self.waiters.due.pop_front() else { return };
            if let Some((told, reason, message)) = self.next_waiter(&group) {
                self.waiters.event_budget.pay(clock.now);
                self.actuator.dispatch(Command::Publish(Notice {
                    kind: told.kind,
                    key: told.key,
                    uid: told.uid,
                    warning: false,
                    reason,
                    action: "Waiting".to_owned(),
                    note: format!("Pod group {} waits: {message}", group.name).into(),
                }));
                self.waiters.due.push_back(group);
            } else {
                self.waiters.queued.remove(&group);
            }
        }
    }

    /// Returns the next object, reason and message for a PodGroup that still waits; `None` if no event is due.
    fn next_waiter(&mut self, group: &ObjectKey) -> Option<(Told, Reason, String)> {
        let cluster = &self.model.cluster;
        let preemptor = Preemptor::Group(group.clone());
        let problem = cluster.group(group)?.class_problem.as_deref();
        let word = self.preemption.waiting.get(&preemptor).and_then(|waiting| waiting.wait_reason.as_ref());
        let (reason, message) = status::waits_for(&self.model, problem, self.plans.flights.get(&preemptor), word)?;
        // Pods that are being ungated no longer wait.
        if reason == Reason::Releasing {
            return None;
        }
        let told = self.waiters.next(cluster, group, reason)?;
        Some((told, reason, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestPod, World};

    fn names(waiters: &mut Waiters, world: &World, reason: Reason) -> Vec<String> {
        let group = world.key("g");
        let told = std::iter::from_fn(|| waiters.next(&world.model.cluster, &group, reason));
        told.map(|told| told.key.name.to_string()).collect()
    }

    #[test]
    fn a_held_pod_is_told_once_whatever_becomes_of_the_reason() {
        let (mut world, mut waiters) = (World::new(), Waiters::default());
        world.node("n1", 4).group("g", 2, 10, "Pod");
        world.pod(TestPod::new("a", 0).of("g").held()).pod(TestPod::new("b", 0).of("g").on("n1"));
        assert_eq!(names(&mut waiters, &world, Reason::WaitingForPods), ["a"], "not the one that is bound");
        world.pod(TestPod::new("c", 0).of("g").held());
        waiters.forget(&world.model.cluster);
        assert_eq!(names(&mut waiters, &world, Reason::Unschedulable), ["c"]);
        world.pod(TestPod::new("a", 0).of("g").on("n1"));
        waiters.forget(&world.model.cluster);
        assert_eq!(waiters.pods.len(), 1, "what is not held any more is forgotten");
    }

    #[test]
    fn twenty_events_come_at_once_and_then_five_in_a_second() {
        let (mut waiters, now) = (Waiters::default(), Instant::now());
        let mut count = |seconds: u64| {
            let now = now + Duration::from_secs(seconds);
            (0..1000)
                .take_while(|_| {
                    waiters.event_budget.may(now) && {
                        waiters.event_budget.pay(now);
                        true
                    }
                })
                .count()
        };
        assert_eq!((count(0), count(0), count(1), count(2), count(100)), (20, 0, 5, 5, 20));
    }

    #[test]
    fn a_group_has_one_turn_however_often_its_reason_changes() {
        let (mut waiters, now) = (Waiters::default(), Instant::now());
        let group = ObjectKey::new("default", "g");
        waiters.note(&group, now);
        waiters.note(&group, now + Duration::from_secs(1));
        assert_eq!((waiters.begin(now + Duration::from_secs(4)), waiters.begin(now + PATIENCE)), (0, 1));
        assert_eq!(waiters.due, [group]);
    }
}

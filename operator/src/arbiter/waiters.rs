//! Tells the owner of a group and its held pods what the group waits for, by one event that names the group.
//!
//! A gang of thousands must not make thousands of events at once: a group is told of when it still waits some seconds after its
//! reason changed, first its owner, once for each reason, then each pod that is held, once; a few in a second, and the groups in
//! turn.

use super::Arbiter;
use crate::command::{Command, Notice, Subject};
use crate::ledger::Clock;
use crate::status;
use crate::trickle::Trickle;
use giveway_crds::condition::Reason;
use giveway_planner::model::{Cluster, ObjectKey};
use giveway_planner::{Preemptor, SmolStr};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// How long a group waits before it is told of: most gangs find a place at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who is still to be told, and who was.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// Groups that are told of in turn.
    due: VecDeque<ObjectKey>,
    /// Groups whose turns begin then, the earliest first.
    fresh: VecDeque<(ObjectKey, Instant)>,
    /// The groups of both.
    queued: BTreeSet<ObjectKey>,
    /// Held pods that were told, by UID.
    pods: BTreeSet<SmolStr>,
    /// What owners were told last, by UID of the group.
    owners: BTreeMap<SmolStr, Reason>,
    trickle: Trickle,
}

/// The object that an event is about.
struct Told {
    kind: Subject,
    key: ObjectKey,
    uid: SmolStr,
}

impl Waiters {
    /// Notes that a group waits for something else than before.
    pub(super) fn note(&mut self, group: &ObjectKey, now: Instant) {
        if self.queued.insert(group.clone()) {
            self.fresh.push_back((group.clone(), now + PATIENCE));
        }
    }

    /// Lets the turns begin whose time has come; returns how many groups have one.
    fn begin(&mut self, now: Instant) -> usize {
        let begun = self.fresh.partition_point(|(_, not_before)| *not_before <= now);
        self.due.extend(self.fresh.drain(..begun).map(|(group, _)| group));
        self.due.len()
    }

    /// Forgets pods that are not held any more, and groups that do not exist.
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

    /// Who is told next that a group waits for this reason; nobody when all were.
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
    /// Tells as many as the budget allows.
    pub(super) fn tell_waiters(&mut self, clock: Clock) {
        for _ in 0..self.waiters.begin(clock.now) {
            if !self.waiters.trickle.may(clock.now) {
                return;
            }
            let Some(group) = self.waiters.due.pop_front() else { return };
            if let Some((told, reason, message)) = self.next_waiter(&group) {
                self.waiters.trickle.pay(clock.now);
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

    /// Who is told next of a group, if it still waits and somebody is left, and what.
    fn next_waiter(&mut self, group: &ObjectKey) -> Option<(Told, Reason, String)> {
        let cluster = &self.model.cluster;
        let preemptor = Preemptor::Group(group.clone());
        let problem = cluster.group(group)?.class_problem.as_deref();
        let word = self.waiting.get(&preemptor).and_then(|waiting| waiting.last_word.as_ref());
        let (reason, message) = status::waits_for(&self.model, problem, self.flights.get(&preemptor), word)?;
        // What is released waits for nothing any more.
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
                    waiters.trickle.may(now) && {
                        waiters.trickle.pay(now);
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

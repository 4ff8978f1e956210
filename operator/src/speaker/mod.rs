//! Which events are published, and when.
//!
//! An event that a decision or a call causes is published at once; if it would repeat, [`Speaker::is_due`] limits it to one in five
//! minutes.
//!
//! The events on pods that wait are queued, because one gang can have thousands of pods. There are two kinds. A PodGroup that waits gets
//! one event on its owner for each reason and one on each gated pod, if it still waits some seconds after its reason changed. A PodGroup that
//! does not exist gets one event on each pod. PodGroups take turns, and the number of queued events per second is limited.

mod event_budget;
pub mod notice;
mod turns;

use event_budget::EventBudget;
use giveway_crds::condition::Reason;
use giveway_crds::wording::events;
use giveway_planner::SmolStr;
use giveway_planner::model::{Cluster, ObjectKey};
use notice::{EventNotice, EventSubject};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use turns::RoundRobinQueue;

/// Minimum time between two events about the same matter on one object.
const QUIET: Duration = Duration::from_secs(300);
/// The same for queued events. The API server keeps an event for an hour by default.
const QUEUED_QUIET: Duration = Duration::from_secs(3600);
/// How long a PodGroup waits before its events: most gangs fit at once.
const PATIENCE: Duration = Duration::from_secs(5);
/// Number of recorded events above which all records are deleted. Their objects may get a second event then.
const MOST: usize = 100_000;

/// Recent events, and the queue of PodGroups whose pods get events. At most 100,000 events are remembered, and only PodGroups with pods stay
/// queued.
#[derive(Debug, Default)]
pub struct Speaker {
    /// When the next event may be published, by UID of the object and matter.
    said: BTreeMap<(SmolStr, SmolStr), Instant>,
    turns: RoundRobinQueue,
    /// The message for the pods of a PodGroup in `turns` that does not exist.
    missing: BTreeMap<ObjectKey, String>,
    event_budget: EventBudget,
}

impl Speaker {
    /// Returns true if no event about `matter`, any text that identifies it, was published on the object with this UID in the last five
    /// minutes. Then records that one is published at `now`.
    pub fn is_due(&mut self, uid: &str, matter: &str, now: Instant) -> bool {
        self.is_first(&SmolStr::new(uid), matter, QUIET, now)
    }

    /// Queues the events on the owner and on the gated pods of a PodGroup whose reason for being pending has changed. They are published
    /// some seconds later, if it is still pending.
    pub fn group_waits(&mut self, group: &ObjectKey, now: Instant) {
        self.turns.add(group, now + PATIENCE);
    }

    /// Queues an event with this message on each pod of a PodGroup that does not exist.
    pub fn group_missing(&mut self, group: &ObjectKey, message: String, now: Instant) {
        self.missing.insert(group.clone(), message);
        self.turns.add(group, now);
    }

    /// Returns the queued events to publish at `now`, as many as the limit permits. `waits_for` returns the reason and the message why an
    /// existing PodGroup is pending; `None` if it is not.
    pub fn pass(
        &mut self,
        cluster: &Cluster,
        waits_for: impl Fn(&ObjectKey) -> Option<(Reason, String)>,
        now: Instant,
    ) -> Vec<EventNotice> {
        let mut notices = Vec::new();
        while self.event_budget.allows_event(now)
            && let Some(group) = self.turns.take(now)
        {
            if let Some(notice) = self.next(cluster, &group, &waits_for, now) {
                self.event_budget.note_event(now);
                notices.push(notice);
                self.turns.again(group);
            } else {
                self.missing.remove(&group);
                self.turns.end(&group);
            }
        }
        notices
    }

    /// Removes the records of events that may be published again at `now`, and queued PodGroups without pods.
    pub fn forget(&mut self, cluster: &Cluster, now: Instant) {
        self.said.retain(|_, quiet_until| *quiet_until > now);
        let has_pods = |group: &ObjectKey| cluster.members(group).next().is_some();
        self.turns.retain(has_pods);
        self.missing.retain(|group, _| has_pods(group));
    }

    /// Returns one queued event of a PodGroup, and records that it is published: on its owner, or on a pod that has had none in the last
    /// hour. `None` if there is no such object, or the PodGroup is not pending any more. `waits_for` is that of [`Self::pass`].
    fn next(
        &mut self,
        cluster: &Cluster,
        group: &ObjectKey,
        waits_for: &impl Fn(&ObjectKey) -> Option<(Reason, String)>,
        now: Instant,
    ) -> Option<EventNotice> {
        let mut live = cluster.members(group).filter(|pod| pod.live());
        let Some(found) = cluster.group(group) else {
            let message = self.missing.get(group)?.clone();
            let pod = live.find(|pod| self.is_first(&pod.uid, "missing", QUEUED_QUIET, now))?;
            let (pod, reason) = ((pod.key.clone(), pod.uid.clone()), Reason::PodGroupNotFound);
            return Some(EventNotice::on("Pod", pod, true, reason, "Gating", message));
        };
        let (reason, message) = waits_for(group)?;
        let note = events::group_pending(&group.name, &message);
        let mut gated = live.filter(|pod| pod.gated);
        if let Some(owner) = gated.clone().find_map(|pod| pod.owner.as_ref())
            && self.is_first(&found.uid, &format!("owner {reason}"), QUEUED_QUIET, now)
        {
            let kind = EventSubject::Other { api_version: owner.api_version.clone(), kind: owner.kind.clone() };
            let about = (ObjectKey::new(&group.namespace, &owner.name), SmolStr::new(&owner.uid));
            return Some(EventNotice::on(kind, about, false, reason, "Waiting", note));
        }
        let pod = gated.find(|pod| self.is_first(&pod.uid, "waits", QUEUED_QUIET, now))?;
        Some(EventNotice::on("Pod", (pod.key.clone(), pod.uid.clone()), false, reason, "Waiting", note))
    }

    /// Returns true if an event about `matter` may be published at `now` on the object with this UID. Then records one, after which none
    /// may be published for `quiet`.
    fn is_first(&mut self, uid: &SmolStr, matter: &str, quiet: Duration, now: Instant) -> bool {
        let key = (uid.clone(), SmolStr::new(matter));
        if self.said.get(&key).is_some_and(|quiet_until| *quiet_until > now) {
            return false;
        }
        if self.said.len() >= MOST {
            self.said.clear();
        }
        self.said.insert(key, now + quiet);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestPod, World};

    /// Publishes the events of PodGroup `g`, which waits for this reason, and returns the names of their objects.
    fn names(speaker: &mut Speaker, world: &World, reason: Reason, now: Instant) -> Vec<String> {
        let waits_for = |_: &ObjectKey| Some((reason, "Not yet.".to_owned()));
        speaker.group_waits(&world.key("g"), now);
        let early = speaker.pass(&world.model.cluster, waits_for, now + PATIENCE / 2);
        assert!(early.is_empty(), "the gang may fit soon: {early:?}");
        let notices = speaker.pass(&world.model.cluster, waits_for, now + PATIENCE);
        notices.into_iter().map(|notice| notice.key.name.to_string()).collect()
    }

    #[test]
    fn an_event_on_an_object_is_repeated_after_five_minutes() {
        let (mut speaker, now) = (Speaker::default(), Instant::now());
        assert!(speaker.is_due("uid-db", "pod/default/p", now));
        assert!(!speaker.is_due("uid-db", "pod/default/p", now + Duration::from_secs(299)));
        assert!(speaker.is_due("uid-db", "pod/default/q", now));
        assert!(speaker.is_due("uid-web", "pod/default/p", now));
        assert!(speaker.is_due("uid-db", "pod/default/p", now + Duration::from_secs(300)));
    }

    #[test]
    fn a_gated_pod_gets_one_event_whatever_becomes_of_the_reason() {
        let (mut world, mut speaker, now) = (World::new(), Speaker::default(), Instant::now());
        world.node("n1", 4).group("g", 2, 10, "Pod");
        world.pod(TestPod::new("a", 0).of("g").gated()).pod(TestPod::new("b", 0).of("g").on("n1"));
        let named = names(&mut speaker, &world, Reason::WaitingForPods, now);
        assert_eq!(named, ["a"], "not the one that is bound");
        world.pod(TestPod::new("c", 0).of("g").gated());
        let later = now + Duration::from_secs(60);
        assert_eq!(names(&mut speaker, &world, Reason::Unschedulable, later), ["c"]);
        speaker.forget(&world.model.cluster, later);
        assert_eq!(speaker.said.len(), 2);
        speaker.forget(&world.model.cluster, later + PATIENCE + QUEUED_QUIET);
        assert!(speaker.said.is_empty(), "an hour later it is forgotten");
    }

    #[test]
    fn the_owner_of_a_group_gets_one_event_for_each_reason() {
        let (mut world, mut speaker, now) = (World::new(), Speaker::default(), Instant::now());
        world.group("g", 2, 10, "Pod").pod(TestPod::new("a", 0).of("g").gated().of_job("train"));
        let later = now + Duration::from_secs(60);
        assert_eq!(names(&mut speaker, &world, Reason::WaitingForPods, now), ["train", "a"]);
        assert_eq!(names(&mut speaker, &world, Reason::WaitingForPods, later), Vec::<String>::new());
        assert_eq!(names(&mut speaker, &world, Reason::Unschedulable, later + PATIENCE), ["train"]);
    }

    #[test]
    fn thousands_of_pods_get_events_a_few_at_a_time_and_those_with_a_group_get_none() {
        let (mut world, mut speaker, now) = (World::new(), Speaker::default(), Instant::now());
        for number in 0..1001 {
            world.pod(TestPod::new(&format!("p{number}"), 0).of("missing").gated());
        }
        let key = world.key("missing");
        let mut named = |world: &World, seconds: u64| {
            let now = now + Duration::from_secs(seconds);
            speaker.group_missing(&key, "It waits.".to_owned(), now);
            speaker.pass(&world.model.cluster, |_| None, now).len()
        };
        assert_eq!((named(&world, 0), named(&world, 0), named(&world, 1)), (20, 0, 5));
        world.group("missing", 1, 10, "Pod");
        assert_eq!(named(&world, 60), 0);
        assert!(speaker.missing.is_empty());
    }

    #[test]
    fn a_namespace_with_many_missing_groups_does_not_delay_the_events_of_another() {
        let (mut world, mut speaker, now) = (World::new(), Speaker::default(), Instant::now());
        for number in 0..100 {
            let name = format!("p{number}");
            world.pod(TestPod::new(&name, 0).of(&name).gated());
            speaker.group_missing(&world.key(&name), "It waits.".to_owned(), now);
        }
        world.pod(TestPod::new("z", 0).of("z").gated().in_namespace("other"));
        speaker.group_missing(&ObjectKey::new("other", "z"), "It waits.".to_owned(), now);
        let notices = speaker.pass(&world.model.cluster, |_| None, now);
        assert!(notices.iter().any(|notice| notice.key.namespace == "other"), "{notices:?}");
    }

    #[test]
    fn what_is_remembered_is_limited() {
        let (world, mut speaker, now) = (World::new(), Speaker::default(), Instant::now());
        for number in 0..=MOST {
            assert!(speaker.is_due(&number.to_string(), "matter", now));
        }
        assert_eq!(speaker.said.len(), 1);
        speaker.group_missing(&world.key("without-pods"), "It waits.".to_owned(), now);
        speaker.forget(&world.model.cluster, now);
        assert!(speaker.missing.is_empty() && speaker.turns.take(now).is_none(), "{speaker:?}");
    }
}

//! Events for pods whose PodGroup does not exist: one for each pod, a few per second, with the namespaces in turn.

use crate::messages::command::Command;
use crate::model::Model;
use crate::speaker::event_budget::EventBudget;
use crate::speaker::notice::Notice;
use giveway_crds::condition::Reason;
use giveway_planner::SmolStr;
use giveway_planner::model::Pod;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Instant;

/// Number of recorded pods above which all records are deleted. These pods get a second event then.
const MOST: usize = 100_000;
/// Maximum number of queued events of a namespace. Further ones are queued when its queue is empty.
pub(crate) const MOST_QUEUED: usize = 1_000;

/// Returns the message for a pod whose PodGroup could not be created.
pub fn cannot_be_made(group: &str, why: &str) -> String {
    format!("Pod group {group} cannot be made: {why}. The pod waits until it can.")
}

/// The pods that have got an event, and the events that are queued.
#[derive(Debug, Default)]
pub struct Orphans {
    /// UIDs of pods for which an event was queued or emitted.
    told: BTreeSet<SmolStr>,
    /// Queued events by namespace; no queue is empty.
    queues: BTreeMap<SmolStr, VecDeque<Notice>>,
    /// The namespace of the last event.
    last: SmolStr,
    event_budget: EventBudget,
}

impl Orphans {
    /// Queues an event for each of these pods that has not got one. Returns false if the queue of the namespace is
    /// full.
    pub fn tell<'p>(&mut self, pods: impl Iterator<Item = &'p Pod>, note: impl Fn(&Pod) -> String) -> bool {
        for pod in pods {
            if self.told.contains(&pod.uid) {
                continue;
            }
            let queue = self.queues.entry(pod.key.namespace.clone()).or_default();
            if queue.len() >= MOST_QUEUED {
                return false;
            }
            self.told.insert(pod.uid.clone());
            queue.push_back(Notice {
                kind: "Pod".into(),
                key: pod.key.clone(),
                uid: pod.uid.clone(),
                warning: true,
                reason: Reason::PodGroupNotFound,
                action: "Holding".to_owned(),
                note: note(pod).into(),
            });
        }
        if self.told.len() > MOST {
            self.told.clear();
        }
        true
    }

    /// Returns true if no event of this namespace is queued.
    pub fn is_through(&self, namespace: &str) -> bool {
        !self.queues.contains_key(namespace)
    }

    /// Removes and returns the next event, taking the namespaces in turn.
    fn next(&mut self) -> Option<Notice> {
        let after = (Bound::Excluded(self.last.clone()), Bound::Unbounded);
        let later = self.queues.range(after).next();
        let namespace = later.or_else(|| self.queues.iter().next()).map(|(namespace, _)| namespace.clone())?;
        let queue = self.queues.get_mut(&namespace)?;
        let notice = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&namespace);
        }
        self.last = namespace;
        notice
    }

    /// Emits queued events, except for pods that were deleted or whose PodGroup exists by then.
    pub fn emit(&mut self, model: &Model, now: Instant, commands: &mut Vec<Command>) {
        while self.event_budget.may(now) {
            let Some(notice) = self.next() else { return };
            let pod = model.cluster.pod(&notice.key).filter(|pod| pod.uid == notice.uid);
            if pod.is_some_and(|pod| model.cluster.group_of(pod).is_none()) {
                self.event_budget.pay(now);
                commands.push(Command::Publish(notice));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speaker::event_budget::BURST;
    use crate::testing::{TestPod, World};
    use std::time::Duration;

    fn told(orphans: &mut Orphans, world: &World, now: Instant) -> usize {
        let mut commands = Vec::new();
        orphans.emit(&world.model, now, &mut commands);
        commands.len()
    }

    #[test]
    fn thousands_are_told_a_few_at_a_time_and_who_has_a_group_meanwhile_is_not() {
        let (mut world, mut orphans, now) = (World::new(), Orphans::default(), Instant::now());
        for number in 0..1001 {
            world.pod(TestPod::new(&format!("p{number}"), 0).of("missing").held());
        }
        let burst = usize::try_from(BURST).unwrap();
        for _ in 0..2 {
            let all = orphans.tell(world.model.cluster.members(&world.key("missing")), |_| "It waits.".to_owned());
            assert!(!all, "a thousand of a namespace are enough at a time");
        }
        assert_eq!(told(&mut orphans, &world, now), burst);
        assert_eq!(told(&mut orphans, &world, now), 0);
        assert_eq!(told(&mut orphans, &world, now + Duration::from_secs(1)), 5);
        world.group("missing", 1, 10, "Pod");
        assert_eq!(told(&mut orphans, &world, now + Duration::from_secs(60)), 0);
        assert!(orphans.queues.is_empty());
    }
}

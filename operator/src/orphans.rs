//! The word to pods whose group does not exist: an event, once for each pod, a few in a second, the namespaces in turn.

use crate::command::{Command, Notice};
use crate::model::Model;
use crate::trickle::Trickle;
use giveway_crds::condition::Reason;
use giveway_planner::SmolStr;
use giveway_planner::model::Pod;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Instant;

/// So many are remembered; then all are forgotten, and told once more.
const MOST: usize = 100_000;
/// So many of a namespace wait for their turn; the others are put in the queue when these are through.
pub(crate) const MOST_QUEUED: usize = 1_000;

/// The word to a pod whose group was to be made, and was not.
pub fn cannot_be_made(group: &str, why: &str) -> String {
    format!("Pod group {group} cannot be made: {why}. The pod waits until it can.")
}

/// The pods that were told, and those that will be.
#[derive(Debug, Default)]
pub struct Orphans {
    /// By UID.
    told: BTreeSet<SmolStr>,
    /// By namespace; none is empty.
    queues: BTreeMap<SmolStr, VecDeque<Notice>>,
    /// The namespace whose turn was last.
    last: SmolStr,
    trickle: Trickle,
}

impl Orphans {
    /// Puts those of these pods in the queue that were not told yet. Returns whether all of them have a place there.
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

    /// Whether nobody of this namespace waits for his turn.
    pub fn is_through(&self, namespace: &str) -> bool {
        !self.queues.contains_key(namespace)
    }

    /// The next one, of the namespace whose turn it is.
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

    /// Tells whose turn it is, unless he is gone or has a group meanwhile.
    pub fn emit(&mut self, model: &Model, now: Instant, commands: &mut Vec<Command>) {
        while self.trickle.may(now) {
            let Some(notice) = self.next() else { return };
            let pod = model.cluster.pod(&notice.key).filter(|pod| pod.uid == notice.uid);
            if pod.is_some_and(|pod| model.cluster.group_of(pod).is_none()) {
                self.trickle.pay(now);
                commands.push(Command::Publish(notice));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestPod, World};
    use crate::trickle::BURST;
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

//! Switched off, Giveway holds nobody: every pod that has its gate is released, whatever its group waits for. So it is with pods in
//! namespaces where no groups are served.

use crate::command::Command;
use crate::model::Model;
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::Pod;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long after a release a pod is released again that is still held.
const AGAIN: Duration = Duration::from_secs(5);
/// How many releases are asked for and not seen at the same time.
const AT_ONCE: usize = 1_000;

/// The pods that were released and are still held by what is known, by UID, and when.
#[derive(Debug, Default)]
pub struct LettingGo(BTreeMap<SmolStr, Instant>);

impl LettingGo {
    /// What is to be done now for those who are `meant`.
    pub fn pass(&mut self, model: &Model, meant: impl Fn(&Pod) -> bool, now: Instant) -> Vec<Command> {
        let mut before = std::mem::take(&mut self.0);
        let mut commands = Vec::new();
        for pod in model.cluster.unbound().filter(|pod| pod.held && pod.live() && meant(pod)) {
            if self.0.len() >= AT_ONCE {
                break;
            }
            let asked = before.remove(&pod.uid).filter(|at| now.duration_since(*at) < AGAIN);
            self.0.insert(pod.uid.clone(), asked.unwrap_or(now));
            if asked.is_none() {
                commands.push(Command::Release {
                    preemptor: Preemptor::Pod(pod.key.clone()),
                    priority: pod.priority,
                    plan: String::new(),
                    pod: pod.key.clone(),
                    uid: pod.uid.clone(),
                    domain: None,
                });
            }
        }
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestPod, World};

    fn released(letting_go: &mut LettingGo, world: &World, now: Instant) -> Vec<String> {
        let name = |command: Command| match command {
            Command::Release { pod, .. } => pod.name.to_string(),
            other => format!("{other:?}"),
        };
        let mut names: Vec<String> = letting_go.pass(&world.model, |_| true, now).into_iter().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn every_held_pod_is_released_at_once_whatever_its_group_lacks_and_again_after_a_while() {
        let (mut world, mut letting_go, now) = (World::new(), LettingGo::default(), Instant::now());
        world.group("g", 3, 10, "PodGroup").pod(TestPod::new("a", 10).of("g").held());
        world.pod(TestPod::new("low", 1).of("g").held()).pod(TestPod::new("orphan", 1).of("missing").held());
        world.pod(TestPod::new("free", 1)).pod(TestPod::new("going", 1).of("g").held().terminating());
        assert_eq!(released(&mut letting_go, &world, now), ["a", "low", "orphan"]);
        assert_eq!(released(&mut letting_go, &world, now), Vec::<String>::new());
        world.pod(TestPod::new("a", 10).of("g"));
        assert_eq!(released(&mut letting_go, &world, now + AGAIN), ["low", "orphan"]);
    }

    #[test]
    fn only_those_are_released_who_are_meant() {
        let (mut world, mut letting_go, now) = (World::new(), LettingGo::default(), Instant::now());
        world.pod(TestPod::new("old", 1).of("g").held().created(100));
        world.pod(TestPod::new("new", 1).of("g").held().created(200));
        let commands = letting_go.pass(&world.model, |pod| pod.existed_at(150), now);
        assert!(matches!(&commands[..], [Command::Release { pod, .. }] if pod.name == "old"), "{commands:?}");
        assert_eq!(released(&mut letting_go, &world, now), ["new"]);
    }

    #[test]
    fn the_releases_that_are_under_way_are_bounded() {
        let (mut world, mut letting_go, now) = (World::new(), LettingGo::default(), Instant::now());
        for number in 0..AT_ONCE + 5 {
            world.pod(TestPod::new(&format!("p{number}"), 1).of("g").held());
        }
        assert_eq!(released(&mut letting_go, &world, now).len(), AT_ONCE);
        assert_eq!(released(&mut letting_go, &world, now).len(), 0);
        for pod in letting_go.0.keys().take(3).cloned().collect::<Vec<_>>() {
            world.remove_pod(pod.trim_start_matches("uid-"));
        }
        assert_eq!(released(&mut letting_go, &world, now).len(), 3);
    }
}

//! Removal of Giveway's gate from pods that no plan is made for: in mode `off` from all of them, otherwise from those in namespaces in
//! which groups are not served.

use crate::messages::command::Command;
use crate::model::Model;
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::Pod;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// When the gate is removed again from a pod that still has it.
const AGAIN: Duration = Duration::from_secs(5);
/// The number of removals that the watch does not show yet, at most.
const AT_ONCE: usize = 1_000;

/// The pods from which the gate was removed and which have it according to the watch, by UID, and when.
#[derive(Debug, Default)]
pub struct UngateAll(BTreeMap<SmolStr, Instant>);

impl UngateAll {
    /// Returns the commands that remove Giveway's scheduling gate from the live gated pods for which `meant` returns true. A removal that
    /// the watch does not show is repeated after some seconds.
    pub fn pass(&mut self, model: &Model, meant: impl Fn(&Pod) -> bool, now: Instant) -> Vec<Command> {
        let mut before = std::mem::take(&mut self.0);
        let mut commands = Vec::new();
        for pod in model.cluster.unbound().filter(|pod| pod.gated && pod.live() && meant(pod)) {
            if self.0.len() >= AT_ONCE {
                break;
            }
            let asked = before.remove(&pod.uid).filter(|at| now.duration_since(*at) < AGAIN);
            self.0.insert(pod.uid.clone(), asked.unwrap_or(now));
            if asked.is_none() {
                commands.push(Command::ungate(pod, Preemptor::Pod(pod.key.clone()), pod.priority));
            }
        }
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestPod, World};

    fn ungated(ungate_all: &mut UngateAll, world: &World, now: Instant) -> Vec<String> {
        let name = |command: Command| match command {
            Command::Ungate { pod, .. } => pod.name.to_string(),
            other => format!("{other:?}"),
        };
        let mut names: Vec<String> = ungate_all.pass(&world.model, |_| true, now).into_iter().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn every_gated_pod_is_ungated_at_once_and_again_after_a_while() {
        let (mut world, mut ungate_all, now) = (World::new(), UngateAll::default(), Instant::now());
        world.group("g", 3, 10, "PodGroup").pod(TestPod::new("a", 10).of("g").gated());
        world.pod(TestPod::new("low", 1).of("g").gated()).pod(TestPod::new("orphan", 1).of("missing").gated());
        world.pod(TestPod::new("free", 1)).pod(TestPod::new("going", 1).of("g").gated().terminating());
        assert_eq!(ungated(&mut ungate_all, &world, now), ["a", "low", "orphan"]);
        assert_eq!(ungated(&mut ungate_all, &world, now), Vec::<String>::new());
        world.pod(TestPod::new("a", 10).of("g"));
        assert_eq!(ungated(&mut ungate_all, &world, now + AGAIN), ["low", "orphan"]);
    }

    #[test]
    fn only_selected_pods_are_ungated() {
        let (mut world, mut ungate_all, now) = (World::new(), UngateAll::default(), Instant::now());
        world.pod(TestPod::new("old", 1).of("g").gated().created(100));
        world.pod(TestPod::new("new", 1).of("g").gated().created(200));
        let commands = ungate_all.pass(&world.model, |pod| pod.existed_at(150), now);
        assert!(matches!(&commands[..], [Command::Ungate { pod, .. }] if pod.name == "old"), "{commands:?}");
        assert_eq!(ungated(&mut ungate_all, &world, now), ["new"]);
    }

    #[test]
    fn the_number_of_ungating_calls_in_flight_is_bounded() {
        let (mut world, mut ungate_all, now) = (World::new(), UngateAll::default(), Instant::now());
        for number in 0..AT_ONCE + 5 {
            world.pod(TestPod::new(&format!("p{number}"), 1).of("g").gated());
        }
        assert_eq!(ungated(&mut ungate_all, &world, now).len(), AT_ONCE);
        assert_eq!(ungated(&mut ungate_all, &world, now).len(), 0);
        for pod in ungate_all.0.keys().take(3).cloned().collect::<Vec<_>>() {
            world.remove_pod(pod.trim_start_matches("uid-"));
        }
        assert_eq!(ungated(&mut ungate_all, &world, now).len(), 3);
    }
}

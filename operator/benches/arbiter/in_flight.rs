//! A cluster in which many plans are in flight: each waits for four pods that take an hour to terminate.

use super::world::{self, World, gang, node, node_name};
use giveway_operator::messages::command::Command;
use serde_json::json;

/// Number of PodGroups that were created from a template, with and without a plan.
const GROUPS: usize = 10_000;
/// Number of running PodGroups without a plan on one node. Each has one pod.
const PODS_ON_NODE: usize = 100;

/// A cluster with many plans in flight.
pub struct InFlight {
    pub world: World,
    plans: usize,
    events: usize,
    urgent: usize,
}

impl InFlight {
    /// Creates a full cluster with this number of plans in flight. Each of the other PodGroups has one running member.
    pub fn new(plans: usize) -> Self {
        let others = (GROUPS - plans).div_ceil(PODS_ON_NODE);
        let wide = json!({"pool": "others"});
        let nodes = (0..plans).map(|number| node(&node_name(number), 4, &json!({})));
        let other_nodes = (0..=others).map(|number| node(&format!("other-{number}"), PODS_ON_NODE, &wide));
        // Pods are created and removed on the last node, which is unschedulable.
        let mut other_nodes: Vec<_> = other_nodes.collect();
        other_nodes[others]["spec"] = json!({"unschedulable": true});
        let mut world = World::of_nodes(nodes.chain(other_nodes));
        for number in 0..plans {
            for victim in 0..4 {
                world.apply_pod(world::pod(&format!("low-{number}-{victim}"), 10, Some(&node_name(number)), None));
            }
        }
        for number in 0..GROUPS - plans {
            let name = format!("runs-{number}");
            world.apply_gang(gang(&name, 1, 3_000));
            let node = format!("other-{}", number / PODS_ON_NODE);
            world.apply_pod(world::pod(&format!("{name}-0"), 3_000, Some(&node), Some(&name)));
        }
        let mut all = Self { world, plans, events: 0, urgent: 0 };
        all.start();
        all
    }

    /// Creates the preemptors, a hundred at a time, and runs passes until all victims are terminating and a pass has no command.
    fn start(&mut self) {
        let mut evicted = 0;
        for number in 0..self.plans {
            let name = format!("train-{number}");
            self.world.apply_gang(gang(&name, 4, 1_000));
            for member in 0..4 {
                self.world.apply_pod(world::pod(&format!("{name}-{member}"), 1_000, None, Some(&name)));
            }
            if number % 100 == 99 || number + 1 == self.plans {
                self.settle(&mut evicted, (number + 1) * 4);
            }
        }
        self.world.passes.clear();
    }

    /// Runs passes until this number of evictions was requested and passes have no command.
    fn settle(&mut self, evicted: &mut usize, wanted: usize) {
        let mut quiet = 0;
        for _ in 0..10_000 {
            let commands = self.world.pass();
            quiet = if commands.is_empty() { quiet + 1 } else { 0 };
            *evicted += commands.iter().filter(|command| matches!(command, Command::Evict(_))).count();
            if *evicted >= wanted && quiet > 2 {
                return;
            }
            self.world.answer(commands);
            // The arbiter pauses after a round of decisions.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("{evicted} of {wanted} evictions after 10000 passes");
    }

    /// Creates or removes a pod on a node on which no plan places a pod.
    pub fn change(&mut self) {
        let node = format!("other-{}", (GROUPS - self.plans).div_ceil(PODS_ON_NODE));
        match self.events.is_multiple_of(2) {
            true => self.world.apply_pod(world::pod("comes-and-goes", 3_000, Some(&node), None)),
            false => self.world.remove_pod("comes-and-goes"),
        }
        self.events += 1;
    }

    /// Creates an urgent gang of one pod. It can use the capacity for which a plan in flight waits.
    pub fn come(&mut self) {
        self.urgent += 1;
        let name = format!("urgent-{}", self.urgent);
        self.world.apply_gang(gang(&name, 1, 2_000));
        self.world.apply_pod(world::pod(&format!("{name}-0"), 2_000, None, Some(&name)));
    }

    /// Runs a pass. Returns true if it stored the plan of the urgent gang.
    pub fn pass(&mut self) -> bool {
        let commands = self.world.pass();
        let urgent = format!("urgent-{}", self.urgent);
        let stored = commands.iter().any(|command| {
            matches!(command, Command::StorePlan { plan, .. } if plan.preemptor.name == urgent)
                || matches!(command, Command::Nominate { preemptor, .. } if preemptor.key().name == urgent)
        });
        self.world.answer(commands);
        stored
    }
}

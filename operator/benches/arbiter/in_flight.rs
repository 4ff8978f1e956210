//! A cluster in which many plans are in flight: each waits for four pods that take an hour to terminate.

use super::world::{self, World, gang, node, node_name};
use giveway_operator::command::Command;
use serde_json::json;

/// Groups that were made from a template, with a plan or without.
const GROUPS: usize = 10_000;
/// Running groups without a plan on one node.
const PODS_ON_NODE: usize = 100;

/// The cluster.
pub struct InFlight {
    pub world: World,
    plans: usize,
    events: usize,
    urgent: usize,
}

impl InFlight {
    /// A full cluster with so many plans in flight; the other groups have one running member each.
    pub fn new(plans: usize) -> Self {
        let others = (GROUPS - plans).div_ceil(PODS_ON_NODE);
        let wide = json!({"pool": "others"});
        let nodes = (0..plans).map(|number| node(&node_name(number), 4, &json!({})));
        let other_nodes = (0..=others).map(|number| node(&format!("other-{number}"), PODS_ON_NODE, &wide));
        // Pods come and go on the last one, which takes no new pods.
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

    /// The preemptors come a hundred at a time, until all of their victims are terminating and nothing more is to be done.
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

    /// Passes until so many evictions were requested, and nothing more is commanded.
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
            // After a round of decisions the arbiter rests.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("{evicted} of {wanted} evictions after 10000 passes");
    }

    /// One pod event on a node on which no plan places a pod.
    pub fn change(&mut self) {
        let node = format!("other-{}", (GROUPS - self.plans).div_ceil(PODS_ON_NODE));
        match self.events.is_multiple_of(2) {
            true => self.world.apply_pod(world::pod("comes-and-goes", 3_000, Some(&node), None)),
            false => self.world.remove_pod("comes-and-goes"),
        }
        self.events += 1;
    }

    /// An urgent gang of one pod comes: it can use the capacity for which a plan in flight waits.
    pub fn come(&mut self) {
        self.urgent += 1;
        let name = format!("urgent-{}", self.urgent);
        self.world.apply_gang(gang(&name, 1, 2_000));
        self.world.apply_pod(world::pod(&format!("{name}-0"), 2_000, None, Some(&name)));
    }

    /// A pass. Returns true if it stored the plan of the urgent gang.
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

//! A full cluster with many pending gangs that do not fit. Pods are removed and created, and now and then a gang that fits is created.

use super::world::{self, World, gang, node, node_name};
use giveway_operator::messages::command::Command;
use giveway_operator::messages::input::{Input, Update};
use giveway_planner::ObjectKey;
use serde_json::json;

const NODES: usize = 100;
const PLACES: usize = 32;
pub const HOPELESS: usize = 1_000;

/// A full cluster with pending gangs.
pub struct Hopeless {
    pub world: World,
    events: usize,
    fitting: usize,
}

impl Hopeless {
    /// Creates a cluster without free capacity, and the gangs that need it.
    pub fn new() -> Self {
        let nodes = (0..NODES).map(|number| node(&node_name(number), PLACES, &json!({})));
        let mut world = World::of_nodes(nodes);
        for place in 0..NODES * PLACES {
            world.apply_pod(running(place));
        }
        for number in 0..HOPELESS {
            let name = format!("hopeless-{number:04}");
            world.apply_gang(gang(&name, 4, 10));
            for member in 0..4 {
                world.apply_pod(world::pod(&format!("{name}-{member}"), 10, None, Some(&name)));
            }
        }
        Self { world, events: 0, fitting: 0 }
    }

    /// Removes a running pod and creates another one in turn, until there were `events` such events. At no time is there free capacity for
    /// the four members of a gang.
    pub fn change(&mut self, events: usize) {
        while self.events < events {
            let place = self.events / 2 % (NODES * PLACES);
            if self.events.is_multiple_of(2) {
                self.world.remove_pod(&format!("runs-{place}"));
            } else {
                self.world.apply_pod(running(place));
            }
            self.events += 1;
        }
    }

    /// Creates a gang of one pod with a higher priority, and a node with capacity for it that no other pod may use. Returns the name of the
    /// pod.
    pub fn come(&mut self) -> String {
        self.fitting += 1;
        let name = format!("fits-{}", self.fitting);
        let labels = json!({"reserve": "true"});
        self.world.apply_node(node(&format!("reserve-{}", self.fitting), 1, &labels));
        self.world.apply_gang(gang(&name, 1, 2_000));
        let member = format!("{name}-0");
        let mut pod = world::pod(&member, 2_000, None, Some(&name));
        pod["spec"]["nodeSelector"] = labels;
        self.world.apply_pod(pod);
        member
    }

    /// Removes the pod of the last such gang, and its node.
    pub fn go(&mut self, member: &str) {
        let node = ObjectKey::new("", format!("reserve-{}", self.fitting));
        self.world.take(Input::Node(Update::Deleted(node)));
        self.world.remove_pod(member);
    }

    /// Runs a pass. Returns the names of the pods that were ungated.
    pub fn pass(&mut self) -> Vec<String> {
        let commands = self.world.pass();
        let ungated = commands.iter().filter_map(|command| match command {
            Command::Ungate { pod, .. } => Some(pod.name.to_string()),
            _ => None,
        });
        let ungated = ungated.collect();
        self.world.answer(commands);
        ungated
    }
}

fn running(place: usize) -> serde_json::Value {
    world::pod(&format!("runs-{place}"), 1_000, Some(&node_name(place % NODES)), None)
}

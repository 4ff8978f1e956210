//! A full cluster in which many gangs wait that do not fit, while pods come and go and now and then a gang comes that fits.

use super::world::{self, World, gang, node, node_name};
use giveway_operator::command::Command;
use giveway_operator::input::{Input, Update};
use giveway_planner::ObjectKey;
use serde_json::json;

const NODES: usize = 100;
const PLACES: usize = 32;
pub const HOPELESS: usize = 1_000;

/// The cluster.
pub struct Hopeless {
    pub world: World,
    events: usize,
    fitting: usize,
}

impl Hopeless {
    /// A cluster without free capacity, and the gangs that wait for it.
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

    /// Places become free one after the other and are taken again, until there were so many such events: never room for four.
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

    /// A gang of one comes, of higher priority, with a node that has room for it and that no other pod may use. Returns the name of
    /// its pod.
    pub fn come(&mut self) -> String {
        self.fitting += 1;
        let name = format!("fits-{}", self.fitting);
        let labels = json!({"spare": "true"});
        self.world.apply_node(node(&format!("spare-{}", self.fitting), 1, &labels));
        self.world.apply_gang(gang(&name, 1, 2_000));
        let member = format!("{name}-0");
        let mut pod = world::pod(&member, 2_000, None, Some(&name));
        pod["spec"]["nodeSelector"] = labels;
        self.world.apply_pod(pod);
        member
    }

    /// The gang has run, and its node is removed: there is no room for four.
    pub fn go(&mut self, member: &str) {
        let node = ObjectKey::new("", format!("spare-{}", self.fitting));
        self.world.take(Input::Node(Update::Deleted(node)));
        self.world.remove_pod(member);
    }

    /// A pass. Returns the names of the pods that were ungated.
    pub fn pass(&mut self) -> Vec<String> {
        let commands = self.world.pass();
        let ungated = commands.iter().filter_map(|command| match command {
            Command::Release { pod, .. } => Some(pod.name.to_string()),
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

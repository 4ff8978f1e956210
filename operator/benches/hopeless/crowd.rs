//! A full cluster in which many gangs wait without hope, while pods come and go and now and then a gang comes that fits: the arbiter
//! alone, whose commands are answered at once.

use clap::Parser as _;
use giveway_crds::keys;
use giveway_operator::arbiter::Arbiter;
use giveway_operator::command::{Command, Dispatch};
use giveway_operator::config::Config;
use giveway_operator::input::{Input, Update};
use giveway_operator::lease::Leadership;
use giveway_operator::ledger::Clock;
use giveway_operator::metrics::Metrics;
use giveway_operator::report::Report;
use giveway_operator::server_time::ServerTime;
use giveway_operator::watches::Watches;
use giveway_planner::ObjectKey;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const NODES: usize = 100;
const PLACES: usize = 32;
pub const HOPELESS: usize = 1_000;

struct Outbox(Sender<Command>);

impl Dispatch for Outbox {
    fn dispatch(&self, command: Command) {
        drop(self.0.send(command));
    }
}

fn object<K: DeserializeOwned>(value: Value) -> Box<K> {
    Box::new(serde_json::from_value(value).unwrap())
}

fn pod(name: &str, priority: i32, node: Option<usize>, group: Option<&str>) -> Input {
    let gates = if group.is_some() { json!([{"name": keys::GATE}]) } else { json!([]) };
    let labels = group.map(|group| json!({keys::LABEL_POD_GROUP: group})).unwrap_or_else(|| json!({}));
    Input::Pod(Update::Applied(object(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": labels},
        "spec": {"priority": priority, "nodeName": node.map(node_name), "schedulingGates": gates,
            // Who fits does so on a node of its own, which nobody else takes meanwhile.
            "nodeSelector": if priority == 2_000 { json!({"spare": "true"}) } else { json!({}) },
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": if node.is_some() { "Running" } else { "Pending" }}
    }))))
}

/// The one pod of a gang that fits, with the node that it was nominated for.
fn nominated(name: &str, group: &str, node: &str) -> Input {
    let Input::Pod(Update::Applied(mut known)) = pod(name, 2_000, None, Some(group)) else { unreachable!() };
    known.pod.status.get_or_insert_default().nominated_node_name = Some(node.to_owned());
    Input::Pod(Update::Applied(known))
}

fn node_name(number: usize) -> String {
    format!("node-{number:03}")
}

fn gang(name: &str, size: usize, priority: i32) -> Input {
    Input::Group(Update::Applied(object(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "generation": 1},
        "spec": {"schedulingPolicy": {"gang": {"minCount": size}}, "disruptionMode": "PodGroup", "priority": priority,
            "preemptionPolicy": "PreemptLowerPriority"}
    }))))
}

pub struct World {
    arbiter: Arbiter,
    commands: Receiver<Command>,
    /// How long each pass took.
    pub passes: Vec<Duration>,
    events: usize,
    fitting: usize,
}

impl World {
    /// A cluster without a free place, and the gangs that wait for one.
    pub fn full() -> Self {
        let mut world = Self::empty();
        for place in 0..NODES * PLACES {
            world.take(pod(&format!("runs-{place}"), 1_000, Some(place % NODES), None));
        }
        for number in 0..HOPELESS {
            let name = format!("hopeless-{number:04}");
            world.take(gang(&name, 4, 10));
            for member in 0..4 {
                world.take(pod(&format!("{name}-{member}"), 10, None, Some(&name)));
            }
        }
        world
    }

    fn empty() -> Self {
        let (outbox, commands) = channel();
        let leads = Arc::new(Mutex::new(Some(Instant::now() + Duration::from_secs(3600))));
        let leadership = Leadership::new("bench-00000001", leads, tokio::sync::watch::channel(false).1);
        let config = Config::parse_from(["giveway-operator"]);
        let ready = tokio::sync::watch::channel(false).0;
        let arbiter = Arbiter::new(config, Outbox(outbox), leadership, Metrics::default(), ready, Watches::default());
        let mut world = Self { arbiter, commands, passes: Vec::new(), events: 0, fitting: 0 };
        world.listed();
        world
    }

    /// The first lists: nodes, and nothing else.
    fn listed(&mut self) {
        let nodes = (0..NODES).map(|number| {
            let size = json!({"cpu": PLACES.to_string(), "memory": "64Gi", "pods": "110"});
            let node =
                json!({"metadata": {"name": node_name(number)}, "status": {"allocatable": size, "capacity": size}});
            Update::Applied(object(node))
        });
        self.take(Input::Node(Update::Replaced(nodes.collect())));
        for empty in [
            Input::Namespace(Update::Replaced(vec![])),
            Input::Pod(Update::Replaced(vec![])),
            Input::Group(Update::Replaced(vec![])),
            Input::NativeGroup(Update::Replaced(vec![])),
            Input::Switch(Update::Replaced(vec![])),
            Input::Request(Update::Replaced(vec![])),
            Input::Workload(Update::Replaced(vec![])),
            Input::Class(Update::Replaced(vec![])),
            Input::Budget(Update::Replaced(vec![])),
            Input::Volume(Update::Replaced(vec![])),
            Input::Claim(Update::Replaced(vec![])),
            Input::StorageClass(Update::Replaced(vec![])),
            Input::DeviceClass(Update::Replaced(vec![])),
            Input::Preemption(Update::Replaced(vec![])),
        ] {
            self.take(empty);
        }
    }

    fn take(&mut self, input: Input) {
        self.arbiter.take(input, Instant::now());
    }

    /// One place after the other becomes free and is taken again, until there were so many such events: never room for four.
    pub fn change(&mut self, events: usize) {
        while self.events < events {
            let place = self.events / 2 % (NODES * PLACES);
            let name = format!("runs-{place}");
            if self.events.is_multiple_of(2) {
                self.take(Input::Pod(Update::Deleted(ObjectKey::new("default", &name))));
            } else {
                self.take(pod(&name, 1_000, Some(place % NODES), None));
            }
            self.events += 1;
        }
    }

    /// A gang of one comes, of higher priority, with a node that has room for it. Returns the name of its pod.
    pub fn come(&mut self) -> String {
        self.fitting += 1;
        let (name, spare) = (format!("fits-{}", self.fitting), format!("spare-{}", self.fitting));
        let size = json!({"cpu": "1", "memory": "64Gi", "pods": "110"});
        let node = json!({"metadata": {"name": spare, "labels": {"spare": "true"}}, "status": {"allocatable": size, "capacity": size}});
        self.take(Input::Node(Update::Applied(object(node))));
        self.take(gang(&name, 1, 2_000));
        let member = format!("{name}-0");
        self.take(pod(&member, 2_000, None, Some(&name)));
        member
    }

    /// The gang has run, and its node goes again: there is no room for four.
    pub fn go(&mut self, member: &str) {
        let node = ObjectKey::new("", format!("spare-{}", self.fitting));
        self.take(Input::Node(Update::Deleted(node)));
        self.take(Input::Pod(Update::Deleted(ObjectKey::new("default", member))));
    }

    /// A pass, whose commands are answered at once. Returns the names of the pods that were released.
    pub fn pass(&mut self) -> Vec<String> {
        let started = Instant::now();
        self.arbiter.pass(Clock::read(&ServerTime::default()));
        self.passes.push(started.elapsed());
        let mut released = Vec::new();
        while let Ok(command) = self.commands.try_recv() {
            let report = match command {
                Command::Nominate { preemptor, plan, pod: key, uid, node, .. } => {
                    let Some(node) = node else { continue };
                    self.take(nominated(&key.name, &preemptor.key().name, &node));
                    Report::Member { preemptor, plan, uid, release: false, result: Ok(()) }
                }
                Command::Release { preemptor, plan, pod, uid, .. } => {
                    released.push(pod.name.to_string());
                    Report::Member { preemptor, plan, uid, release: true, result: Ok(()) }
                }
                Command::WriteGroupStatus { group, to, .. } => {
                    Report::GroupStatus { group, status: to, result: Ok(()) }
                }
                _ => continue,
            };
            self.take(Input::Report(report));
        }
        released
    }
}

//! What many gangs without hope cost while pods come and go: 1,000 gangs wait on a full cluster of 100 nodes, 500 events a second
//! change it, and now and then a gang comes that fits. Prints how long passes of the arbiter take, which share of a core that is,
//! and how long the gang that fits waits for its release. `cargo bench -p giveway-operator`.
// A bench ends on the spot, with a message, when something is not as it must be.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_precision_loss, clippy::print_stdout)]

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
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const NODES: usize = 100;
const PLACES: usize = 32;
const HOPELESS: usize = 1_000;
const EVENTS_A_SECOND: usize = 500;
/// A burst of events is gathered for this long before a pass, and a pass has its own time beside.
const GATHER: Duration = Duration::from_millis(5);
const SECONDS: u64 = 10;

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

struct World {
    arbiter: Arbiter,
    commands: Receiver<Command>,
    passes: Vec<Duration>,
}

impl World {
    fn new() -> Self {
        let (outbox, commands) = channel();
        let leads = Arc::new(Mutex::new(Some(Instant::now() + Duration::from_secs(3600))));
        let leadership = Leadership::new("bench-00000001", leads, tokio::sync::watch::channel(false).1);
        let config = Config::parse_from(["giveway-operator"]);
        let ready = tokio::sync::watch::channel(false).0;
        let arbiter = Arbiter::new(config, Outbox(outbox), leadership, Metrics::default(), ready, Watches::default());
        Self { arbiter, commands, passes: Vec::new() }
    }

    fn take(&mut self, input: Input) {
        self.arbiter.take(input, Instant::now());
    }

    /// A pass, whose commands are answered at once. Returns the names of the pods that were released.
    fn pass(&mut self) -> Vec<String> {
        let started = Instant::now();
        self.arbiter.pass(Clock::read(&ServerTime::default()));
        self.passes.push(started.elapsed());
        let mut released = Vec::new();
        while let Ok(command) = self.commands.try_recv() {
            let report = match command {
                Command::Nominate { preemptor, plan, pod: key, uid, node } => {
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

fn main() {
    let mut world = World::new();
    let nodes = (0..NODES).map(|number| {
        let size = json!({"cpu": PLACES.to_string(), "memory": "64Gi", "pods": "110"});
        let node = json!({"metadata": {"name": node_name(number)}, "status": {"allocatable": size, "capacity": size}});
        Update::Applied(object(node))
    });
    world.take(Input::Node(Update::Replaced(nodes.collect())));
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
        world.take(empty);
    }
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
    world.pass();
    println!("first pass over {HOPELESS} gangs: {:.0} ms", world.passes[0].as_secs_f64() * 1e3);
    world.passes.clear();
    let (begun, mut events, mut waits) = (Instant::now(), 0, Vec::new());
    let mut urgent: Option<(String, Instant)> = None;
    while begun.elapsed() < Duration::from_secs(SECONDS) {
        std::thread::sleep(GATHER);
        let due = (begun.elapsed().as_secs_f64() * EVENTS_A_SECOND as f64) as usize;
        while events < due {
            // One place after the other becomes free and is taken again: never room for four.
            let place = events / 2 % (NODES * PLACES);
            let name = format!("runs-{place}");
            if events % 2 == 0 {
                world.take(Input::Pod(Update::Deleted(giveway_planner::ObjectKey::new("default", &name))));
            } else {
                world.take(pod(&name, 1_000, Some(place % NODES), None));
            }
            events += 1;
        }
        // Once a second a gang of one comes, of higher priority, for which a place is free.
        let second = begun.elapsed().as_secs() as usize;
        if urgent.is_none() && waits.len() < second {
            let name = format!("fits-{}", waits.len() + 1);
            let spare = format!("spare-{}", waits.len() + 1);
            let size = json!({"cpu": "1", "memory": "64Gi", "pods": "110"});
            let node = json!({"metadata": {"name": spare, "labels": {"spare": "true"}}, "status": {"allocatable": size, "capacity": size}});
            world.take(Input::Node(Update::Applied(object(node))));
            world.take(gang(&name, 1, 2_000));
            world.take(pod(&format!("{name}-0"), 2_000, None, Some(&name)));
            urgent = Some((format!("{name}-0"), Instant::now()));
        }
        let released = world.pass();
        if let Some((name, since)) = &urgent
            && released.contains(name)
        {
            waits.push(since.elapsed());
            // It has run, and the node goes again: there is no room for four.
            let node = giveway_planner::ObjectKey::new("", format!("spare-{}", waits.len()));
            world.take(Input::Node(Update::Deleted(node)));
            world.take(Input::Pod(Update::Deleted(giveway_planner::ObjectKey::new("default", name))));
            urgent = None;
        }
    }
    let busy: Duration = world.passes.iter().sum();
    let share = busy.as_secs_f64() / begun.elapsed().as_secs_f64();
    world.passes.sort_unstable();
    waits.sort_unstable();
    let milliseconds = |time: Option<&Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
    println!(
        "{HOPELESS} gangs without hope, {EVENTS_A_SECOND} events a second, {SECONDS} s: {} passes, median {:.1} ms, longest {:.1} ms; {:.2} of a core",
        world.passes.len(),
        milliseconds(world.passes.get(world.passes.len() / 2)),
        milliseconds(world.passes.last()),
        share
    );
    println!(
        "{} gangs that fit were released after {:.0} ms (median), {:.0} ms at the longest",
        waits.len(),
        milliseconds(waits.get(waits.len() / 2)),
        milliseconds(waits.last())
    );
}

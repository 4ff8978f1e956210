//! An arbiter without an API server: the benchmark creates its inputs, and answers its commands at once as an API server would.

use clap::Parser as _;
use giveway_cluster::objects::TrimmedObject;
use giveway_crds::keys;
use giveway_operator::arbiter::Arbiter;
use giveway_operator::clock::Clock;
use giveway_operator::clock::ServerTime;
use giveway_operator::config::Config;
use giveway_operator::leadership::lease::Leadership;
use giveway_operator::leadership::watches::Watches;
use giveway_operator::messages::command::{Command, Dispatch, EvictOutcome};
use giveway_operator::messages::input::{Input, Update};
use giveway_operator::messages::report::{MemberCall, Report};
use giveway_operator::observability::metrics::Metrics;
use giveway_planner::ObjectKey;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

struct Outbox(Sender<Command>);

impl Dispatch for Outbox {
    fn dispatch(&self, command: Command) {
        drop(self.0.send(command));
    }
}

pub fn object<K: TrimmedObject>(value: Value) -> Box<K> {
    Box::new(K::decode(&value.to_string()).unwrap())
}

/// Returns a pod that requests 1 CPU. With a node it is running; without one it is gated and belongs to a PodGroup.
pub fn pod(name: &str, priority: i32, node: Option<&str>, group: Option<&str>) -> Value {
    let gates = if node.is_none() { json!([{"name": keys::GATE}]) } else { json!([]) };
    let labels = group.map(|group| json!({keys::LABEL_POD_GROUP: group})).unwrap_or_else(|| json!({}));
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": labels},
        "spec": {"priority": priority, "nodeName": node, "schedulingGates": gates,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": if node.is_some() { "Running" } else { "Pending" }}
    })
}

pub fn node(name: &str, cpus: usize, labels: &Value) -> Value {
    let size = json!({"cpu": cpus.to_string(), "memory": "64Gi", "pods": "110"});
    json!({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": size, "capacity": size}})
}

pub fn node_name(number: usize) -> String {
    format!("node-{number:04}")
}

/// Returns a gang whose pods are disrupted together, created from a template of the Workload `templates`.
pub fn gang(name: &str, size: usize, priority: i32) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "generation": 1,
            "finalizers": [keys::FINALIZER_PROTECTION]},
        "spec": {"schedulingPolicy": {"gang": {"minCount": size}}, "disruptionMode": "PodGroup", "priority": priority,
            "preemptionPolicy": "PreemptLowerPriority",
            "podGroupTemplateRef": {"workload": {"workloadName": "templates", "podGroupTemplateName": "workers"}}}
    })
}

pub struct World {
    arbiter: Arbiter,
    commands: Receiver<Command>,
    /// The last known state of the pods, by name.
    pods: BTreeMap<String, Value>,
    /// The duration of each pass.
    pub passes: Vec<Duration>,
}

impl World {
    /// Creates a cluster of these nodes, without pods.
    pub fn of_nodes(nodes: impl Iterator<Item = Value>) -> Self {
        let (outbox, commands) = channel();
        let leads = Arc::new(Mutex::new(Some(Instant::now() + Duration::from_secs(3600))));
        let leadership = Leadership::new("bench-00000001", leads, tokio::sync::watch::channel(false).1);
        let config = Config::parse_from(["giveway-operator"]);
        let ready = tokio::sync::watch::channel(false).0;
        let arbiter = Arbiter::new(config, Outbox(outbox), leadership, Metrics::default(), ready, Watches::default());
        let mut world = Self { arbiter, commands, pods: BTreeMap::new(), passes: Vec::new() };
        world.take(Input::Node(Update::Replaced(nodes.map(|node| Update::Applied(object(node))).collect())));
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
            Input::CsiDriver(Update::Replaced(vec![])),
            Input::CsiNode(Update::Replaced(vec![])),
            Input::DeviceClass(Update::Replaced(vec![])),
            Input::ResourceSlice(Update::Replaced(vec![])),
            Input::ResourceClaim(Update::Replaced(vec![])),
            Input::Preemption(Update::Replaced(vec![])),
        ] {
            world.take(empty);
        }
        world
    }

    pub fn take(&mut self, input: Input) {
        self.arbiter.take(input, Instant::now());
    }

    pub fn apply_pod(&mut self, pod: Value) {
        self.pods.insert(pod["metadata"]["name"].as_str().unwrap().to_owned(), pod.clone());
        self.take(Input::Pod(Update::Applied(object(pod))));
    }

    pub fn remove_pod(&mut self, name: &str) {
        self.pods.remove(name);
        self.take(Input::Pod(Update::Deleted(ObjectKey::new("default", name))));
    }

    pub fn apply_node(&mut self, node: Value) {
        self.take(Input::Node(Update::Applied(object(node))));
    }

    pub fn apply_gang(&mut self, gang: Value) {
        self.take(Input::Group(Update::Applied(object(gang))));
    }

    /// Runs a pass. Returns its commands.
    pub fn pass(&mut self) -> Vec<Command> {
        let started = Instant::now();
        self.arbiter.pass(Clock::read(&ServerTime::default()));
        self.passes.push(started.elapsed());
        self.commands.try_iter().collect()
    }

    /// Answers every command with success. Evicted pods terminate for an hour.
    pub fn answer(&mut self, commands: Vec<Command>) {
        for command in commands {
            let report = match command {
                Command::Nominate { preemptor, plan, pod, uid, node, .. } => {
                    self.change(&pod, |pod| pod["status"]["nominatedNodeName"] = json!(node.as_deref()));
                    Report::Member {
                        preemptor,
                        plan,
                        uid,
                        call: MemberCall::Nominate,
                        rehearsal: false,
                        result: Ok(()),
                    }
                }
                Command::Ungate { preemptor, plan, uid, rehearsal, .. } => {
                    Report::Member { preemptor, plan, uid, call: MemberCall::Ungate, rehearsal, result: Ok(()) }
                }
                Command::Evict(call) if call.rehearsal => {
                    let (cause, outcome) = (call.cause, EvictOutcome::Allowed);
                    Report::Evicted { cause, pod: call.pod, uid: call.uid, rehearsal: true, outcome }
                }
                Command::Evict(call) => {
                    let later = jiff::Timestamp::now() + Duration::from_secs(3600);
                    self.change(&call.pod, |pod| pod["metadata"]["deletionTimestamp"] = json!(later.to_string()));
                    let (cause, outcome) = (call.cause, EvictOutcome::Accepted);
                    Report::Evicted { cause, pod: call.pod, uid: call.uid, rehearsal: false, outcome }
                }
                Command::WriteGroupStatus { group, to, .. } => {
                    Report::GroupStatus { group, status: to, result: Ok(()) }
                }
                Command::StorePlan { plan, status, .. } => Report::Plan { plan: plan.id, status, result: Ok(()) },
                Command::WritePlan { plan, status, .. } => Report::Plan { plan, status, result: Ok(()) },
                _ => continue,
            };
            self.take(Input::Report(report));
        }
    }

    fn change(&mut self, pod: &ObjectKey, change: impl FnOnce(&mut Value)) {
        let Some(mut known) = self.pods.get(pod.name.as_str()).cloned() else { return };
        change(&mut known);
        self.apply_pod(known);
    }
}

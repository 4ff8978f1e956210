//! A process of the operator: the real arbiter, its commands, and the progress of its watches.

use crate::simulation::object::{Kind, text};
use crate::simulation::server::{Change, Server};
use giveway_cluster::objects::TrimmedObject;
use giveway_crds::keys;
use giveway_crds::mode::{self, Mode};
use giveway_operator::arbiter::Arbiter;
use giveway_operator::clock::Clock;
use giveway_operator::config::Config;
use giveway_operator::leadership::lease::Leadership;
use giveway_operator::leadership::watches::Watches;
use giveway_operator::messages::command::{Command, Dispatch};
use giveway_operator::messages::input::{Input, Update};
use giveway_operator::model::Model;
use giveway_operator::observability::metrics::Metrics;
use giveway_planner::model::ObjectKey;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Collects the commands of the arbiter for the simulation.
struct Outbox(Sender<Command>);

impl Dispatch for Outbox {
    fn dispatch(&self, command: Command) {
        drop(self.0.send(command));
    }
}

/// A process of the operator.
pub struct Process {
    /// Its identity, which is the term of its plans.
    pub term: String,
    arbiter: Arbiter,
    commands: Receiver<Command>,
    writes_until: Arc<Mutex<Option<Instant>>>,
    pub watches: Watches,
    /// The number of changes that the watch of each kind has delivered. A kind that is not watched is missing: a standby does not watch the
    /// stored plans.
    pub delivered: BTreeMap<Kind, usize>,
    /// Until when it may write, in milliseconds; `None` if it does not lead.
    pub deadline: Option<u64>,
    /// The process is paused until this time, in milliseconds.
    pub paused_until: u64,
    /// Time of its last command, in milliseconds.
    pub busy: u64,
    /// True if a pass is due.
    pub stirred: bool,
}

impl Process {
    pub fn new(term: String, config: &Config) -> Self {
        let (outbox, commands) = channel();
        let writes_until = Arc::new(Mutex::new(None));
        let (_, changed) = tokio::sync::watch::channel(false);
        let leadership = Leadership::new(&term, Arc::clone(&writes_until), changed);
        let (ready, _) = tokio::sync::watch::channel(false);
        let watches = Watches::default();
        let arbiter =
            Arbiter::new(config.clone(), Outbox(outbox), leadership, Metrics::default(), ready, watches.clone());
        // The load of this machine must not change the results.
        let arbiter = arbiter.without_time_limit();
        Self {
            term,
            arbiter,
            commands,
            writes_until,
            watches,
            delivered: BTreeMap::new(),
            deadline: None,
            paused_until: 0,
            busy: 0,
            stirred: false,
        }
    }

    /// Returns true if it may write at this time.
    pub fn leads(&self, now: u64) -> bool {
        self.deadline.is_some_and(|deadline| deadline > now)
    }

    pub fn take(&mut self, input: Input, now: Instant) {
        self.arbiter.take(input, now);
    }

    /// Runs a pass of the arbiter. Returns its commands.
    pub fn pass(&mut self, now: u64, clock: Clock) -> Vec<Command> {
        let real = self.leads(now).then(|| Instant::now() + Duration::from_secs(86_400));
        *self.writes_until.lock().expect("no panic while it is locked") = real;
        self.arbiter.pass(clock);
        self.commands()
    }

    /// Returns its commands, including those between two passes.
    pub fn commands(&mut self) -> Vec<Command> {
        self.commands.try_iter().collect()
    }

    /// Lists every kind but the stored plans.
    pub fn list_cluster(&mut self, server: &Server, now: Instant) {
        for input in unused() {
            self.take(input, now);
        }
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Preemption) {
            self.list(server, kind, now);
        }
    }

    /// Returns true if it watches this kind.
    pub fn watches(&self, kind: Kind) -> bool {
        self.delivered.contains_key(&kind)
    }

    /// Lists a kind again.
    pub fn list(&mut self, server: &Server, kind: Kind, now: Instant) {
        self.delivered.insert(kind, server.changes(kind).len());
        self.take(list(server, kind), now);
    }

    /// Delivers the changes of a kind up to this number, if the kind is watched.
    pub fn tell(&mut self, server: &Server, kind: Kind, upto: usize, now: Instant) {
        let Some(from) = self.delivered.get(&kind).copied() else { return };
        for change in server.changes(kind).iter().take(upto).skip(from) {
            self.take(input(kind, change), now);
            self.watches.delivered(kind.name());
        }
        self.delivered.insert(kind, upto.max(from));
    }
}

/// Returns the ConfigMap that switches Giveway to a mode.
pub fn switched(mode: Mode) -> Input {
    let metadata = json!({"namespace": "giveway-system", "name": mode::CONFIG_MAP, "uid": "switch"});
    let map = json!({"metadata": metadata, "data": {mode::KEY: mode.as_str()}});
    Input::Switch(Update::Applied(Box::new(serde_json::from_value(map).expect("a ConfigMap"))))
}

/// Returns the namespace of all objects, protected or not.
pub fn namespace(protected: bool) -> Input {
    let metadata = json!({"name": "default", "annotations": {keys::ANNOTATION_NEVER_EVICT: protected.to_string()}});
    Input::Namespace(Update::Applied(Box::new(
        serde_json::from_value(json!({"metadata": metadata})).expect("a Namespace"),
    )))
}

/// Returns empty lists of the kinds that the simulation does not have.
fn unused() -> [Input; 14] {
    [
        Input::Switch(Update::Replaced(Vec::new())),
        Input::NativeGroup(Update::Replaced(Vec::new())),
        Input::Request(Update::Replaced(Vec::new())),
        Input::Namespace(Update::Replaced(Vec::new())),
        Input::Workload(Update::Replaced(Vec::new())),
        Input::Class(Update::Replaced(Vec::new())),
        Input::Volume(Update::Replaced(Vec::new())),
        Input::Claim(Update::Replaced(Vec::new())),
        Input::StorageClass(Update::Replaced(Vec::new())),
        Input::CsiDriver(Update::Replaced(Vec::new())),
        Input::CsiNode(Update::Replaced(Vec::new())),
        Input::DeviceClass(Update::Replaced(Vec::new())),
        Input::ResourceSlice(Update::Replaced(Vec::new())),
        Input::ResourceClaim(Update::Replaced(Vec::new())),
    ]
}

/// Returns a model of the current state, as a process without watch lag would have it.
pub fn model(server: &Server) -> Model {
    let mut model = Model::default();
    unused().into_iter().for_each(|input| model.apply(input));
    Kind::ALL.into_iter().for_each(|kind| model.apply(list(server, kind)));
    model.note_time(server.second());
    model
}

/// Returns a complete list of a kind.
fn list(server: &Server, kind: Kind) -> Input {
    fn all<K: TrimmedObject>(server: &Server, kind: Kind) -> Update<K> {
        Update::Replaced(server.list(kind).map(|object| Update::Applied(typed(object))).collect())
    }
    match kind {
        Kind::Node => Input::Node(all(server, kind)),
        Kind::Pod => Input::Pod(all(server, kind)),
        Kind::Group => Input::Group(all(server, kind)),
        Kind::Budget => Input::Budget(all(server, kind)),
        Kind::Preemption => Input::Preemption(all(server, kind)),
    }
}

fn input(kind: Kind, change: &Change) -> Input {
    fn update<K: TrimmedObject>(kind: Kind, change: &Change) -> Update<K> {
        match &change.object {
            Some(object) => Update::Applied(typed(object)),
            None => Update::Deleted(ObjectKey::new(kind.namespace(), &change.name)),
        }
    }
    match kind {
        Kind::Node => Input::Node(update(kind, change)),
        Kind::Pod => Input::Pod(update(kind, change)),
        Kind::Group => Input::Group(update(kind, change)),
        Kind::Budget => Input::Budget(update(kind, change)),
        Kind::Preemption => Input::Preemption(update(kind, change)),
    }
}

fn typed<K: TrimmedObject>(object: &Value) -> Box<K> {
    let name = text(object, "/metadata/name");
    Box::new(K::decode(&object.to_string()).unwrap_or_else(|error| panic!("{name}: {error}")))
}

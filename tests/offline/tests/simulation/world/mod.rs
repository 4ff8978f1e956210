//! A simulation: all components in one thread, driven by a queue of events.

mod addons;
mod cluster;
mod delays;
pub mod denials;
mod interruption;
mod operator;
pub mod outages;
pub mod rates;
mod turns;

use crate::simulation::calls::Reply;
use crate::simulation::excuses::{Disturbance, Touch};
use crate::simulation::faults::Faults;
use crate::simulation::halves::Halves;
use crate::simulation::object::{Kind, Pod, set_condition};
use crate::simulation::owners::Owner;
use crate::simulation::plot::{END, Plot, Turn};
use crate::simulation::replica::{Call, Lease, Replica};
use crate::simulation::scheduler::Scheduler;
use crate::simulation::server::{EPOCH, Server};
use crate::simulation::trace::Trace;
use delays::Delays;
use denials::Denials;
use giveway_crds::mode::Mode;
use giveway_operator::clock::Clock;
use giveway_operator::config::Config;
use giveway_tests::random::Random;
use interruption::Interruptions;
use jiff::Timestamp;
use outages::Outage;
use rates::Requests;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The world is at rest if nothing was written for this time, in milliseconds. It is longer than every back-off except the hour
/// without evictions for a pod that the scheduler did not bind, and the time of a circuit breaker.
pub const CALM: u64 = 130_000;
/// Maximum time until the world is at rest after the last fault and the last event from outside, in milliseconds.
pub const RESTLESS: u64 = 20 * 60_000;

/// An event.
pub enum Event {
    /// An event from outside.
    Turn(Turn),
    /// The scheduler runs.
    Schedule,
    /// The disruption controller runs.
    Count,
    /// The containers of a pod start, by UID.
    Run(String),
    /// The containers of a pod have ended, by UID.
    Ended(String),
    /// A pod is removed, by UID.
    Gone(String),
    /// An owner creates its missing pods.
    Replace(usize),
    /// The node controller removes the taint of a node that is ready again.
    Untaint(String),
    /// A replica of the operator starts.
    Boot(usize),
    /// A process takes part in the election.
    Elect(usize, u32),
    /// A process lists the kinds that it does not watch yet: a leader every kind, a standby all but the stored plans.
    List(usize, u32),
    /// A watch delivers the changes up to a number.
    Tell(usize, u32, Kind, usize),
    /// A process runs a pass over its observations.
    Pass(usize, u32),
    /// The timer of a process fires.
    Tick(usize, u32),
    /// A call leaves a process.
    Send(Box<Call>),
    /// A call arrives at the API server.
    Arrive(Box<Call>),
    /// The answer arrives at the process.
    Answer(Box<Call>, Reply),
}

/// Seconds by which the clocks of the two replicas may be ahead of the API server's, after they were compared.
const SKEWS: [[i64; 2]; 5] = [[0, 0], [0, 0], [0, 3], [0, -3], [3, -3]];

/// A simulation.
pub struct World {
    /// Milliseconds since the start.
    pub now: u64,
    queue: BTreeMap<(u64, u64), Event>,
    order: u64,
    start: Instant,
    pub config: Config,
    pub server: Server,
    pub owners: Vec<Owner>,
    pub scheduler: Scheduler,
    pub replicas: [Replica; 2],
    /// Seconds by which the clock of each replica's machine is ahead.
    pub skew: [i64; 2],
    pub lease: Option<Lease>,
    pub faults: Faults,
    /// Random numbers for everything except faults.
    pub random: Random,
    pub trace: Trace,
    /// Messages about breaches.
    pub broken: Vec<String>,
    /// Events that took capacity or pods on which a plan may have relied.
    pub disturbed: Vec<Disturbance>,
    /// The times at which a leading process ended.
    pub ended: Vec<u64>,
    /// The pods with a failed eviction, by UID, with the time of the last failure.
    pub thwarted: BTreeMap<String, u64>,
    /// The watches of a kind lag until this time.
    pub lag: BTreeMap<Kind, u64>,
    /// Start and end of the times when the operator does not reach the API server.
    pub cuts: Vec<(u64, u64)>,
    /// The leader crashes at this call from now on, before or after the call is carried out.
    pub crash: Option<(usize, bool)>,
    /// The current mode of Giveway.
    pub mode: Mode,
    /// Start and end of the times when the namespace was protected.
    pub protected: Vec<(u64, u64)>,
    /// The plans that had evictions when the mode was changed to one without preemption.
    pub begun: BTreeSet<String>,
    /// The plans whose Preemption an administrator deleted.
    pub deleted: Vec<DeletedPlan>,
    /// The partially scheduled gangs, and those whose pods were evicted.
    pub halves: Halves,
    /// The plans of preemptors with a delay.
    pub delays: Delays,
    /// The calls that admission rejects.
    pub denials: Denials,
    /// The plans that ended between two evictions.
    pub interruptions: Interruptions,
    /// The outages of nodes.
    pub outages: Vec<Outage>,
    /// When the operator requested evictions.
    pub requests: Requests,
    /// The number of pods that departures evicted, by cause.
    pub departed: BTreeMap<String, usize>,
    /// Number of calls that arrived.
    pub calls: usize,
    seen: BTreeMap<Kind, usize>,
    running: BTreeSet<String>,
    leaving: BTreeSet<String>,
    scheduling: bool,
    counting: bool,
    last_turn: u64,
}

/// A plan whose Preemption an administrator deleted.
pub struct DeletedPlan {
    pub name: String,
    /// The PodGroups among its victims that are disrupted together.
    pub groups: Vec<String>,
    /// Its victims, by UID.
    pub pods: Vec<String>,
    /// True if the operator did not reach the API server at that time.
    pub unheard: bool,
    /// When it was planned.
    pub planned: Timestamp,
    /// When it was deleted, in milliseconds.
    pub at: u64,
}

impl World {
    pub fn new(seed: u64, config: &Config, start: Instant) -> Self {
        let plot = Plot::new(seed);
        let last_turn = plot.turns.iter().map(|(at, _)| *at).max().unwrap_or(0);
        let mut world = Self {
            now: 0,
            queue: BTreeMap::new(),
            order: 0,
            start,
            config: config.clone(),
            server: Server::default(),
            owners: plot.owners,
            scheduler: Scheduler::new(seed),
            replicas: Default::default(),
            skew: SKEWS[usize::try_from(seed % SKEWS.len() as u64).expect("a small number")],
            lease: None,
            faults: Faults::new(seed, END),
            random: Random::new(seed, 4, 0),
            trace: Trace::default(),
            broken: Vec::new(),
            disturbed: Vec::new(),
            ended: Vec::new(),
            thwarted: BTreeMap::new(),
            lag: BTreeMap::new(),
            cuts: Vec::new(),
            crash: None,
            mode: Mode::default(),
            protected: Vec::new(),
            begun: BTreeSet::new(),
            deleted: Vec::new(),
            halves: Halves::default(),
            delays: Delays::default(),
            denials: Denials::default(),
            interruptions: Interruptions::default(),
            outages: Vec::new(),
            requests: Requests::default(),
            departed: BTreeMap::new(),
            calls: 0,
            seen: BTreeMap::new(),
            running: BTreeSet::new(),
            leaving: BTreeSet::new(),
            scheduling: false,
            counting: false,
            last_turn,
        };
        for cpus in plot.nodes {
            world.plug(cpus);
        }
        for (at, turn) in plot.turns {
            world.at(at, Event::Turn(turn));
        }
        world.at(0, Event::Boot(0));
        world.at(100, Event::Boot(1));
        world
    }

    /// Returns the time that the operator gets.
    pub fn clock(&self) -> Clock {
        Clock { now: self.instant(), epoch_seconds: EPOCH + (self.now / 1000) as i64 }
    }

    pub fn instant(&self) -> Instant {
        self.start + Duration::from_millis(self.now)
    }

    /// Adds an event at this time, or now if the time has passed.
    pub fn at(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.queue.insert((at.max(self.now), self.order), event);
    }

    /// Adds an event after this number of milliseconds.
    pub fn after(&mut self, milliseconds: u64, event: Event) {
        self.at(self.now + milliseconds, event);
    }

    pub fn say(&mut self, who: &str, what: impl Into<String>) {
        self.trace.say(self.now, who, what.into());
    }

    /// Returns until when the operator does not reach the API server; 0 if it was never cut off.
    pub fn cut_until(&self) -> u64 {
        self.cuts.last().map_or(0, |(_, end)| *end)
    }

    /// Returns a number of milliseconds in this range.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.random.below((most - least + 1) as usize) as u64
    }

    /// Runs until the world is at rest, or a breach was found.
    pub fn run(&mut self) {
        let last = self.last_turn.max(self.faults.until);
        while let Some(((at, _), event)) = self.queue.pop_first() {
            (self.now, self.server.now) = (at, at);
            if at > last && at - self.server.written.max(last) > CALM {
                return;
            }
            if at > last + RESTLESS {
                let minutes = RESTLESS / 60_000;
                self.broken.push(format!("it did not come to rest in {minutes} minutes"));
            }
            self.happen(event);
            self.react();
            if !self.broken.is_empty() {
                return;
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Turn(turn) => self.turn(&turn),
            Event::Schedule => {
                self.scheduling = false;
                for owner in self.scheduler.refused.clone() {
                    self.disturb(Touch::Owner(owner));
                }
                let messages = self.scheduler.run(&mut self.server);
                messages.into_iter().for_each(|what| self.say("scheduler", what));
            }
            Event::Count => {
                self.counting = false;
                self.server.count_for_budgets();
                // The disruption controller drops a granted eviction after two minutes if the pod was not deleted.
                let granted =
                    |budget: &Value| budget["status"]["disruptedPods"].as_object().is_some_and(|pods| !pods.is_empty());
                if self.server.list(Kind::Budget).any(|budget| granted(budget)) {
                    self.counting = true;
                    self.after(10_000, Event::Count);
                }
            }
            Event::Run(pod) => {
                let time = self.server.time();
                self.status_of(&pod, |pod| {
                    if Pod(pod).live() {
                        pod["status"]["phase"] = json!("Running");
                        pod["status"]["startTime"] = json!(time);
                        set_condition(pod, json!({"type": "Ready", "status": "True"}));
                    }
                });
            }
            Event::Ended(pod) => self.status_of(&pod, |pod| {
                pod["status"]["phase"] = json!("Failed");
                set_condition(pod, json!({"type": "Ready", "status": "False"}));
            }),
            Event::Gone(pod) => {
                if let Some(name) = self.name_of(&pod) {
                    self.say("kubelet", format!("{name} is removed"));
                    self.server.remove(Kind::Pod, &name);
                }
            }
            Event::Replace(owner) => self.owners[owner].replace(&mut self.server),
            Event::Untaint(node) => self.untaint(&node),
            Event::Boot(replica) => self.boot(replica),
            Event::Elect(replica, process) => self.elect(replica, process),
            Event::List(replica, process) => self.list(replica, process),
            Event::Tell(replica, process, kind, upto) => self.tell(replica, process, kind, upto),
            Event::Pass(replica, process) => self.pass(replica, process, false),
            Event::Tick(replica, process) => self.pass(replica, process, true),
            Event::Send(call) => self.send(call),
            Event::Arrive(call) => self.arrive(call),
            Event::Answer(call, reply) => self.answer(call, reply),
        }
    }

    fn name_of(&self, pod: &str) -> Option<String> {
        self.server.pod_of_uid(pod).map(|pod| Pod(pod).name().to_owned())
    }

    fn status_of(&mut self, pod: &str, change: impl FnOnce(&mut Value)) {
        if let Some(name) = self.name_of(pod) {
            self.server.change(Kind::Pod, &name, change);
        }
    }
}

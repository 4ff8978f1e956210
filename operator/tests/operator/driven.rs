//! Drives the real [`Arbiter`] with a simulated clock and an API server in memory: objects go in, calls come out, and the test decides how
//! each call is answered. A standby observes every test, and no test lets it request a call.

use crate::world::{self, object};
use clap::Parser as _;
use giveway_cluster::objects::TrimmedObject;
use giveway_crds::mode::{CONFIG_MAP, KEY};
use giveway_crds::preemption::{PART_BYTES, parts_of};
use giveway_crds::{PodGroup, Preemption, condition, keys};
use giveway_operator::arbiter::Arbiter;
use giveway_operator::clock::Clock;
use giveway_operator::config::Config;
use giveway_operator::leadership::lease::Leadership;
use giveway_operator::leadership::watches::Watches;
use giveway_operator::messages::command::{Command, Dispatch, EvictCall, EvictOutcome};
use giveway_operator::messages::input::{Input, Update};
use giveway_operator::messages::report::{CallError, MemberCall, Report};
use giveway_operator::observability::metrics::Metrics;
use giveway_planner::ObjectKey;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The wall-clock time at which every test begins, in seconds since the epoch.
const START: i64 = 1_800_000_000;
/// Interval at which the arbiter runs a pass although nothing happens.
const TICK: Duration = Duration::from_millis(250);
/// Grace period of the pods, in seconds: the victims of a test terminate when the test says so.
const GRACE: i64 = 600;

/// The namespaces of the cluster.
const NAMESPACES: [&str; 4] = ["default", "team-a", "team-b", "team-c"];

/// Kinds of objects that the API server in memory has. All other kinds have no objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Node,
    Class,
    Group,
    Budget,
    Switch,
    Preemption,
    Pod,
}

impl Kind {
    /// The kinds that a standby watches, too.
    const OF_CLUSTER: [Self; 6] = [Self::Node, Self::Class, Self::Group, Self::Budget, Self::Switch, Self::Pod];

    /// Returns a change of its objects as the watch reports it.
    fn input(self, change: &Change<'_>) -> Input {
        match self {
            Self::Node => Input::Node(change.update()),
            Self::Class => Input::Class(change.update()),
            Self::Group => Input::Group(change.update()),
            Self::Budget => Input::Budget(change.update()),
            Self::Switch => Input::Switch(change.update()),
            Self::Preemption => Input::Preemption(change.update()),
            Self::Pod => Input::Pod(change.update()),
        }
    }
}

/// A change of the objects of one kind.
enum Change<'o> {
    Listed(Vec<&'o Value>),
    Applied(&'o Value),
    Deleted(ObjectKey),
}

impl Change<'_> {
    fn update<K: TrimmedObject>(&self) -> Update<K> {
        match self {
            Self::Listed(objects) => {
                Update::Replaced(objects.iter().map(|it| Update::Applied(object((*it).clone()))).collect())
            }
            Self::Applied(it) => Update::Applied(object((*it).clone())),
            Self::Deleted(key) => Update::Deleted(key.clone()),
        }
    }
}

/// How the API server answers a call.
pub enum Answer {
    /// The call succeeds, and the watches show its effect.
    Succeed,
    /// The call fails for this reason and has no effect.
    Fail(&'static str),
    /// Admission rejects the call with these words, and it has no effect.
    Reject(&'static str),
    /// There is no answer before [`Driven::answer_unanswered`].
    Hold,
}

/// An accepted eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    pub pod: String,
    /// Name of the `Preemption` for which the pod was evicted.
    pub plan: String,
}

struct Outbox(Sender<Command>);

impl Dispatch for Outbox {
    fn dispatch(&self, command: Command) {
        drop(self.0.send(command));
    }
}

/// Returns the leadership of a process that leads until the end of the test.
pub fn leadership(term: &str) -> Leadership {
    let deadline = Arc::new(Mutex::new(Some(Instant::now() + Duration::from_secs(86_400))));
    Leadership::new(term, deadline, tokio::sync::watch::channel(false).1)
}

/// Returns the configuration of an operator with these flags.
pub fn config(flags: &[&'static str]) -> Config {
    Config::parse_from(std::iter::once("giveway-operator").chain(flags.iter().copied()))
}

/// Returns a gang whose pods are disrupted together.
pub fn gang(name: &str, size: usize, priority: i32) -> Value {
    let mut gang = world::gang(name, size, priority);
    gang["spec"]["podGroupTemplateRef"] = Value::Null;
    gang
}

/// Returns a running pod that requests 1 CPU.
pub fn running(name: &str, priority: i32, node: &str, group: Option<&str>) -> Value {
    let mut pod = world::pod(name, priority, Some(node), group);
    pod["spec"]["terminationGracePeriodSeconds"] = json!(GRACE);
    pod
}

/// Returns a gated member of a gang that requests this number of CPUs.
pub fn member(name: &str, priority: i32, group: &str, cpus: u32) -> Value {
    let mut pod = world::pod(name, priority, None, Some(group));
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpus.to_string());
    pod
}

/// Returns a wall-clock time as objects contain it.
fn rfc3339(second: i64) -> String {
    jiff::Timestamp::from_second(second).unwrap().to_string()
}

/// Returns a call that concerns a pod, or a status, in words.
fn in_words(command: &Command) -> Option<String> {
    Some(match command {
        Command::Nominate { pod, rehearsal: true, .. } => format!("rehearse the nomination of {}", pod.name),
        Command::Nominate { pod, node: Some(node), .. } => format!("nominate {} {node}", pod.name),
        Command::Nominate { pod, node: None, .. } => format!("withdraw {}", pod.name),
        Command::Ungate { pod, rehearsal: true, .. } => format!("rehearse the ungating of {}", pod.name),
        Command::Ungate { pod, .. } => format!("ungate {}", pod.name),
        Command::Evict(call) if call.rehearsal => format!("rehearse {}", call.pod.name),
        Command::Evict(call) => format!("evict {}", call.pod.name),
        Command::WriteGroupStatus { group, .. } => format!("write status of {}", group.name),
        _ => return None,
    })
}

/// A process of the operator: an arbiter, and the calls that it requests.
struct Process {
    term: String,
    arbiter: Arbiter,
    commands: Receiver<Command>,
    metrics: Metrics,
    /// Until when it may write; `None` if it does not lead.
    writes_until: Arc<Mutex<Option<Instant>>>,
}

impl Process {
    /// Starts a process that does not lead.
    fn new(term: String, flags: &[&'static str]) -> Self {
        let (outbox, commands) = channel();
        let ready = tokio::sync::watch::channel(false).0;
        let (metrics, watches) = (Metrics::default(), Watches::default());
        let writes_until: Arc<Mutex<Option<Instant>>> = Arc::default();
        let leadership = Leadership::new(&term, Arc::clone(&writes_until), tokio::sync::watch::channel(false).1);
        let arbiter = Arbiter::new(config(flags), Outbox(outbox), leadership, metrics.clone(), ready, watches);
        // The load of this machine must not change the results.
        Self { term, arbiter: arbiter.without_time_limit(), commands, metrics, writes_until }
    }

    /// Lets it lead until the end of the test.
    fn lead(&self) {
        *self.writes_until.lock().unwrap() = Some(Instant::now() + Duration::from_secs(86_400));
    }
}

/// A leader, a standby, the API server in memory, and the clock.
pub struct Driven {
    leader: Process,
    standby: Process,
    flags: Vec<&'static str>,
    terms: usize,
    started: Instant,
    elapsed: Duration,
    objects: BTreeMap<(Kind, String), Value>,
    answers: Box<dyn Fn(&Command) -> Answer>,
    unanswered: Vec<Command>,
    evictions: Vec<Eviction>,
    /// The published events, as `KIND NAMESPACE/NAME REASON: NOTE`.
    pub events: Vec<String>,
}

/// Changes of the leader: to a process that starts then, and to one that has watched the cluster before.
pub const CHANGES_OF_LEADER: [fn(&mut Driven) -> String; 2] = [Driven::next_leader, Driven::standby_leads];

impl Driven {
    /// Starts an operator with these flags in an empty cluster. Every call succeeds at first.
    pub fn new(flags: &[&'static str]) -> Self {
        let mut driven = Self {
            leader: Process::new(String::new(), flags),
            standby: Process::new(String::new(), flags),
            flags: flags.to_vec(),
            terms: 0,
            started: Instant::now(),
            elapsed: Duration::ZERO,
            objects: BTreeMap::new(),
            answers: Box::new(|_| Answer::Succeed),
            unanswered: Vec::new(),
            evictions: Vec::new(),
            events: Vec::new(),
        };
        driven.next_leader();
        driven.standby = driven.process();
        driven
    }

    /// Ends the leader. Its calls without an answer are not carried out. The next leader is a process that starts now: it knows only the
    /// objects. Returns its term.
    pub fn next_leader(&mut self) -> String {
        self.leader = self.process();
        self.begin_term()
    }

    /// Ends the leader. Its calls without an answer are not carried out. The next leader is the standby, which has observed everything since
    /// it was started. Returns its term.
    pub fn standby_leads(&mut self) -> String {
        let next = self.process();
        self.leader = std::mem::replace(&mut self.standby, next);
        self.begin_term()
    }

    /// Starts a process, which lists every kind that a standby watches.
    fn process(&mut self) -> Process {
        self.terms += 1;
        let mut process = Process::new(format!("operator-{:08}", self.terms), &self.flags);
        let namespaces = NAMESPACES.map(|name| Update::Applied(object(json!({"metadata": {"name": name}}))));
        let mut lists = vec![
            Input::Namespace(Update::Replaced(namespaces.into())),
            Input::NativeGroup(Update::Replaced(vec![])),
            Input::Workload(Update::Replaced(vec![])),
            Input::Request(Update::Replaced(vec![])),
            Input::Volume(Update::Replaced(vec![])),
            Input::Claim(Update::Replaced(vec![])),
            Input::StorageClass(Update::Replaced(vec![])),
            Input::CsiDriver(Update::Replaced(vec![])),
            Input::CsiNode(Update::Replaced(vec![])),
            Input::DeviceClass(Update::Replaced(vec![])),
            Input::ResourceSlice(Update::Replaced(vec![])),
            Input::ResourceClaim(Update::Replaced(vec![])),
        ];
        lists.extend(Kind::OF_CLUSTER.map(|kind| kind.input(&self.listed(kind))));
        let now = self.started + self.elapsed;
        lists.into_iter().for_each(|list| process.arbiter.take(list, now));
        process
    }

    /// Lets the leader lead: it lists the stored plans. Returns its term.
    fn begin_term(&mut self) -> String {
        self.unanswered.clear();
        self.leader.lead();
        let plans = Kind::Preemption.input(&self.listed(Kind::Preemption));
        self.take(plans);
        self.leader.term.clone()
    }

    fn listed(&self, kind: Kind) -> Change<'_> {
        Change::Listed(self.objects.iter().filter(|((of, _), _)| *of == kind).map(|(_, object)| object).collect())
    }

    fn take(&mut self, input: Input) {
        self.leader.arbiter.take(input, self.started + self.elapsed);
    }

    /// Lets the watches show a change.
    fn show(&mut self, kind: Kind, change: &Change<'_>) {
        self.take(kind.input(change));
        if kind != Kind::Preemption {
            self.standby.arbiter.take(kind.input(change), self.started + self.elapsed);
        }
    }

    /// Runs a pass of the standby, which must not request a call. The leader has none, as if it had ended.
    pub fn observe(&mut self) {
        let clock = self.clock();
        self.standby.arbiter.pass(clock);
        let calls: Vec<Command> = self.standby.commands.try_iter().collect();
        assert!(calls.is_empty(), "the standby requests calls: {calls:?}");
    }

    /// Returns the wall-clock time, in seconds since the epoch.
    pub fn second(&self) -> i64 {
        START + i64::try_from(self.elapsed.as_secs()).unwrap()
    }

    /// Creates or replaces an object. The watch shows it.
    pub fn apply(&mut self, kind: Kind, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.show(kind, &Change::Applied(&object));
        self.objects.insert((kind, name), object);
    }

    /// Deletes an object at once. The watch shows it.
    pub fn delete(&mut self, kind: Kind, name: &str) {
        let object = self.objects.remove(&(kind, name.to_owned()));
        let object = object.unwrap_or_else(|| panic!("there is no {kind:?} {name}"));
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        self.show(kind, &Change::Deleted(ObjectKey::new(namespace, name)));
    }

    /// Changes an object. The watch shows it.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn change(&mut self, kind: Kind, name: &str, change: impl FnOnce(&mut Value)) -> Result<(), CallError> {
        let mut object = self.objects.get(&(kind, name.to_owned())).cloned().ok_or(CallError::Gone)?;
        change(&mut object);
        self.apply(kind, object);
        Ok(())
    }

    /// Adds a node with the label `pool`, whose value is its name.
    pub fn node(&mut self, name: &str, cpus: usize) {
        self.apply(Kind::Node, world::node(name, cpus, &json!({"pool": name})));
    }

    /// Makes a node not ready since now, with the taint of the node controller.
    pub fn not_ready(&mut self, name: &str) {
        let since = rfc3339(self.second());
        self.change(Kind::Node, name, |node| {
            node["spec"] = json!({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]});
            node["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "lastTransitionTime": since}]);
        })
        .unwrap();
    }

    /// Creates a gang with gated members `NAME-0` and so on, each of which requests this number of CPUs.
    pub fn submit(&mut self, gang: Value, cpus: u32) {
        let name = gang["metadata"]["name"].as_str().unwrap().to_owned();
        let size = gang["spec"]["schedulingPolicy"]["gang"]["minCount"].as_u64().unwrap();
        let priority = gang["spec"]["priority"].as_i64().map_or(1_000, |priority| i32::try_from(priority).unwrap());
        self.apply(Kind::Group, gang);
        for number in 0..size {
            self.apply(Kind::Pod, member(&format!("{name}-{number}"), priority, &name, cpus));
        }
    }

    /// Creates a gang of one pod that runs only on this node.
    pub fn submit_for(&mut self, node: &str, name: &str, priority: i32) {
        self.submit_in("default", node, name, priority);
    }

    /// Creates a gang of one pod in this namespace that runs only on this node. Names are unique in all namespaces.
    pub fn submit_in(&mut self, namespace: &str, node: &str, name: &str, priority: i32) {
        let (mut group, mut pod) = (gang(name, 1, priority), member(&format!("{name}-0"), priority, name, 1));
        group["metadata"]["namespace"] = json!(namespace);
        self.apply(Kind::Group, group);
        pod["metadata"]["namespace"] = json!(namespace);
        pod["spec"]["nodeSelector"] = json!({"pool": node});
        self.apply(Kind::Pod, pod);
    }

    /// Sets the mode of Giveway.
    pub fn switch(&mut self, mode: &str) {
        let metadata = json!({"namespace": "giveway-system", "name": CONFIG_MAP, "uid": "uid-mode"});
        self.apply(Kind::Switch, json!({"metadata": metadata, "data": {KEY: mode}}));
    }

    /// Removes the terminating pods, as kubelets do in the end.
    pub fn terminate(&mut self) {
        let terminating = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
        for name in self.pods(terminating) {
            self.delete(Kind::Pod, &name);
        }
    }

    /// Binds the ungated pods to the nodes that are nominated for them, as kube-scheduler does.
    pub fn bind(&mut self) {
        let may_bind = |pod: &Value| {
            let gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
            !gated && pod["spec"]["nodeName"].is_null() && pod["status"]["nominatedNodeName"].is_string()
        };
        self.pods(may_bind).iter().for_each(|name| self.bind_pod(name));
    }

    /// Binds a pod to the node that is nominated for it.
    pub fn bind_pod(&mut self, name: &str) {
        self.change(Kind::Pod, name, |pod| {
            pod["spec"]["nodeName"] = pod["status"]["nominatedNodeName"].clone();
            pod["status"]["phase"] = json!("Running");
        })
        .unwrap();
    }

    /// Returns the node that is nominated for a pod.
    pub fn nominated_node(&self, name: &str) -> Option<String> {
        let pod = self.objects.get(&(Kind::Pod, name.to_owned()))?;
        pod["status"]["nominatedNodeName"].as_str().map(str::to_owned)
    }

    /// Returns the names of the pods on a node.
    pub fn pods_on(&self, node: &str) -> Vec<String> {
        self.pods(|pod| pod["spec"]["nodeName"] == node)
    }

    /// Rejects the binding of a pod, as kube-scheduler reports it: it withdraws the nomination.
    pub fn reject_binding(&mut self, name: &str, message: &str) {
        self.report_unbound(name, "SchedulerError", message);
        self.change(Kind::Pod, name, |pod| pod["status"]["nominatedNodeName"] = Value::Null).unwrap();
    }

    /// Writes kube-scheduler's report about a pod, with this reason.
    pub fn report_unbound(&mut self, name: &str, reason: &str, message: &str) {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": reason, "message": message});
        self.change(Kind::Pod, name, |pod| pod["status"]["conditions"] = json!([condition])).unwrap();
    }

    fn pods(&self, which: impl Fn(&Value) -> bool) -> Vec<String> {
        let pods = self.objects.iter().filter(|((kind, _), pod)| *kind == Kind::Pod && which(pod));
        pods.map(|((_, name), _)| name.clone()).collect()
    }

    /// Returns the names of the pods with a nominated node and without a node.
    pub fn nominated(&self) -> Vec<String> {
        self.pods(|pod| pod["spec"]["nodeName"].is_null() && pod["status"]["nominatedNodeName"].is_string())
    }

    /// Returns the names of the pods of a group that are bound.
    pub fn bound(&self, group: &str) -> Vec<String> {
        self.pods(|pod| {
            pod["metadata"]["labels"][keys::LABEL_POD_GROUP] == group && pod["spec"]["nodeName"].is_string()
        })
    }

    /// Returns the stored plans and departures, in the order of their names.
    pub fn plans(&self) -> Vec<Preemption> {
        let stored = self.objects.iter().filter(|((kind, _), _)| *kind == Kind::Preemption);
        stored.map(|(_, plan)| *object::<Preemption>(plan.clone())).collect()
    }

    /// Returns the stored plans and departures as `CAUSE STATE: MESSAGE`.
    pub fn stored(&self) -> Vec<String> {
        let words = |plan: Preemption| {
            let status = plan.status.unwrap_or_default();
            format!("{} {}: {}", plan.spec.cause, status.state.as_str(), status.message)
        };
        self.plans().into_iter().map(words).collect()
    }

    /// Returns a condition of a group as `STATUS REASON: MESSAGE`.
    pub fn condition(&self, group: &str, type_: &str) -> String {
        let group = object::<PodGroup>(self.objects[&(Kind::Group, group.to_owned())].clone());
        let conditions = group.status.unwrap_or_default().conditions;
        let found = condition::find(&conditions, type_);
        found.map(|found| format!("{} {}: {}", found.status, found.reason, found.message)).unwrap_or_default()
    }

    fn clock(&self) -> Clock {
        Clock { now: self.started + self.elapsed, epoch_seconds: self.second() }
    }

    /// Returns a dump of the leader's state: its sections by name.
    pub fn dump(&self) -> BTreeMap<String, Value> {
        let lines = self.leader.arbiter.dump(self.clock());
        let sections = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        sections.map(|section| (section["dump"].as_str().unwrap().to_owned(), section)).collect()
    }

    /// Returns the metrics of the leader.
    pub fn metrics(&self) -> String {
        self.leader.metrics.encode()
    }

    /// Returns the accepted evictions, in order.
    pub fn evictions(&self) -> &[Eviction] {
        &self.evictions
    }

    /// Returns the names of the evicted pods, sorted. A pod that was evicted twice is there twice.
    pub fn evicted(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.evictions.iter().map(|eviction| eviction.pod.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// Sets how the API server answers the calls from now on.
    pub fn answer(&mut self, answers: impl Fn(&Command) -> Answer + 'static) {
        self.answers = Box::new(answers);
    }

    /// Returns the calls without an answer, in the order in which they were requested.
    pub fn unanswered(&self) -> &[Command] {
        &self.unanswered
    }

    /// Carries out the calls without an answer for which `which` returns true, and answers them.
    pub fn answer_unanswered(&mut self, which: impl Fn(&Command) -> bool) {
        let (now, later): (Vec<Command>, Vec<Command>) =
            std::mem::take(&mut self.unanswered).into_iter().partition(which);
        self.unanswered = later;
        now.into_iter().for_each(|command| self.report(command, Ok(())));
    }

    /// Runs passes at the same time until a pass requests no call. Returns the calls in words.
    pub fn settle(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        for _ in 0..200 {
            let clock = self.clock();
            self.leader.arbiter.pass(clock);
            let commands: Vec<Command> = self.leader.commands.try_iter().collect();
            if commands.is_empty() {
                self.observe();
                return words;
            }
            for command in commands {
                words.extend(in_words(&command));
                match (self.answers)(&command) {
                    Answer::Succeed => self.report(command, Ok(())),
                    Answer::Fail(why) => self.report(command, Err(CallError::Failed(why.to_owned()))),
                    Answer::Reject(words) => self.report(command, Err(CallError::Rejected(words.to_owned()))),
                    Answer::Hold => self.unanswered.push(command),
                }
            }
        }
        panic!("200 passes requested calls at the same time, the last ones of: {words:?}");
    }

    /// Lets time pass in one step, so that the passes between are left out. Returns the calls in words.
    pub fn skip(&mut self, time: Duration) -> Vec<String> {
        self.elapsed += time;
        self.settle()
    }

    /// Lets time pass, in steps of 250 ms. Returns the calls in words.
    pub fn run(&mut self, time: Duration) -> Vec<String> {
        let (end, mut words) = (self.elapsed + time, Vec::new());
        while self.elapsed < end {
            self.elapsed += TICK;
            words.extend(self.settle());
        }
        words
    }

    /// Carries out a call if `result` is `Ok`, and sends the arbiter the result as the actuator does.
    fn report(&mut self, command: Command, result: Result<(), CallError>) {
        let withdrawn = matches!(&command, Command::Evict(call) if call.permission.is_cancelled());
        let result = if withdrawn { result } else { result.and_then(|()| self.carry_out(&command)) };
        let key = command.key();
        let report = match command {
            Command::Publish(_) | Command::Nominate { node: None, .. } => return,
            Command::Nominate { preemptor, plan, uid, rehearsal, .. } => {
                Report::Member { preemptor, plan, uid, call: MemberCall::Nominate, rehearsal, result }
            }
            Command::Ungate { preemptor, plan, uid, rehearsal, .. } => {
                Report::Member { preemptor, plan, uid, call: MemberCall::Ungate, rehearsal, result }
            }
            Command::Evict(call) => {
                let EvictCall { cause, pod, uid, rehearsal, .. } = *call;
                let outcome = match result {
                    _ if withdrawn => EvictOutcome::Withdrawn,
                    Ok(()) if rehearsal => EvictOutcome::Allowed,
                    Ok(()) => EvictOutcome::Accepted,
                    Err(CallError::Gone) => EvictOutcome::Gone,
                    Err(CallError::Rejected(words)) => EvictOutcome::Rejected(words),
                    Err(error) => EvictOutcome::Error(error.to_string()),
                };
                Report::Evicted { cause, pod, uid, rehearsal, outcome }
            }
            Command::WriteGroupStatus { group, to, .. } => Report::GroupStatus { group, status: to, result },
            Command::StorePlan { plan, status, .. } => Report::Plan { plan: plan.id, status, result },
            Command::WritePlan { plan, status, .. } => Report::Plan { plan, status, result },
            Command::ReadSchedulerLease(_) => Report::SchedulerLease(result.map(|()| None)),
            _ => {
                let Some(call) = key else { return };
                Report::Answered { call, result }
            }
        };
        self.take(Input::Report(report));
    }

    /// Carries out a call in the API server.
    fn carry_out(&mut self, command: &Command) -> Result<(), CallError> {
        match command {
            Command::Nominate { rehearsal: true, .. } | Command::Ungate { rehearsal: true, .. } => Ok(()),
            Command::Nominate { pod, node, .. } => self.change(Kind::Pod, &pod.name, |pod| {
                pod["status"]["nominatedNodeName"] = json!(node.as_deref());
            }),
            Command::Ungate { pod, .. } => self.change(Kind::Pod, &pod.name, |pod| {
                pod["spec"]["schedulingGates"] = json!([]);
            }),
            Command::Evict(call) if call.rehearsal => Ok(()),
            Command::Evict(call) => self.evict(call),
            Command::WriteGroupStatus { group, to, .. } => self.change(Kind::Group, &group.name, |group| {
                group["status"] = json_of(to);
            }),
            Command::StorePlan { plan, status, .. } => {
                for part in parts_of(plan, PART_BYTES) {
                    let mut stored = json_of(&part);
                    stored["metadata"]["uid"] = json!(format!("uid-{}", part.metadata.name.unwrap_or_default()));
                    stored["metadata"]["creationTimestamp"] = json!(rfc3339(self.second()));
                    self.apply(Kind::Preemption, stored);
                }
                let status = json_of(status);
                self.change(Kind::Preemption, &plan.id, |plan| plan["status"] = status)
            }
            Command::WritePlan { plan, status, .. } => {
                let status = json_of(status);
                self.change(Kind::Preemption, plan, |plan| plan["status"] = status)
            }
            Command::ForgetPlan { name, .. } => {
                self.delete(Kind::Preemption, name);
                Ok(())
            }
            Command::Protect { group, protect, .. } => self.change(Kind::Group, &group.name, |group| {
                let finalizers = if *protect { json!([keys::FINALIZER_PROTECTION]) } else { json!([]) };
                group["metadata"]["finalizers"] = finalizers;
            }),
            Command::Publish(notice) => {
                let (kind, reason) = (&notice.kind, notice.reason.as_str());
                self.events.push(format!("{kind} {} {reason}: {}", notice.key, notice.note));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Lets a pod terminate, unless it does already.
    fn evict(&mut self, call: &EvictCall) -> Result<(), CallError> {
        let grace = call.grace.unwrap_or(GRACE);
        let (name, until) = (call.pod.name.as_str(), rfc3339(self.second() + grace));
        let mut accepted = false;
        self.change(Kind::Pod, name, |pod| {
            accepted = pod["metadata"]["deletionTimestamp"].is_null();
            if accepted {
                pod["metadata"]["deletionTimestamp"] = json!(until);
                pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
            }
        })?;
        if accepted {
            self.evictions.push(Eviction { pod: name.to_owned(), plan: call.cause.id().to_owned() });
        }
        Ok(())
    }
}

/// Returns the JSON of an object.
fn json_of(object: &impl serde::Serialize) -> Value {
    serde_json::to_value(object).unwrap()
}

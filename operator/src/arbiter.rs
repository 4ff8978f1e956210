//! The arbiter: the one task that owns the model, decides, and keeps the ledger (design, section 5).
//!
//! A pass runs after every batch of inputs: advance what is in flight, decide for who waits, and write the statuses
//! that changed. It makes no call itself; [`Command`]s go to the [`Actuator`], whose reports come back as inputs.

use crate::actuate::{Actuator, CallError, Report};
use crate::command::{Command, EvictOutcome, Notice};
use crate::config::Config;
use crate::housekeeping::Housekeeping;
use crate::lease::Leadership;
use crate::ledger::{self, Clock, Ending, Flight, Flights, Limits};
use crate::metrics::Metrics;
use crate::model::Model;
use crate::queue::{self, Waiting};
use crate::status::{self, Facts, LastWord, Victimhood};
use crate::watch::Input;
use giveway_crds::PodGroupStatus;
use giveway_crds::condition::Reason;
use giveway_crds::plan::{PlanState, StoredCost, StoredPlacement, StoredPlan, StoredVictim, StoredVictimPod};
use giveway_planner::model::ObjectKey;
use giveway_planner::plan::{Decision, Plan, Preemptor};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// Inputs that are taken in before the next pass.
const BATCH: usize = 4096;
/// How long a batch may gather: a burst of events is looked at once.
const GATHER: Duration = Duration::from_millis(10);
/// How often timers (delays, time-outs, repeated calls) are looked at.
const TICK: Duration = Duration::from_millis(250);
/// How long a victim that a budget refused is spared.
const SPARE: Duration = Duration::from_secs(30);

/// The status writes of a group.
#[derive(Debug, Default)]
struct Writing {
    /// UID of the group these belong to.
    uid: String,
    /// A write is under way.
    pending: bool,
    /// What was written last: newer than what the watch may show.
    written: Option<PodGroupStatus>,
    /// After a failure, not before.
    not_before: Option<Instant>,
}

/// The arbiter. See the module's documentation.
pub struct Arbiter {
    model: Model,
    flights: Flights,
    waiting: BTreeMap<Preemptor, Waiting>,
    last_plans: BTreeMap<ObjectKey, StoredPlan>,
    victims: BTreeMap<ObjectKey, Victimhood>,
    writing: BTreeMap<ObjectKey, Writing>,
    storing: BTreeMap<ObjectKey, ledger::Call>,
    dirty: BTreeSet<ObjectKey>,
    housekeeping: Housekeeping,
    resumed: bool,
    plans_made: u64,
    config: Config,
    actuator: Actuator,
    leadership: Leadership,
    metrics: Metrics,
    ready: watch::Sender<bool>,
}

impl Arbiter {
    /// A new arbiter; [`Arbiter::run`] does the work. `ready` is set once every kind was listed.
    pub fn new(
        config: Config,
        actuator: Actuator,
        leadership: Leadership,
        metrics: Metrics,
        ready: watch::Sender<bool>,
    ) -> Self {
        Self {
            model: Model::default(),
            flights: Flights::new(),
            waiting: BTreeMap::new(),
            last_plans: BTreeMap::new(),
            victims: BTreeMap::new(),
            writing: BTreeMap::new(),
            storing: BTreeMap::new(),
            dirty: BTreeSet::new(),
            housekeeping: Housekeeping::default(),
            resumed: false,
            plans_made: 0,
            config,
            actuator,
            leadership,
            metrics,
            ready,
        }
    }

    /// Runs until the inputs end.
    pub async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                input = inputs.recv() => {
                    let Some(input) = input else { return };
                    self.take(input);
                    tokio::time::sleep(GATHER).await;
                    for _ in 0..BATCH {
                        match inputs.try_recv() {
                            Ok(input) => self.take(input),
                            Err(_) => break,
                        }
                    }
                }
                _ = tick.tick() => {}
            }
            self.pass();
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Report(report) => self.report(report),
            other => self.model.apply(other),
        }
    }

    fn clock() -> Clock {
        Clock { now: Instant::now(), epoch_seconds: Timestamp::now().as_second() }
    }

    fn pass(&mut self) {
        for (problem, error) in std::mem::take(&mut self.model.new_problems) {
            tracing::warn!(kind = problem.kind, object = %problem.key, %error, "object cannot be used; it is skipped");
            self.metrics.unreadable(problem.kind);
        }
        if !self.model.synced() {
            return;
        }
        self.ready.send_replace(true);
        let leads = self.leadership.holds();
        self.metrics.leads(leads);
        if !leads {
            return;
        }
        let clock = Self::clock();
        if !self.resumed {
            self.resume(clock);
            self.resumed = true;
        }
        self.dirty.append(&mut self.model.touched);
        self.advance(clock);
        self.decide(clock);
        let workloads = std::mem::take(&mut self.model.touched_workloads);
        let mut chores = self.housekeeping.pass(&self.model, &self.dirty, workloads, clock.now);
        chores.append(&mut self.housekeeping.stray_nominations(&self.model, &self.flights, clock.now));
        chores.into_iter().for_each(|c| self.actuator.dispatch(c));
        self.write_statuses(clock);
        self.metrics.in_flight(self.flights.len());
    }

    /// Takes over the plans that an earlier leader stored.
    fn resume(&mut self, clock: Clock) {
        self.dirty.extend(self.model.groups.keys().cloned());
        let of_groups = self
            .model
            .groups
            .iter()
            .filter_map(|(key, r)| Some((Preemptor::Group(key.clone()), r.status.preemption.clone()?)));
        let of_pods =
            self.model.pods.iter().filter_map(|(key, r)| Some((Preemptor::Pod(key.clone()), r.plan.clone()?)));
        let stored: Vec<_> = of_groups.chain(of_pods).filter(|(_, plan)| plan.state.in_flight()).collect();
        for (preemptor, mut plan) in stored {
            let priority = match &preemptor {
                Preemptor::Group(key) => self.model.cluster.group(key).map(|g| g.priority),
                Preemptor::Pod(key) => self.model.cluster.pod(key).map(|p| self.model.cluster.effective_priority(p)),
            };
            let Some(priority) = priority else { continue };
            tracing::info!(%preemptor, plan = %plan.id, state = ?plan.state, "resuming a stored plan");
            plan.term = self.leadership.term().to_owned();
            let mut flight = Flight::new(preemptor.clone(), priority, plan, clock.now);
            flight.resumed = true;
            self.launch(flight);
        }
    }

    fn launch(&mut self, flight: Flight) {
        for victim in &flight.plan.victims {
            let group = match victim.kind.as_str() {
                "PodGroup" => Some(ObjectKey::new(&victim.namespace, &victim.name)),
                _ => self.group_key(&ObjectKey::new(&victim.namespace, &victim.name)),
            };
            self.dirty.extend(group);
        }
        if let Preemptor::Group(key) = &flight.preemptor {
            if flight.evicts() {
                self.last_plans.remove(key);
            }
            self.dirty.insert(key.clone());
        }
        self.flights.insert(flight.preemptor.clone(), flight);
        self.model.version += 1;
    }

    fn group_key(&self, pod: &ObjectKey) -> Option<ObjectKey> {
        self.model.cluster.pod(pod).and_then(|p| self.model.cluster.group_of(p)).map(|g| g.key.clone())
    }

    fn advance(&mut self, clock: Clock) {
        let limits = Limits { release_timeout: Duration::from_secs(self.config.release_timeout_seconds) };
        let order: Vec<Preemptor> = self.flights.keys().cloned().collect();
        for preemptor in order {
            let context = ledger::context(&self.flights, &preemptor, BTreeSet::new());
            let Some(flight) = self.flights.get_mut(&preemptor) else { continue };
            let before = flight.plan.state;
            let advance = flight.advance(&self.model, &context, clock, limits);
            let now = flight.plan.state;
            if now != before && advance.ended.is_none() {
                self.staged(&preemptor, now);
            }
            if let Preemptor::Group(key) = &preemptor {
                self.dirty.insert(key.clone());
            }
            self.tell_victims(&preemptor);
            self.store_pod_plan(&preemptor, clock);
            advance.commands.into_iter().for_each(|c| self.actuator.dispatch(c));
            if let Some(ending) = advance.ended {
                self.ended(&preemptor, &ending, clock);
            }
        }
    }

    /// A flight reached its next stage: tell it, on the preemptor and on the groups that give way.
    fn staged(&mut self, preemptor: &Preemptor, state: PlanState) {
        let Some(flight) = self.flights.get(preemptor) else { return };
        if flight.evicts() {
            tracing::info!(%preemptor, plan = %flight.plan.id, ?state, "plan");
        }
        let note = match state {
            PlanState::Evicting => {
                format!("Evicting {} for {}.", status::pods(flight.victims.len()), status::pods(flight.members.len()))
            }
            PlanState::Releasing => format!("{} have a place and start.", status::pods(flight.members.len())),
            _ => return,
        };
        let action = format!("{} {}", status::state_reason(state), flight.plan.id);
        if let Some(notice) = self.notice(preemptor, false, status::state_reason(state), action, note) {
            self.actuator.dispatch(Command::Publish(notice));
        }
    }

    /// Tells the groups that give way who takes their place, once for each plan.
    fn tell_victims(&mut self, preemptor: &Preemptor) {
        let Some(flight) = self.flights.get_mut(preemptor) else { return };
        if flight.told || !flight.evicts() || flight.plan.state == PlanState::Planned {
            return;
        }
        flight.told = true;
        let flight = flight.clone();
        for victim in &flight.plan.victims {
            let key = ObjectKey::new(&victim.namespace, &victim.name);
            let whole = victim.kind == "PodGroup";
            let message = status::victim_message(&flight, &victim.kind, victim.priority);
            if whole && let Some(record) = self.model.groups.get(&key) {
                self.actuator.dispatch(Command::Publish(Notice {
                    kind: "PodGroup",
                    key: key.clone(),
                    uid: record.uid.clone(),
                    warning: true,
                    reason: Reason::Preempted,
                    action: format!("Preempting {}", flight.plan.id),
                    note: message.clone(),
                }));
            }
            if let Some(group) = if whole { Some(key) } else { self.group_key(&key) } {
                self.dirty.insert(group.clone());
                self.victims.insert(group, Victimhood { preemptor: preemptor.to_string(), message, whole });
            }
        }
    }

    fn ended(&mut self, preemptor: &Preemptor, ending: &Ending, clock: Clock) {
        let Some(flight) = self.flights.remove(preemptor) else { return };
        let reason = status::state_reason(ending.state);
        tracing::info!(%preemptor, plan = %flight.plan.id, %reason, message = %ending.message, "decision ended");
        self.metrics.outcome(reason);
        let waiting = self.waiting.entry(preemptor.clone()).or_default();
        waiting.last_word = None;
        waiting.seen = None;
        waiting.spared.extend(flight.refused.iter().map(|uid| (uid.clone(), clock.now + SPARE)));
        match ending.state {
            PlanState::Completed => waiting.failures = 0,
            _ => waiting.back_off(clock.now),
        }
        // A plan that did no harm is made anew at once, the first time.
        if ending.state == PlanState::Cancelled && flight.begun() == 0 && waiting.failures <= 1 {
            waiting.not_before = None;
        }
        for victim in &flight.plan.victims {
            let key = ObjectKey::new(&victim.namespace, &victim.name);
            let group = if victim.kind == "PodGroup" { Some(key) } else { self.group_key(&key) };
            self.dirty.extend(group);
        }
        if flight.evicts() || ending.state == PlanState::Failed {
            let action = format!("{reason} {}", flight.plan.id);
            let warning = ending.state == PlanState::Failed;
            if let Some(notice) = self.notice(preemptor, warning, reason, action, ending.message.clone()) {
                self.actuator.dispatch(Command::Publish(notice));
            }
        }
        match preemptor {
            Preemptor::Group(key) => {
                if flight.evicts() {
                    self.last_plans.insert(key.clone(), flight.plan.clone());
                }
                self.dirty.insert(key.clone());
            }
            // A pod that is gone takes its plan with it.
            Preemptor::Pod(key) if flight.evicts() => {
                let here = self.model.cluster.pod(key).filter(|p| flight.members.iter().any(|m| m.uid == p.uid));
                if let Some(uid) = here.map(|p| p.uid.clone()) {
                    self.store(key, uid, None);
                } else {
                    self.storing.remove(key);
                }
            }
            Preemptor::Pod(_) => {}
        }
        self.model.version += 1;
    }

    fn decide(&mut self, clock: Clock) {
        let order = queue::preemptors(&self.model, &self.flights, &self.config.scheduler_names);
        let present: BTreeSet<&Preemptor> = order.iter().chain(self.flights.keys()).collect();
        self.waiting.retain(|p, w| present.contains(p) || w.not_before.is_some_and(|t| t > clock.now));
        for preemptor in order {
            let version = self.model.version;
            let waiting = self.waiting.entry(preemptor.clone()).or_default();
            let spared = waiting.spared(clock.now);
            if waiting.seen == Some(version) || waiting.not_before.is_some_and(|t| t > clock.now) {
                continue;
            }
            waiting.seen = Some(version);
            let context = ledger::context(&self.flights, &preemptor, spared);
            let started = Instant::now();
            let decision = giveway_planner::plan(&self.model.cluster, &preemptor, &context);
            self.metrics.decided(started.elapsed());
            self.decided(&preemptor, decision, clock);
        }
    }

    fn decided(&mut self, preemptor: &Preemptor, decision: Decision, clock: Clock) {
        match decision {
            Decision::Fits { placements, .. } => {
                self.word(preemptor, None);
                // Pods that nobody holds are placed by the scheduler alone.
                let gang = matches!(preemptor, Preemptor::Group(key) if self.model.cluster.group(key).is_some_and(|g| g.min_count.is_some()));
                if gang {
                    let plan = Plan { placements, ..empty_plan() };
                    self.start(preemptor, &plan, clock);
                }
            }
            Decision::Preempt(plan) => {
                if let Some(foreign) = self.foreign_scheduler(preemptor) {
                    let message =
                        format!("Pods of scheduler {foreign} are placed by it alone; Giveway evicts nobody for them.");
                    self.word(preemptor, Some(LastWord { reason: Reason::Unschedulable, message }));
                    return;
                }
                self.word(preemptor, None);
                if !plan.victims.is_empty() {
                    for line in &plan.trace {
                        tracing::debug!(%preemptor, "{line}");
                    }
                }
                self.start(preemptor, &plan, clock);
            }
            Decision::Unschedulable(shortfall) => {
                self.word(preemptor, Some(LastWord { reason: Reason::Unschedulable, message: shortfall.to_string() }));
            }
            Decision::WaitingForPods { live, min_count } => {
                let message = format!(
                    "{} needed, {live} exist. None starts before all {min_count} have a place.",
                    status::pods(min_count)
                );
                self.word(preemptor, Some(LastWord { reason: Reason::WaitingForPods, message }));
            }
            Decision::Nothing => self.word(preemptor, None),
        }
    }

    fn foreign_scheduler(&self, preemptor: &Preemptor) -> Option<String> {
        let cluster = &self.model.cluster;
        let foreign = |p: &giveway_planner::model::Pod| {
            (p.node.is_none() && p.live() && !self.config.scheduler_names.contains(&p.scheduler_name))
                .then(|| p.scheduler_name.clone())
        };
        match preemptor {
            Preemptor::Group(key) => cluster.members(key).find_map(foreign),
            Preemptor::Pod(key) => cluster.pod(key).and_then(foreign),
        }
    }

    /// Remembers why a preemptor waits; a new reason is an event too.
    fn word(&mut self, preemptor: &Preemptor, word: Option<LastWord>) {
        let waiting = self.waiting.entry(preemptor.clone()).or_default();
        if waiting.last_word == word {
            return;
        }
        let news = word.as_ref().filter(|w| waiting.last_word.as_ref().map(|o| o.reason) != Some(w.reason)).cloned();
        waiting.last_word = word;
        if let Preemptor::Group(key) = preemptor {
            self.dirty.insert(key.clone());
        }
        if let Some(word) = news {
            self.metrics.outcome(word.reason);
            let warning = word.reason == Reason::Unschedulable;
            if let Some(notice) = self.notice(preemptor, warning, word.reason, "Deciding".into(), word.message) {
                self.actuator.dispatch(Command::Publish(notice));
            }
        }
    }

    fn start(&mut self, preemptor: &Preemptor, plan: &Plan, clock: Clock) {
        self.plans_made += 1;
        let term = self.leadership.term();
        let suffix: String = term.chars().rev().take(8).collect::<Vec<_>>().into_iter().rev().collect();
        let priority = match preemptor {
            Preemptor::Group(key) => self.model.cluster.group(key).map_or(0, |g| g.priority),
            Preemptor::Pod(key) => self.model.cluster.pod(key).map_or(0, |p| self.model.cluster.effective_priority(p)),
        };
        let stored = stored(plan, format!("{suffix}-{}", self.plans_made), term.to_owned());
        let mut flight = Flight::new(preemptor.clone(), priority, stored, clock.now);
        if flight.evicts() {
            flight.plan.message = status::plan_message(&flight);
            tracing::info!(%preemptor, plan = %flight.plan.id, message = %flight.plan.message, "planned");
            self.metrics.outcome(Reason::Planned);
            let action = format!("Planned {}", flight.plan.id);
            if let Some(notice) = self.notice(preemptor, false, Reason::Planned, action, flight.plan.message.clone()) {
                self.actuator.dispatch(Command::Publish(notice));
            }
        }
        self.launch(flight);
        self.store_pod_plan(preemptor, clock);
    }

    /// Stores the plan of a single pod whenever its state changed; that of a group is part of its status. One call at a
    /// time, so that an older plan never lands on a newer one.
    fn store_pod_plan(&mut self, preemptor: &Preemptor, clock: Clock) {
        let (Preemptor::Pod(key), Some(flight)) = (preemptor, self.flights.get(preemptor)) else { return };
        let waits_for_it = matches!(flight.plan.state, PlanState::Planned | PlanState::Evicting);
        if !flight.evicts() || !waits_for_it || flight.stored == Some(flight.plan.state) {
            return;
        }
        let Some(uid) = flight.members.first().map(|m| m.uid.clone()) else { return };
        let call = self.storing.get(key).copied().unwrap_or_default();
        if call.due(clock.now) || matches!(call, ledger::Call::Done(_)) {
            let plan = flight.plan.clone();
            self.store(key, uid, Some(plan));
        }
    }

    fn store(&mut self, pod: &ObjectKey, uid: String, plan: Option<StoredPlan>) {
        self.storing.entry(pod.clone()).or_default().start();
        self.actuator.dispatch(Command::StorePodPlan { pod: pod.clone(), uid, plan: plan.map(Box::new) });
    }

    fn report(&mut self, report: Report) {
        let now = Instant::now();
        match report {
            Report::Member { preemptor, plan, uid, release, result } => {
                if let Err(error) = &result {
                    tracing::warn!(%preemptor, %error, release, "member not nominated or released");
                }
                if let Some(flight) = self.flights.get_mut(&preemptor).filter(|f| f.plan.id == plan) {
                    flight.member_answered(&uid, release, result.is_ok() || result == Err(CallError::Gone), now);
                }
            }
            Report::Evicted { preemptor, plan, pod, uid, outcome } => {
                let Some(flight) = self.flights.get_mut(&preemptor).filter(|f| f.plan.id == plan) else { return };
                flight.evicted(&uid, &outcome, now);
                let unit = flight.plan.victims.iter().find(|v| v.pods.iter().any(|p| p.uid == uid));
                let note = unit.map(|v| status::victim_message(flight, &v.kind, v.priority));
                if outcome == EvictOutcome::Accepted
                    && let Some(note) = note
                {
                    self.metrics.evicted();
                    let action = format!("Preempting {plan}");
                    let notice =
                        Notice { kind: "Pod", key: pod, uid, warning: true, reason: Reason::Preempted, action, note };
                    self.actuator.dispatch(Command::Publish(notice));
                }
            }
            Report::GroupStatus { group, status, result } => self.status_written(&group, *status, result, now),
            Report::PodPlan { pod, plan, result } => {
                if let Err(error) = &result {
                    tracing::warn!(%pod, %error, "plan not stored");
                }
                if let Some(call) = self.storing.get_mut(&pod) {
                    call.answered(result.is_ok(), now);
                }
                let flight = self.flights.get_mut(&Preemptor::Pod(pod.clone()));
                match (plan, flight) {
                    (Some((id, state)), Some(flight)) if flight.plan.id == id && result.is_ok() => {
                        flight.stored = Some(state);
                    }
                    (None, None) => drop(self.storing.remove(&pod)),
                    _ => {}
                }
            }
            Report::Object { what, result } => {
                if let Err(error) = &result {
                    tracing::warn!(%what, %error, "not written");
                }
                self.housekeeping.answered(&what, result.is_ok(), now);
            }
        }
    }

    fn status_written(
        &mut self,
        group: &ObjectKey,
        status: PodGroupStatus,
        result: Result<(), CallError>,
        now: Instant,
    ) {
        let writing = self.writing.entry(group.clone()).or_default();
        writing.pending = false;
        self.dirty.insert(group.clone());
        match result {
            Ok(()) => {
                if let Some(flight) = self.flights.get_mut(&Preemptor::Group(group.clone())) {
                    let stored = status.preemption.as_ref();
                    let stored = stored.filter(|p| p.id == flight.plan.id && p.term == flight.plan.term);
                    flight.stored = stored.map(|p| p.state).or(flight.stored);
                }
                writing.written = Some(status);
            }
            Err(error) => {
                tracing::warn!(%group, %error, "status not written");
                writing.not_before = Some(now + Duration::from_millis(500));
            }
        }
    }

    fn write_statuses(&mut self, clock: Clock) {
        let mut later = BTreeSet::new();
        for key in std::mem::take(&mut self.dirty) {
            let (Some(record), Some(group)) = (self.model.groups.get(&key), self.model.cluster.group(&key)) else {
                self.writing.remove(&key);
                self.last_plans.remove(&key);
                self.victims.remove(&key);
                continue;
            };
            let writing = self.writing.entry(key.clone()).or_default();
            if writing.uid != record.uid {
                *writing = Writing { uid: record.uid.clone(), ..Writing::default() };
            }
            if writing.pending || writing.not_before.is_some_and(|t| t > clock.now) {
                later.insert(key);
                continue;
            }
            let mut record = record.clone();
            if let Some(written) = &writing.written {
                record.status = written.clone();
            }
            let preemptor = Preemptor::Group(key.clone());
            let facts = Facts {
                model: &self.model,
                group,
                record: &record,
                flight: self.flights.get(&preemptor),
                last_plan: self.last_plans.get(&key),
                last_word: self.waiting.get(&preemptor).and_then(|w| w.last_word.as_ref()),
                victim_of: self.victims.get(&key),
                problem: group.class_problem.as_deref(),
                now: Time(Timestamp::from_second(clock.epoch_seconds).unwrap_or_default()),
            };
            let to = status::group_status(&facts);
            if to == record.status {
                // Told, and written: it is over once no plan takes anything from the group any more.
                if !self.flights.values().any(|f| f.takes_from(&self.model.cluster, &key)) {
                    self.victims.remove(&key);
                }
                continue;
            }
            writing.pending = true;
            self.actuator.dispatch(Command::WriteGroupStatus {
                group: key.clone(),
                uid: record.uid.clone(),
                from: Box::new(record.status),
                to: Box::new(to),
            });
        }
        self.dirty = later;
    }

    fn notice(
        &self,
        preemptor: &Preemptor,
        warning: bool,
        reason: Reason,
        action: String,
        note: String,
    ) -> Option<Notice> {
        let (kind, key, uid) = match preemptor {
            Preemptor::Group(key) => ("PodGroup", key, self.model.groups.get(key)?.uid.clone()),
            Preemptor::Pod(key) => ("Pod", key, self.model.cluster.pod(key)?.uid.clone()),
        };
        Some(Notice { kind, key: key.clone(), uid, warning, reason, action, note })
    }
}

fn empty_plan() -> Plan {
    Plan {
        strategy: "fits",
        placements: vec![],
        victims: vec![],
        awaited: vec![],
        cost: giveway_planner::Cost::default(),
        trace: vec![],
        not_modeled: vec![],
    }
}

/// A plan as it is stored.
fn stored(plan: &Plan, id: String, term: String) -> StoredPlan {
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    StoredPlan {
        id,
        term,
        state: PlanState::Planned,
        strategy: plan.strategy.to_owned(),
        planned_at: Some(Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default())),
        message: String::new(),
        placements: plan
            .placements
            .iter()
            .map(|p| StoredPlacement { pod: p.pod.name.clone(), uid: p.uid.clone(), node: p.node.clone() })
            .collect(),
        victims: plan
            .victims
            .iter()
            .map(|v| StoredVictim {
                kind: v.kind.as_str().to_owned(),
                namespace: v.key.namespace.clone(),
                name: v.key.name.clone(),
                priority: v.priority,
                violates_budget: v.violates_budget,
                pods: v
                    .pods
                    .iter()
                    .map(|p| StoredVictimPod { name: p.key.name.clone(), uid: p.uid.clone(), node: p.node.clone() })
                    .collect(),
            })
            .collect(),
        cost: StoredCost {
            budget_violations: count(plan.cost.budget_violations),
            highest_victim_priority: plan.cost.highest_priority,
            victim_pods: count(plan.cost.victim_pods),
            victim_groups: count(plan.cost.victim_groups),
        },
    }
}

//! The arbiter: the one task that owns the model, makes all decisions, and keeps the plans in flight (design, section 5).
//!
//! A pass runs after every batch of inputs. It advances the plans in flight, decides for pending preemptors, and writes the statuses that
//! changed. The arbiter makes no call itself: [`Command`]s are sent to an actuator, and the results come back as inputs. It reads no clock
//! during a pass: the time is a parameter of each input and each pass.

mod capacity;
mod decide;
mod departures;
mod measures;
mod notices;
mod plan;
mod rates;
mod reports;
mod rescue;
mod restraint;
mod round;
mod statuses;
mod traces;
mod waiters;

use crate::capacity_requests::{self, Provisioning};
use crate::config::Config;
use crate::critical_addons::queue::Rescues;
use crate::departures::Departures;
use crate::departures::history::Keeper;
use crate::departures::plan_store::{PlanStore, Record};
use crate::gangs::backfill::BackFill;
use crate::gangs::half_bound::HalfStarts;
use crate::gangs::housekeeping::Housekeeping;
use crate::gangs::labelled::Gangs;
use crate::gangs::succession::Succession;
use crate::gangs::ungate_all::UngateAll;
use crate::leadership::lease::Leadership;
use crate::leadership::watches::Watches;
use crate::limits::rates::Rates;
use crate::limits::switch::Switch;
use crate::messages::command::{Command, Dispatch};
use crate::messages::input::Input;
use crate::model::Model;
use crate::observability::metrics::Metrics;
use crate::observability::trace::Tracer;
use crate::plans::{self, Advance, Clock, EndedReservations, Ending, Flight, Flights, Limits};
use crate::preemption::observed::Observed;
use crate::preemption::queue::Waiting;
use crate::preemption::survey::Survey;
use crate::server_time::ServerTime;
use crate::speaker::words;
use crate::status::{self, Victimhood, WaitReason};
use giveway_crds::condition::Reason;
use giveway_crds::plan::{PlanState, PreemptionSummary};
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use giveway_planner::rescue::Terms;
use giveway_planner::{Context, Respect};
use notices::Repeated;
use round::Round;
use statuses::Writing;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use waiters::Waiters;

/// Maximum number of inputs that are applied before the next pass.
const BATCH: usize = 4096;
/// Inputs are collected for this time, so that a burst of events causes one pass.
const GATHER: Duration = Duration::from_millis(5);
/// Time within which the watch should show an accepted eviction. After it, a pod that is not terminating is treated like any other pod.
const UNSEEN: Duration = Duration::from_secs(60);
/// Interval at which timers (delays, time limits, retries) are checked.
const TICK: Duration = Duration::from_millis(250);

/// The arbiter. See the documentation of the module.
pub struct Arbiter {
    model: Model,
    flights: Flights,
    /// Victims of ended plans by UID, with the end time, while the watch does not yet show that they are terminating.
    evicted: BTreeMap<SmolStr, (ObjectKey, Instant)>,
    ended_reservations: EndedReservations,
    /// Nodes that have not been ready for a short time only.
    recovering: BTreeSet<SmolStr>,
    waiting: BTreeMap<Preemptor, Waiting>,
    round: Round,
    last_plans: BTreeMap<ObjectKey, PreemptionSummary>,
    victims: BTreeMap<ObjectKey, Victimhood>,
    writing: BTreeMap<ObjectKey, Writing>,
    plan_store: PlanStore,
    keeper: Keeper,
    /// PodGroups whose status is computed in this pass.
    dirty: BTreeSet<ObjectKey>,
    /// PodGroups whose status is computed again at this time.
    later: BTreeMap<ObjectKey, Instant>,
    gangs: Gangs,
    housekeeping: Housekeeping,
    backfill: BackFill,
    departures: Departures,
    half_starts: HalfStarts,
    succession: Succession,
    provisioning: Provisioning,
    repeated: Repeated,
    rescues: Rescues,
    survey: Survey,
    waiters: Waiters,
    switch: Switch,
    rates: Rates,
    observed: Observed,
    ungate_all: UngateAll,
    /// Which pods are critical add-ons; `None` if Giveway does not preempt for them.
    terms: Option<Arc<Terms>>,
    next_sweep: Option<Instant>,
    /// Message about a taint of Giveway that could not be removed.
    kept_taint: Option<String>,
    resumed: bool,
    plans_made: u64,
    config: Config,
    actuator: Box<dyn Dispatch + Send>,
    leadership: Leadership,
    metrics: Metrics,
    ready: watch::Sender<bool>,
    watches: Watches,
    server_time: ServerTime,
    tracer: Tracer,
}

impl Arbiter {
    /// Creates an arbiter; [`Arbiter::run`] runs it. `ready` is set to true when every kind has been listed.
    pub fn new(
        config: Config,
        actuator: impl Dispatch + Send + 'static,
        leadership: Leadership,
        metrics: Metrics,
        ready: watch::Sender<bool>,
        watches: Watches,
    ) -> Self {
        let protected = config.protected_namespaces.iter().cloned().collect();
        let mut model = Model::of(protected, config.served_namespaces.as_ref());
        model.cluster.spare_critical_addons(config.critical_addons().map(|terms| terms.namespaces));
        Self {
            model,
            flights: Flights::default(),
            evicted: BTreeMap::new(),
            ended_reservations: EndedReservations::default(),
            recovering: BTreeSet::new(),
            waiting: BTreeMap::new(),
            round: Round::default(),
            last_plans: BTreeMap::new(),
            victims: BTreeMap::new(),
            writing: BTreeMap::new(),
            plan_store: PlanStore::default(),
            keeper: Keeper::default(),
            dirty: BTreeSet::new(),
            later: BTreeMap::new(),
            gangs: Gangs::default(),
            housekeeping: Housekeeping::default(),
            backfill: BackFill::default(),
            departures: Departures::default(),
            half_starts: HalfStarts::default(),
            succession: Succession::default(),
            provisioning: Provisioning::new(capacity_requests::Options::of(&config)),
            repeated: Repeated::default(),
            rescues: Rescues::default(),
            survey: Survey::default(),
            waiters: Waiters::default(),
            switch: Switch::new(config.mode),
            rates: Rates::new(config.evictions_per_minute()),
            observed: Observed::default(),
            ungate_all: UngateAll::default(),
            terms: config.critical_addons().map(Arc::new),
            next_sweep: None,
            kept_taint: None,
            resumed: false,
            plans_made: 0,
            config,
            actuator: Box::new(actuator),
            leadership,
            metrics,
            ready,
            watches,
            server_time: ServerTime::default(),
            tracer: Tracer::default(),
        }
    }

    /// Uses this clock instead of the machine's.
    #[must_use]
    pub fn by(mut self, server_time: ServerTime) -> Self {
        self.server_time = server_time;
        self
    }

    /// Exports traces of plans with this tracer.
    #[must_use]
    pub fn told_by(mut self, tracer: Tracer) -> Self {
        self.tracer = tracer;
        self
    }

    /// Removes all time limits on decisions, so that equal inputs give equal results.
    #[must_use]
    pub fn untimed(mut self) -> Self {
        self.round = Round::untimed();
        self
    }

    /// Runs until the channel of inputs is closed.
    pub async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let again = self.round.again();
            tokio::select! {
                input = inputs.recv() => {
                    let Some(input) = input else { return };
                    self.take(input, Instant::now());
                    tokio::time::sleep(GATHER).await;
                }
                _ = tick.tick() => {}
                () = tokio::time::sleep_until(again.unwrap_or_else(Instant::now).into()), if again.is_some() => {}
            }
            for _ in 0..BATCH {
                match inputs.try_recv() {
                    Ok(input) => self.take(input, Instant::now()),
                    Err(_) => break,
                }
            }
            let clock = Clock::read(&self.server_time);
            self.pass(clock);
        }
    }

    /// Applies one input. Nothing is decided before the next [`Arbiter::pass`].
    pub fn take(&mut self, input: Input, now: Instant) {
        match input {
            Input::Report(report) => self.report(report, now),
            other => self.model.apply(other),
        }
    }

    /// Runs one pass over all applied inputs: advances plans, decides, and writes.
    pub fn pass(&mut self, clock: Clock) {
        for (problem, error) in std::mem::take(&mut self.model.new_problems) {
            tracing::warn!(kind = problem.kind, object = %problem.key, %error, "object cannot be used; it is skipped");
            self.metrics.unreadable(problem.kind);
        }
        if !self.model.synced() {
            return;
        }
        self.ready.send_replace(true);
        if !self.leadership.holds() {
            return;
        }
        self.model.note_time(clock.epoch_seconds);
        self.note_outages(clock);
        if !self.resumed {
            self.resume(clock);
            self.resumed = true;
        }
        let broken = self.watches.broken(clock.now);
        self.metrics.watches_broken(broken.is_some());
        if broken.is_some() {
            // Calls that are still queued in the actuator are withdrawn. They are requested again when the watches work and the model is
            // current.
            self.flights.all_mut().for_each(Flight::hold);
            self.departures.hold();
            self.store_plans(clock);
            return;
        }
        self.model.drop_old_marks(clock.epoch_seconds);
        self.forget_the_dead();
        self.flights.note(&std::mem::take(&mut self.model.changes), &self.model.touched);
        self.dirty.append(&mut self.model.touched);
        self.gangs.heed(&self.model, &self.dirty, clock.now);
        let deletions = std::mem::take(&mut self.model.pod_deletions);
        let ended = self.succession.observe(deletions, self.gangs.controllers(), &self.model, clock.epoch_seconds);
        self.model.version += u64::from(ended);
        self.follow_switch();
        self.restrain();
        self.ration(clock);
        self.begin_departures(clock);
        self.advance(clock);
        self.decide(clock);
        self.rescue(clock);
        self.depart(clock);
        self.store_plans(clock);
        let workloads = std::mem::take(&mut self.model.touched_workloads);
        let mut chores = self.housekeeping.pass(&self.model, &self.dirty, workloads, clock);
        chores.append(&mut self.gangs.pass(&self.model, clock));
        self.dirty.append(&mut self.gangs.take_news());
        let unused_for = self.config.unused_group_timeout;
        chores.append(&mut self.housekeeping.delete_unused(&self.model, unused_for, clock.now));
        chores.append(&mut self.housekeeping.stray_nominations(&self.model, &self.flights, clock));
        chores.append(&mut self.backfill.pass(&self.model, clock.now));
        chores.append(&mut self.ask_for_capacity(clock));
        chores.append(&mut self.ungate_all_pods(clock));
        chores.into_iter().for_each(|c| self.actuator.dispatch(c));
        self.write_statuses(clock);
        self.tell_waiters(clock);
        self.metrics.in_flight(self.flights.len());
        if self.survey.due(clock.now) {
            let who = self.survey.look(&self.model, &self.flights, &self.waiting, &self.metrics, clock);
            self.metrics.waits(who);
            self.waiters.forget(&self.model.cluster);
        }
    }

    /// Removes the state of deleted PodGroups whose name a new PodGroup has, because their deletion may not have been observed.
    fn forget_the_dead(&mut self) {
        for key in std::mem::take(&mut self.model.namesakes) {
            self.last_plans.remove(&key);
            self.victims.remove(&key);
            self.waiting.remove(&Preemptor::Group(key));
        }
    }

    /// Resumes the plans that an earlier leader stored.
    fn resume(&mut self, clock: Clock) {
        self.dirty.extend(self.model.groups.keys().cloned());
        self.resume_rates(clock);
        self.resume_plans(clock);
    }

    fn launch(&mut self, mut flight: Flight) {
        if self.rates.most().limits() {
            flight.ration = Some(BTreeSet::new());
        }
        for victim in &flight.plan.victims {
            let group = match victim.kind.as_str() {
                "PodGroup" => Some(ObjectKey::new(&victim.namespace, &victim.name)),
                _ => self.group_key(&ObjectKey::new(&victim.namespace, &victim.name)),
            };
            self.dirty.extend(group);
        }
        if let Preemptor::Group(key) = &flight.preemptor {
            self.succession.succeeded(key, self.gangs.controllers());
            if flight.evicts() {
                self.last_plans.remove(key);
            }
            self.dirty.insert(key.clone());
        }
        self.flights.insert(flight, &mut self.model.cluster);
        self.model.version += 1;
    }

    fn group_key(&self, pod: &ObjectKey) -> Option<ObjectKey> {
        self.model.cluster.pod(pod).and_then(|p| self.model.cluster.group_of(p)).map(|g| g.key.clone())
    }

    /// Returns what a preemptor of this priority has to respect: the pods that plans and departures evict, and all reservations.
    fn context(&self, priority: i32) -> Context {
        let mut departing = plans::departing(&self.flights, priority);
        departing.extend(self.departures.leaving().chain(self.evicted.keys()).cloned());
        Context { departing, ..Context::default() }
    }

    /// Returns the context for a plan with evictions. Plans of equal or lower priority without an eviction do not cancel it, nor
    /// does a short outage of a node.
    fn context_of_begun(&self, context: Context) -> Context {
        Context { recovering: self.recovering.clone(), respect: Respect::BegunOrHigher, ..context }
    }

    /// Ends the reservations of plans that ended some seconds ago: the nominations count again.
    fn expire_reservations(&mut self, now: Instant) {
        let nodes = self.ended_reservations.expire(&self.flights, &mut self.model.cluster, now);
        self.model.version += u64::from(!nodes.is_empty());
        nodes.iter().for_each(|node| self.model.changes.note_node(node));
    }

    /// Updates the set of nodes that have not been ready for a short time only.
    fn note_outages(&mut self, clock: Clock) {
        let grace = i64::try_from(self.config.node_outage_grace.as_secs()).unwrap_or(i64::MAX);
        let recovering = self.model.recovering(clock.epoch_seconds, grace);
        // Plans are checked again when a node's grace period has passed.
        for node in recovering.symmetric_difference(&self.recovering) {
            self.model.changes.note_node(node);
        }
        self.model.version += u64::from(recovering != self.recovering);
        self.recovering = recovering;
    }

    fn advance(&mut self, clock: Clock) {
        self.expire_reservations(clock.now);
        let release_timeout = Duration::from_secs(self.config.release_timeout_seconds);
        let mut spent = Duration::ZERO;
        // If plans no longer fit together, the one that is checked first is cancelled and the others keep their placements: so plans are
        // sorted by ascending priority, the youngest first.
        let mut order: Vec<Preemptor> = self.flights.take_due(clock.now);
        order.sort_by_key(|preemptor| {
            self.flights.get(preemptor).map(|flight| (flight.priority, Reverse(flight.started)))
        });
        // Plans for critical add-ons wait for fewer terminating pods than other plans.
        let kind = |flight: &Flight| (flight.priority, flight.rescue.is_some(), flight.has_begun_to_evict());
        let kinds: BTreeSet<(i32, bool, bool)> =
            order.iter().filter_map(|preemptor| self.flights.get(preemptor)).map(kind).collect();
        let context = |(priority, critical, evicting)| {
            let lingering =
                if critical { self.model.lingering(clock.epoch_seconds) } else { self.model.overdue().clone() };
            let known = self.context(priority);
            match evicting {
                true => Context { lingering, ..self.context_of_begun(known) },
                false => Context { lingering, ..known },
            }
        };
        let mut contexts: BTreeMap<(i32, bool, bool), Context> =
            kinds.into_iter().map(|kind| (kind, context(kind))).collect();
        let version = self.model.version;
        self.evicted.retain(|uid, (pod, at)| {
            let unseen = self.model.cluster.pod(pod).is_some_and(|pod| pod.uid == *uid && pod.live());
            let expected = clock.now.duration_since(*at) < UNSEEN;
            // Plans that rely on the capacity of the pod must be checked, because the pod is not terminating.
            self.model.changes.everything |= unseen && !expected;
            unseen && expected
        });
        for preemptor in order {
            let Some(flight) = self.flights.advancing(&preemptor) else { continue };
            let Some(context) = contexts.get(&kind(flight)) else { continue };
            let (before, went_on, was_put_off) = (flight.plan.state, flight.ending.is_none(), flight.is_put_off());
            if before == PlanState::Planned
                && let Preemptor::Group(key) = &preemptor
            {
                flight.placeholders = self.model.placeholders(key).map(|pod| pod.uid.clone()).collect();
            }
            let limits = Limits { release_timeout, look: self.round.looks(clock.now, spent) };
            let (begun, waits) = (Instant::now(), matches!(before, PlanState::Planned | PlanState::WaitingForVictims));
            let mut advance = flight.advance(&self.model, context, clock, limits);
            if !advance.rest.is_empty() {
                let ids = (&mut self.plans_made, self.leadership.term());
                let begun = (&mut self.departures, &mut self.plan_store);
                flight.handed_over = departures::hand_over(&self.model, &advance.rest, begun, ids, clock);
                if flight.handed_over {
                    let Advance { commands, ended, .. } = flight.advance(&self.model, context, clock, limits);
                    advance.commands.extend(commands);
                    advance.ended = ended;
                }
            }
            if waits {
                spent += begun.elapsed();
            }
            let requested = self.requested_by_others(&preemptor, &advance.commands);
            let Some(flight) = self.flights.advancing(&preemptor) else { continue };
            flight.leave_to_others(&mut advance.commands, &requested, clock.now);
            let now = flight.plan.state;
            let differs = (went_on, was_put_off) != (flight.ending.is_none(), flight.is_put_off());
            let had_effect = now != before || differs || !advance.commands.is_empty() || flight.rescue.is_some();
            if flight.evicts() {
                self.plan_store.note(&Record::from(&*flight));
            }
            if now != before {
                // The plans that are advanced next see both what this one reserves and what it evicts.
                for ((priority, ..), context) in &mut contexts {
                    context.departing.extend(flight.departing_for(*priority).cloned());
                }
            }
            if now != before && advance.ended.is_none() {
                flight.stages.push((now, clock.now));
                self.staged(&preemptor, now);
            }
            self.flights.reserve(&preemptor, &mut self.model.cluster);
            self.flights.advanced(&preemptor, had_effect, clock.now);
            if let Preemptor::Group(key) = &preemptor {
                self.dirty.insert(key.clone());
            }
            self.tell_victims(&preemptor);
            for command in advance.commands {
                if let Command::Nominate { uid, node: None, .. } = &command {
                    self.housekeeping.withdrawn(uid, clock.now);
                }
                self.count_asked(&command, clock);
                self.actuator.dispatch(command);
            }
            if let Some(ending) = advance.ended {
                self.ended(&preemptor, &ending, clock);
            }
        }
        self.round.looked(clock.now, spent);
        // A plan ended in this loop, so what was computed earlier in the loop is not final: another version makes it be computed again.
        if self.model.version != version {
            self.model.version += 1;
        }
    }

    /// Returns the UIDs of the pods that these commands evict although another plan or departure has already requested their eviction.
    fn requested_by_others(&self, preemptor: &Preemptor, commands: &[Command]) -> BTreeSet<SmolStr> {
        let uids = commands.iter().filter_map(|command| match command {
            Command::Evict(call) => Some(&call.uid),
            _ => None,
        });
        let is_requested = |uid: &&SmolStr| {
            let mut others = self.flights.with_pod(uid).filter(|flight| flight.preemptor != *preemptor);
            others.any(|flight| flight.has_asked(uid))
                || self.evicted.contains_key(*uid)
                || self.departures.has_asked(uid)
        };
        uids.filter(is_requested).cloned().collect()
    }

    /// Publishes an event on the preemptor when its plan has reached the next state.
    fn staged(&mut self, preemptor: &Preemptor, state: PlanState) {
        let Some(flight) = self.flights.get(preemptor) else { return };
        if flight.evicts() {
            let trace_id = self.tracer.id(&flight.plan);
            tracing::info!(%preemptor, plan = %flight.plan.id, trace_id, ?state, "plan");
        }
        let within = status::within(flight.plan.domain.as_ref());
        let note = match state {
            PlanState::Evicting => {
                format!("Evicting {} for {}.", words::pods(flight.victims.len()), words::pods(flight.members.len()))
            }
            PlanState::Releasing => match flight.members.len() {
                1 => format!("1 pod has a place{within} and starts."),
                members => format!("{} have a place{within} and start.", words::pods(members)),
            },
            _ => return,
        };
        let action = format!("{} {}", status::state_reason(state), flight.plan.id);
        if let Some(notice) = self.notice(preemptor, false, status::state_reason(state), action, note.into()) {
            self.actuator.dispatch(Command::Publish(notice));
        }
    }

    /// Reports the preemptor to the PodGroups of the victims, by events and in their status, once for each plan.
    fn tell_victims(&mut self, preemptor: &Preemptor) {
        let Some(flight) = self.flights.advancing(preemptor) else { return };
        if flight.told || !flight.evicts() || flight.plan.state == PlanState::Planned {
            return;
        }
        flight.told = true;
        let flight = flight.clone();
        for victim in &flight.plan.victims {
            let key = ObjectKey::new(&victim.namespace, &victim.name);
            let whole = victim.kind == "PodGroup";
            let message = plans::victim_message(&flight, &victim.kind, victim.priority, None);
            if whole {
                self.tell_group(&key, Reason::Preempted, &format!("Preempting {}", flight.plan.id), message.clone());
            }
            let group = if whole { Some(key) } else { self.group_key(&key) };
            // The status of a PodGroup with a departure already shows the cause.
            if let Some(group) = group.filter(|group| !self.departures.holds(group)) {
                self.dirty.insert(group.clone());
                let plan = flight.plan.id.clone();
                let (preemptor, reason) = (Some(plans::taker(&flight)), Reason::PreemptionByScheduler);
                self.victims.insert(group, Victimhood { plan, preemptor, reason, message, whole });
            }
        }
    }

    /// Updates the queue entry of a preemptor whose plan has ended: the back-off, and the pods to exclude from the next plan.
    fn waits_on(&mut self, flight: &Flight, ending: &Ending, told: &str, clock: Clock) {
        let waiting = self.waiting.entry(flight.preemptor.clone()).or_default();
        waiting.wait_reason = None;
        waiting.seen = None;
        waiting.not_bound(&flight.unbound, told, clock.now);
        // The preemption delay is counted from the first plan.
        if flight.superseded || (flight.put_off && flight.begun() == 0) {
            waiting.put_off_since.clone_from(&flight.plan.planned_at);
        }
        match ending.state {
            PlanState::Completed => {
                (waiting.failures, waiting.refusals, waiting.again, waiting.careful) = (0, 0, 0, false);
            }
            _ if flight.superseded => {}
            _ if !flight.refused.is_empty() => {
                waiting.refused(flight.refused.keys(), &flight.forbidden, told, clock.now);
            }
            _ if ending.again => waiting.planned_again(clock.now),
            _ => waiting.back_off(clock.now),
        }
        waiting.failed_without_victims = ending.state == PlanState::Failed && !flight.evicts();
        // The first time a plan is cancelled before any eviction, the next one is made at once.
        if ending.state == PlanState::Cancelled && flight.begun() == 0 && waiting.failures <= 1 {
            waiting.not_before = None;
        }
        if let Some(until) =
            waiting.not_before.filter(|until| *until > clock.now && ending.state != PlanState::Completed)
        {
            waiting.wait_reason = Some(WaitReason {
                reason: status::state_reason(ending.state),
                message: format!(
                    "{told} Room that becomes free is taken at once; the next plan is made at {}.",
                    clock.at(until)
                ),
            });
        }
    }

    fn ended(&mut self, preemptor: &Preemptor, ending: &Ending, clock: Clock) {
        let Some(flight) = self.flights.remove(preemptor) else { return };
        self.round.hurry();
        let unseen = flight.evicted_unseen(&self.model.cluster);
        self.evicted.extend(unseen.map(|(uid, pod)| (uid.clone(), (pod.clone(), clock.now))));
        self.ended_reservations.note(&flight, clock.now);
        let reason = status::state_reason(ending.state);
        let trace_id = self.tracer.id(&flight.plan).filter(|_| flight.evicts());
        tracing::info!(%preemptor, plan = %flight.plan.id, trace_id, %reason, message = %ending.message, "decision ended");
        self.count_ending(&flight, ending.state, clock);
        self.trace(&flight, ending, clock);
        let told = self.config.names().told(&ending.message, &preemptor.key().namespace);
        // The history of a deleted preemptor does not apply to a new one of the same name.
        let is_another = self.model.uid_of(preemptor).is_some_and(|uid| *uid != *flight.plan.preemptor.uid);
        if !is_another {
            self.waits_on(&flight, ending, &told, clock);
        }
        for (uid, why) in &flight.refused {
            let Some(pod) = flight.victims.iter().find(|v| v.uid == *uid).map(|v| v.pod.clone()) else { continue };
            self.tell_refusal(&pod, uid, &flight.plan.preemptor.uid, why, clock.now);
        }
        for victim in &flight.plan.victims {
            let key = ObjectKey::new(&victim.namespace, &victim.name);
            let group = if victim.kind == "PodGroup" { Some(key) } else { self.group_key(&key) };
            // No pod was evicted, so the status of the PodGroup need not report this plan.
            if let Some(group) = group.as_ref().filter(|_| flight.begun() == 0)
                && self.victims.get(group).is_some_and(|victim| victim.plan == flight.plan.id)
            {
                self.victims.remove(group);
            }
            self.dirty.extend(group);
        }
        if flight.evicts() || ending.state == PlanState::Failed {
            let action = format!("{reason} {}", flight.plan.id);
            let warning = ending.state == PlanState::Failed;
            if let Some(notice) = self.notice(preemptor, warning, reason, action, ending.message.clone()) {
                self.actuator.dispatch(Command::Publish(notice));
            }
        }
        if flight.evicts() {
            self.plan_store.close(&Record::from(&flight), clock.time());
        }
        if let Preemptor::Group(key) = preemptor {
            if flight.evicts() && !is_another {
                self.last_plans.insert(key.clone(), status::summary(&flight, self.config.names()));
            }
            self.dirty.insert(key.clone());
        }
        self.model.version += 1;
    }
}

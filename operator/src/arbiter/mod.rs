//! The arbiter: the one task that owns the model, makes all decisions, and keeps the plans in flight (design, section 5).
//!
//! A pass runs after every batch of inputs. It advances the plans in flight, decides for pending preemptors, and writes the statuses that
//! changed. The arbiter makes no call itself: [`Command`](crate::messages::command::Command)s are sent to an actuator, and the results come back as inputs. It reads no clock
//! during a pass: the time is a parameter of each input and each pass.

mod advance;
mod bans;
mod breakers;
mod capacity;
mod decide;
mod departures;
mod dump;
mod ended;
mod measures;
mod notices;
mod pass;
mod plan;
mod rates;
mod reports;
mod rescue;
mod restraint;
mod standby;
mod statuses;
#[cfg(test)]
mod tests;
mod traces;

use crate::capacity_requests::Provisioning;
use crate::clock::{Clock, ServerTime};
use crate::config::Config;
use crate::critical_addons::CriticalAddons;
use crate::departures::Departures;
use crate::departures::history::HistoryKeeper;
use crate::departures::plan_store::PlanStore;
use crate::gangs::Gangs;
use crate::leadership::lease::Leadership;
use crate::leadership::watches::Watches;
use crate::limits::Restraint;
use crate::messages::command::Dispatch;
use crate::messages::input::Input;
use crate::model::Model;
use crate::model::scheduler::SchedulerActivity;
use crate::observability::metrics::{Metrics, catalogue};
use crate::observability::trace::Tracer;
use crate::plans::ActivePlans;
use crate::preemption::Preemption;
use crate::preemption::round::Round;
use crate::preemption::survey::Survey;
use crate::speaker::Speaker;
use crate::status::writing::Statuses;
use giveway_crds::plan::StoredVictim;
use giveway_planner::model::ObjectKey;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// Maximum number of inputs that are applied before the next pass.
const BATCH: usize = 4096;
/// Inputs are collected for this time, so that a burst of events causes one pass.
const GATHER: Duration = Duration::from_millis(5);
/// Interval at which timers (delays, time limits, retries) are checked. It is also the longest time between two passes
/// without input, so that a stuck arbiter is [noticed](crate::leadership::liveness).
const TICK: Duration = Duration::from_millis(250);

/// The arbiter. See the documentation of the module.
pub struct Arbiter {
    model: Model,
    plans: ActivePlans,
    plan_store: PlanStore,
    keeper: HistoryKeeper,
    departures: Departures,
    preemption: Preemption,
    critical_addons: CriticalAddons,
    gangs: Gangs,
    provisioning: Provisioning,
    statuses: Statuses,
    speaker: Speaker,
    survey: Survey,
    restraint: Restraint,
    scheduler: SchedulerActivity,
    /// True if this process has started to lead.
    resumed: bool,
    /// True if the state is written to the log after the next pass.
    dump_requested: bool,
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
    /// Creates an arbiter; [`Arbiter::run`] runs it. It sets `ready` to true while every kind has been listed: in a standby, all but the
    /// stored plans.
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
        model.cluster.protect_critical_addons(config.critical_addons().map(|terms| terms.namespaces));
        if let Some(schedulers) = &config.scheduler_config {
            model.cluster.configure_schedulers(schedulers);
        }
        Self {
            model,
            plans: ActivePlans::default(),
            plan_store: PlanStore::default(),
            keeper: HistoryKeeper::default(),
            departures: Departures::default(),
            preemption: Preemption::default(),
            critical_addons: CriticalAddons::new(config.critical_addons()),
            gangs: Gangs::default(),
            provisioning: Provisioning::default(),
            statuses: Statuses::default(),
            speaker: Speaker::default(),
            survey: Survey::default(),
            restraint: Restraint::new(config.mode, config.evictions_per_minute()),
            scheduler: SchedulerActivity::default(),
            resumed: false,
            dump_requested: false,
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

    /// Replaces the clock that gives the API server's time.
    #[must_use]
    pub fn with_server_time(mut self, server_time: ServerTime) -> Self {
        self.server_time = server_time;
        self
    }

    /// Replaces the tracer that exports a trace of each plan.
    #[must_use]
    pub fn with_tracer(mut self, tracer: Tracer) -> Self {
        self.tracer = tracer;
        self
    }

    /// Removes all time limits on decisions, so that equal inputs give equal results.
    #[must_use]
    pub fn without_time_limit(mut self) -> Self {
        self.preemption.round = Round::without_time_limit();
        self
    }

    /// Applies inputs and runs passes until the channel of inputs is closed.
    pub async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let again = self.preemption.round.again();
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
            self.metrics.scraped.inputs_left(inputs.len(), clock.now);
            self.pass(clock);
            self.leadership.liveness().passed(Instant::now());
            self.metrics.observe(&catalogue::PASS_SECONDS, &[], clock.now.elapsed());
            if std::mem::take(&mut self.dump_requested) {
                crate::dump::write(&self.dump(clock));
            }
        }
    }

    /// Applies one input (a watch event, the answer to a call, or a request for a dump). Nothing is decided before the next
    /// [`Arbiter::pass`].
    pub fn take(&mut self, input: Input, now: Instant) {
        if let Some(kind) = input.kind() {
            self.metrics.scraped.observed(kind, now);
        }
        match input {
            Input::Report(report) => self.report(report, now),
            Input::Dump => self.dump_requested = true,
            other => self.model.apply(other),
        }
    }

    /// Returns the PodGroup that a victim of a stored plan is, or to which the victim pod belongs; `None` for a pod without a PodGroup.
    fn group_of_unit(&self, unit: &StoredVictim) -> Option<ObjectKey> {
        let (key, cluster) = (ObjectKey::new(&unit.namespace, &unit.name), &self.model.cluster);
        match unit.kind.as_str() {
            "PodGroup" => Some(key),
            _ => cluster.pod(&key).and_then(|pod| cluster.group_of(pod)).map(|group| group.key.clone()),
        }
    }
}

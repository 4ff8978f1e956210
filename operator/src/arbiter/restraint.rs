//! What is done while Giveway observes, or is switched off: nobody is evicted, and everybody who would have been helped by that is
//! told.
//!
//! Plans in flight are dropped when the switch is turned; the groups that were begun are finished, as with every plan that is
//! dropped, because a group goes whole or not at all. A plan of which every victim is on its way evicts nobody any more: while
//! Giveway observes it goes on, so that they did not go in vain.

use super::Arbiter;
use crate::command::{Command, Notice};
use crate::departures::plan_store::Record;
use crate::ledger::{Clock, Flight};
use crate::status::{self, LastWord};
use crate::words::Sentence;
use giveway_crds::condition::Reason;
use giveway_crds::mode::Mode;
use giveway_crds::plan::PlanState;
use giveway_planner::model::{ObjectKey, Pod, not_served};
use giveway_planner::rescue::Eviction;
use giveway_planner::{Plan, Preemptor};

/// How old a held pod is, in seconds, before it is released because its namespace is not served: admission may have held it by a
/// label of the namespace that is not known here yet. No watch that is older than this is believed.
const SETTLED: i64 = 10;

impl Arbiter {
    /// Goes by the switch as it is now.
    pub(super) fn follow_switch(&mut self) {
        let before = self.switch.mode();
        if let Some(complaint) = self.switch.follow(&self.model.said) {
            tracing::warn!(config_map = %complaint.key, message = %complaint.message, "no mode");
            self.actuator.dispatch(Command::Publish(Notice {
                kind: "ConfigMap".into(),
                key: complaint.key,
                uid: complaint.uid,
                warning: true,
                reason: Reason::ModeUnknown,
                action: "Switching".to_owned(),
                note: complaint.message.into(),
            }));
        }
        let mode = self.switch.mode();
        self.metrics.mode(mode);
        if mode != before {
            tracing::warn!(%before, now = %mode, "the mode was switched");
            self.observed.clear();
            self.round.hurry();
            self.model.version += 1;
        }
    }

    /// Drops the plans that must not go on in this mode, or in this namespace.
    pub(super) fn restrain(&mut self) {
        let unserved: Vec<Preemptor> =
            self.flights.preemptors().filter(|preemptor| self.is_unserved(preemptor)).cloned().collect();
        for preemptor in unserved {
            if let Some(flight) = self.flights.get_mut(&preemptor).filter(|f| f.plan.state != PlanState::Releasing) {
                flight.drop_plan(PlanState::Cancelled, Self::unserved_word(preemptor.key()).message);
            }
        }
        let Some(restraint) = self.restraint() else { return };
        let words = self.restraint_in_words();
        let stopped = self.flights.values().filter(|flight| flight.ending.is_none() && !may_go_on(flight, restraint));
        let stopped: Vec<Preemptor> = stopped.map(|flight| flight.preemptor.clone()).collect();
        for flight in stopped {
            let Some(flight) = self.flights.get_mut(&flight) else { continue };
            let what = if flight.evicts() { "; what was begun is finished, and nobody else goes." } else { "." };
            flight.drop_plan(PlanState::Cancelled, format!("{words}{what}"));
        }
    }

    /// Whether it is a group in a namespace where none is served. Single pods are served in all.
    pub(super) fn is_unserved(&self, preemptor: &Preemptor) -> bool {
        matches!(preemptor, Preemptor::Group(key) if !self.model.cluster.serves_groups_in(&key.namespace))
    }

    /// The word to such a group.
    pub(super) fn unserved_word(group: &ObjectKey) -> LastWord {
        LastWord { reason: Reason::NotServed, message: not_served(&group.namespace) }
    }

    /// The reason for which nobody is evicted now; `None` where somebody may be.
    pub(super) fn restraint(&self) -> Option<Reason> {
        match self.switch.mode() {
            Mode::Enforce => self.rates.most().zero().map(|_| Reason::EvictionsLimited),
            Mode::Observe => Some(Reason::Observing),
            Mode::Off => Some(Reason::SwitchedOff),
        }
    }

    /// Why nobody is evicted now, as the beginning of a sentence.
    pub(super) fn restraint_in_words(&self) -> String {
        match (self.switch.mode(), self.rates.most().zero()) {
            (Mode::Enforce, Some(limit)) => format!("Evictions are switched off by {limit}, which is 0"),
            (mode, _) => mode.restraint().to_owned(),
        }
    }

    /// Releases everybody where Giveway is switched off, and those whose groups are not served.
    pub(super) fn let_go(&mut self, clock: Clock) -> Vec<Command> {
        match self.switch.mode() {
            Mode::Off => self.letting_go.pass(&self.model, |_| true, clock.now),
            Mode::Enforce | Mode::Observe if self.model.cluster.serves_all_namespaces() => Vec::new(),
            Mode::Enforce | Mode::Observe => {
                let before = clock.epoch_seconds - SETTLED;
                let unserved =
                    |pod: &Pod| !self.model.cluster.serves_groups_in(&pod.key.namespace) && pod.existed_at(before);
                self.letting_go.pass(&self.model, unserved, clock.now)
            }
        }
    }

    /// The word to who waits while Giveway is switched off.
    pub(super) fn off_word() -> LastWord {
        LastWord { reason: Reason::SwitchedOff, message: format!("{}.", Mode::Off.restraint()) }
    }

    /// Tells and stores what would have been done.
    pub(super) fn observe(&mut self, preemptor: &Preemptor, plan: &Plan, clock: Clock) {
        let flight = self.new_flight(preemptor, plan, clock);
        let message = format!("{}: {}", Mode::Observe.restraint(), status::would_evict(&flight));
        self.word(preemptor, Some(LastWord { reason: Reason::Observing, message }), clock.now);
        self.store_observed(preemptor, plan, flight, clock);
    }

    /// The same of a plan for a critical add-on. Returns the sentence for it.
    pub(super) fn observe_rescue(
        &mut self,
        preemptor: &Preemptor,
        eviction: &Eviction,
        clock: Clock,
    ) -> Option<String> {
        let flight = self.rescue_flight(preemptor, eviction, clock)?;
        let node = flight.members.first().map(|member| member.node.clone()).unwrap_or_default();
        let message =
            format!("{}: {} Node {node} would be freed.", self.restraint_in_words(), status::would_evict(&flight));
        if self.switch.mode() == Mode::Observe {
            self.store_observed(preemptor, &eviction.plan, flight, clock);
        }
        Some(message)
    }

    fn store_observed(&mut self, preemptor: &Preemptor, plan: &Plan, mut flight: Flight, clock: Clock) {
        let Some(uid) = self.model.uid_of(preemptor).cloned() else { return };
        if !self.observed.is_news(preemptor, &uid, plan, clock.now) {
            return;
        }
        let words = status::plan_message(&flight);
        flight.message = Sentence::from(format!("{}. What would be done: ", Mode::Observe.restraint())).then(words);
        flight.plan.reason = flight.message.to_string();
        flight.plan.message = flight.plan.reason.clone();
        flight.plan.state = PlanState::Observed;
        tracing::info!(%preemptor, plan = %flight.plan.id, message = %flight.plan.message, "observed");
        self.plan_store.record(&Record::from(&flight), clock.time());
        if let Preemptor::Group(key) = preemptor {
            self.last_plans.insert(key.clone(), status::summary(&flight, self.config.names()));
            self.dirty.insert(key.clone());
        }
    }
}

/// Whether a plan may go on under this restraint: nobody is evicted for it any more, and while Giveway is switched off nobody waits for
/// it either.
fn may_go_on(flight: &Flight, restraint: Reason) -> bool {
    match restraint {
        Reason::SwitchedOff => flight.plan.state == PlanState::Releasing,
        _ => flight.victims.iter().all(|victim| victim.accepted),
    }
}

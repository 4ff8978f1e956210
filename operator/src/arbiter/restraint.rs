//! Restrictions while Giveway observes or is switched off: no pod is evicted, and preemptors that would need evictions get a wait reason.
//!
//! When the mode changes, plans in flight are cancelled. PodGroups of which some pods were evicted are still evicted completely, as after
//! every cancelled plan, because the pods of a PodGroup are disrupted together. While Giveway observes, a plan whose evictions were all
//! accepted continues, so that its preemptor can use the capacity.

use super::{Arbiter, breakers};
use crate::clock::Clock;
use crate::departures::plan_store::{Record, StoreOutcome};
use crate::messages::command::Command;
use crate::plans::{self, Flight};
use crate::preemption::observed::{MOST, Storing, Unwritten};
use crate::speaker::notice::EventNotice;
use crate::status::{self, WaitReason};
use giveway_crds::condition::Reason;
use giveway_crds::mode::Mode;
use giveway_crds::plan::PlanState;
use giveway_crds::wording::conditions::{pending, plan, plan_end};
use giveway_planner::model::{ObjectKey, Pod};
use giveway_planner::rescue::Eviction;
use giveway_planner::{Plan, Preemptor};
use std::time::Instant;

/// Minimum age in seconds of a gated pod before it is ungated because its namespace is not served. Admission may have gated it for a label
/// of the namespace that the watch does not show yet. A watch that lags more than this counts as broken.
const SETTLED: i64 = 10;

impl Arbiter {
    /// Reads the mode (enforce, observe or off) from the watched ConfigMap and applies it, if it has changed. A ConfigMap without a valid
    /// mode is reported in an event on it.
    pub(super) fn follow_switch(&mut self) {
        let before = self.restraint.switch.mode();
        if let Some(complaint) = self.restraint.switch.follow(&self.model.said) {
            tracing::warn!(config_map = %complaint.key, message = %complaint.message, "no mode");
            let (about, reason) = ((complaint.key, complaint.uid), Reason::ModeUnknown);
            self.publish(EventNotice::on("ConfigMap", about, true, reason, "Switching", complaint.message));
        }
        let mode = self.restraint.switch.mode();
        self.metrics.mode(mode);
        if mode != before {
            tracing::warn!(%before, now = %mode, "the mode was switched");
            self.preemption.observed.clear();
            self.preemption.round.skip_pause();
            self.plans.flights.wake_all();
            self.model.version += 1;
        }
    }

    /// Cancels the plans that must not continue in this mode or in their namespace, or must not begin because of the circuit breaker of the
    /// cluster or of their namespace. It examines only the plans that are advanced in this pass: a change of the mode, of a namespace or of
    /// such a breaker causes that for all plans.
    pub(super) fn restrain(&mut self) {
        let awake: Vec<Preemptor> = self.plans.flights.awake().cloned().collect();
        let restraint = self.restraint.reason().map(|reason| (reason, self.restraint.in_words()));
        for preemptor in awake {
            let is_unserved = self.is_unserved(&preemptor);
            let Some(flight) = self.plans.flights.get_mut(&preemptor) else { continue };
            if is_unserved && flight.plan.state != PlanState::Ungating {
                flight.drop_plan(PlanState::Cancelled, Self::unserved_reason(preemptor.key()).message);
            }
            if let Some((reason, words)) = &restraint
                && flight.ending.is_none()
                && !may_continue(flight, *reason)
            {
                flight.drop_plan(PlanState::Cancelled, plan_end::restrained(words, flight.evicts()));
            }
            if let Some((scope, breaker)) = self.restraint.breakers.breaker_for_all(&preemptor.key().namespace)
                && flight.rescue.is_none()
                && flight.evicts()
                && flight.plan.state == PlanState::Planned
            {
                let reason = breakers::breaker_facts(scope, breaker);
                flight.drop_plan(PlanState::Cancelled, pending::plan_stopped_by_breaker(reason));
            }
        }
    }

    /// Returns true for a PodGroup in a namespace in which Giveway does not serve PodGroups. Single pods are served in all namespaces.
    pub(super) fn is_unserved(&self, preemptor: &Preemptor) -> bool {
        matches!(preemptor, Preemptor::Group(key) if !self.model.cluster.serves_groups_in(&key.namespace))
    }

    /// Returns the wait reason of a PodGroup in a namespace that Giveway does not serve.
    pub(super) fn unserved_reason(group: &ObjectKey) -> WaitReason {
        WaitReason::new(Reason::NotServed, pending::not_served(&group.namespace))
    }

    /// Returns the commands that remove the scheduling gate of all pods while Giveway is switched off, and otherwise of pods in namespaces
    /// where PodGroups are not served.
    pub(super) fn ungate_all_pods(&mut self, clock: Clock) -> Vec<Command> {
        match self.restraint.switch.mode() {
            Mode::Off => self.gangs.ungate_all.pass(&self.model, |_| true, clock.now),
            Mode::Enforce | Mode::Observe if self.model.cluster.serves_all_namespaces() => Vec::new(),
            Mode::Enforce | Mode::Observe => {
                let before = clock.epoch_seconds - SETTLED;
                let unserved =
                    |pod: &Pod| !self.model.cluster.serves_groups_in(&pod.key.namespace) && pod.existed_at(before);
                self.gangs.ungate_all.pass(&self.model, unserved, clock.now)
            }
        }
    }

    /// Returns the wait reason of every preemptor while the mode is `off`.
    pub(super) fn off_reason() -> WaitReason {
        WaitReason::new(Reason::SwitchedOff, pending::switched_off())
    }

    /// Reports, as the wait reason of the preemptor, the plan that would be carried out in mode `enforce`, and stores it as a `Preemption`
    /// in state `Observed`.
    pub(super) fn observe(&mut self, preemptor: &Preemptor, plan: &Plan, clock: Clock) {
        let flight = self.new_flight(preemptor, plan, clock);
        let mut message = plan::would_evict(Mode::Observe.restraint(), plans::effect(&flight));
        if self.store_observed(preemptor, plan, flight, clock) == Storing::Later {
            message.push_str(&observed_plan_not_stored());
        }
        self.set_pending_reason(preemptor, Reason::Observing, message, clock.now);
    }

    /// Stores the plan for a critical add-on, which is not carried out in this mode, as a `Preemption` in state `Observed` if the mode is
    /// `observe`. Returns the message that says so, for the event of the add-on; `None` if there is no such plan.
    pub(super) fn observe_rescue(
        &mut self,
        preemptor: &Preemptor,
        eviction: &Eviction,
        clock: Clock,
    ) -> Option<String> {
        let flight = self.rescue_flight(preemptor, eviction, clock)?;
        let node = flight.members.first().map(|member| member.node.clone()).unwrap_or_default();
        let mut message = plan::would_free_node(&self.restraint.in_words(), plans::effect(&flight), &node);
        if self.restraint.switch.mode() == Mode::Observe
            && self.store_observed(preemptor, &eviction.plan, flight, clock) == Storing::Later
        {
            message.push_str(&observed_plan_not_stored());
        }
        Some(message)
    }

    /// Stores a plan that is not carried out as a `Preemption` in state `Observed`, unless the same plan is stored or too many were stored
    /// in the last minute. Returns which of these is the case.
    fn store_observed(&mut self, preemptor: &Preemptor, plan: &Plan, mut flight: Flight, clock: Clock) -> Storing {
        let Some(uid) = self.model.uid_of(preemptor).cloned() else { return Storing::Known };
        let storing = self.preemption.observed.storing(preemptor, &uid, plan, clock.now);
        if storing != Storing::Now {
            return storing;
        }
        flight.plan.state = PlanState::Observed;
        flight.message = plan::observed(Mode::Observe.restraint(), plans::effect(&flight));
        flight.plan.reason = flight.message.to_string();
        flight.plan.message = flight.plan.reason.clone();
        tracing::info!(%preemptor, plan = %flight.plan.id, message = %flight.plan.message, "observed");
        self.plan_store.record(&Record::from(&flight), clock.time());
        let summary = status::summary(&flight, self.config.names());
        self.preemption.observed.requested(&flight.plan.id, Unwritten { preemptor: preemptor.clone(), uid, summary });
        Storing::Now
    }

    /// Marks the preemptors whose observed plans may be stored now, after the limit per minute prevented it, so that they are decided
    /// again.
    pub(super) fn store_observed_later(&mut self, now: Instant) {
        for preemptor in self.preemption.observed.next_turns(now) {
            if let Some(waiting) = self.preemption.waiting.get_mut(&preemptor) {
                waiting.seen = None;
                self.preemption.round.skip_pause();
            }
        }
    }

    /// Handles the answer to storing an observed plan, which is not carried out: when its `Preemption` exists, the status of the PodGroup
    /// names it.
    pub(super) fn observed_written(&mut self, plan: &str, answer: &StoreOutcome) {
        let is_stored = matches!(answer, StoreOutcome::Stored(_));
        if !is_stored && self.plan_store.contains(plan) {
            return;
        }
        let Some(Unwritten { preemptor, uid, summary }) = self.preemption.observed.written(plan, is_stored) else {
            return;
        };
        if let Preemptor::Group(key) = &preemptor
            && self.model.uid_of(&preemptor) == Some(&uid)
        {
            self.statuses.last_plans.insert(key.clone(), summary);
            self.statuses.dirty.insert(key.clone());
        }
    }
}

/// Returns the sentence that is added to the message of a preemptor while Giveway observes and its plan is not stored yet, because of
/// the limit per minute.
fn observed_plan_not_stored() -> String {
    format!(" {}", plan::observed_plan_not_stored(MOST))
}

/// Returns true if a plan may continue in the mode that this reason stands for: while Giveway observes, if all its evictions were accepted;
/// while it is switched off, if its pods are already being ungated.
fn may_continue(flight: &Flight, restraint: Reason) -> bool {
    match restraint {
        Reason::SwitchedOff => flight.plan.state == PlanState::Ungating,
        _ => flight.victims.iter().all(|victim| victim.accepted),
    }
}

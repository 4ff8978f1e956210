//! The limits on evictions per minute in the arbiter: what counts, which plan is permitted next, and what an earlier leader used.
//!
//! - Every eviction by Giveway counts. Plans, and departures of partially scheduled gangs, wait until a limit permits them. The departure
//!   of a PodGroup of which kube-scheduler preempted a pod does not wait, because the PodGroup is already partially disrupted.
//! - Plans are permitted by priority, then by age. A plan that waits reserves what it needs, and plans after it do not use that.
//! - A new leader counts the evictions of stored plans as late as they may have been. Only Giveway writes the objects of plans.

use super::Arbiter;
use crate::clock::Clock;
use crate::limits::rates::{ExceededLimit, MINUTE, NamespaceCounts, RateTally};
use crate::messages::command::{Command, EvictCall, EvictOutcome};
use crate::observability::metrics::catalogue;
use crate::plans::{self, Flight};
use giveway_crds::condition::Reason;
use giveway_crds::wording::conditions::plan;
use giveway_planner::model::ObjectKey;
use giveway_planner::{Plan, Preemptor, SmolStr};
use std::cmp::Reverse;
use std::time::{Duration, Instant};

/// Seconds by which the stored end of a plan may be too early or too late: times are whole seconds, and the clocks of two leaders differ.
const MARGIN: i64 = 8;

impl Arbiter {
    /// Counts the evictions that an earlier leader made in the last minute, for the limits on evictions per minute.
    pub(super) fn resume_rates(&mut self, clock: Clock) {
        if !self.restraint.rates.most().limits() {
            return;
        }
        let since = clock.epoch_seconds - MARGIN - i64::try_from(MINUTE.as_secs()).unwrap_or(0);
        let here = |pod: &ObjectKey, uid: &str| {
            self.model.cluster.pod(pod).is_some_and(|pod| pod.uid == uid && pod.live() && !pod.terminating)
        };
        for past in self.model.plans.earlier_evictions(since, here) {
            let age = past.at.map_or(0, |at| (clock.epoch_seconds - at - MARGIN).max(0));
            let age = Duration::from_secs(u64::try_from(age).unwrap_or(0));
            self.restraint.rates.remember(&past.plan, &past.need, clock.now.checked_sub(age).unwrap_or(clock.now));
        }
    }

    /// Sets for every plan whose evictions may begin or are in flight which of its victims the limits on evictions per minute allow to
    /// evict in this pass. Plans are served by priority, then by age.
    pub(super) fn ration(&mut self, clock: Clock) {
        if !self.restraint.rates.most().limits() {
            return;
        }
        let mut tally = self.tally(clock);
        // When the last eviction of a plan has been accepted, it is awake once more, which ends its limits.
        let place = |flight: &Flight| (Reverse(flight.priority), flight.started, flight.preemptor.clone());
        let mut order: Vec<(Reverse<i32>, Instant, Preemptor)> = self.plans.flights.starting().map(place).collect();
        order.sort();
        let mut limited = 0_usize;
        for (_, _, preemptor) in order {
            let Some(flight) = self.plans.flights.get_mut_without_waking(&preemptor) else { continue };
            let before = (flight.is_postponed(), flight.ration.clone(), flight.reached_limit.clone());
            flight.ration(&self.model, clock, &mut tally);
            let after = (flight.is_postponed(), &flight.ration, &flight.reached_limit);
            if (before.0, &before.1, &before.2) != after {
                // The plan reserves capacity now, or no longer does.
                self.model.version += u64::from(before.0 != after.0);
                self.plans.flights.wake_one(&preemptor);
                self.plans.flights.reserve(&preemptor, &mut self.model.cluster);
            }
            let Some(flight) = self.plans.flights.get(&preemptor) else { continue };
            let Some(held) = &flight.reached_limit else { continue };
            limited += 1;
            let (uid, note) = (&flight.plan.preemptor.uid, held.sentence());
            let action = format!("LimitingEvictions {}", flight.plan.id);
            if !self.speaker.is_due(uid, Reason::EvictionsLimited.as_str(), clock.now) {
                continue;
            }
            self.metrics.outcome(Reason::EvictionsLimited);
            self.tell(&preemptor, false, Reason::EvictionsLimited, action, note);
        }
        self.metrics.set(&catalogue::LIMITED_PLANS, &[], limited);
    }

    /// Returns the evictions that count for the limits per minute: those of the last minute, and those that plans may request or have
    /// requested.
    fn tally(&mut self, clock: Clock) -> RateTally {
        let mut tally = self.restraint.rates.tally(clock.now);
        let mut going = NamespaceCounts::new();
        for (namespace, uid) in self.plans.flights.starting().flat_map(Flight::evictions_under_way) {
            if !self.restraint.rates.counts(uid) {
                *going.entry(namespace.clone()).or_default() += 1;
            }
        }
        tally.add(&going, clock.now);
        tally
    }

    /// Returns the limit on evictions per minute that does not permit now to evict this number of pods of a PodGroup; `None` if all limits
    /// do.
    pub(super) fn limit_reached_for(&mut self, group: &ObjectKey, pods: usize, clock: Clock) -> Option<ExceededLimit> {
        if !self.restraint.rates.most().limits() {
            return None;
        }
        self.tally(clock).exceeded(&NamespaceCounts::from([(group.namespace.clone(), pods)]), clock.now)
    }

    /// Counts the eviction in this command, if it is one, for the limits per minute when it is requested, because its answer may never
    /// arrive.
    pub(super) fn count_asked(&mut self, command: &Command, clock: Clock) {
        if let Command::Evict(call) = command
            && let EvictCall { rehearsal: false, pod, uid, .. } = call.as_ref()
        {
            self.restraint.rates.note(&pod.namespace, uid, clock.now);
        }
    }

    /// Corrects the count of evictions for the limits per minute when an eviction is answered: one that was refused does not count.
    pub(super) fn count_answered(&mut self, pod: &ObjectKey, uid: &SmolStr, outcome: &EvictOutcome, now: Instant) {
        match outcome {
            EvictOutcome::Accepted | EvictOutcome::Forced | EvictOutcome::Gone | EvictOutcome::Unanswered(_) => {
                self.restraint.rates.note(&pod.namespace, uid, now);
            }
            // An earlier request, which got no answer, may have been carried out.
            EvictOutcome::Withdrawn if self.departures.requests.may_have_worked(uid) => {}
            EvictOutcome::Refused(_) | EvictOutcome::Rejected(_) | EvictOutcome::Withdrawn => {
                self.restraint.rates.forget(uid)
            }
            EvictOutcome::Allowed | EvictOutcome::Error(_) => {}
        }
    }

    /// Stores that a preemptor waits (reason `EvictionsLimited`) because a limit on evictions per minute is 0, with the victims that `plan`
    /// would evict. The caller has checked the limit, and that `plan` has victims.
    pub(super) fn wait_for_zero_limit(&mut self, preemptor: &Preemptor, plan: &Plan, clock: Clock) {
        let flight = self.new_flight(preemptor, plan, clock);
        let message = plan::would_evict(&self.restraint.in_words(), plans::effect(&flight));
        self.set_pending_reason(preemptor, Reason::EvictionsLimited, message, clock.now);
    }
}

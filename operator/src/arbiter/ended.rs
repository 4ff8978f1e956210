//! What remains of a plan that has ended: the back-off of its preemptor, events, the status of its victims, and its stored object.

use super::Arbiter;
use crate::clock::Clock;
use crate::departures::plan_store::Record;
use crate::plans::{Ending, Flight};
use crate::status;
use crate::status::WaitReason;
use giveway_crds::plan::PlanState;
use giveway_crds::wording::conditions::plan_end;
use giveway_planner::Preemptor;

impl Arbiter {
    /// Updates the queue entry of a preemptor whose plan has ended: when the next plan may be made, which pods it must not evict, and the
    /// wait reason, which contains `message`.
    fn update_queue_entry(&mut self, flight: &Flight, ending: &Ending, message: &str, clock: Clock) {
        let waiting = self.preemption.waiting.entry(flight.preemptor.clone()).or_default();
        waiting.wait_reason = None;
        waiting.seen = None;
        // The preemption delay is counted from the first plan, until a plan evicts a pod or the preemptor is bound without one.
        waiting.superseded = flight.superseded;
        let is_bound = flight.bound(&self.model.cluster) == flight.members.len();
        if flight.may_have_evicted() || is_bound {
            waiting.postponed_since = None;
        } else if flight.superseded || flight.postponed || flight.is_delayed(&self.model.cluster) {
            waiting.postponed_since.clone_from(&flight.plan.planned_at);
        }
        match ending.state {
            PlanState::Completed => {
                (waiting.failures, waiting.refusals, waiting.again, waiting.rejections) = (0, 0, 0, 0);
            }
            _ if flight.superseded => {}
            _ if flight.rejected.is_some() => {
                flight.rejected.iter().for_each(|call| waiting.record_rejection(call.clone(), clock.now));
            }
            _ if !flight.refused.is_empty() => {
                let refused = flight.refused.keys().filter(|uid| !flight.forbidden.contains(*uid));
                // The sentence may be about a rejected victim, which is banned.
                waiting.refused(refused, flight.forbidden.is_empty().then_some(message), clock.now);
            }
            _ if ending.again => waiting.planned_again(clock.now),
            _ => waiting.back_off(clock.now),
        }
        waiting.failed_without_victims = ending.state == PlanState::Failed && !flight.evicts();
        // The first time a plan is cancelled before any eviction, the next one is made at once.
        if ending.state == PlanState::Cancelled && flight.requested_evictions() == 0 && waiting.failures <= 1 {
            waiting.not_before = None;
        }
        if let Some(until) =
            waiting.not_before.filter(|until| *until > clock.now && ending.state != PlanState::Completed)
        {
            let at = clock.at(until);
            let message = format!("{message} {}", plan_end::next_plan_at(at));
            waiting.wait_reason = Some(WaitReason::new(status::state_reason(ending.state), message));
        }
    }

    /// Removes the plan of this preemptor, which has ended, from the plans in flight, and records the result: bans, circuit breakers,
    /// metrics, events, statuses and the stored object.
    pub(super) fn ended(&mut self, preemptor: &Preemptor, ending: &Ending, clock: Clock) {
        let Some(flight) = self.plans.flights.remove(preemptor) else { return };
        self.preemption.ended(preemptor);
        self.preemption.round.skip_pause();
        self.plans.ended_reservations.note(&flight, clock.now);
        let reason = status::state_reason(ending.state);
        let trace_id = self.tracer.id(&flight.plan).filter(|_| flight.evicts());
        tracing::info!(%preemptor, plan = %flight.plan.id, trace_id, %reason, message = %ending.message, "decision ended");
        self.count_ending(&flight, ending.state, clock);
        self.trace(&flight, ending, clock);
        let message = self.config.names().render(&ending.message, &preemptor.key().namespace);
        // The history of a deleted preemptor does not apply to a new one of the same name.
        let is_another = self.model.uid_of(preemptor).is_some_and(|uid| *uid != *flight.plan.preemptor.uid);
        if !is_another {
            self.update_queue_entry(&flight, ending, &message, clock);
        }
        let bans = self.note_bans(&flight, ending.state, &message, clock);
        if flight.rescue.is_some() && !bans.is_empty() {
            self.preemption.waiting.entry(preemptor.clone()).or_default().back_off_after_disruption(clock.now);
        }
        for (uid, why) in &flight.refused {
            let Some(pod) = flight.victims.iter().find(|v| v.uid == *uid).map(|v| v.pod.clone()) else { continue };
            self.tell_refusal(&pod, uid, &flight.plan.preemptor.uid, why, clock.now);
        }
        for victim in &flight.plan.victims {
            let group = self.group_of_unit(victim);
            // No pod was evicted, so the status of the PodGroup need not report this plan.
            if let Some(group) = group.as_ref().filter(|_| flight.requested_evictions() == 0)
                && self.statuses.victims.get(group).is_some_and(|victim| victim.plan == flight.plan.id)
            {
                self.statuses.victims.remove(group);
            }
            self.statuses.dirty.extend(group);
        }
        if flight.evicts() || ending.state == PlanState::Failed {
            let action = format!("{reason} {}", flight.plan.id);
            let warning = ending.state == PlanState::Failed;
            self.tell(preemptor, warning, reason, action, ending.message.clone());
        }
        if flight.evicts() {
            let mut record = Record::from(&flight);
            record.status.bans = bans;
            // Victims that left by themselves count while the plan is in flight.
            if !flight.may_have_evicted() {
                record.status.evicted = 0;
            }
            self.plan_store.close(&record, clock.time());
            self.note_outcome(&record, clock);
            if !is_another
                && ending.state != PlanState::Completed
                && let Some(wait_reason) = self.stopped_by_breaker(preemptor, clock)
            {
                self.set_wait_reason(preemptor, Some(wait_reason), clock.now);
            }
        }
        if let Preemptor::Group(key) = preemptor
            && flight.evicts()
            && !is_another
        {
            self.statuses.last_plans.insert(key.clone(), status::summary(&flight, self.config.names()));
        }
        self.statuses.touch(preemptor);
        self.model.version += 1;
    }
}

//! Handles the results of API calls.

use super::Arbiter;
use super::departures::departure_in_words;
use crate::messages::command::{EvictOutcome, EvictionCause};
use crate::messages::report::{CallError, Report};
use crate::observability::metrics::catalogue;
use crate::plans;
use crate::speaker::notice::EventNotice;
use crate::views::correction::Correction;
use giveway_crds::condition::Reason;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use std::time::Instant;

impl Arbiter {
    /// Passes the answer to a call to the part of the operator that requested it.
    pub(super) fn report(&mut self, report: Report, now: Instant) {
        match report {
            Report::Member { preemptor, plan, uid, call, rehearsal, result } => {
                if let Err(error) = &result {
                    tracing::warn!(%preemptor, %error, ?call, rehearsal, "member not nominated or ungated");
                }
                if let Some(flight) = self.plans.flights.get_mut(&preemptor).filter(|f| f.plan.id == plan) {
                    flight.member_answered(&uid, (call, rehearsal), &result, now);
                } else if let Some(waiting) = self.preemption.waiting.get_mut(&preemptor).filter(|_| plan.is_empty()) {
                    waiting.dry_run_answered(&uid, &result, now);
                }
            }
            Report::Evicted { cause, pod, uid, rehearsal, outcome } => {
                if !rehearsal {
                    self.departures.requests.answered(&uid, &outcome, now);
                    self.count_answered(&pod, &uid, &outcome, now);
                }
                self.evicted(&cause, pod, uid, &outcome, now);
            }
            Report::BackFilled { pod, uid, result } => self.back_filled(pod, uid, result, now),
            Report::GroupStatus { group, status, result } => self.status_written(&group, *status, result, now),
            Report::Taint { node, uid, add, plan, result } => {
                self.taint_written(&node, &uid, add, plan.as_deref(), &result, now);
            }
            Report::SchedulerLease(result) => self.scheduler_lease_read(result, now),
            Report::Plan { plan, status, result } => self.plan_written(&plan, *status, result, now),
            Report::Owner { owner, result } => self.gangs.labelled.owner_read(&owner, result, now),
            Report::Failure { group, result } => {
                let notice = self.gangs.absent.answered(&group, result, &self.model, &mut self.speaker, now);
                notice.into_iter().for_each(|notice| self.publish(notice));
            }
            Report::Answered { call, result } => {
                if let Err(error) = &result {
                    tracing::warn!(%call, %error, "the call failed");
                }
                self.gangs.answered(&call, &result, &mut self.speaker, now);
                self.provisioning.answered(&call, &result, now);
                self.keeper.answered(&call, result.is_ok(), now);
            }
        }
    }

    /// Handles the answer to an eviction, or to its dry run: updates its plan or departure, and publishes an event on the pod if the
    /// eviction was accepted or refused.
    fn evicted(&mut self, cause: &EvictionCause, pod: ObjectKey, uid: SmolStr, outcome: &EvictOutcome, now: Instant) {
        let (sentence, matter) = match cause {
            EvictionCause::Plan { preemptor, id } => {
                let Some(flight) = self.plans.flights.get_mut(preemptor).filter(|f| f.plan.id == *id) else { return };
                flight.evicted(&uid, outcome, now);
                let victim = flight.victims.iter().find(|victim| victim.uid == uid);
                let sentence = victim.and_then(|victim| {
                    let unit = flight.plan.victims.get(victim.unit)?;
                    Some(plans::victim_message(flight, &unit.kind, unit.priority, victim.shortened))
                });
                (sentence, flight.plan.preemptor.uid.clone())
            }
            EvictionCause::Departure { group, .. } => {
                (self.departures.evicted(group, &pod, &uid, outcome, now), departure_in_words(group))
            }
        };
        match (outcome, sentence) {
            (EvictOutcome::Accepted | EvictOutcome::Forced, Some(note)) => {
                self.count_eviction(cause, &pod, &uid, outcome);
                let action = format!("Preempting by {cause}");
                self.publish(EventNotice::on("Pod", (pod, uid), true, Reason::Preempted, action, note));
            }
            (EvictOutcome::Refused(why) | EvictOutcome::Rejected(why), _) => {
                tracing::warn!(%pod, %cause, %why, "eviction refused");
                self.metrics.outcome(Reason::EvictionRefused);
                if matches!(outcome, EvictOutcome::Refused(_)) {
                    self.metrics.count(&catalogue::GUARANTEED, &["eviction_api"]);
                }
                self.tell_refusal(&pod, &uid, &matter, why, now);
            }
            _ => {}
        }
    }

    /// Handles the answer to a call that corrected a pod's annotations: publishes an event if it changed some.
    fn back_filled(&mut self, pod: ObjectKey, uid: SmolStr, result: Result<Correction, CallError>, now: Instant) {
        self.gangs.backfill.answered(&uid, result.is_ok(), now);
        match result {
            Ok(made) if made.changes.is_empty() => {}
            Ok(made) => {
                let note = made.sentence();
                tracing::info!(%pod, note, "the annotations of a pod were corrected");
                self.metrics.outcome(Reason::BackFilled);
                self.publish(EventNotice::on("Pod", (pod, uid), false, Reason::BackFilled, "BackFilling", note));
            }
            Err(error) => tracing::warn!(%pod, %error, "the annotations of a pod were not corrected"),
        }
    }
}

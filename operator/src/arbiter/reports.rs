//! Taking in what came of API calls.

use super::Arbiter;
use crate::actuate::{CallError, Report};
use crate::command::{Command, EvictOutcome, Notice};
use crate::status;
use giveway_crds::condition::Reason;
use giveway_planner::plan::Preemptor;
use std::time::Instant;

impl Arbiter {
    pub(super) fn report(&mut self, report: Report) {
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
}

//! Exports the ended plans as [traces](crate::observability::trace).

use super::Arbiter;
use crate::clock::Clock;
use crate::observability::trace::{Stage, Trace, id_of};
use crate::plans::{Ending, Flight};
use giveway_crds::plan::PlanState;
use opentelemetry::KeyValue;
use std::time::Duration;

/// Returns the name of the stage of a plan in this state, for its trace.
fn stage_name(state: PlanState) -> &'static str {
    match state {
        PlanState::Planned => "planned",
        PlanState::Evicting => "evicting",
        PlanState::WaitingForVictims => "waiting for victims",
        PlanState::Ungating => "ungating",
        PlanState::Completed | PlanState::Cancelled | PlanState::Failed | PlanState::Observed => "ended",
    }
}

impl Arbiter {
    /// Exports a trace of a plan that has ended, if traces are switched on and the plan has victims.
    pub(super) fn trace(&self, flight: &Flight, ending: &Ending, clock: Clock) {
        if !self.tracer.is_on() || !flight.evicts() {
            return;
        }
        let plan = &flight.plan;
        let ago = |second: i64| Duration::from_secs(u64::try_from(clock.epoch_seconds - second).unwrap_or(0));
        // Only the leader that made the plan knows its start on the monotonic clock. The stored time is that of the first plan.
        let started = clock.now.duration_since(flight.started);
        let stored = plan.planned_at.as_ref().map(|time| ago(time.0.as_second()));
        let planned = stored.filter(|stored| *stored > started + Duration::from_secs(1)).unwrap_or(started);
        let members = flight.members.iter().filter_map(|member| self.model.cluster.pod(&member.pod)?.created);
        let admitted = members.min().map_or(planned, |created| ago(created / 1_000_000_000)).max(planned);
        let mut stages = vec![Stage { name: "waiting for a plan", took: admitted - planned }];
        let (mut state, mut since) = (PlanState::Planned, planned);
        for (next, at) in &flight.stages {
            let then = clock.now.duration_since(*at).min(since);
            stages.push(Stage { name: stage_name(state), took: since - then });
            (state, since) = (*next, then);
        }
        stages.push(Stage { name: stage_name(state), took: since });
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let attributes = vec![
            KeyValue::new("giveway.plan", plan.id.clone()),
            KeyValue::new("giveway.preemptor.kind", plan.preemptor.kind.clone()),
            KeyValue::new("k8s.namespace.name", plan.preemptor.namespace.clone()),
            KeyValue::new("giveway.preemptor.name", plan.preemptor.name.clone()),
            KeyValue::new("giveway.preemptor.uid", plan.preemptor.uid.clone()),
            KeyValue::new("giveway.preemptor.priority", i64::from(plan.preemptor.priority)),
            KeyValue::new("giveway.placed_pods", count(flight.members.len())),
            KeyValue::new("giveway.victim_pods", count(flight.victims.len())),
            KeyValue::new("giveway.outcome", format!("{:?}", ending.state)),
            KeyValue::new("giveway.message", ending.message.to_string()),
        ];
        let failure = (ending.state == PlanState::Failed).then(|| ending.message.to_string());
        self.tracer.queue(Trace { id: id_of(plan), attributes, failure, stages });
    }
}

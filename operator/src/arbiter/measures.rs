//! Metrics about the decisions of the arbiter.

use super::Arbiter;
use crate::clock::Clock;
use crate::messages::command::{EvictOutcome, EvictionCause};
use crate::observability::metrics::{ClassLabel, Metrics, catalogue};
use crate::plans::Flight;
use crate::status;
use giveway_crds::plan::PlanState;
use giveway_planner::Preemptor;
use giveway_planner::model::{Cluster, Group, ObjectKey, Pod};
use std::collections::BTreeMap;
use std::time::Duration;

/// Returns the value for a PodGroup's PriorityClass in labels of metrics.
pub(super) fn class_of_group(metrics: &Metrics, cluster: &Cluster, group: &Group) -> ClassLabel {
    metrics.class(group.class_name.as_deref(), |name| cluster.classes().get(name).is_some())
}

/// Returns the value for the PriorityClass of a pod, as preemptor or victim, in labels of metrics: the class of its PodGroup, or else its
/// own.
fn class_of_pod(metrics: &Metrics, cluster: &Cluster, pod: &Pod) -> ClassLabel {
    match cluster.group_of(pod).filter(|group| group.class_name.is_some()) {
        Some(group) => class_of_group(metrics, cluster, group),
        None => metrics.class(pod.priority_class_name.as_deref(), |name| cluster.classes().get(name).is_some()),
    }
}

impl Arbiter {
    /// Returns the value for a preemptor's PriorityClass in labels of metrics; `none` if the preemptor does not exist any more.
    fn class_of(&self, preemptor: &Preemptor) -> ClassLabel {
        let cluster = &self.model.cluster;
        let known = match preemptor {
            Preemptor::Group(key) => cluster.group(key).map(|group| class_of_group(&self.metrics, cluster, group)),
            Preemptor::Pod(key) => cluster.pod(key).map(|pod| class_of_pod(&self.metrics, cluster, pod)),
        };
        known.unwrap_or_else(|| self.metrics.class(None, |_| false))
    }

    /// Counts an accepted eviction in the metrics, by the classes of preemptor and victim and whether the pod was deleted by force.
    pub(super) fn count_eviction(&self, cause: &EvictionCause, pod: &ObjectKey, uid: &str, outcome: &EvictOutcome) {
        let preemptor = match cause {
            EvictionCause::Plan { preemptor, .. } => Some(self.class_of(preemptor)),
            EvictionCause::Departure { .. } => None,
        };
        let cluster = &self.model.cluster;
        let victim = cluster.pod(pod).filter(|pod| pod.uid == uid);
        let victim = victim.map(|pod| class_of_pod(&self.metrics, cluster, pod));
        let victim = victim.unwrap_or_else(|| self.metrics.class(None, |_| false));
        self.metrics.evicted(preemptor.as_ref(), &victim, *outcome == EvictOutcome::Forced);
    }

    /// Counts a plan that has ended with this `state` in the metrics.
    pub(super) fn count_ending(&self, flight: &Flight, state: PlanState, clock: Clock) {
        let reason = status::state_reason(state);
        self.metrics.outcome(reason);
        if flight.evicts() {
            self.metrics.count(&catalogue::PLANS, &[reason.as_str()]);
        }
        // Before the first eviction, only its dry run can have been refused.
        if flight.requested_evictions() == 0 && (flight.rejected.is_some() || !flight.refused.is_empty()) {
            let is_rejected = flight.rejected.is_some() || !flight.forbidden.is_empty();
            self.metrics.count(&catalogue::REHEARSALS, &[if is_rejected { "rejected" } else { "refused" }]);
        }
        if state != PlanState::Completed {
            if self.has_evicted_without_effect(flight) {
                self.metrics.count(&catalogue::EVICTED_NOT_BOUND, &[self.class_of(&flight.preemptor).as_str()]);
            }
            return;
        }
        if flight.evicts() {
            // For a plan of an earlier leader only the stored wall-clock time is known.
            let planned = flight.plan.planned_at.as_ref().map_or(clock.epoch_seconds, |time| time.0.as_second());
            let took = match flight.resumed {
                true => Duration::from_secs(u64::try_from(clock.epoch_seconds - planned).unwrap_or(0)),
                false => clock.now.duration_since(flight.started),
            };
            self.metrics.observe(&catalogue::PLANNED_TO_BOUND, &[self.class_of(&flight.preemptor).as_str()], took);
        }
        let since = flight.rescue.as_ref().and_then(|_| self.critical_addons.queue.since(&flight.plan.preemptor.uid));
        if let Some(since) = since {
            self.metrics.observe(&catalogue::RESCUE_SECONDS, &[], clock.now.duration_since(since));
        }
    }

    /// Returns true if an ended plan may have evicted pods, and its preemptor exists and is not completely bound.
    fn has_evicted_without_effect(&self, flight: &Flight) -> bool {
        let exists = self.model.uid_of(&flight.preemptor).is_some_and(|uid| *uid == *flight.plan.preemptor.uid);
        exists && flight.may_have_evicted() && flight.bound(&self.model.cluster) < flight.members.len()
    }

    /// Sets the metrics about plans with victims and departures in flight, statuses to write, bans and circuit breakers. It visits all of
    /// them, so it is not called in every pass.
    pub(super) fn show_in_flight(&self) {
        let plans = self.plans.flights.values().filter(|flight| flight.evicts());
        let plans = plans.map(|flight| (flight.plan.cause.as_str(), flight.plan.state));
        let departures = self.departures.views().map(|departure| (departure.plan.cause.as_str(), departure.stage));
        let mut numbers: BTreeMap<_, usize> = BTreeMap::new();
        for in_flight in plans.chain(departures) {
            *numbers.entry(in_flight).or_default() += 1;
        }
        self.metrics.preemptions(&numbers);
        self.metrics.set(&catalogue::STATUSES_WAITING, &[], self.statuses.waiting());
        let bans = &self.restraint.bans;
        let victims = bans.victims().count();
        for (ban, number) in [("victim", victims), ("node", bans.len() - victims)] {
            self.metrics.set(&catalogue::BANS, &[ban], number);
        }
        let breakers = self.restraint.breakers.open();
        let numbers = [breakers.preemptors.len(), breakers.namespaces.len(), usize::from(breakers.cluster.is_some())];
        for (kind, number) in ["preemptor", "namespace", "cluster"].into_iter().zip(numbers) {
            self.metrics.set(&catalogue::BREAKERS, &[kind], number);
        }
    }
}

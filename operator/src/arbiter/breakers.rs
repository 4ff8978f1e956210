//! Circuit breakers in the arbiter: after plans that evicted pods and whose preemptors were not bound, no plan with evictions is made for a
//! while. Free capacity is used meanwhile.
//!
//! Critical add-ons neither open a breaker nor are stopped by one: one of them has a plan at a time, and its placements are
//! [banned](super::bans) after the first failure. Nor are [departures](crate::departures) stopped, because committed departures are finished.

use super::Arbiter;
use crate::clock::Clock;
use crate::departures::plan_store::Record;
use crate::limits::breakers::Scope;
use crate::model::Model;
use crate::status::WaitReason;
use giveway_crds::breaker::{OpenBreakers, PlanOutcome, SharedBreaker};
use giveway_crds::condition::Reason;
use giveway_crds::plan::StoredPreemptor;
use giveway_crds::preemption::PreemptionStatus;
use giveway_crds::wording::conditions::pending::{self, BreakerTurn, SharedBreakerFacts};
use giveway_planner::Preemptor;
use giveway_planner::model::{ObjectKey, Pod};
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a plan may take before the next one may be made, while one is made at a time.
const TRIAL: Duration = Duration::from_secs(600);

/// Returns true if the preemptor exists with this UID and has pods that are not bound.
fn has_unbound_pods(model: &Model, preemptor: &StoredPreemptor) -> bool {
    let key = ObjectKey::new(&preemptor.namespace, &preemptor.name);
    if preemptor.kind == "Pod" {
        let is_pending = |pod: &Pod| pod.uid == preemptor.uid && pod.live() && !pod.bound();
        return model.cluster.pod(&key).is_some_and(is_pending);
    }
    let exists = model.groups.get(&key).is_some_and(|group| group.uid == preemptor.uid);
    exists && model.pending.of_group(&key).next().is_some()
}

/// Converts seconds since the epoch to a timestamp for messages; the epoch itself if they are out of range.
fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or_default()
}

/// Returns what messages say about an open circuit breaker of the cluster or of a namespace (`scope`): which of them it is, and how many
/// preemptors opened it.
pub(super) fn breaker_facts(scope: Scope, breaker: &SharedBreaker) -> SharedBreakerFacts {
    SharedBreakerFacts { of_namespace: scope == Scope::Namespace, preemptors: breaker.preemptors() }
}

/// Returns the namespaces in which open circuit breakers permit no eviction for any preemptor; `None` among them stands for the whole
/// cluster.
fn stopped_namespaces(open: &OpenBreakers) -> BTreeSet<Option<String>> {
    open.stopping().map(|(namespace, _)| namespace.map(str::to_owned)).collect()
}

impl Arbiter {
    /// Counts the outcomes of ended plans that the watch has shown, and opens and closes circuit breakers.
    pub(super) fn follow_breakers(&mut self, clock: Clock) {
        for (plan, outcome) in std::mem::take(&mut self.model.plans.outcomes) {
            self.restraint.breakers.note(&plan, outcome);
        }
        self.compute_breakers(clock);
    }

    /// Counts the outcome of a plan that has just ended for the circuit breakers, before the watch shows it. A plan whose `Preemption` was
    /// deleted does not count.
    pub(super) fn note_outcome(&mut self, record: &Record<'_>, clock: Clock) {
        let status = PreemptionStatus { finished_at: Some(clock.time()), ..record.status.clone() };
        let outcome = PlanOutcome::of(record.plan.cause.as_str(), &record.plan.preemptor, &status);
        if let Some(outcome) = outcome.filter(|_| self.model.plans.get(&record.plan.id).is_some()) {
            self.restraint.breakers.note(&record.plan.id, outcome);
            self.compute_breakers(clock);
        }
    }

    /// Computes which circuit breakers are open. If one has opened or closed, preemptors are decided again; if that of a namespace or of
    /// the cluster has opened, all plans are advanced, so that those that have evicted no pod are cancelled.
    fn compute_breakers(&mut self, clock: Clock) {
        let before = stopped_namespaces(self.restraint.breakers.open());
        let model = &self.model;
        if !self.restraint.breakers.compute(clock.epoch_seconds, |preemptor| has_unbound_pods(model, preemptor)) {
            return;
        }
        self.model.version += 1;
        let mut has_opened = false;
        for (namespace, breaker) in self.restraint.breakers.open().stopping() {
            if before.contains(&namespace.map(str::to_owned)) {
                continue;
            }
            has_opened = true;
            let (until, preemptors) = (time(breaker.until), breaker.preemptors());
            tracing::warn!(namespace, preemptors, %until, "no pod is evicted for any preemptor until then");
        }
        if has_opened {
            self.plans.flights.wake_all();
        }
    }

    /// Returns the wait reason of a preemptor for which a circuit breaker (its own, its namespace's or the cluster's) permits no plan with
    /// evictions now; `None` if all permit one.
    pub(super) fn stopped_by_breaker(&self, preemptor: &Preemptor, clock: Clock) -> Option<WaitReason> {
        let uid = self.model.uid_of(preemptor)?;
        let breakers = &self.restraint.breakers;
        let message = match breakers.of_preemptor(uid) {
            Some(breaker) => pending::breaker_open(breaker.plans, time(breaker.until)),
            None => {
                let mut shared = breakers.shared(&preemptor.key().namespace);
                shared.find_map(|(scope, breaker)| self.stopped_by_shared(scope, breaker, preemptor, clock))?
            }
        };
        Some(WaitReason::new(Reason::CircuitBreakerOpen, message))
    }

    /// Returns why this circuit breaker of the cluster or of a namespace (`scope`) permits no plan with evictions for a preemptor now;
    /// `None` if it permits one.
    fn stopped_by_shared(
        &self,
        scope: Scope,
        breaker: &SharedBreaker,
        preemptor: &Preemptor,
        clock: Clock,
    ) -> Option<String> {
        let (reason, namespace) = (breaker_facts(scope, breaker), &preemptor.key().namespace);
        let permitted = breaker.permits_from(namespace, self.model.uid_of(preemptor)?);
        let within = match scope {
            Scope::Cluster => None,
            Scope::Namespace => Some(namespace.as_str()),
        };
        if breaker.stops_all() {
            return Some(pending::shared_breaker_open(reason, time(breaker.until)));
        }
        let turn = if permitted > clock.epoch_seconds {
            BreakerTurn::After(time(permitted))
        } else if self.has_trial(within, clock) {
            BreakerTurn::AfterCurrent
        } else {
            return None;
        };
        Some(pending::shared_breaker_half_open(reason, turn))
    }

    /// Returns true if a plan that evicts pods was made less than ten minutes ago and is in flight, for a preemptor of this namespace, or
    /// of any if it is `None`. Plans for critical add-ons do not count.
    fn has_trial(&self, namespace: Option<&str>, clock: Clock) -> bool {
        let flights = &self.plans.flights;
        flights.count_with_victims(i32::MIN) > 0
            && flights.values().any(|flight| {
                let is_in = namespace.is_none_or(|namespace| flight.preemptor.key().namespace.as_str() == namespace);
                is_in && flight.evicts() && flight.rescue.is_none() && clock.now.duration_since(flight.started) < TRIAL
            })
    }
}

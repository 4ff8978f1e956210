//! Plans in the arbiter: their conversion into the stored form, the results of storing them, and the plans of an earlier leader.

use super::Arbiter;
use crate::clock::Clock;
use crate::critical_addons::taints::tainted_nodes;
use crate::departures::history::HistoryLimits;
use crate::departures::plan_store::{Record, StoreOutcome, controller};
use crate::limits::rates::MINUTE;
use crate::messages::report::CallError;
use crate::model::plans::dropped;
use crate::plans::Flight;
use giveway_crds::plan::{
    PlanState, PreemptionSummary, StoredCost, StoredDomain, StoredPlacement, StoredPlan, StoredPreemptor, StoredVictim,
    StoredVictimPod,
};
use giveway_crds::preemption::{PreemptionStatus, assemble};
use giveway_crds::wording::conditions::{plan_end, resumed};
use giveway_planner::model::{Cluster, ObjectKey};
use giveway_planner::{Context, Plan, Preemptor};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

impl Arbiter {
    /// Requests the writes of `Preemption` objects that have changed, and the deletion of old ones. Handles the deletion of objects by
    /// other clients.
    pub(super) fn store_plans(&mut self, clock: Clock) {
        for removed in std::mem::take(&mut self.model.plans.removed) {
            self.plan_deleted(&removed);
            // The limits of the history end no ban, and close no breaker.
            if !self.keeper.has_deleted(&removed) {
                self.model.version += u64::from(self.restraint.bans.lift(&removed));
                self.restraint.breakers.lift(&removed);
            }
        }
        if std::mem::take(&mut self.model.plans.listed) {
            self.plan_store.rewrite_unlisted(|plan| self.model.plans.get(plan).is_some());
        }
        let keep = HistoryLimits {
            age: self.config.preemption_history,
            count: self.config.preemption_history_limit as usize,
            // Longer than its evictions count for the limits on evictions.
            least: if self.restraint.rates.most().limits() { 2 * MINUTE } else { Duration::ZERO },
        };
        let model = &self.model;
        let tainted = || -> BTreeSet<&str> { tainted_nodes(model).into_iter().map(|(_, uid)| uid).collect() };
        let step = self.keeper.pass(&model.plans, &self.plan_store, keep, tainted, clock);
        for (plan, last) in step.ended {
            tracing::warn!(%plan, message = %last.message, "plan cancelled before it was resumed");
            self.plan_store.write_last_status(&plan, self.leadership.term(), last);
        }
        let writes = self.plan_store.pass(clock.now).into_iter().chain(step.commands);
        writes.for_each(|command| self.actuator.dispatch(command));
    }

    /// Handles the answer to a call that created the objects of a plan or departure or wrote this status. `plan` is the name of its
    /// `Preemption`.
    pub(super) fn plan_written(
        &mut self,
        plan: &str,
        status: PreemptionStatus,
        result: Result<(), CallError>,
        now: Instant,
    ) {
        if let Err(error) = &result
            && *error != CallError::Gone
        {
            tracing::warn!(%plan, %error, "plan not stored");
            if !matches!(error, CallError::Unanswered(_)) {
                self.not_written(plan, &error.to_string());
            }
        }
        let answer = self.plan_store.answered(plan, status, result, now);
        self.observed_written(plan, &answer);
        match answer {
            StoreOutcome::Stored(state) => {
                self.statuses.dirty.extend(self.departures.note_stored(plan));
                let Some(flight) = self.plans.flights.with_id(plan) else { return };
                (flight.stored, flight.unwritten) = (Some(state), None);
                self.statuses.touch(&flight.preemptor);
            }
            StoreOutcome::GivenUp(why) => {
                self.departures.cannot_be_stored(plan);
                if let Some(flight) = self.plans.flights.with_id(plan) {
                    let has_evicted = flight.resumed || flight.requested_evictions() > 0;
                    flight.stop_waiting_for_storing();
                    flight.drop_plan(PlanState::Failed, plan_end::could_not_be_stored(has_evicted, &why));
                }
            }
            StoreOutcome::Deleted => self.plan_deleted(plan),
            StoreOutcome::Nothing => {}
        }
    }

    /// Records why a write of the `Preemption` named `plan` failed, for the status of the PodGroup.
    fn not_written(&mut self, plan: &str, why: &str) {
        self.statuses.dirty.extend(self.departures.not_written(plan, why));
        let Some(flight) = self.plans.flights.with_id(plan) else { return };
        flight.unwritten = Some(why.to_owned());
        self.statuses.touch(&flight.preemptor);
    }

    /// Handles the deletion of the `Preemption` named `plan` by another client: its plan or departure ends. A departure that has evicted a
    /// pod, or may have, is stored again.
    fn plan_deleted(&mut self, plan: &str) {
        self.statuses.dirty.extend(self.departures.preemption_deleted(&mut self.plan_store, plan));
        if let Some(flight) = self.plans.flights.with_id(plan) {
            flight.stop_waiting_for_storing();
            flight.drop_plan(PlanState::Cancelled, plan_end::preemption_deleted());
        }
    }

    /// Resumes the plans and departures that an earlier leader stored. Each plan is checked and cancelled if it is not valid any more.
    /// Plans that were not stored completely, or of which their preemptor has a newer one, are ended.
    pub(super) fn resume_plans(&mut self, clock: Clock) {
        let mut newest: BTreeMap<Preemptor, StoredPlan> = BTreeMap::new();
        let mut without_preemptor: Vec<StoredPlan> = Vec::new();
        for (name, parts) in self.model.plans.to_resume() {
            let plan = match assemble(parts) {
                Ok(plan) => plan,
                Err(why) => {
                    self.end_stored_plan(&name, resumed::partially_stored(&why.to_string()), clock);
                    continue;
                }
            };
            for victim in &plan.victims {
                for pod in &victim.pods {
                    self.departures.requests.resume(&ObjectKey::new(&victim.namespace, &pod.name), &pod.uid);
                }
            }
            if !plan.cause.is_plan() {
                without_preemptor.push(plan);
                continue;
            }
            // Without a status it is not known whether the plan was to be carried out, or only observed.
            if plan.term.is_empty() {
                self.end_stored_plan(&name, resumed::without_status().to_owned(), clock);
                continue;
            }
            let key = ObjectKey::new(&plan.preemptor.namespace, &plan.preemptor.name);
            let preemptor = if plan.preemptor.kind == "Pod" { Preemptor::Pod(key) } else { Preemptor::Group(key) };
            let older = match newest.remove(&preemptor) {
                Some(other) if other.age_order() > plan.age_order() => {
                    newest.insert(preemptor, other);
                    Some(plan)
                }
                other => {
                    newest.insert(preemptor, plan);
                    other
                }
            };
            if let Some(older) = older {
                self.end_stored_plan(&older.id, resumed::older_plan().to_owned(), clock);
            }
        }
        self.resume_departures(without_preemptor, clock);
        let mut order: Vec<(Reverse<i32>, Preemptor)> = Vec::new();
        for (preemptor, mut plan) in newest {
            tracing::info!(%preemptor, plan = %plan.id, state = plan.state.as_str(), "resuming a stored plan");
            plan.term = self.leadership.term().to_owned();
            // The message of the earlier leader may name an obstacle that no longer exists.
            if !plan.reason.is_empty() {
                plan.message.clone_from(&plan.reason);
            }
            let priority = plan.preemptor.priority;
            let rescue = plan.critical_addon.map(|stored| self.critical_addons.rescuing(stored));
            let mut flight = Flight::new(preemptor.clone(), priority, plan, clock.now);
            match rescue {
                Some(Some(rescue)) => flight = flight.rescuing(rescue),
                Some(None) => flight.drop_plan(PlanState::Cancelled, resumed::addons_switched_off()),
                None => {}
            }
            flight.resume();
            flight.postpone_until_due(&self.model.cluster, clock);
            self.plan_store.reopen(&Record::from(&flight));
            self.launch(flight);
            order.push((Reverse(priority), preemptor));
        }
        // Each plan is checked against the other plans in flight, the highest priority first.
        order.sort();
        for (_, preemptor) in order {
            let Some(mut flight) = self.plans.flights.remove(&preemptor) else { continue };
            let lingering = self.model.overdue().clone();
            let known = self.context(flight.priority);
            let known = match flight.has_started_evictions() {
                true => self.context_after_first_eviction(known),
                false => known,
            };
            let context = Context { lingering, ..known };
            flight.check_resumed(&self.model, &context);
            if let Some(ending) = &flight.ending {
                tracing::warn!(%preemptor, plan = %flight.plan.id, message = %ending.message, "stored plan dropped");
            }
            self.plans.flights.insert(flight, &mut self.model.cluster);
        }
        self.end_stale_summaries();
    }

    /// Ends a stored plan that is not resumed: its last status, with this message, is written.
    pub(super) fn end_stored_plan(&mut self, plan: &str, message: String, clock: Clock) {
        tracing::warn!(%plan, %message, "stored plan dropped");
        let Some(record) = self.model.plans.get(plan) else { return };
        let last = dropped(&record.status, message, clock.time());
        self.plan_store.write_last_status(plan, self.leadership.term(), last);
    }

    /// Corrects the statuses of PodGroups that show a plan in flight which ended while no operator could write them.
    fn end_stale_summaries(&mut self) {
        for (key, record) in &self.model.groups {
            let Some(summary) = &record.status.preemption else { continue };
            if summary.state.in_flight() && !self.model.plans.in_flight(&summary.name) {
                let ended = self.model.plans.get(&summary.name).map(|plan| plan.status.state);
                let state = ended.unwrap_or(PlanState::Cancelled);
                let message = resumed::plan_has_ended().to_owned();
                self.statuses.last_plans.insert(key.clone(), PreemptionSummary { state, message, ..summary.clone() });
                self.statuses.dirty.insert(key.clone());
            }
        }
    }
}

/// Converts a plan of the planner to the form in which it is stored, in state `Planned`. `id` names its `Preemption`, `term` is the
/// leader's term.
pub(super) fn stored_form(
    plan: &Plan,
    id: String,
    term: String,
    preemptor: StoredPreemptor,
    cluster: &Cluster,
    planned_at: Time,
) -> StoredPlan {
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    StoredPlan {
        id,
        term,
        state: PlanState::Planned,
        preemptor,
        strategy: plan.strategy.to_owned(),
        planned_at: Some(planned_at),
        domain: plan.domain.as_ref().map(|d| StoredDomain { key: d.key.to_string(), value: d.value.to_string() }),
        placements: plan
            .placements
            .iter()
            .map(|p| StoredPlacement { pod: p.pod.name.to_string(), uid: p.uid.to_string(), node: p.node.to_string() })
            .collect(),
        victims: plan
            .victims
            .iter()
            .map(|v| StoredVictim {
                kind: v.kind.as_str().to_owned(),
                namespace: v.key.namespace.to_string(),
                name: v.key.name.to_string(),
                priority: v.priority,
                violates_budget: v.violates_budget,
                guaranteed: false,
                owner: v.pods.first().and_then(|pod| controller(cluster.pod(&pod.key)?)),
                pods: v
                    .pods
                    .iter()
                    .map(|p| StoredVictimPod {
                        name: p.key.name.to_string(),
                        uid: p.uid.to_string(),
                        node: p.node.to_string(),
                    })
                    .collect(),
            })
            .collect(),
        cost: StoredCost {
            budget_violations: count(plan.cost.budget_violations),
            highest_victim_priority: plan.cost.highest_priority,
            victim_pods: count(plan.cost.victim_pods),
            victim_groups: count(plan.cost.victim_groups),
            proven_up_to: plan.least.proves(&plan.cost).map(|criterion| criterion.as_str().to_owned()),
            least_victim_pods: Some(plan.least.pods(&plan.cost)).filter(|least| *least > 0).map(count),
        },
        ..StoredPlan::default()
    }
}

//! Storing plans: a planner's plan as it is written, and the one call at a time that writes that of a single pod.

use super::Arbiter;
use crate::command::Command;
use crate::ledger::{Call, Clock};
use giveway_crds::plan::{PlanState, StoredCost, StoredPlacement, StoredPlan, StoredVictim, StoredVictimPod};
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use giveway_planner::plan::{Plan, Preemptor};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

impl Arbiter {
    /// Stores the plan of a single pod whenever its state changed; that of a group is part of its status. One call at a
    /// time, so that an older plan never lands on a newer one.
    pub(super) fn store_pod_plan(&mut self, preemptor: &Preemptor, clock: Clock) {
        let (Preemptor::Pod(key), Some(flight)) = (preemptor, self.flights.get(preemptor)) else { return };
        let waits_for_it = matches!(flight.plan.state, PlanState::Planned | PlanState::Evicting);
        if !flight.evicts() || !waits_for_it || flight.stored == Some(flight.plan.state) {
            return;
        }
        let Some(uid) = flight.members.first().map(|m| m.uid.clone()) else { return };
        let call = self.storing.get(key).copied().unwrap_or_default();
        if call.due(clock.now) || matches!(call, Call::Done(_)) {
            let plan = flight.plan.clone();
            self.store(key, uid, Some(plan));
        }
    }

    pub(super) fn store(&mut self, pod: &ObjectKey, uid: SmolStr, plan: Option<StoredPlan>) {
        self.storing.entry(pod.clone()).or_default().start();
        self.actuator.dispatch(Command::StorePodPlan { pod: pod.clone(), uid, plan: plan.map(Box::new) });
    }
}

/// A plan as it is stored.
pub(super) fn stored(plan: &Plan, id: String, term: String) -> StoredPlan {
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    StoredPlan {
        id,
        term,
        state: PlanState::Planned,
        strategy: plan.strategy.to_owned(),
        planned_at: Some(Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default())),
        message: String::new(),
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
        },
    }
}

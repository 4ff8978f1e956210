//! Queries about the plans in a history: the plan of an eviction, the plan whose rules apply to it, and the priority and policy of a
//! preemptor.

use super::history::History;
use super::record::{PlanRecord, Preemptor, Removal};
use giveway_crds::plan::{Cause, PlanState, StoredPlan};
use jiff::Timestamp;
use std::time::Duration;

/// The longest time for which a request may be in transit, or its sender may not have observed a change.
pub(super) const ON_THE_WIRE: Duration = Duration::from_secs(3);

impl History {
    /// Returns true if this removal was requested for this plan; `None` if the log does not show it. An eviction names its plan. For a
    /// deletion, the last condition that Giveway wrote to the pod is used: it contains the name of the preemptor or, in another namespace,
    /// its UID.
    pub fn made_for(&self, removal: &Removal, plan: &StoredPlan) -> Option<bool> {
        if let Some(named) = &removal.plan {
            return Some(*named == plan.id);
        }
        let of_pod = |uid: &str| uid == removal.uid || uid.is_empty();
        let mut marks = self.marks.iter().rev().filter(|mark| mark.at <= removal.at && mark.pod == removal.pod);
        let mark = marks.find(|mark| of_pod(&mark.uid))?;
        if !plan.cause.is_plan() {
            return Some(mark.message == plan.reason);
        }
        let preemptor = &plan.preemptor;
        let kind = if preemptor.kind == "Pod" { "pod" } else { "pod group" };
        let named = format!("Preempted by {kind} {}/{} of priority ", preemptor.namespace, preemptor.name);
        Some(mark.message.starts_with(&named) || mark.message.contains(&format!("(UID {})", preemptor.uid)))
    }

    /// Returns the plan for which a pod was evicted: it has the pod as a victim, was stored before the removal, and the removal was not
    /// made for another plan. A plan in flight is preferred, then the last one: a DELETE names no plan, and two plans of one preemptor have
    /// the same condition, so the end of the earlier plan must not hide the later plan.
    pub fn plan_of(&self, removal: &Removal) -> Option<&PlanRecord> {
        let naming = || {
            let all = self.plans.iter().rev().filter(|record| record.at <= removal.at && record.names(&removal.uid));
            all.filter(|record| self.made_for(removal, &record.plan) != Some(false))
        };
        naming().find(|record| record.plan.state.in_flight()).or_else(|| naming().next())
    }

    /// Returns the version of a plan that was stored first.
    pub(super) fn first_stored<'a>(&'a self, record: &'a PlanRecord) -> &'a PlanRecord {
        self.plans.iter().find(|other| other.plan.id == record.plan.id).unwrap_or(record)
    }

    /// Returns the plan that a `Preemption` of cause `PartiallyDisrupted` continues: a plan of its preemptor that has all its pods as
    /// victims, and that had started to evict before the `Preemption` was stored. `None` for other causes, or if there is no such plan.
    pub(super) fn continued_plan(&self, record: &PlanRecord) -> Option<&PlanRecord> {
        if record.plan.cause != Cause::PartiallyDisrupted {
            return None;
        }
        let stored = self.first_stored(record).asked;
        let started = |plan: &StoredPlan| plan.state.in_flight() && plan.state != PlanState::Planned;
        let has_pods = |plan: &PlanRecord| record.pods().all(|pod| plan.names(&pod.uid));
        let mut plans = self.plans.iter().rev().filter(|other| other.at <= stored && other.plan.cause.is_plan());
        plans.find(|other| {
            other.plan.preemptor.uid == record.plan.preemptor.uid && started(&other.plan) && has_pods(other)
        })
    }

    /// Returns the plan whose rules about victims, priorities, thresholds and grace periods apply to an eviction: its own plan, or the
    /// cancelled plan that its `Preemption` continues.
    pub(super) fn ruling_plan(&self, removal: &Removal) -> Option<&PlanRecord> {
        let record = self.plan_of(removal)?;
        Some(self.continued_plan(record).unwrap_or(record))
    }

    /// Returns the version of a plan that was stored at this time.
    pub(super) fn last_stored<'a>(&'a self, record: &'a PlanRecord, at: Timestamp) -> &'a PlanRecord {
        let mut stored = self.plans.iter().rev().filter(|other| other.at <= at);
        stored.find(|other| other.plan.id == record.plan.id).unwrap_or(record)
    }

    /// Returns true if this plan was deleted so long before this time that every component has observed it.
    pub(super) fn was_deleted(&self, record: &PlanRecord, at: Timestamp) -> bool {
        let known = at.saturating_sub(ON_THE_WIRE).unwrap_or(Timestamp::MIN);
        let mut deleted = self.deleted_plans.iter().filter(|(_, plan)| *plan == record.plan.id);
        deleted.any(|(when, _)| *when <= known && self.last_stored(record, at).at <= *when)
    }

    /// Returns the effective priority of a preemptor.
    pub fn priority_of(&self, preemptor: &Preemptor) -> Option<i32> {
        match preemptor {
            Preemptor::Group { key, .. } => self.priority_of_group(key),
            Preemptor::Pod(uid) => self.effective_priority(uid),
        }
    }

    /// Returns true if the preemption policy of a preemptor is `Never`; `None` if it is not known. A pod without a PodGroup preempts
    /// only with the annotation `PreemptLowerPriority`.
    pub(super) fn preempts_never(&self, preemptor: &Preemptor) -> Option<bool> {
        let key = match preemptor {
            Preemptor::Group { key, .. } => key.clone(),
            Preemptor::Pod(uid) => {
                let pod = self.pods.get(uid)?;
                let group = pod.group.as_ref().map(|group| (pod.key.0.clone(), group.clone()));
                match group.filter(|key| self.groups.contains_key(key)) {
                    Some(key) => key,
                    None => return Some(pod.policy.as_deref() != Some("PreemptLowerPriority")),
                }
            }
        };
        self.group_never(&key)
    }

    /// Returns the name of a preemptor.
    pub fn name_of(&self, preemptor: &Preemptor) -> String {
        match preemptor {
            Preemptor::Group { key, .. } => key.1.clone(),
            Preemptor::Pod(uid) => self.pods.get(uid).map_or_else(|| uid.clone(), |pod| pod.key.1.clone()),
        }
    }
}

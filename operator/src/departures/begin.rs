//! The events that begin a departure of a PodGroup. Each returns a [`DepartureRequest`] for
//! [`Departures::begin`](super::Departures::begin), which is stored as a plan.

use super::departure::{evictable, is_evictable};
use super::plan_store::controller;
use crate::clock::Clock;
use crate::model::Model;
use crate::model::preempted_by_scheduler::PreemptedByScheduler;
use crate::plans::RemainingPods;
use giveway_crds::plan::{Cause, PlanState, StoredCost, StoredPlan, StoredPreemptor, StoredVictim, StoredVictimPod};
use giveway_crds::policy::DisruptionMode;
use giveway_crds::wording::Sentence;
use giveway_crds::wording::conditions::disruption;
use giveway_planner::SmolStr;
use giveway_planner::model::{ObjectKey, Pod};
use std::collections::BTreeSet;

/// Name of kube-scheduler as the preemptor in `status.preemptedBy` of a PodGroup.
pub const SCHEDULER: &str = "kube-scheduler";

/// A request to evict pods of a PodGroup without a plan: what begins a departure.
#[derive(Debug)]
pub struct DepartureRequest {
    /// The cause of the evictions.
    pub cause: Cause,
    /// The PodGroup.
    pub group: ObjectKey,
    /// UIDs of the pods.
    pub pods: BTreeSet<SmolStr>,
    /// True if a pod of the PodGroup has a guaranteed budget. A pod that has terminated counts, too.
    pub guaranteed: bool,
    /// The priority of the evictions.
    pub priority: i32,
    /// The preemptor of the cancelled plan, if there is one.
    pub preemptor: Option<StoredPreemptor>,
    /// The message for the events and statuses of the PodGroup, its pods and the `Preemption`.
    pub message: Sentence,
}

/// Returns the priority of API calls for evictions without a preemptor: one more than the highest priority of the members.
pub(super) fn priority_of(model: &Model, group: &ObjectKey) -> i32 {
    let priorities = model.cluster.members(group).map(|pod| model.cluster.effective_priority(pod));
    priorities.max().unwrap_or(0).saturating_add(1)
}

/// Returns the other pods of a PodGroup in mode `PodGroup` of which kube-scheduler preempted one: those that were bound at that time, still
/// are, and may be evicted. None for a PodGroup in another mode.
pub fn other_bound_members<'a>(model: &'a Model, preempted: &'a PreemptedByScheduler) -> impl Iterator<Item = &'a Pod> {
    let whole = model.cluster.group(&preempted.group).is_some_and(|group| group.mode == DisruptionMode::PodGroup);
    preempted.remaining_members(&model.cluster).filter(move |pod| whole && is_evictable(model, pod, false))
}

/// Returns the request to evict the other pods of a PodGroup of which kube-scheduler preempted one; `None` if there are none, or their
/// namespace is protected.
pub fn member_preempted(model: &Model, preempted: &PreemptedByScheduler) -> Option<DepartureRequest> {
    let pods: BTreeSet<SmolStr> = other_bound_members(model, preempted).map(|pod| pod.uid.clone()).collect();
    let message = disruption::member_preempted(SCHEDULER, &preempted.pod.name, pods.len()).into();
    without_preemptor(model, Cause::MemberPreempted, &preempted.group, pods, message)
}

/// Returns the request to evict the pods of a gang that has been partially scheduled for too long (the caller checks that); `None` if there
/// are no pods, or their namespace is protected. `message` is for its events and statuses.
pub fn partially_scheduled(model: &Model, group: &ObjectKey, message: Sentence) -> Option<DepartureRequest> {
    let pods = evictable(model, group, true).map(|pod| pod.uid.clone()).collect();
    without_preemptor(model, Cause::PartiallyScheduled, group, pods, message)
}

/// Returns the request to evict the `pods` (UIDs) of a PodGroup without a preemptor; `None` if there are none, or if the namespace is
/// protected.
fn without_preemptor(
    model: &Model,
    cause: Cause,
    group: &ObjectKey,
    pods: BTreeSet<SmolStr>,
    message: Sentence,
) -> Option<DepartureRequest> {
    if pods.is_empty() || model.cluster.protection(&group.namespace).is_some() {
        return None;
    }
    let guaranteed = model.cluster.members(group).any(|pod| model.threshold(pod).is_some());
    let (priority, group) = (priority_of(model, group), group.clone());
    Some(DepartureRequest { cause, group, pods, guaranteed, priority, preemptor: None, message })
}

/// Returns the request to evict the pods of a PodGroup that a cancelled plan has not evicted (`rest`); `None` if none of them can be
/// evicted any more.
pub fn partially_disrupted(model: &Model, rest: &RemainingPods) -> Option<DepartureRequest> {
    let RemainingPods { plan, group, pods: named, guaranteed, priority, preemptor } = rest;
    let left = evictable(model, group, false).filter(|pod| named.contains(&pod.uid));
    let members: BTreeSet<SmolStr> = left.map(|pod| pod.uid.clone()).collect();
    if members.is_empty() {
        return None;
    }
    let message = disruption::partially_disrupted(plan, group, members.len());
    Some(DepartureRequest {
        cause: Cause::PartiallyDisrupted,
        group: group.clone(),
        pods: members,
        guaranteed: *guaranteed,
        priority: *priority,
        preemptor: Some(preemptor.clone()),
        message: message.into(),
    })
}

/// Returns the plan as which a new departure (evictions of a disrupted PodGroup) is stored in a `Preemption` with the name `id`: its
/// victims are the pods of the PodGroup with the UIDs in `pods`. `term` is the term of this leader.
pub(super) fn stored_plan(
    model: &Model,
    group: &ObjectKey,
    pods: &BTreeSet<SmolStr>,
    request: &DepartureRequest,
    id: String,
    term: &str,
    clock: Clock,
) -> StoredPlan {
    let members = || model.cluster.members(group).filter(|pod| pods.contains(&pod.uid));
    let priority = members().map(|pod| model.cluster.effective_priority(pod)).min().unwrap_or(0);
    let owner = members().find_map(controller);
    let pod = |pod: &Pod| StoredVictimPod {
        name: pod.key.name.to_string(),
        uid: pod.uid.to_string(),
        node: pod.node.as_ref().map(ToString::to_string).unwrap_or_default(),
    };
    let unit = StoredVictim {
        kind: "PodGroup".to_owned(),
        namespace: group.namespace.to_string(),
        name: group.name.to_string(),
        priority,
        owner,
        guaranteed: request.guaranteed,
        pods: members().map(pod).collect(),
        ..StoredVictim::default()
    };
    let reason = request.message.to_string();
    StoredPlan {
        id,
        term: term.to_owned(),
        state: PlanState::Evicting,
        cause: request.cause,
        preemptor: request.preemptor.clone().unwrap_or_default(),
        planned_at: Some(clock.time()),
        message: reason.clone(),
        reason,
        cost: StoredCost {
            budget_violations: 0,
            highest_victim_priority: Some(priority),
            victim_pods: i32::try_from(unit.pods.len()).unwrap_or(i32::MAX),
            victim_groups: 1,
            ..StoredCost::default()
        },
        victims: vec![unit],
        ..StoredPlan::default()
    }
}

//! One departure: its members, what ends it, and the evictions that it requests.

use super::plan_store::Record;
use super::requests::Requests;
use crate::gangs::partial;
use crate::messages::call::Call;
use crate::messages::command::{Command, EvictCall, EvictOutcome, EvictionCause};
use crate::model::Model;
use giveway_crds::plan::{Cause, PlanState, StoredPlan};
use giveway_crds::wording::Sentence;
use giveway_crds::wording::conditions::disruption;
use giveway_planner::SmolStr;
use giveway_planner::model::{ObjectKey, Pod};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// A departure: the evictions of pods of one PodGroup, without a plan.
#[derive(Debug)]
pub(super) struct Departure {
    /// Its stored form.
    pub(super) plan: StoredPlan,
    /// The PodGroup.
    pub(super) group: ObjectKey,
    /// The priority of its API calls.
    priority: i32,
    /// The message for the PodGroup and its pods.
    pub(super) message: Sentence,
    /// True if the API server has acknowledged it in this term. Before that no pod is evicted.
    pub(super) stored: bool,
    /// True if the API server has rejected it several times in a row.
    pub(super) cannot_be_stored: bool,
    /// Why its last write failed, until one succeeds.
    pub(super) unwritten: Option<String>,
    /// True if its `Preemption` was deleted before it was committed. It ends when no eviction is in flight.
    pub(super) deleted: bool,
    /// The pods by UID. A pod is a member of at most one departure.
    pub(super) members: BTreeMap<SmolStr, DepartingPod>,
    /// The pods of the PodGroup that were bound when it began, by UID: its own and those of other departures.
    pub(super) bound: BTreeSet<SmolStr>,
    /// True if a pod of the PodGroup has a guaranteed budget. A pod that has terminated counts, too.
    guaranteed: bool,
    /// When it began, or was resumed.
    pub(super) since: Instant,
    /// Cancelled to withdraw evictions that the actuator has not sent yet.
    permission: CancellationToken,
    /// Why the last eviction was refused or rejected.
    pub(super) refusal: Option<Sentence>,
}

/// A pod that a departure evicts.
#[derive(Debug, Default)]
pub(super) struct DepartingPod {
    /// The eviction.
    pub(super) call: Call,
    /// True if an eviction was accepted, or the pod has terminated after one was requested.
    pub(super) accepted: bool,
    /// True if the last answer was a refusal or rejection, or the last request was not even sent for the sake of a budget: then no request
    /// before that has evicted the pod.
    pub(super) refused: bool,
}

impl DepartingPod {
    /// Returns true if a request has evicted the pod, or may have: one is in flight, or the last one was not refused. A request that failed
    /// may have been carried out.
    fn may_have_worked(&self) -> bool {
        self.call.pending() || (self.call != Call::Idle && !self.refused)
    }

    /// Returns true if the pod is expected to terminate: its eviction was not refused and has not failed too often.
    /// An eviction that failed otherwise is retried within seconds.
    pub(super) fn is_expected_to_terminate(&self) -> bool {
        !self.refused && !self.call.exhausted()
    }

    /// Returns true if the eviction of the pod was requested and not refused. A request that failed too often does not count: if it was
    /// carried out, the pod is terminating.
    pub(super) fn is_asked(&self) -> bool {
        self.call.pending() || (self.may_have_worked() && !self.call.exhausted())
    }
}

/// The result of a [pass](super::Departures::pass).
#[derive(Debug, Default)]
pub struct DepartureStep {
    /// The evictions to request.
    pub commands: Vec<Command>,
    /// Pods whose budget does not allow their eviction: group, pod, UID and reason.
    pub refused: Vec<(ObjectKey, ObjectKey, SmolStr, String)>,
    /// PodGroups of which a departure ended.
    pub ended: Vec<ObjectKey>,
}

impl Departure {
    /// Creates the departure (evictions of a disrupted PodGroup) that a `Preemption` stores, without any eviction requested yet. All pods
    /// in `plan` become its members: each pass checks which of them still exist and belong to the PodGroup. `priority` is that of its API
    /// calls.
    pub(super) fn of(plan: StoredPlan, priority: i32, message: Sentence, now: Instant) -> Self {
        let units = &plan.victims;
        let pods = || units.iter().flat_map(|unit| &unit.pods);
        let group = units.first().map(|unit| ObjectKey::new(&unit.namespace, &unit.name)).unwrap_or_default();
        Self {
            members: pods().map(|pod| (pod.uid.as_str().into(), DepartingPod::default())).collect(),
            bound: pods().filter(|pod| !pod.node.is_empty()).map(|pod| pod.uid.as_str().into()).collect(),
            guaranteed: units.iter().any(|unit| unit.guaranteed),
            group,
            priority,
            message,
            stored: false,
            cannot_be_stored: false,
            unwritten: None,
            deleted: false,
            since: now,
            permission: CancellationToken::new(),
            refusal: None,
            plan,
        }
    }

    /// Returns true if the departure (evictions of a disrupted PodGroup) must be finished even while Giveway observes or is switched off,
    /// because Giveway has evicted a pod of the PodGroup, or may have: an eviction got no answer or failed. An eviction in flight does not
    /// count before it is answered.
    pub(super) fn is_committed(&self) -> bool {
        let is_evicted = |member: &DepartingPod| member.accepted || (member.is_asked() && !member.call.pending());
        self.plan.cause == Cause::PartiallyDisrupted || self.members.values().any(is_evicted)
    }

    /// Removes the members with these UIDs from the departure and returns them. If one of them has an eviction in flight, all evictions of
    /// the departure that the actuator has not sent yet are withdrawn, because the departure may end before they would be sent.
    pub(super) fn take_members(&mut self, pods: &BTreeSet<SmolStr>) -> BTreeMap<SmolStr, DepartingPod> {
        let members = std::mem::take(&mut self.members).into_iter();
        let (passed_on, kept): (BTreeMap<_, _>, _) = members.partition(|(uid, _)| pods.contains(uid));
        self.members = kept;
        if passed_on.values().any(|member| member.call.pending()) {
            self.withdraw_unsent_evictions();
        }
        passed_on
    }

    /// Cancels the requested evictions that were not sent to the API server yet.
    pub(super) fn withdraw_unsent_evictions(&mut self) {
        std::mem::take(&mut self.permission).cancel();
    }

    /// Returns true if the budgets of the pod are guaranteed against the preemptor of the cancelled plan; for a departure without a
    /// preemptor, if they have a threshold at all.
    fn is_guaranteed(&self, model: &Model, pod: &Pod) -> bool {
        let threshold = model.threshold(pod);
        match self.plan.cause {
            Cause::PartiallyDisrupted => threshold > Some(self.plan.preemptor.priority),
            _ => threshold.is_some(),
        }
    }

    /// Returns the members that still exist, are not terminating and may be evicted. Pending pods are included only for a partially
    /// scheduled gang.
    pub(super) fn remaining<'m>(&self, model: &'m Model) -> impl Iterator<Item = &'m Pod> + use<'m, '_> {
        let pending_too = self.plan.cause == Cause::PartiallyScheduled;
        let members = evictable(model, &self.group, pending_too);
        members.filter(|pod| self.members.contains_key(&pod.uid))
    }

    /// Updates the members from the model: a pod that terminates or has terminated after its eviction was requested and not refused counts
    /// as evicted, even if the answer is missing.
    pub(super) fn observe(&mut self, model: &Model) {
        let live: BTreeSet<&SmolStr> = partial::live(model, &self.group).map(|pod| &pod.uid).collect();
        for (uid, member) in &mut self.members {
            member.accepted |= member.may_have_worked() && !live.contains(uid);
        }
    }

    /// Returns the state and message with which the departure (evictions of a disrupted PodGroup) ends as soon as no eviction is in flight;
    /// `None` if it continues. `restraint` is the reason if Giveway observes or is switched off, so that no evictions may begin.
    pub(super) fn ending(&self, model: &Model, restraint: Option<&str>) -> Option<(PlanState, String)> {
        let all = self.members.len();
        if all == 0 {
            return Some((PlanState::Cancelled, disruption::evicted_by_another().to_owned()));
        }
        let left = self.remaining(model).count();
        if left == 0 {
            return Some((PlanState::Completed, disruption::no_pod_left(all)));
        }
        if self.deleted {
            return Some((PlanState::Cancelled, disruption::departure_deleted().to_owned()));
        }
        if let Some(why) = model.cluster.protection(&self.group.namespace) {
            return Some((PlanState::Cancelled, disruption::rest_protected(left, all, &why.to_string())));
        }
        if self.plan.cause != Cause::PartiallyDisrupted && self.has_enough_bound(model) {
            return Some((PlanState::Completed, disruption::enough_bound(left, all)));
        }
        if self.is_committed() {
            return None;
        }
        if let Some(why) = restraint {
            return Some((PlanState::Cancelled, disruption::departure_restrained(why)));
        }
        let bound = self.bound_since(model)?;
        Some((PlanState::Cancelled, disruption::member_bound(&bound.key)))
    }

    /// Returns a member of a partially scheduled gang that was bound after the departure began, so that the gang may still become complete;
    /// `None` if there is none, or the departure has another cause.
    fn bound_since<'m>(&self, model: &'m Model) -> Option<&'m Pod> {
        if self.plan.cause != Cause::PartiallyScheduled {
            return None;
        }
        partial::live(model, &self.group).find(|pod| pod.bound() && !self.bound.contains(&pod.uid))
    }

    /// Returns true if the gang has the bound members that it needs, not counting those whose eviction was requested: a partially scheduled
    /// gang has become complete, or a replacement pod is bound and every other eviction was refused.
    fn has_enough_bound(&self, model: &Model) -> bool {
        let Some(group) = model.cluster.group(&self.group) else { return false };
        let asked = |pod: &Pod| self.members.get(&pod.uid).is_some_and(DepartingPod::is_asked);
        let bound = || partial::live(model, &self.group).filter(|pod| pod.bound() && !asked(pod));
        let was_refused = |pod: &Pod| self.members.get(&pod.uid).is_some_and(|member| member.call.tries() > 0);
        let is_again = self.plan.cause == Cause::PartiallyScheduled
            || (self.remaining(model).all(was_refused) && bound().any(|pod| !self.members.contains_key(&pod.uid)));
        is_again && group.min_count.is_some_and(|min| bound().count() + model.cluster.finished(group) >= min)
    }

    /// Returns what the `Preemption` of the departure should store: its plan, and a status with state, message and number of accepted
    /// evictions.
    pub(super) fn record(&self) -> Record<'_> {
        let accepted = self.members.values().filter(|member| member.accepted).count();
        let message = match &self.refusal {
            Some(refusal) if self.plan.state.in_flight() => format!("{} {refusal}", self.plan.message),
            _ => self.plan.message.clone(),
        };
        Record::of(&self.plan, self.priority, message, accepted)
    }

    /// Records the answer to the eviction of the member with this UID. Returns true if it changes whether the member is expected to
    /// terminate.
    pub(super) fn answered(&mut self, pod: &ObjectKey, uid: &str, outcome: &EvictOutcome, now: Instant) -> bool {
        let Some(member) = self.members.get_mut(uid) else { return false };
        let before = member.is_expected_to_terminate();
        // A request that was not sent changes nothing about the earlier ones.
        if *outcome != EvictOutcome::Withdrawn {
            member.refused = matches!(outcome, EvictOutcome::Refused(_) | EvictOutcome::Rejected(_));
        }
        member.call.evicted(outcome, now);
        member.accepted |= outcome.is_accepted();
        let changed = member.is_expected_to_terminate() != before;
        if let EvictOutcome::Refused(why) | EvictOutcome::Rejected(why) = outcome {
            self.refusal = Some(disruption::eviction_retried(pod, uid, why));
        }
        changed
    }

    /// Adds the evictions that are due to `step`, and to `requests`, except those that were already requested for another cause. Returns
    /// true if a member is no longer expected to terminate, because a budget does not permit its eviction.
    pub(super) fn evict(
        &mut self,
        model: &Model,
        requests: &mut Requests,
        now: Instant,
        step: &mut DepartureStep,
    ) -> bool {
        let left: Vec<&Pod> = self.remaining(model).filter(|pod| !requests.is_requested(&pod.uid)).collect();
        self.guaranteed |= left.iter().any(|pod| self.is_guaranteed(model, pod));
        let is_due = |pod: &&Pod| self.members.get(&pod.uid).is_some_and(|member| member.call.due(now));
        if !left.iter().any(is_due) {
            return false;
        }
        let may_force = self.plan.cause == Cause::PartiallyDisrupted && !self.guaranteed;
        // The status of a budget may not yet include evictions that kube-scheduler and other clients made a moment ago.
        let breaches = if may_force {
            BTreeMap::new()
        } else {
            let asked = |pod: &&Pod| self.members.get(&pod.uid).is_some_and(DepartingPod::is_asked);
            let (going, next): (Vec<&Pod>, Vec<&Pod>) = left.iter().copied().partition(asked);
            model.budget_violations(going.into_iter().chain(next), &BTreeMap::new())
        };
        let mut changed = false;
        for pod in left {
            let Some(member) = self.members.get_mut(&pod.uid).filter(|member| member.call.due(now)) else { continue };
            let before = member.is_expected_to_terminate();
            member.call.start();
            if let Some(why) = breaches.get(&pod.uid) {
                changed |= before;
                member.call.answered(false, now);
                member.refused = true;
                self.refusal = Some(disruption::eviction_retried(&pod.key, &pod.uid, why));
                step.refused.push((self.group.clone(), pod.key.clone(), pod.uid.clone(), why.clone()));
                continue;
            }
            let mut call = EvictCall {
                cause: EvictionCause::Departure { group: self.group.clone(), id: self.plan.id.clone() },
                priority: self.priority,
                pod: pod.key.clone(),
                uid: pod.uid.clone(),
                budgeted: model.cluster.is_budgeted(pod),
                may_force,
                grace: pod.capped_grace(),
                rehearsal: false,
                again: false,
                message: self.message.clone(),
                permission: self.permission.clone(),
            };
            if requests.admit(&mut call) {
                step.commands.push(Command::Evict(Box::new(call)));
            }
        }
        changed
    }
}

/// Returns the members of a PodGroup that a departure (evictions of a disrupted PodGroup) may evict: bound pods, and if `pending_too` is
/// true also pending pods without a scheduling gate.
pub(super) fn evictable<'a>(
    model: &'a Model,
    group: &ObjectKey,
    pending_too: bool,
) -> impl Iterator<Item = &'a Pod> + use<'a> {
    model.cluster.members(group).filter(move |pod| is_evictable(model, pod, pending_too))
}

/// Returns true if a departure may evict this pod of a PodGroup: it is live and bound, and neither a mirror pod nor a critical add-on. If
/// `pending_too` is true, it may also be pending and ungated.
pub(super) fn is_evictable(model: &Model, pod: &Pod, pending_too: bool) -> bool {
    let is_there = pod.bound() || (pending_too && partial::is_unbound_and_ungated(pod));
    partial::is_live(pod) && is_there && !model.cluster.is_critical_addon(pod)
}

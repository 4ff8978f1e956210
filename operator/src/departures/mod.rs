//! Departures: evictions that Giveway carries out without a preemptor, because a PodGroup is already disrupted (design, section 5, "One
//! engine"). Each departure evicts the pods of one PodGroup. It is stored as a `Preemption` with the UIDs of the pods before its first
//! eviction, so a new leader finishes it. `spec.cause` is the cause:
//!
//! - `MemberPreempted`: [kube-scheduler preempted](crate::model::preempted_by_scheduler) one pod of a PodGroup in mode `PodGroup`.
//! - `PartiallyScheduled`: a gang has been [partially scheduled](crate::gangs::half_bound) for too long.
//! - `PartiallyDisrupted`: a plan was cancelled after it evicted some pods of a PodGroup in mode `PodGroup`.
//!
//! Only the last one continues a disruption that Giveway began. The other two violate no budget, and end when the gang has `minCount` bound
//! members again. The last one may violate budgets, as its plan might, unless one of its pods has a guaranteed budget.
//!
//! A departure that is [committed](Departure::is_committed) is finished: its evictions are retried until then, as far as budgets, protected
//! namespaces and rejections permit. The members are fixed when it begins: replacement pods are never evicted by it.

pub mod begin;
pub mod history;
pub mod plan_store;
#[cfg(test)]
mod tests;
pub mod view;

use crate::clock::Clock;
use crate::gangs::half_bound;
use crate::messages::call::Call;
use crate::messages::command::{Cause as EvictionCause, Command, EvictCall, EvictOutcome};
use crate::model::Model;
use crate::plans::LONGEST_WAIT;
use crate::speaker::words::{Sentence, part_of};
use begin::Request;
use giveway_crds::plan::{Cause, PlanState, StoredCost, StoredPlan, StoredVictim, StoredVictimPod};
use giveway_planner::SmolStr;
use giveway_planner::model::{ObjectKey, Pod};
use plan_store::{PlanStore, Record, controller};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// The evictions of pods of one PodGroup.
#[derive(Debug)]
pub struct Departure {
    /// Its stored form.
    plan: StoredPlan,
    group: ObjectKey,
    /// The priority of its API calls.
    priority: i32,
    /// The message for the PodGroup and its pods.
    message: Sentence,
    /// True if the API server has acknowledged it in this term. Before that no pod is evicted.
    stored: bool,
    /// True if the API server has rejected it several times in a row.
    cannot_be_stored: bool,
    /// Why its last write failed, until one succeeds.
    unwritten: Option<String>,
    /// True if its `Preemption` was deleted before it was committed. It ends when no eviction is in flight.
    deleted: bool,
    /// The pods by UID. A pod is a member of at most one departure.
    members: BTreeMap<SmolStr, Member>,
    /// UIDs of pods that became members of another departure while an eviction of this one was in flight, until it is answered.
    passed_on: BTreeSet<SmolStr>,
    /// The pods of the PodGroup that were bound when it began, by UID: its own and those of other departures.
    bound: BTreeSet<SmolStr>,
    /// True if a pod of the PodGroup has a guaranteed budget. A pod that has terminated counts, too.
    guaranteed: bool,
    /// When it began, or was resumed.
    since: Instant,
    /// Cancelled to withdraw evictions that the actuator has not sent yet.
    permission: CancellationToken,
    /// Why the last eviction was refused or rejected.
    refusal: Option<Sentence>,
}

/// A pod of a departure.
#[derive(Debug, Default)]
struct Member {
    call: Call,
    accepted: bool,
    /// True if the last answer was a refusal or rejection, or the last request was not even sent for the sake of a budget: then no request
    /// before that has evicted the pod.
    refused: bool,
}

impl Member {
    /// Returns true if a request has evicted the pod, or may have: one is in flight, or the last one was not refused. A request that failed
    /// may have been carried out.
    fn may_have_worked(&self) -> bool {
        self.call.pending() || (self.call != Call::Idle && !self.refused)
    }

    /// Returns true if its eviction was requested and not refused. A request that failed too often does not count: if it was carried out,
    /// the pod is terminating.
    fn is_asked(&self) -> bool {
        self.call.pending() || (self.may_have_worked() && !self.call.exhausted())
    }
}

/// The result of [`Departures::pass`].
#[derive(Debug, Default)]
pub struct Step {
    /// The evictions to request.
    pub commands: Vec<Command>,
    /// Pods whose budget does not allow their eviction: group, pod, UID and reason.
    pub refused: Vec<(ObjectKey, ObjectKey, SmolStr, String)>,
    /// PodGroups of which a departure ended.
    pub ended: Vec<ObjectKey>,
}

/// All departures, by PodGroup and name of the `Preemption`.
#[derive(Debug, Default)]
pub struct Departures(BTreeMap<(ObjectKey, String), Departure>);

impl Departure {
    /// Creates the departure that a `Preemption` stores; its list of members is empty if the `Preemption` has no pods. All named pods
    /// become members: each pass checks which of them still exist and belong to the PodGroup.
    fn of(plan: StoredPlan, priority: i32, message: Sentence, now: Instant) -> Self {
        let units = &plan.victims;
        let pods = || units.iter().flat_map(|unit| &unit.pods);
        let group = units.first().map(|unit| ObjectKey::new(&unit.namespace, &unit.name)).unwrap_or_default();
        Self {
            members: pods().map(|pod| (pod.uid.as_str().into(), Member::default())).collect(),
            passed_on: BTreeSet::new(),
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

    /// Returns true if it must be finished even under a restraint, because Giveway has evicted a pod of the PodGroup, or may have: an
    /// eviction got no answer or failed. An eviction in flight does not count before it is answered.
    fn is_committed(&self) -> bool {
        let is_evicted = |member: &Member| member.accepted || (member.is_asked() && !member.call.pending());
        self.plan.cause == Cause::PartiallyDisrupted || self.members.values().any(is_evicted)
    }

    /// Returns true if an eviction has no answer yet.
    fn is_in_flight(&self) -> bool {
        !self.passed_on.is_empty() || self.members.values().any(|member| member.call.pending())
    }

    /// Removes these pods from the departure and returns them. Their evictions that the actuator has not sent yet are withdrawn, because
    /// the departure may end before they would be sent.
    fn pass_on(&mut self, pods: &BTreeSet<SmolStr>) -> BTreeMap<SmolStr, Member> {
        let members = std::mem::take(&mut self.members).into_iter();
        let (passed_on, kept): (BTreeMap<_, _>, _) = members.partition(|(uid, _)| pods.contains(uid));
        self.members = kept;
        let in_flight = passed_on.iter().filter(|(_, member)| member.call.pending());
        self.passed_on.extend(in_flight.map(|(uid, _)| uid.clone()));
        if !self.passed_on.is_empty() {
            self.withdraw();
        }
        passed_on
    }

    /// Withdraws the evictions that the actuator has not sent yet.
    fn withdraw(&mut self) {
        std::mem::take(&mut self.permission).cancel();
    }

    /// Returns true if the budgets of the pod are guaranteed: against the preemptor of the cancelled plan, or always if there is none.
    fn is_guaranteed(&self, model: &Model, pod: &Pod) -> bool {
        let threshold = model.threshold(pod);
        match self.plan.cause {
            Cause::PartiallyDisrupted => threshold > Some(self.plan.preemptor.priority),
            _ => threshold.is_some(),
        }
    }

    /// Returns true if pods may be deleted although a budget refuses their eviction.
    fn may_violate_budgets(&self) -> bool {
        self.plan.cause == Cause::PartiallyDisrupted && !self.guaranteed
    }

    /// Returns the members that still exist, are not terminating and may be evicted. Pending pods are included only for a partially
    /// scheduled gang.
    fn left<'m>(&self, model: &'m Model) -> impl Iterator<Item = &'m Pod> + use<'m, '_> {
        let pending_too = self.plan.cause == Cause::PartiallyScheduled;
        let members = evictable(model, &self.group, pending_too);
        members.filter(|pod| self.members.contains_key(&pod.uid))
    }

    /// Updates the members from the model: a pod that has left after its eviction was requested and not refused counts as evicted, even if
    /// the answer is missing.
    fn observe(&mut self, model: &Model) {
        let live: BTreeSet<&SmolStr> = half_bound::live(model, &self.group).map(|pod| &pod.uid).collect();
        for (uid, member) in &mut self.members {
            member.accepted |= member.may_have_worked() && !live.contains(uid);
        }
    }

    /// Returns the state and message with which it ends as soon as no eviction is in flight; `None` if it continues. `restraint` is the
    /// reason why no evictions may begin.
    fn ending(&self, model: &Model, restraint: Option<&str>) -> Option<(PlanState, String)> {
        let all = self.members.len();
        if all == 0 {
            return Some((PlanState::Cancelled, "Another Preemption evicts its pods.".to_owned()));
        }
        let left = self.left(model).count();
        if left == 0 {
            return Some((PlanState::Completed, none_left(all)));
        }
        let left_are = part_of(left, all, ("pod", "pods"), ("is", "are"));
        if self.deleted {
            return Some((PlanState::Cancelled, "Its Preemption was deleted before a pod was evicted.".to_owned()));
        }
        if let Some(why) = model.cluster.protection(&self.group.namespace) {
            return Some((PlanState::Cancelled, format!("{left_are} not evicted: {why}.")));
        }
        if self.plan.cause != Cause::PartiallyDisrupted && self.has_enough_bound(model) {
            let message =
                format!("{left_are} not evicted, because the PodGroup has as many bound pods as it needs again.");
            return Some((PlanState::Completed, message));
        }
        if self.is_committed() {
            return None;
        }
        if let Some(why) = restraint {
            return Some((PlanState::Cancelled, format!("No pod was evicted: {why}.")));
        }
        let bound = self.bound_since(model)?;
        Some((PlanState::Cancelled, format!("No pod was evicted, because pod {} has been bound.", bound.key)))
    }

    /// Returns a member of a partially scheduled gang that was bound after the departure began: the gang may still become complete.
    fn bound_since<'m>(&self, model: &'m Model) -> Option<&'m Pod> {
        if self.plan.cause != Cause::PartiallyScheduled {
            return None;
        }
        half_bound::live(model, &self.group).find(|pod| pod.bound() && !self.bound.contains(&pod.uid))
    }

    /// Returns true if the gang has the bound members that it needs, not counting those whose eviction was requested: a partially scheduled
    /// gang has become complete, or a replacement pod is bound and every other eviction was refused.
    fn has_enough_bound(&self, model: &Model) -> bool {
        let Some(group) = model.cluster.group(&self.group) else { return false };
        let asked = |pod: &Pod| self.members.get(&pod.uid).is_some_and(Member::is_asked);
        let bound = || half_bound::live(model, &self.group).filter(|pod| pod.bound() && !asked(pod));
        let was_refused = |pod: &Pod| self.members.get(&pod.uid).is_some_and(|member| member.call.tries() > 0);
        let is_again = self.plan.cause == Cause::PartiallyScheduled
            || (self.left(model).all(was_refused) && bound().any(|pod| !self.members.contains_key(&pod.uid)));
        is_again && group.min_count.is_some_and(|min| bound().count() + model.cluster.finished(group) >= min)
    }

    /// Returns what the `Preemption` should contain.
    fn record(&self) -> Record<'_> {
        let accepted = self.members.values().filter(|member| member.accepted).count();
        let message = match &self.refusal {
            Some(refusal) if self.plan.state.in_flight() => format!("{} {refusal}", self.plan.message),
            _ => self.plan.message.clone(),
        };
        Record::of(&self.plan, self.priority, message, accepted)
    }

    /// Requests the evictions that are due. `is_taken` returns true for the UID of a pod that a plan evicts now.
    fn evict(&mut self, model: &Model, is_taken: impl Fn(&str) -> bool, now: Instant, step: &mut Step) {
        let left: Vec<&Pod> = self.left(model).filter(|pod| !is_taken(&pod.uid)).collect();
        self.guaranteed |= left.iter().any(|pod| self.is_guaranteed(model, pod));
        let is_due = |pod: &&Pod| self.members.get(&pod.uid).is_some_and(|member| member.call.due(now));
        if !left.iter().any(is_due) {
            return;
        }
        let may_force = self.may_violate_budgets();
        // The status of a budget may not yet include evictions that kube-scheduler and other clients made a moment ago.
        let breaches = if may_force {
            BTreeMap::new()
        } else {
            let asked = |pod: &&Pod| self.members.get(&pod.uid).is_some_and(Member::is_asked);
            let (going, next): (Vec<&Pod>, Vec<&Pod>) = left.iter().copied().partition(asked);
            model.breaches(going.into_iter().chain(next))
        };
        for pod in left {
            let Some(member) = self.members.get_mut(&pod.uid).filter(|member| member.call.due(now)) else { continue };
            member.call.start();
            if let Some(why) = breaches.get(&pod.uid) {
                member.call.answered(false, now);
                member.refused = true;
                self.refusal = Some(refusal(&pod.key, &pod.uid, why));
                step.refused.push((self.group.clone(), pod.key.clone(), pod.uid.clone(), why.clone()));
                continue;
            }
            step.commands.push(Command::Evict(Box::new(EvictCall {
                cause: EvictionCause::Departure { group: self.group.clone(), id: self.plan.id.clone() },
                priority: self.priority,
                pod: pod.key.clone(),
                uid: pod.uid.clone(),
                budgeted: model.cluster.is_budgeted(pod),
                may_force,
                grace: pod.capped_grace(),
                rehearsal: false,
                again: true,
                message: self.message.clone(),
                permission: self.permission.clone(),
            })));
        }
    }
}

impl Departures {
    /// Returns true if there is a departure of this PodGroup.
    pub fn holds(&self, group: &ObjectKey) -> bool {
        self.of_group(group).next().is_some()
    }

    /// Returns true if there is no departure.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of_group<'a>(&'a self, group: &'a ObjectKey) -> impl Iterator<Item = &'a Departure> {
        let from = (group.clone(), String::new());
        self.0.range(from..).take_while(move |((of, _), _)| of == group).map(|(_, departure)| departure)
    }

    fn of_group_mut<'a>(&'a mut self, group: &'a ObjectKey) -> impl Iterator<Item = &'a mut Departure> {
        let from = (group.clone(), String::new());
        self.0.range_mut(from..).take_while(move |((of, _), _)| of == group).map(|(_, departure)| departure)
    }

    fn by_id(&mut self, id: &str) -> Option<&mut Departure> {
        self.0.values_mut().find(|departure| departure.plan.id == id)
    }

    /// Begins a departure with this name. It must be stored before its first eviction. Returns false if other departures already evict all
    /// the pods. Pods of departures with a weaker cause, which may end without evicting them, become members of the new one.
    pub fn begin(
        &mut self,
        model: &Model,
        store: &mut PlanStore,
        request: Request,
        (id, term): (String, &str),
        clock: Clock,
    ) -> bool {
        let mut pods = request.pods.clone();
        let mut taken_over = BTreeMap::new();
        for other in self.of_group_mut(&request.group) {
            if strength(request.cause) > strength(other.plan.cause) {
                taken_over.extend(other.pass_on(&pods));
            } else {
                pods.retain(|uid| !other.members.contains_key(uid));
            }
        }
        if pods.is_empty() {
            return false;
        }
        let plan = stored(model, &request.group, &pods, &request, id, term, clock);
        tracing::info!(group = %request.group, plan = %plan.id, message = %request.message, "departure");
        let bound = half_bound::live(model, &request.group).filter(|pod| pod.bound());
        let bound = bound.map(|pod| pod.uid.clone()).collect();
        let key = (request.group, plan.id.clone());
        let mut departure = Departure::of(plan, request.priority, request.message, clock.now);
        departure.bound = bound;
        departure.members.extend(taken_over);
        store.open(&departure.record());
        self.0.insert(key, departure);
        true
    }

    /// Resumes a departure that an earlier leader stored. It must be stored again in this term before its next eviction. Returns its
    /// PodGroup; `None` if its `Preemption` has no PodGroup.
    pub fn resume(
        &mut self,
        model: &Model,
        store: &mut PlanStore,
        mut plan: StoredPlan,
        now: Instant,
    ) -> Option<ObjectKey> {
        // The earlier leader may have ended before it wrote the first status.
        plan.state = PlanState::Evicting;
        let unit = plan.victims.first().filter(|unit| unit.kind == "PodGroup")?;
        let (group, message) = (ObjectKey::new(&unit.namespace, &unit.name), Sentence::from(plan.reason.as_str()));
        let mut departure = Departure::of(plan, begin::priority_of(model, &group), message, now);
        let others: BTreeSet<SmolStr> = self.of_group(&group).flat_map(|other| other.members.keys().cloned()).collect();
        departure.members.retain(|uid, _| !others.contains(uid));
        let live: BTreeSet<&SmolStr> = half_bound::live(model, &group).map(|pod| &pod.uid).collect();
        for (uid, member) in &mut departure.members {
            member.accepted = !live.contains(uid);
        }
        store.reopen(&departure.record());
        self.0.insert((group.clone(), departure.plan.id.clone()), departure);
        Some(group)
    }

    /// Completes the resumption of all departures: the members of one are no pods that were bound after another one began.
    pub fn resumed(&mut self) {
        let mut members: BTreeMap<ObjectKey, BTreeSet<SmolStr>> = BTreeMap::new();
        for ((group, _), departure) in &self.0 {
            members.entry(group.clone()).or_default().extend(departure.members.keys().cloned());
        }
        for ((group, _), departure) in &mut self.0 {
            departure.bound.extend(members.get(group).into_iter().flatten().cloned());
        }
    }

    /// Returns the number of pods that must still be evicted before replacement pods may be ungated: otherwise the replacement pods would
    /// join a gang that is being disrupted. Returns 0 after a minute, and for a partially scheduled gang, which may still become complete.
    pub fn to_wait_for(&self, model: &Model, group: &ObjectKey, now: Instant) -> usize {
        let waits = |departure: &&Departure| {
            departure.plan.cause != Cause::PartiallyScheduled && now.duration_since(departure.since) < LONGEST_WAIT
        };
        self.of_group(group).filter(waits).map(|departure| departure.left(model).count()).sum()
    }

    /// Returns true if an eviction of the pod with this UID was requested and not refused. A request that failed may have been carried out,
    /// and is retried.
    pub fn has_asked(&self, uid: &str) -> bool {
        self.0.values().any(|departure| departure.members.get(uid).is_some_and(Member::is_asked))
    }

    /// UIDs of the pods that are expected to terminate: all but those whose eviction was refused or failed too often. An eviction that
    /// failed otherwise is retried within seconds, so a plan that counts on the pod stays valid.
    pub fn leaving(&self) -> impl Iterator<Item = &SmolStr> {
        self.members().filter(|(_, member)| !member.refused && !member.call.exhausted()).map(|(uid, _)| uid)
    }

    fn members(&self) -> impl Iterator<Item = (&SmolStr, &Member)> {
        self.0.values().flat_map(|departure| &departure.members)
    }

    /// Returns true if every departure of the PodGroup is stored.
    pub fn all_stored(&self, group: &ObjectKey) -> bool {
        self.of_group(group).all(|departure| departure.stored)
    }

    /// Returns true if none of these pods of a PodGroup belongs to a departure that must still be stored.
    pub fn are_stored(&self, group: &ObjectKey, pods: &BTreeSet<SmolStr>) -> bool {
        let unstored = self.of_group(group).filter(|departure| !departure.stored && !departure.cannot_be_stored);
        let mut members = unstored.flat_map(|departure| departure.members.keys());
        !members.any(|uid| pods.contains(uid))
    }

    /// Withdraws the evictions that the actuator has not sent yet.
    pub fn hold(&mut self) {
        self.0.values_mut().filter(|departure| departure.is_in_flight()).for_each(Departure::withdraw);
    }

    /// Records that the API server has rejected a departure several times in a row. Plans no longer wait until it is stored; the write is
    /// retried.
    pub fn cannot_be_stored(&mut self, id: &str) {
        if let Some(departure) = self.by_id(id) {
            departure.cannot_be_stored = true;
        }
    }

    /// Records that the API server has acknowledged a departure. Returns its PodGroup.
    pub fn stored(&mut self, id: &str) -> Option<ObjectKey> {
        let departure = self.by_id(id)?;
        (departure.stored, departure.unwritten) = (true, None);
        Some(departure.group.clone())
    }

    /// Records why a write of a departure failed. Returns its PodGroup.
    pub fn not_written(&mut self, id: &str, why: &str) -> Option<ObjectKey> {
        let departure = self.by_id(id)?;
        departure.unwritten = Some(why.to_owned());
        Some(departure.group.clone())
    }

    /// Returns why a departure of the PodGroup is not stored, if the last write failed.
    pub fn unwritten(&self, group: &ObjectKey) -> Option<&str> {
        let from = (group.clone(), String::new());
        let mut of_group = self.0.range(from..).take_while(|((of, _), _)| of == group);
        of_group.find_map(|(_, departure)| departure.unwritten.as_deref().filter(|_| !departure.stored))
    }

    /// Handles the deletion of a departure's `Preemption`: a committed departure is stored again, any other one ends in the next
    /// [pass](Self::pass). Returns the PodGroup; `None` if no departure has this name.
    pub fn deleted(&mut self, store: &mut PlanStore, id: &str) -> Option<ObjectKey> {
        let departure = self.by_id(id)?;
        departure.stored = false;
        departure.deleted = !departure.is_committed();
        if departure.deleted {
            departure.withdraw();
        } else {
            store.open(&departure.record());
        }
        Some(departure.group.clone())
    }

    /// Handles the answer to an eviction. Returns the message for the pod's event.
    pub fn evicted(
        &mut self,
        group: &ObjectKey,
        pod: &ObjectKey,
        uid: &str,
        outcome: &EvictOutcome,
        now: Instant,
    ) -> Option<Sentence> {
        self.of_group_mut(group).for_each(|departure| departure.passed_on.retain(|passed_on| passed_on != uid));
        let departure = self.of_group_mut(group).find(|departure| departure.members.contains_key(uid))?;
        let member = departure.members.get_mut(uid)?;
        // A request that was not sent changes nothing about the earlier ones.
        if *outcome != EvictOutcome::Withdrawn {
            member.refused = matches!(outcome, EvictOutcome::Refused(_) | EvictOutcome::Rejected(_));
        }
        member.call.evicted(outcome, now);
        member.accepted |= outcome.is_accepted();
        if let EvictOutcome::Refused(why) | EvictOutcome::Rejected(why) = outcome {
            departure.refusal = Some(refusal(pod, uid, why));
        }
        Some(departure.message.clone())
    }

    /// Advances all departures. `is_taken` returns true for the UID of a pod that a plan evicts now, `restraint` is the reason why no
    /// evictions may begin.
    pub fn pass(
        &mut self,
        model: &Model,
        store: &mut PlanStore,
        is_taken: impl Fn(&str) -> bool,
        restraint: Option<&str>,
        clock: Clock,
    ) -> Step {
        let mut step = Step::default();
        self.0.retain(|(group, _), departure| {
            departure.observe(model);
            // An eviction was accepted before it could be withdrawn, or may have been.
            if departure.deleted && departure.is_committed() {
                (departure.deleted, departure.stored) = (false, false);
                store.open(&departure.record());
            }
            if let Some((state, message)) = departure.ending(model, restraint) {
                if !departure.is_in_flight() {
                    (departure.plan.state, departure.plan.message) = (state, message);
                    store.close(&departure.record(), clock.time());
                    step.ended.push(group.clone());
                    return false;
                }
                // The answers are counted first, and show whether it is committed.
                departure.withdraw();
            } else if departure.stored && !departure.deleted {
                departure.evict(model, &is_taken, clock.now, &mut step);
            }
            store.note(&departure.record());
            true
        });
        step
    }
}

/// Returns the last message of a departure of this number of pods.
fn none_left(all: usize) -> String {
    match all {
        1 => "No pod is left.".to_owned(),
        all => format!("None of the {all} pods is left."),
    }
}

/// Returns the rank of a cause. A partially scheduled gang may still become complete, and a departure after a plan may violate budgets.
pub fn strength(cause: Cause) -> u8 {
    match cause {
        Cause::PartiallyScheduled => 0,
        Cause::MemberPreempted => 1,
        Cause::PartiallyDisrupted | Cause::Preemptor | Cause::CriticalAddon => 2,
    }
}

/// Returns the members of a PodGroup that a departure may evict: bound pods, and if `pending_too` also pending pods without a scheduling
/// gate.
fn evictable<'a>(model: &'a Model, group: &ObjectKey, pending_too: bool) -> impl Iterator<Item = &'a Pod> + use<'a> {
    model.cluster.members(group).filter(move |pod| is_evictable(model, pod, pending_too))
}

/// Returns true if a pod of a PodGroup is evicted with it: it is live and bound, and neither a mirror pod nor a critical add-on.
/// `pending_too`: or it is pending and ungated.
fn is_evictable(model: &Model, pod: &Pod, pending_too: bool) -> bool {
    let is_there = pod.bound() || (pending_too && half_bound::is_free(pod));
    half_bound::is_live(pod) && is_there && !model.cluster.is_critical_addon(pod)
}

fn refusal(pod: &ObjectKey, uid: &str, why: &str) -> Sentence {
    Sentence::from("The eviction of ").object("pod", pod, uid).text(" was refused and is retried: ").detail(
        &pod.namespace,
        why,
        "it is not allowed now",
    )
}

/// Returns the stored form of a departure.
fn stored(
    model: &Model,
    group: &ObjectKey,
    pods: &BTreeSet<SmolStr>,
    request: &Request,
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
        },
        victims: vec![unit],
        ..StoredPlan::default()
    }
}

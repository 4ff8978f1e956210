//! Departures: evictions that Giveway carries out without a preemptor, because a PodGroup is already disrupted (design, section 5, "One
//! engine"). Each departure evicts the pods of one PodGroup. It is stored as a `Preemption` with the UIDs of the pods before its first
//! eviction, so a new leader finishes it. `spec.cause` is the cause:
//!
//! - `MemberPreempted`: [kube-scheduler preempted](crate::model::preempted_by_scheduler) one pod of a PodGroup in mode `PodGroup`.
//! - `PartiallyScheduled`: a gang has been [partially scheduled](crate::gangs::partial) for too long.
//! - `PartiallyDisrupted`: a plan was cancelled after it evicted some pods of a PodGroup in mode `PodGroup`.
//!
//! Only the last one continues a disruption that Giveway began. The other two violate no budget, and end when the gang has `minCount` bound
//! members again. The last one may violate budgets, as its plan might, unless one of its pods has a guaranteed budget.
//!
//! A departure that is [committed](Departure::is_committed) is finished: its evictions are retried until then, as far as budgets, protected
//! namespaces and rejections permit. The members are fixed when it begins: replacement pods are never evicted by it.

pub mod begin;
mod departure;
pub mod history;
pub mod plan_store;
pub mod requests;
#[cfg(test)]
mod tests;
pub mod view;

pub use departure::DepartureStep;

use crate::clock::Clock;
use crate::gangs::partial;
use crate::messages::command::EvictOutcome;
use crate::model::Model;
use crate::plans::LONGEST_WAIT;
use begin::DepartureRequest;
use departure::{DepartingPod, Departure};
use giveway_crds::plan::{Cause, PlanState, StoredPlan};
use giveway_crds::wording::Sentence;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use plan_store::PlanStore;
use requests::Requests;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// All departures, by PodGroup and name of the `Preemption`, and the evictions that they and the plans have requested.
#[derive(Debug, Default)]
pub struct Departures {
    all: BTreeMap<(ObjectKey, String), Departure>,
    /// The requests of departures and plans.
    pub requests: Requests,
    /// True if pods that counted as terminating may not terminate after all, or the reverse, since [`Self::take_changed`].
    changed: bool,
}

impl Departures {
    /// Returns true if a departure of this PodGroup (evictions because it is disrupted) is in progress.
    pub fn has_departure_of(&self, group: &ObjectKey) -> bool {
        self.of_group(group).next().is_some()
    }

    /// Returns true if no departure (evictions of a disrupted PodGroup) is in progress.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the departures in progress that evict pods of this PodGroup.
    fn of_group<'a>(&'a self, group: &ObjectKey) -> impl Iterator<Item = &'a Departure> {
        let from = (group.clone(), String::new());
        self.all.range(from..).take_while(move |((of, _), _)| of == group).map(|(_, departure)| departure)
    }

    /// Returns the departures in progress of this PodGroup (evictions because it is disrupted), which may be changed.
    fn of_group_mut<'a>(&'a mut self, group: &'a ObjectKey) -> impl Iterator<Item = &'a mut Departure> {
        let from = (group.clone(), String::new());
        self.all.range_mut(from..).take_while(move |((of, _), _)| of == group).map(|(_, departure)| departure)
    }

    /// Returns the departure in progress (evictions of a disrupted PodGroup) whose `Preemption` has this name, for a change.
    fn by_id(&mut self, id: &str) -> Option<&mut Departure> {
        self.all.values_mut().find(|departure| departure.plan.id == id)
    }

    /// Begins a departure (evictions of a disrupted PodGroup) with the name `id` in the term of this leader. It must be stored before its
    /// first eviction. Returns false, and begins none, if other departures already evict all the pods. Pods of departures with a weaker
    /// cause, which may end without evicting them, become members of the new one.
    pub fn begin(
        &mut self,
        model: &Model,
        store: &mut PlanStore,
        request: DepartureRequest,
        (id, term): (String, &str),
        clock: Clock,
    ) -> bool {
        let mut pods = request.pods.clone();
        let mut taken_over = BTreeMap::new();
        for other in self.of_group_mut(&request.group) {
            if strength(request.cause) > strength(other.plan.cause) {
                taken_over.extend(other.take_members(&pods));
            } else {
                pods.retain(|uid| !other.members.contains_key(uid));
            }
        }
        if pods.is_empty() {
            return false;
        }
        let plan = begin::stored_plan(model, &request.group, &pods, &request, id, term, clock);
        tracing::info!(group = %request.group, plan = %plan.id, message = %request.message, "departure");
        let bound = partial::live(model, &request.group).filter(|pod| pod.bound());
        let bound = bound.map(|pod| pod.uid.clone()).collect();
        let key = (request.group, plan.id.clone());
        let mut departure = Departure::of(plan, request.priority, request.message, clock.now);
        departure.bound = bound;
        departure.members.extend(taken_over);
        store.open(&departure.record());
        self.all.insert(key, departure);
        self.changed = true;
        true
    }

    /// Resumes a departure (evictions of a disrupted PodGroup) that an earlier leader stored. It must be stored again in this term before
    /// its next eviction. Returns its PodGroup; `None` if its `Preemption` has no PodGroup.
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
        let live: BTreeSet<&SmolStr> = partial::live(model, &group).map(|pod| &pod.uid).collect();
        for (uid, member) in &mut departure.members {
            member.accepted = !live.contains(uid);
        }
        store.reopen(&departure.record());
        self.all.insert((group.clone(), departure.plan.id.clone()), departure);
        Some(group)
    }

    /// Called by a new leader after the last [`Self::resume`], which knows only the pods that each departure evicts itself: adds to each
    /// departure the pods that the other departures of its PodGroup found bound. Otherwise the departure of a partially scheduled gang
    /// would be cancelled, because such a pod would count as a member that was bound after it began.
    pub fn complete_resumption(&mut self) {
        let mut bound: BTreeMap<ObjectKey, BTreeSet<SmolStr>> = BTreeMap::new();
        for ((group, _), departure) in &self.all {
            bound.entry(group.clone()).or_default().extend(departure.bound.iter().cloned());
        }
        for ((group, _), departure) in &mut self.all {
            departure.bound.extend(bound.get(group).into_iter().flatten().cloned());
        }
    }

    /// Returns the number of pods of this PodGroup that must still be evicted before replacement pods may be ungated: otherwise the
    /// replacement pods would join a gang that is being disrupted. Departures (evictions of a disrupted PodGroup) that began more than a
    /// minute ago do not count, nor those of a partially scheduled gang, which may still become complete.
    pub fn pods_to_wait_for(&self, model: &Model, group: &ObjectKey, now: Instant) -> usize {
        let waits = |departure: &&Departure| {
            departure.plan.cause != Cause::PartiallyScheduled && now.duration_since(departure.since) < LONGEST_WAIT
        };
        self.of_group(group).filter(waits).map(|departure| departure.remaining(model).count()).sum()
    }

    /// Returns the UIDs of the pods of departures (evictions of a disrupted PodGroup) that are expected to terminate: all but those whose
    /// eviction was refused or failed too often. An eviction that failed otherwise is retried within seconds, so a plan that counts on the
    /// pod stays valid.
    fn leaving(&self) -> impl Iterator<Item = &SmolStr> {
        self.members().filter(|(_, member)| member.is_expected_to_terminate()).map(|(uid, _)| uid)
    }

    /// Returns the UIDs of the pods that count as terminating: those of departures (evictions of a disrupted PodGroup) that are expected to
    /// terminate, and those whose eviction was accepted, whatever its cause, although the watch still shows them as running.
    pub fn departing(&self) -> impl Iterator<Item = &SmolStr> {
        self.leaving().chain(self.requests.accepted())
    }

    /// Returns true if the set of pods that count as [terminating](Self::departing) may have changed since the last call although the model
    /// has not changed: plans and waiting preemptors that count on these pods must be examined again.
    pub fn take_changed(&mut self, model: &Model, now: Instant) -> bool {
        let is_unseen = self.requests.observe(model, now);
        std::mem::take(&mut self.changed) || is_unseen
    }

    /// Returns the pods of all departures in progress, each with its UID.
    fn members(&self) -> impl Iterator<Item = (&SmolStr, &DepartingPod)> {
        self.all.values().flat_map(|departure| &departure.members)
    }

    /// Returns true if every departure in progress of the PodGroup (evictions because it is disrupted) is stored as a `Preemption`.
    pub fn all_stored(&self, group: &ObjectKey) -> bool {
        self.of_group(group).all(|departure| departure.stored)
    }

    /// Returns true if none of these pods (UIDs) of a PodGroup belongs to a departure (evictions of a disrupted PodGroup) whose
    /// `Preemption` must still be stored. One that the API server has rejected several times need not.
    pub fn are_stored(&self, group: &ObjectKey, pods: &BTreeSet<SmolStr>) -> bool {
        let unstored = self.of_group(group).filter(|departure| !departure.stored && !departure.cannot_be_stored);
        let mut members = unstored.flat_map(|departure| departure.members.keys());
        !members.any(|uid| pods.contains(uid))
    }

    /// Cancels the requested evictions of all departures that were not sent to the API server yet.
    pub fn withdraw_unsent_evictions(&mut self) {
        let in_flight = self.all.iter_mut().filter(|((_, id), _)| self.requests.are_in_flight_for(id));
        in_flight.for_each(|(_, departure)| departure.withdraw_unsent_evictions());
    }

    /// Records that the API server has rejected the `Preemption` of the departure `id` several times in a row. Plans no longer wait until
    /// it is stored; the write is retried.
    pub fn cannot_be_stored(&mut self, id: &str) {
        if let Some(departure) = self.by_id(id) {
            departure.cannot_be_stored = true;
        }
    }

    /// Records that the API server has acknowledged the `Preemption` of the departure `id`. Returns its PodGroup; `None` if no departure
    /// has this name.
    pub fn note_stored(&mut self, id: &str) -> Option<ObjectKey> {
        let departure = self.by_id(id)?;
        (departure.stored, departure.unwritten) = (true, None);
        Some(departure.group.clone())
    }

    /// Records why the write of the `Preemption` of the departure `id` failed. Returns its PodGroup; `None` if no departure has this name.
    pub fn not_written(&mut self, id: &str, why: &str) -> Option<ObjectKey> {
        let departure = self.by_id(id)?;
        departure.unwritten = Some(why.to_owned());
        Some(departure.group.clone())
    }

    /// Returns why the last write of a departure of this PodGroup failed that is not stored; `None` if there is none.
    pub fn unwritten(&self, group: &ObjectKey) -> Option<&str> {
        let mut unstored = self.of_group(group).filter(|departure| !departure.stored);
        unstored.find_map(|departure| departure.unwritten.as_deref())
    }

    /// Handles the deletion of the `Preemption` of the departure `id` (evictions of a disrupted PodGroup): it is stored again if it has
    /// evicted a pod, or may have; otherwise it ends in the next [pass](Self::pass). Returns its PodGroup; `None` if no departure has this
    /// name.
    pub fn preemption_deleted(&mut self, store: &mut PlanStore, id: &str) -> Option<ObjectKey> {
        let departure = self.by_id(id)?;
        departure.stored = false;
        departure.deleted = !departure.is_committed();
        if departure.deleted {
            departure.withdraw_unsent_evictions();
        } else {
            store.open(&departure.record());
        }
        Some(departure.group.clone())
    }

    /// Records the answer to the eviction of a pod of this PodGroup. Returns the message for the pod's event; `None` if the pod belongs to
    /// no departure (evictions of a disrupted PodGroup).
    pub fn evicted(
        &mut self,
        group: &ObjectKey,
        pod: &ObjectKey,
        uid: &str,
        outcome: &EvictOutcome,
        now: Instant,
    ) -> Option<Sentence> {
        let departure = self.of_group_mut(group).find(|departure| departure.members.contains_key(uid))?;
        let (changed, message) = (departure.answered(pod, uid, outcome, now), departure.message.clone());
        self.changed |= changed;
        Some(message)
    }

    /// Advances all departures (evictions of a disrupted PodGroup): requests evictions that are due, ends departures that are finished, and
    /// updates what `store` writes. `restraint` is the reason if Giveway observes or is switched off, so that no evictions may begin.
    pub fn pass(
        &mut self,
        model: &Model,
        store: &mut PlanStore,
        restraint: Option<&str>,
        clock: Clock,
    ) -> DepartureStep {
        let mut step = DepartureStep::default();
        let (requests, changed) = (&mut self.requests, &mut self.changed);
        self.all.retain(|(group, id), departure| {
            departure.observe(model);
            // An eviction was accepted before it could be withdrawn, or may have been.
            if departure.deleted && departure.is_committed() {
                (departure.deleted, departure.stored) = (false, false);
                store.open(&departure.record());
            }
            if let Some((state, message)) = departure.ending(model, restraint) {
                if !requests.are_in_flight_for(id) {
                    (departure.plan.state, departure.plan.message) = (state, message);
                    store.close(&departure.record(), clock.time());
                    step.ended.push(group.clone());
                    *changed = true;
                    return false;
                }
                // The answers are counted first, and show whether it is committed.
                departure.withdraw_unsent_evictions();
            } else if departure.stored && !departure.deleted {
                *changed |= departure.evict(model, requests, clock.now, &mut step);
            }
            store.note(&departure.record());
            true
        });
        step
    }
}

/// Returns how strong a cause of evictions is, from 0 to 2: a departure takes over the pods of departures with a weaker cause. A partially
/// scheduled gang (0) may still become complete, and a departure after a plan (2) may violate budgets.
pub fn strength(cause: Cause) -> u8 {
    match cause {
        Cause::PartiallyScheduled => 0,
        Cause::MemberPreempted => 1,
        Cause::PartiallyDisrupted | Cause::Preemptor | Cause::CriticalAddon => 2,
    }
}

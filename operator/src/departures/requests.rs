//! The evictions that were requested, by UID of the pod: the one door through which plans and departures evict. A pod has at most one
//! request in flight, whatever its causes, and none is made while the watch has not yet shown the effect of an accepted one.

use crate::messages::call::UNSEEN;
use crate::messages::command::{Command, EvictCall, EvictOutcome};
use crate::model::Model;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use std::collections::BTreeMap;
use std::time::Instant;

/// The requests, by UID of the pod. There are at most as many as pods that exist and pods with a request in flight.
#[derive(Debug, Default)]
pub struct Requests {
    all: BTreeMap<SmolStr, TrackedEviction>,
    /// The number of requests in flight, by name of the `Preemption` for which they were made.
    in_flight: BTreeMap<String, usize>,
}

/// What is known about the evictions of a pod.
#[derive(Debug)]
struct TrackedEviction {
    pod: ObjectKey,
    /// The name of the `Preemption` for which a request is in flight.
    in_flight: Option<String>,
    /// When the last request was accepted, if the watch has not shown that yet.
    accepted: Option<Instant>,
    /// True if a request was made whose result is not known: it may still be carried out.
    may_have_worked: bool,
}

impl TrackedEviction {
    /// Creates the record of a pod whose eviction was not requested.
    fn of(pod: &ObjectKey) -> Self {
        Self { pod: pod.clone(), in_flight: None, accepted: None, may_have_worked: false }
    }

    /// Returns true if a request to evict the pod is in flight, or was accepted and the watch has not shown that yet.
    fn is_requested(&self) -> bool {
        self.in_flight.is_some() || self.accepted.is_some()
    }
}

impl Requests {
    /// Records a request to evict a pod, which the caller must then make. Returns false, and records nothing, if the pod has a request in
    /// flight or was evicted. A dry run is always admitted. Sets `call.again` if an earlier request may still be carried out.
    pub fn admit(&mut self, call: &mut EvictCall) -> bool {
        if call.rehearsal {
            return true;
        }
        let request = self.all.entry(call.uid.clone()).or_insert_with(|| TrackedEviction::of(&call.pod));
        if request.is_requested() {
            return false;
        }
        call.again = request.may_have_worked;
        let plan = call.cause.id().to_owned();
        *self.in_flight.entry(plan.clone()).or_default() += 1;
        request.in_flight = Some(plan);
        true
    }

    /// Records the evictions among these commands. Removes those that must not be made now, because the pod has a request in flight or was
    /// evicted, and returns the UIDs of their pods.
    pub fn admit_all(&mut self, commands: &mut Vec<Command>) -> Vec<SmolStr> {
        let mut withheld = Vec::new();
        commands.retain_mut(|command| {
            let Command::Evict(call) = command else { return true };
            let is_admitted = self.admit(call);
            if !is_admitted {
                withheld.push(call.uid.clone());
            }
            is_admitted
        });
        withheld
    }

    /// Records the answer to the eviction of the pod with this UID. An eviction that may have had an effect is remembered until the watch
    /// shows it.
    pub fn answered(&mut self, uid: &SmolStr, outcome: &EvictOutcome, now: Instant) {
        let Some(request) = self.all.get_mut(uid) else { return };
        if let Some(plan) = request.in_flight.take()
            && let Some(count) = self.in_flight.get_mut(&plan)
        {
            *count -= 1;
            if *count == 0 {
                self.in_flight.remove(&plan);
            }
        }
        match outcome {
            EvictOutcome::Accepted | EvictOutcome::Forced => {
                (request.accepted, request.may_have_worked) = (Some(now), true);
            }
            EvictOutcome::Error(_) | EvictOutcome::Unanswered(_) => request.may_have_worked = true,
            // These say nothing about an earlier request.
            EvictOutcome::Refused(_) | EvictOutcome::Rejected(_) | EvictOutcome::Withdrawn | EvictOutcome::Allowed => {}
            EvictOutcome::Gone => request.may_have_worked = false,
        }
        if !request.is_requested() && !request.may_have_worked {
            self.all.remove(uid);
        }
    }

    /// Records that an earlier leader may have requested the eviction of a pod.
    pub fn resume(&mut self, pod: &ObjectKey, uid: &str) {
        self.all.entry(uid.into()).or_insert_with(|| TrackedEviction::of(pod)).may_have_worked = true;
    }

    /// Deletes the records of pods that the watch shows as terminating soon or does not show any more. Returns true if the watch has not
    /// shown the effect of an accepted eviction in time, so that no plan may count on it any more.
    pub fn observe(&mut self, model: &Model, now: Instant) -> bool {
        let mut any_unseen = false;
        self.all.retain(|uid, request| {
            let pod = model.cluster.pod(&request.pod).filter(|pod| pod.uid == *uid);
            let is_there = pod.is_some_and(|pod| !pod.leaves && !pod.ended());
            if is_there && request.accepted.is_some_and(|at| now.duration_since(at) >= UNSEEN) {
                request.accepted = None;
                any_unseen = true;
            }
            is_there || request.in_flight.is_some()
        });
        any_unseen
    }

    /// Returns true if the pod with this UID has a request in flight, or one was accepted and the watch has not shown that yet.
    pub fn is_requested(&self, uid: &str) -> bool {
        self.all.get(uid).is_some_and(TrackedEviction::is_requested)
    }

    /// Returns true if a request to evict the pod with this UID was made whose result is not known, or whose effect the watch does not show
    /// yet.
    pub fn may_have_worked(&self, uid: &str) -> bool {
        self.all.get(uid).is_some_and(|request| request.may_have_worked)
    }

    /// Returns true if an eviction for the `Preemption` with this name is in flight.
    pub fn are_in_flight_for(&self, plan: &str) -> bool {
        self.in_flight.contains_key(plan)
    }

    /// Returns the UIDs of the pods whose eviction was accepted although the watch still shows them as running.
    pub fn accepted(&self) -> impl Iterator<Item = &SmolStr> {
        self.all.iter().filter(|(_, request)| request.accepted.is_some()).map(|(uid, _)| uid)
    }
}

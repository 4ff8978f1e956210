//! Requests capacity for gangs from a cluster autoscaler. Autoscalers ignore gated pods, so capacity is requested by a
//! [`ProvisioningRequest`](giveway_crds::autoscaling) or by placeholders: pods with the same requests and without a
//! scheduling gate.
//!
//! What should exist follows from which gangs are pending, since when, and which requests and placeholders exist; each
//! pass creates and deletes the difference. A failed attempt is retried after a delay that grows with each attempt. Its
//! placeholders are deleted until then, so that a gang does not reserve insufficient capacity for ever.

mod ask;

use crate::clock::Clock;
use crate::config::{Config, ProvisioningMethod};
use crate::messages::call::Calls;
use crate::messages::call_key::CallKey;
use crate::messages::command::Command;
use crate::messages::report::CallError;
use crate::model::Model;
use crate::status::WaitReason;
use ask::{GangRequest, RequestPass, Requests};
use giveway_planner::model::{ObjectKey, Pod};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Interval between two passes.
const EVERY: Duration = Duration::from_millis(250);

/// What a gang is pending for, on which its capacity request depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityNeed {
    /// No capacity is available.
    Capacity,
    /// Its plan is postponed, so that provisioning is tried before preemption.
    Postponed,
    /// Its members are being placed. Nothing more is requested, and existing placeholders and requests stay.
    Placed,
}

/// The capacity requests of all gangs.
#[derive(Debug, Default)]
pub struct Provisioning {
    asks: BTreeMap<ObjectKey, GangRequest>,
    calls: Calls,
    /// PodGroups whose message has changed.
    changed_groups: BTreeSet<ObjectKey>,
    next: Option<Instant>,
}

impl Provisioning {
    /// Records the answer to a call that creates or deletes a capacity request or placeholder. After a failure capacity is requested again
    /// later.
    pub fn answered(&mut self, call: &CallKey, result: &Result<(), CallError>, now: Instant) {
        self.calls.answered(call, matches!(result, Ok(()) | Err(CallError::Gone)), now);
        let (CallKey::RequestCapacity { group, .. } | CallKey::CreatePlaceholder { group, .. }) = call else { return };
        let Some(ask) = self.asks.get_mut(group) else { return };
        match result {
            Ok(()) => ask.note_created(call),
            Err(CallError::Failed(why) | CallError::Rejected(why)) => ask.back_off_after_failure(why, now),
            Err(CallError::Gone | CallError::Unanswered(_) | CallError::NotLeader) => {}
        }
    }

    /// Returns the state of the PodGroup's capacity request as a wait reason for its status; `None` if it has none.
    pub fn reason(&self, group: &ObjectKey) -> Option<&WaitReason> {
        self.asks.get(group)?.reason.as_ref()
    }

    /// Returns the PodGroups for which [`Self::reason`] has changed since the last call of this function.
    pub fn take_changed_groups(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.changed_groups)
    }

    /// Returns the calls that create and delete capacity requests and placeholders. `waits` returns the pending gangs and what each of them
    /// is pending for. Does nothing within 250 ms after the last pass.
    pub fn pass(
        &mut self,
        model: &Model,
        waits: impl FnOnce() -> BTreeMap<ObjectKey, CapacityNeed>,
        config: &Config,
        clock: Clock,
    ) -> Vec<Command> {
        let off = config.provisioning_method == ProvisioningMethod::Off;
        if (off && model.groups_with_placeholders().next().is_none()) || self.next.is_some_and(|at| clock.now < at) {
            return Vec::new();
        }
        self.next = Some(clock.now + EVERY);
        self.calls.forget(clock.now);
        let waits = if off { BTreeMap::new() } else { waits() };
        let removed: Vec<ObjectKey> = self.asks.keys().filter(|key| !waits.contains_key(*key)).cloned().collect();
        for key in removed {
            self.asks.remove(&key);
            self.changed_groups.insert(key);
        }
        let (kept, commands) = (BTreeSet::new(), Vec::new());
        let requests = requests_by_group(model);
        let mut step = RequestPass { model, requests, clock, calls: &mut self.calls, kept, commands };
        for (key, wait) in &waits {
            if *wait == CapacityNeed::Placed {
                step.kept.extend(model.placeholders(key).map(|pod| pod.key.clone()));
                let its: Vec<ObjectKey> = step.requests_of(key).map(|(request, _)| request.clone()).collect();
                step.kept.extend(its);
            } else if let Some(record) = model.groups.get(key) {
                let ask = self.asks.entry(key.clone()).or_insert_with(|| GangRequest::new(&record.uid, clock.now));
                if ask.uid != record.uid {
                    *ask = GangRequest::new(&record.uid, clock.now);
                }
                let before = ask.reason.clone();
                ask.request_missing(config, key, *wait, &mut step);
                if ask.reason != before {
                    self.changed_groups.insert(key.clone());
                }
            }
        }
        remove_the_rest(&mut step);
        step.commands
    }
}

/// Adds the calls to `step` that delete the placeholders and ProvisioningRequests that no gang has marked as needed in this pass.
fn remove_the_rest(step: &mut RequestPass<'_>) {
    let RequestPass { model, requests: _, clock, calls, kept, commands } = step;
    let pods = model.groups_with_placeholders().flat_map(|group| model.all_placeholders(group));
    for pod in pods.filter(|pod| !kept.contains(&pod.key)) {
        let remove = Command::RemovePlaceholder { pod: pod.key.clone(), uid: pod.uid.clone() };
        commands.extend(calls.start(remove, clock.now));
    }
    for (request, record) in &model.requests {
        let stays = kept.contains(request) || record.deleting;
        if !stays {
            let withdraw = Command::WithdrawRequest { request: request.clone(), uid: record.uid.clone() };
            commands.extend(calls.start(withdraw, clock.now));
        }
    }
}

/// Returns the ProvisioningRequests of PodGroups that exist, by PodGroup. Requests that are being deleted are left out.
fn requests_by_group(model: &Model) -> Requests<'_> {
    let mut found = Requests::new();
    for (request, record) in model.requests.iter().filter(|(_, record)| !record.deleting) {
        if model.groups.get(&record.group).is_some_and(|group| group.uid == record.group_uid) {
            found.entry(&record.group).or_default().push((request, record));
        }
    }
    found
}

/// Returns the members of a PodGroup, sorted by name, that are pending only for lack of capacity: their only scheduling gate is Giveway's,
/// and one of these schedulers will bind them.
fn members_without_capacity<'m>(model: &'m Model, key: &ObjectKey, schedulers: &[String]) -> Vec<&'m Pod> {
    let Some(group) = model.cluster.group(key) else { return Vec::new() };
    let waits = |pod: &&Pod| {
        pod.live() && !pod.bound() && pod.gated && !pod.gated_by_others && schedulers.contains(&pod.scheduler_name)
    };
    let mut found: Vec<&Pod> =
        model.cluster.members(key).filter(waits).filter(|pod| !group.is_above(pod) && pod.unknown.is_empty()).collect();
    found.sort_by(|a, b| a.key.cmp(&b.key));
    found
}

#[cfg(test)]
mod tests;

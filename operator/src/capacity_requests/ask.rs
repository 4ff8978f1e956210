//! The capacity request for one gang.

use super::{CapacityNeed, members_without_capacity};
use crate::clock::Clock;
use crate::config::{Config, ProvisioningMethod};
use crate::messages::call::Calls;
use crate::messages::call_key::CallKey;
use crate::messages::capacity::{CapacityRequest, Identity, Placeholder, name_for};
use crate::messages::command::Command;
use crate::model::{Model, RequestRecord};
use crate::status::WaitReason;
use giveway_crds::autoscaling::{MOST_POD_SETS, Progress};
use giveway_crds::condition::Reason;
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::wording::conditions::capacity::{self, NotAsked, RequestProgress};
use giveway_planner::SmolStr;
use giveway_planner::model::{ObjectKey, Pod, is_counted};
use giveway_planner::quantity;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

/// How long placeholders may take to be bound before the attempt counts as failed.
const PATIENCE: Duration = Duration::from_secs(600);
/// Delay after the first failed attempt. It doubles with each further one.
const AGAIN: Duration = Duration::from_secs(60);
/// Longest delay after a failed attempt.
const LONGEST: Duration = Duration::from_secs(1800);

/// The ProvisioningRequests of each PodGroup, with their names.
pub(super) type Requests<'m> = BTreeMap<&'m ObjectKey, Vec<(&'m ObjectKey, &'m RequestRecord)>>;

/// The input of one pass over all pending gangs, and the calls that it adds.
pub(super) struct RequestPass<'s> {
    /// The current state of the cluster.
    pub(super) model: &'s Model,
    /// The ProvisioningRequests that exist.
    pub(super) requests: Requests<'s>,
    /// The current time.
    pub(super) clock: Clock,
    /// Calls in flight.
    pub(super) calls: &'s mut Calls,
    /// Existing placeholders and requests that must be kept.
    pub(super) kept: BTreeSet<ObjectKey>,
    /// The calls to make.
    pub(super) commands: Vec<Command>,
}

impl<'s> RequestPass<'s> {
    /// Returns the ProvisioningRequests that exist for this PodGroup, each with its name.
    pub(super) fn requests_of(&self, group: &ObjectKey) -> impl Iterator<Item = (&'s ObjectKey, &'s RequestRecord)> {
        self.requests.get(group).into_iter().flatten().copied()
    }
}

/// The state of the capacity request for one gang.
#[derive(Debug)]
pub(super) struct GangRequest {
    /// UID of the PodGroup.
    pub(super) uid: SmolStr,
    /// The message for the PodGroup's status, if there is one.
    pub(super) reason: Option<WaitReason>,
    /// Since when the gang has been pending.
    since: Instant,
    /// Number of failed attempts.
    failed: u32,
    /// When the current attempt with placeholders started.
    requested_since: Option<Instant>,
    /// When the next attempt may start after a failed one, and why the last one failed.
    refused: Option<(Instant, String)>,
    /// The call that created the current request, when it has succeeded completely.
    made: Option<CallKey>,
}

impl GangRequest {
    /// Returns the state of the capacity request for a gang that is pending from `now` on, without a request. `uid` is that of its
    /// PodGroup.
    pub(super) fn new(uid: &SmolStr, now: Instant) -> Self {
        Self { uid: uid.clone(), reason: None, since: now, failed: 0, requested_since: None, refused: None, made: None }
    }

    /// Records that this call, which created the gang's capacity request, has succeeded.
    pub(super) fn note_created(&mut self, call: &CallKey) {
        self.made = Some(call.clone());
    }

    /// Records that the current attempt to get capacity has failed, and why. The next one starts after a delay that doubles with each
    /// failure. Does nothing during this delay.
    pub(super) fn back_off_after_failure(&mut self, why: &str, now: Instant) {
        if self.refused.is_none() {
            let wait = AGAIN * (1 << self.failed.min(10));
            self.refused = Some((now + wait.min(LONGEST), why.to_owned()));
            self.failed = self.failed.saturating_add(1);
            self.requested_since = None;
        }
    }

    /// Adds the calls to `step` that create what is missing of the capacity request for the PodGroup `key`, and marks what exists as
    /// needed. Updates the message for its status. `need` is what the gang is pending for.
    pub(super) fn request_missing(
        &mut self,
        config: &Config,
        key: &ObjectKey,
        need: CapacityNeed,
        step: &mut RequestPass<'_>,
    ) {
        let (model, now) = (step.model, step.clock.now);
        // An earlier leader may have requested capacity already.
        let asked = model.placeholders(key).next().is_some() || step.requests_of(key).next().is_some();
        let due = now.duration_since(self.since) >= config.provisioning_after
            || (config.provisioning_first && need == CapacityNeed::Postponed);
        let members = members_without_capacity(model, key, &config.scheduler_names);
        if members.is_empty() || !(due || asked) {
            self.reason = None;
            return;
        }
        self.refused.take_if(|(until, _)| *until <= now);
        let gang = Identity { key: key.clone(), uid: self.uid.clone() };
        let outcome = match config.provisioning_method {
            _ if members.len() > config.provisioning_limit as usize => {
                Err(NotAsked::TooMany { members: members.len(), limit: config.provisioning_limit as usize })
            }
            ProvisioningMethod::Off => return,
            ProvisioningMethod::ProvisioningRequest => self.request(&gang, &members, step),
            ProvisioningMethod::Placeholder => self.placeholders(config, &gang, &members, step),
        };
        self.reason = Some(match (outcome, &self.refused) {
            (_, Some((until, why))) => {
                WaitReason { reason: Reason::CapacityFailed, message: capacity::failed(why, step.clock.at(*until)) }
            }
            (Ok(reason), None) => reason,
            (Err(why), None) => WaitReason { reason: Reason::CapacityFailed, message: capacity::not_asked(why) },
        });
    }

    /// Requests capacity for all these members by one ProvisioningRequest: adds the call to `step`, unless it exists. Returns how far the
    /// request is, or why none can be made.
    fn request(
        &mut self,
        gang: &Identity,
        members: &[&Pod],
        step: &mut RequestPass<'_>,
    ) -> Result<WaitReason, NotAsked> {
        let now = step.clock.now;
        let sets = pod_sets(members);
        if sets.len() > MOST_POD_SETS {
            return Err(NotAsked::TooManySets { sets: sets.len(), most: MOST_POD_SETS });
        }
        let stem = format!("{}-{:08x}-", gang.key.name, fingerprint(gang, &sets));
        // The number of the attempt is part of the name. Earlier leaders may have made some attempts.
        let attempt = |request: &ObjectKey| request.name.strip_prefix(stem.as_str())?.parse::<u32>().ok();
        let last = step.requests_of(&gang.key).filter_map(|(request, _)| attempt(request)).max();
        if self.refused.is_none() {
            self.failed = self.failed.max(last.unwrap_or(0));
        }
        let name = format!("{stem}{}", if self.refused.is_some() { last.unwrap_or(0) } else { self.failed });
        let request = ObjectKey::new(&gang.key.namespace, &name);
        let found = step.requests_of(&gang.key).find(|(key, _)| **key == request).map(|(_, record)| record);
        if found.is_some() {
            step.kept.insert(request.clone());
        }
        let call = CallKey::RequestCapacity { group: gang.key.clone(), request };
        if self.refused.is_none() && (found.is_none() || self.made.as_ref() != Some(&call)) {
            let command = Command::RequestCapacity(Box::new(CapacityRequest {
                gang: gang.clone(),
                name: name.clone(),
                sets: sets.iter().map(|(pod, count)| (identity_of(pod), *count)).collect(),
            }));
            step.commands.extend(step.calls.start(command, now));
        }
        let (reason, progress) = match found.map(|record| &record.progress) {
            None | Some(Progress::Pending) => (Reason::CapacityRequested, RequestProgress::Pending),
            Some(Progress::Accepted) => (Reason::CapacityAccepted, RequestProgress::Accepted),
            Some(Progress::Provisioned) => (Reason::CapacityProvisioned, RequestProgress::Provisioned),
            Some(Progress::Failed(why)) => {
                self.back_off_after_failure(&capacity::request_failed(&name, why), now);
                return Ok(WaitReason::new(Reason::CapacityFailed, String::new()));
            }
        };
        Ok(WaitReason::new(reason, capacity::requested(members.len(), &name, progress)))
    }

    /// Requests capacity by one placeholder pod for each of these members: adds the calls to `step` for those that do not exist. Returns
    /// how many are bound as the wait reason, or why none can be created.
    fn placeholders(
        &mut self,
        config: &Config,
        gang: &Identity,
        members: &[&Pod],
        step: &mut RequestPass<'_>,
    ) -> Result<WaitReason, NotAsked> {
        let (model, now) = (step.model, step.clock.now);
        let class = class_that_never_preempts(model, &gang.key)?;
        let existing: BTreeMap<&str, &Pod> =
            model.placeholders(&gang.key).map(|pod| (pod.key.name.as_str(), pod)).collect();
        let mut bound = 0;
        for member in members {
            let name = name_for(&member.uid);
            bound += usize::from(existing.get(name.as_str()).is_some_and(|pod| pod.bound()));
        }
        let requested_since = *self.requested_since.get_or_insert(now);
        if self.refused.is_none() && bound < members.len() && now.duration_since(requested_since) >= PATIENCE {
            let minutes = PATIENCE.as_secs() / 60;
            self.back_off_after_failure(&capacity::placeholders_not_bound(bound, members.len(), minutes), now);
        }
        if self.refused.is_some() {
            self.requested_since = None;
            return Ok(WaitReason::new(Reason::CapacityFailed, String::new()));
        }
        for member in members {
            let name = name_for(&member.uid);
            if let Some(pod) = existing.get(name.as_str()) {
                step.kept.insert(pod.key.clone());
            } else {
                let make = Command::MakePlaceholder(Box::new(Placeholder {
                    gang: gang.clone(),
                    member: identity_of(member),
                    requests: requested_quantities(model, member),
                    class: class.clone(),
                    image: config.placeholder_image.clone(),
                }));
                step.commands.extend(step.calls.start(make, now));
            }
        }
        Ok(WaitReason {
            reason: if bound == members.len() { Reason::CapacityProvisioned } else { Reason::CapacityRequested },
            message: capacity::placeholders(members.len(), bound),
        })
    }
}

/// Returns the key and the UID of a pod.
fn identity_of(pod: &Pod) -> Identity {
    Identity { key: pod.key.clone(), uid: pod.uid.clone() }
}

/// Returns the first member of each set of members with the same requirements, and the number of members in the set. It stops when there
/// are more sets than a ProvisioningRequest may have.
fn pod_sets<'p>(members: &[&'p Pod]) -> Vec<(&'p Pod, i32)> {
    let mut sets: Vec<(&Pod, i32)> = Vec::new();
    for member in members {
        match sets.iter_mut().find(|(first, _)| first.asks_as(member)) {
            Some((_, count)) => *count += 1,
            None => sets.push((member, 1)),
        }
        // A request with more sets is rejected, so counting can stop.
        if sets.len() > MOST_POD_SETS {
            break;
        }
    }
    sets
}

/// Returns a hash of the gang's UID and the pod sets that are requested. It is part of the name because a ProvisioningRequest cannot be
/// changed.
fn fingerprint(gang: &Identity, sets: &[(&Pod, i32)]) -> u32 {
    let mut hasher = DefaultHasher::new();
    gang.uid.hash(&mut hasher);
    for (pod, count) in sets {
        (&pod.uid, count).hash(&mut hasher);
    }
    u32::try_from(hasher.finish() >> 32).unwrap_or(0)
}

/// Returns the PriorityClass of the PodGroup, for its placeholders. It is an error if there is none or the class has another preemption
/// policy than `Never`: the placeholders would have the same policy, because the API server requires that, and kube-scheduler would preempt
/// for them.
fn class_that_never_preempts(model: &Model, group: &ObjectKey) -> Result<Option<String>, NotAsked> {
    let classes = model.cluster.classes();
    let named =
        model.cluster.group(group).and_then(|group| group.class_name.as_deref()).filter(|name| !name.is_empty());
    let class = match named {
        Some(name) => classes.get(name),
        None => classes.global_default(),
    };
    match class {
        Some(class) if class.scheduler_policy == PreemptionPolicy::Never => Ok(Some(class.name.clone())),
        _ => Err(NotAsked::ClassNotManaged),
    }
}

/// Returns what a pod requests as quantities by resource, such as `cpu: 500m`. Volumes, devices and the number of pods, which the planner
/// counts like resources, are left out.
fn requested_quantities(model: &Model, pod: &Pod) -> BTreeMap<String, String> {
    let offered = pod.requests.iter().map(|(id, amount)| (model.cluster.resource_name(id), amount));
    offered
        .chain(pod.requests.unoffered())
        // Volumes and devices are counted like resources, but no pod can request them.
        .filter(|(name, _)| !name.is_empty() && *name != "pods" && !is_counted(name))
        .map(|(name, amount)| (name.to_owned(), quantity::format(name, amount)))
        .collect()
}

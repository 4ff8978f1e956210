//! PodGroups that are created because of the gang label. Such a PodGroup is created with the first pod, is owned by the owner of the pods,
//! and has the size that the owner specifies while there are pods.
//!
//! Owners are read one by one: when a PodGroup is missing, when its number of pods changed, and in addition a few per second in turn,
//! because the size can change without a pod. Kinds of owners without such pods are not read. A PodGroup that a user created with this name
//! is not changed. One whose owner was deleted without its pods gets the [next owner](adoption) of that name.

mod adoption;

use crate::clock::Clock;
use crate::gangs::succession::Controllers;
use crate::messages::call::{Call, Calls};
use crate::messages::call_key::CallKey;
use crate::messages::command::Command;
use crate::messages::report::CallError;
use crate::model::{GroupRecord, Model};
use crate::speaker::Speaker;
use crate::views::origin::{GangPod, OwnerFacts, OwnerKey};
use giveway_crds::keys::{LABEL_GANG, LABEL_MANAGED_BY, MANAGED_BY};
use giveway_crds::kinds::{Sizes, classes};
use giveway_crds::pod_group::{PodGroup, PodGroupSpec};
use giveway_crds::policy::SchedulingPolicy;
use giveway_crds::wording::events;
use giveway_planner::SmolStr;
use giveway_planner::model::{ObjectKey, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant};

/// How long the last read of an owner is used.
const FRESH: Duration = Duration::from_secs(2);
/// How long an owner counts as missing after it was not found.
const ABSENT: Duration = Duration::from_secs(15);
/// Maximum number of doublings of [`ABSENT`], after several reads in a row did not find the owner.
const ABSENCES: u32 = 3;
/// Maximum number of PodGroups that a pass handles, in turn: a user can have thousands that cannot be created.
const LOOKS: usize = 500;
/// Maximum number of concurrent reads of owners in one namespace.
const READS: usize = 8;
/// How long a PodGroup whose first pods were created waits for a read of its owner: it may have been resized while it had no pods.
const SETTLES: Duration = Duration::from_secs(10);
/// Maximum number of PodGroups whose owners have the same controller and are read again when another such PodGroup gets its first pods.
const SIBLINGS: usize = 8;
/// Number of PodGroups per second whose owner is read in turn.
const TURNS: usize = 5;
/// Maximum number of removed PodGroups that leave the queue at a time.
const MOST_GONE: usize = 10_000;

/// The last read of an owner.
#[derive(Debug, Default)]
struct TrackedOwner {
    call: Call,
    /// Time of the last request.
    asked: Option<Instant>,
    /// Result of the last read, and the time of its request.
    read: Option<(Instant, Result<OwnerFacts, String>)>,
    /// Number of reads in a row that failed or did not find the owner.
    absences: u32,
}

impl TrackedOwner {
    /// Returns for how long after a failed read this owner counts as missing, before it is read again. The time doubles with each read in a
    /// row that did not find it, up to two minutes.
    fn missing_for(&self) -> Duration {
        ABSENT * (1 << self.absences.saturating_sub(1).min(ABSENCES))
    }

    /// Returns true if the last read of this owner may still be used, or a read is in flight.
    fn is_remembered(&self, now: Instant) -> bool {
        self.call.pending()
            || self.read.as_ref().is_some_and(|(at, _)| now.duration_since(*at) < 2 * self.missing_for())
    }
}

/// What the owner of a PodGroup specifies and counts about members that have finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerCounters {
    /// Number of members that may finish and are replaced by others.
    pub replaced: i32,
    /// The Job that controls the pods, by UID, and how many pods it has counted as succeeded; `None` for owners that count none.
    pub counted: Option<(String, i32)>,
}

/// PodGroups that are created because of the gang label, the last reads of their owners, and the calls that were made for them.
#[derive(Debug, Default)]
pub struct LabelledGangs {
    owners: BTreeMap<OwnerKey, TrackedOwner>,
    /// PodGroups that must be handled, and since when.
    pending: BTreeMap<ObjectKey, Instant>,
    /// The last PodGroup in `pending` that was handled.
    looked: Option<ObjectKey>,
    /// Number of reads in flight by namespace; never zero.
    reading: BTreeMap<SmolStr, usize>,
    /// Number of pods when a PodGroup was last handled.
    followed: BTreeMap<ObjectKey, usize>,
    /// The time when a PodGroup got its first live member, for recent times only.
    risen: BTreeMap<ObjectKey, Instant>,
    /// What owners specify and count about finished members, by PodGroup, with the UID of the PodGroup.
    counters: BTreeMap<ObjectKey, (SmolStr, OwnerCounters)>,
    /// PodGroups whose entry in `counters` has changed.
    changed_groups: BTreeSet<ObjectKey>,
    /// PodGroups in the order in which their owners are read in turn.
    turns: VecDeque<ObjectKey>,
    turned: Option<Instant>,
    /// Calls in flight, by what they write.
    pub(super) calls: Calls,
    /// The controllers of the owners of PodGroups.
    controllers: Controllers,
}

impl LabelledGangs {
    /// Records the answer to a read of an owner: its fields, or why it could not be read.
    pub fn owner_read(&mut self, owner: &OwnerKey, result: Result<OwnerFacts, CallError>, now: Instant) {
        if let Some(reading) = self.reading.get_mut(&owner.namespace) {
            *reading = reading.saturating_sub(1);
            if *reading == 0 {
                self.reading.remove(&owner.namespace);
            }
        }
        let Some(known) = self.owners.get_mut(owner) else { return };
        let kind = owner.kind;
        known.absences = match result {
            Ok(_) => 0,
            Err(CallError::Gone) => known.absences.saturating_add(1),
            Err(_) => known.absences,
        };
        let result = match result {
            Ok(facts) => Ok(facts),
            Err(CallError::Gone) => Err(events::owner_not_found(kind, &owner.name, &owner.namespace)),
            Err(CallError::Failed(why) | CallError::Rejected(why)) => {
                Err(events::owner_not_read(kind, &owner.name, &why))
            }
            Err(CallError::Unanswered(_) | CallError::NotLeader) => {
                known.call.unanswered(now);
                return;
            }
        };
        known.call.answered(true, now);
        known.read = Some((known.asked.unwrap_or(now), result));
    }

    /// Returns what the owner of the PodGroup `key` specifies and counts about finished members; `None` if it has not been read. `group` is
    /// the record of the PodGroup.
    pub fn counters(&self, key: &ObjectKey, group: &GroupRecord) -> Option<&OwnerCounters> {
        self.counters.get(key).filter(|(uid, _)| *uid == group.uid).map(|(_, counters)| counters)
    }

    /// Returns the controllers of the owners of PodGroups, as far as they were read.
    pub fn controllers(&self) -> &Controllers {
        &self.controllers
    }

    /// Returns the PodGroups whose [counters](Self::counters) have changed since the last call of this function.
    pub fn take_changed_groups(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.changed_groups)
    }

    /// Records which of the labelled gangs have changed, before a pass decides anything. `touched` are all PodGroups that have changed.
    pub fn note_changes(&mut self, model: &Model, touched: &BTreeSet<ObjectKey>, now: Instant) {
        self.risen.retain(|_, risen| now.duration_since(*risen) < SETTLES);
        for key in touched {
            self.note(model, key, now);
            if !model.groups.contains_key(key) && members(model, key).0.is_none() {
                self.controllers.forget(key);
            }
        }
    }

    /// Returns true if a plan may rely on the size of a PodGroup: its first pods were created more than some seconds ago, or its owner was
    /// read since then. That owner must specify the same size, unless it is being deleted, cannot be read, or specifies none. True for
    /// PodGroups that do not follow an owner.
    pub fn has_settled_size(&self, model: &Model, key: &ObjectKey, now: Instant) -> bool {
        let risen = self.risen.get(key).filter(|risen| now.duration_since(**risen) < SETTLES);
        let (Some(risen), Some(record)) = (risen, model.groups.get(key)) else { return true };
        let (Some(made_for), (Some(pod), _)) = (&record.made_for, members(model, key)) else { return true };
        let Some(owner) = pod.owner(&key.namespace) else { return true };
        let read = |owner: &OwnerKey| {
            let read = self.owners.get(owner).and_then(|owner| owner.read.as_ref());
            read.filter(|(asked, _)| asked >= risen).map(|(_, result)| result.as_ref())
        };
        let facts = match read(&owner) {
            Some(Ok(facts)) => facts,
            Some(Err(_)) => return true,
            None => return false,
        };
        if facts.deleting || facts.uid != *made_for {
            return true;
        }
        // Until the Job of a JobSet's gang is read, the gang has the size that the JobSet specifies.
        let job = pod.job(&key.namespace).and_then(|job| read(&job));
        let Ok(job) = job.map_or(Ok(None), |read| self.job_of_gang(pod, key, read)) else { return true };
        facts.size(pod, job).is_none_or(|size| record.min_count == Some(size.start))
    }

    /// Returns the Job that the pod's owner created for the gang, if `read`, the last read of that Job, found it and it controls the pod.
    /// `None` if the read did not find it, or if another Job controls the pod.
    ///
    /// # Errors
    /// The Job could not be read. It may have failed indexes, so the size of the gang is not known.
    fn job_of_gang<'r>(
        &self,
        pod: &GangPod,
        key: &ObjectKey,
        read: Result<&'r OwnerFacts, &'r String>,
    ) -> Result<Option<&'r OwnerFacts>, &'r String> {
        let is_absent = || {
            let job = pod.job(&key.namespace).and_then(|job| self.owners.get(&job));
            job.is_some_and(|job| job.absences > 0)
        };
        match read {
            Ok(job) => Ok(Some(job).filter(|job| pod.is_of_job(&job.uid))),
            Err(_) if is_absent() => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Returns the other PodGroups whose owners have the same controller as that of the PodGroup `key`, and that have live bound pods, at
    /// most [`SIBLINGS`]; each with the gang fields of one of its pods.
    fn running_siblings<'a>(
        &'a self,
        model: &'a Model,
        key: &'a ObjectKey,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a GangPod)> {
        let runs = |sibling: &&ObjectKey| model.cluster.members(sibling).any(|pod| pod.live() && pod.bound());
        let siblings = self.controllers.siblings(key).filter(runs).take(SIBLINGS);
        siblings.filter_map(|sibling| Some((sibling, members(model, sibling).0?)))
    }

    /// Returns a PodGroup that the PodGroup `key` replaces, while it has live bound pods: its owner has the same controller, and is deleted
    /// or has not been read since the first pods of `key` were created. `None` if there is none, and always later than some seconds after
    /// the first pods of `key` were created.
    pub fn predecessor<'a>(&'a self, model: &'a Model, key: &'a ObjectKey, now: Instant) -> Option<&'a ObjectKey> {
        let risen = self.risen.get(key).filter(|risen| now.duration_since(**risen) < SETTLES)?;
        let mut siblings = self.running_siblings(model, key);
        let predecessor = siblings.find(|(sibling, pod)| {
            let Some(owner) = pod.owner(&sibling.namespace) else { return false };
            let Some(owner) = self.owners.get(&owner) else { return true };
            match &owner.read {
                Some((asked, Ok(facts))) if asked >= risen => facts.deleting || !pod.is_of(&facts.uid),
                Some((asked, Err(_))) if asked >= risen => owner.absences > 0,
                _ => true,
            }
        });
        predecessor.map(|(sibling, _)| sibling)
    }

    /// Returns the calls to make now for labelled gangs: they read owners, create PodGroups, and change their owner or `minCount`. Handles
    /// the PodGroups that have changed or are not as they should be, and a few others in turn.
    pub fn pass(&mut self, model: &Model, speaker: &mut Speaker, clock: Clock) -> Vec<Command> {
        let (now, mut commands) = (clock.now, Vec::new());
        self.calls.forget(now);
        self.take_turns(model, now);
        for (key, since) in self.next_pending() {
            if self.handle(model, &key, since, now, speaker, &mut commands) {
                self.pending.remove(&key);
            }
        }
        commands
    }

    /// Records that the PodGroup `key` or its pods changed. It is handled in the next passes if it has pods of a labelled gang, and does
    /// not exist, has no owner any more, or has another number of pods than before.
    fn note(&mut self, model: &Model, key: &ObjectKey, now: Instant) {
        let (first, count) = members(model, key);
        if first.is_none() || !model.cluster.serves_groups_in(&key.namespace) {
            // The turn of the PodGroup removes its entry.
            self.followed.entry(key.clone()).and_modify(|known| *known = count);
            self.pending.remove(key);
            return;
        }
        let known = self.followed.insert(key.clone(), count);
        if known.is_none_or(|known| known == 0) {
            self.risen.insert(key.clone(), now);
        }
        if known.is_none() {
            self.turns.push_back(key.clone());
        }
        if known != Some(count) || model.groups.get(key).is_none_or(|record| record.orphaned) {
            self.pending.entry(key.clone()).or_insert(now);
        }
    }

    /// Returns at most [`LOOKS`] of the PodGroups that must be handled, and since when each of them must. Repeated calls return all of them
    /// in turn.
    fn next_pending(&mut self) -> Vec<(ObjectKey, Instant)> {
        let after = self.looked.take();
        let later = after.as_ref().map(|key| self.pending.range((Bound::Excluded(key), Bound::Unbounded)));
        let earlier = after
            .as_ref()
            .map(|key| self.pending.range(..=key))
            .unwrap_or_else(|| self.pending.range::<ObjectKey, _>(..));
        let next: Vec<_> =
            later.into_iter().flatten().chain(earlier).take(LOOKS).map(|(key, since)| (key.clone(), *since)).collect();
        self.looked = next.last().map(|(key, _)| key.clone());
        next
    }

    /// Adds the next few PodGroups in turn to `pending`, the PodGroups to handle, once per second, so that their owners are read again.
    /// Forgets PodGroups without live pods, and owners that nothing has asked for lately.
    fn take_turns(&mut self, model: &Model, now: Instant) {
        if self.turned.is_some_and(|last| now.duration_since(last) < Duration::from_secs(1)) {
            return;
        }
        self.turned = Some(now);
        let mut left = TURNS;
        // Removed PodGroups do not use up a turn: otherwise a user who creates and deletes many could delay the PodGroups of other users.
        for _ in 0..self.turns.len().min(MOST_GONE) {
            if left == 0 {
                break;
            }
            let Some(key) = self.turns.pop_front() else { break };
            if self.followed.contains_key(&key) && members(model, &key).0.is_some() {
                self.pending.entry(key.clone()).or_insert(now);
                self.turns.push_back(key);
                left -= 1;
            } else {
                self.followed.remove(&key);
                self.counters.remove(&key);
            }
        }
        // Owners that are no longer requested are removed.
        self.owners.retain(|_, owner| owner.is_remembered(now));
    }

    /// Handles the PodGroup `key`, which must be handled since `since`: adds to `commands` the calls that it needs now. Returns true if it
    /// needs nothing more before it changes.
    fn handle(
        &mut self,
        model: &Model,
        key: &ObjectKey,
        since: Instant,
        now: Instant,
        speaker: &mut Speaker,
        commands: &mut Vec<Command>,
    ) -> bool {
        let (Some(pod), _) = members(model, key) else { return true };
        let record = model.groups.get(key);
        if record.is_some_and(|record| (record.made_for.is_none() && !record.orphaned) || record.deleting) {
            return true;
        }
        let facts = match self.owner_fields(pod, key, since, now, commands) {
            Some(Ok(facts)) => facts,
            Some(Err(why)) => {
                if record.is_none() {
                    speaker.group_missing(key, events::group_not_created(&key.name, &why), now);
                }
                return record.is_some();
            }
            None => return false,
        };
        if facts.deleting || !pod.is_of(&facts.uid) {
            // The pods belong to an owner that is being deleted, or to one that was created after the read.
            return record.is_some();
        }
        if let Some(record) = record.filter(|record| record.orphaned) {
            return self.adopt(model, key, record, owner_of(pod, &facts), now, commands);
        }
        self.controllers.note(key, &facts.controller);
        if self.risen.contains_key(key) {
            // The owner of a predecessor may be deleted while its pods are not yet terminating.
            let siblings: Vec<ObjectKey> =
                self.running_siblings(model, key).map(|(sibling, _)| sibling.clone()).collect();
            for sibling in siblings {
                self.pending.entry(sibling).or_insert(now);
            }
        }
        // Until the PodGroup exists, no Job has counted a pod of it.
        let read = match pod.job(&key.namespace).filter(|_| record.is_some()) {
            Some(job) => match self.read_owner(job, key, since, now, |facts| pod.is_of_job(&facts.uid), commands) {
                Some(read) => Some(read),
                None => return false,
            },
            None => None,
        };
        let job = read.as_ref().map(Result::as_ref);
        let Ok(job) = job.map_or(Ok(None), |read| self.job_of_gang(pod, key, read)) else { return true };
        let Some(size) = facts.size(pod, job) else { return record.is_some() };
        match record {
            Some(record) => {
                let counted = size.finished.map(|finished| (job.unwrap_or(&facts).uid.clone(), finished));
                let counters = OwnerCounters { replaced: size.replaced, counted };
                self.follow_owner(key, record, &facts.uid, (size.start, counters), now, commands)
            }
            None => {
                let create = || Command::CreateGroup(Box::new(new_group(model, key, pod, &facts, size.start)));
                commands.extend(self.calls.start_with_long_delay(CallKey::CreateGroup(key.clone()), now, create));
                // The PodGroup stays in `pending` until the watch shows it.
                false
            }
        }
    }

    /// Stores `counters`, and adds to `commands` the call that sets `minCount` of the PodGroup `key` to `min_count`, the size that its
    /// owner specifies. `owner` is the UID of that owner; nothing is done if the PodGroup was created for another one. Returns true if
    /// nothing is to be set.
    fn follow_owner(
        &mut self,
        key: &ObjectKey,
        record: &GroupRecord,
        owner: &str,
        (min_count, counters): (i32, OwnerCounters),
        now: Instant,
        commands: &mut Vec<Command>,
    ) -> bool {
        // A PodGroup of a deleted owner with the same name is deleted together with that owner.
        if record.made_for.as_deref() != Some(owner) {
            return true;
        }
        let counters = (record.uid.clone(), counters);
        if self.counters.get(key) != Some(&counters) {
            self.counters.insert(key.clone(), counters);
            self.changed_groups.insert(key.clone());
        }
        if record.min_count == Some(min_count) {
            return true;
        }
        let set = Command::SetMinCount { group: key.clone(), uid: record.uid.clone(), min_count };
        commands.extend(self.calls.start(set, now));
        false
    }

    /// Returns the fields of a pod's owner, read after `since`, or why it cannot be read. If the kind of the owner is unknown, they come
    /// from the pod. `None` while the owner is being read: the call is added to `commands`.
    fn owner_fields(
        &mut self,
        pod: &GangPod,
        key: &ObjectKey,
        since: Instant,
        now: Instant,
        commands: &mut Vec<Command>,
    ) -> Option<Result<OwnerFacts, String>> {
        let Some(owner) = pod.owner(&key.namespace) else {
            let uid = pod.origin.uid.clone().unwrap_or_default();
            let (controller, sizes, min_count) = (uid.clone(), Sizes::Unknown, pod.min_count);
            let classes = Vec::new();
            return Some(Ok(OwnerFacts { uid, controller, deleting: false, sizes, min_count, classes }));
        };
        self.read_owner(owner, key, since, now, |facts| pod.is_of(&facts.uid), commands)
    }

    /// Returns the fields of `owner`, an owner of pods of the PodGroup `key`, read after `since`, or why it cannot be read. `None` while it
    /// is being read: the call is added to `commands`. `is_current` returns true if fields are those of the object that the pods belong to,
    /// not of another one with its name.
    fn read_owner(
        &mut self,
        owner: OwnerKey,
        key: &ObjectKey,
        since: Instant,
        now: Instant,
        is_current: impl Fn(&OwnerFacts) -> bool,
        commands: &mut Vec<Command>,
    ) -> Option<Result<OwnerFacts, String>> {
        let risen = self.risen.get(key).copied();
        let known = self.owners.entry(owner.clone()).or_default();
        // A read before the first pods were created does not count: they wait for a new one.
        let early = known.read.as_ref().is_some_and(|(at, _)| risen.is_some_and(|risen| *at < risen));
        if let Some((at, result)) = &known.read {
            let age = now.duration_since(*at);
            match result {
                Ok(facts) if *at >= since && !early && (age < FRESH || is_current(facts)) => {
                    return Some(result.clone());
                }
                // The owner may have changed after the last read: it is read again in a moment.
                Ok(_) if age < FRESH && !early => return None,
                Err(_) if age < known.missing_for() => return Some(result.clone()),
                _ => {}
            }
        }
        let reading = self.reading.get(&key.namespace).copied().unwrap_or_default();
        let answered_early = early && matches!(known.call, Call::Done(_));
        if (known.call.due(now) || answered_early) && reading < READS {
            known.call.start();
            known.asked = Some(now);
            self.reading.insert(key.namespace.clone(), reading + 1);
            commands.push(Command::ReadOwner(owner));
        }
        None
    }
}

/// Returns the gang fields of the first live member of a PodGroup that has the gang label, and the number of all live members.
fn members<'m>(model: &'m Model, key: &ObjectKey) -> (Option<&'m GangPod>, usize) {
    let live = || model.cluster.members(key).filter(|pod| pod.live());
    (live().find_map(|pod| model.gang_of(pod)), live().count())
}

/// Returns the PodGroup to create for the gang of `pod`: with the name `key`, `size` as `minCount`, and the owner with the fields `facts`.
/// It has the lowest priority class of its members and of the owner's templates, because members must not have a lower class than their
/// PodGroup, and the workers may be created after their leader.
fn new_group(model: &Model, key: &ObjectKey, pod: &GangPod, facts: &OwnerFacts, size: i32) -> PodGroup {
    let live = model.cluster.members(key).filter(|pod| pod.live());
    let lowest: Option<&Pod> = live.min_by_key(|pod| (pod.priority, pod.key.clone()));
    let of_templates = classes::lowest(facts.classes.iter().map(String::as_str), model.cluster.classes());
    let of_templates = of_templates.filter(|class| lowest.is_none_or(|pod| class.value < pod.priority));
    let labels = [(LABEL_GANG, "true"), (LABEL_MANAGED_BY, MANAGED_BY)];
    PodGroup {
        metadata: ObjectMeta {
            name: Some(key.name.to_string()),
            namespace: Some(key.namespace.to_string()),
            labels: Some(labels.map(|(label, value)| (label.to_owned(), value.to_owned())).into()),
            owner_references: Some(vec![owner_of(pod, facts)]),
            ..ObjectMeta::default()
        },
        spec: PodGroupSpec {
            scheduling_policy: SchedulingPolicy::gang(size),
            disruption_mode: pod.mode,
            priority_class_name: match of_templates {
                Some(class) => Some(class.name.clone()),
                None => lowest.and_then(|pod| pod.priority_class_name.clone()),
            },
            ..PodGroupSpec::default()
        },
        status: None,
    }
}

/// Returns the reference to a pod's owner, with the UID in `facts`, as its PodGroup has it: as controller.
fn owner_of(pod: &GangPod, facts: &OwnerFacts) -> OwnerReference {
    OwnerReference {
        api_version: pod.origin.api_version.clone(),
        kind: pod.origin.kind.clone(),
        name: pod.origin.owner.clone(),
        uid: facts.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

#[cfg(test)]
mod tests;

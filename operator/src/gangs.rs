//! Groups of gangs that a label asked for: made with the first pod, owned by the owner that the pods name, and as large as that
//! owner says for as long as it has pods.
//!
//! Owners are read one by one, when a group is missing and when the number of its pods changed; besides, a few a second in turn,
//! because a number can change without a pod. Nothing is read of kinds without such pods. A group that a user made under this
//! name is his.

use crate::command::{Command, what_makes};
use crate::ledger::{Call, Calls, Clock};
use crate::model::{GroupRecord, Model};
use crate::origin::{GangPod, OwnerFacts, OwnerKey};
use crate::orphans::{self, Orphans};
use crate::report::CallError;
use giveway_crds::keys::LABEL_GANG;
use giveway_crds::kinds::{GroupSize, Sizes};
use giveway_crds::pod_group::{PodGroup, PodGroupSpec};
use giveway_crds::policy::SchedulingPolicy;
use giveway_planner::SmolStr;
use giveway_planner::model::{ObjectKey, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant};

/// For how long what an owner said is believed.
const FRESH: Duration = Duration::from_secs(2);
/// For how long it is believed that there is no such owner.
const ABSENT: Duration = Duration::from_secs(15);
/// The same after it was believed, and wrong, several times: each time is twice as long, so often.
const ABSENCES: u32 = 3;
/// How many groups are looked at in a pass, in turn: anybody can have thousands that cannot be made.
const LOOKS: usize = 500;
/// How many owners of one namespace are read at the same time.
const READS: usize = 8;
/// For how long a group whose first pods came waits for what its owner says: it may have been resized while it had none.
const SETTLES: Duration = Duration::from_secs(10);
/// How many groups a second are looked at in turn.
const TURNS: usize = 5;
/// How many groups that are gone leave the queue at a time, at most.
const MOST_GONE: usize = 10_000;

/// What is known of an owner.
#[derive(Debug, Default)]
struct Owner {
    call: Call,
    /// When it was last asked.
    asked: Option<Instant>,
    /// What it said last, and when it was asked.
    read: Option<(Instant, Result<OwnerFacts, String>)>,
    /// How often in a row it was not there.
    absences: u32,
}

impl Owner {
    /// For how long it is believed that there is none.
    fn absent(&self) -> Duration {
        ABSENT * (1 << self.absences.saturating_sub(1).min(ABSENCES))
    }

    /// Whether what it said is remembered.
    fn is_remembered(&self, now: Instant) -> bool {
        self.call.pending() || self.read.as_ref().is_some_and(|(at, _)| now.duration_since(*at) < 2 * self.absent())
    }
}

/// What was done already, so that nothing is done twice.
#[derive(Debug, Default)]
pub struct Gangs {
    owners: BTreeMap<OwnerKey, Owner>,
    /// Groups that have to be looked at, and since when.
    pending: BTreeMap<ObjectKey, Instant>,
    /// The last of them that was looked at.
    looked: Option<ObjectKey>,
    /// How many owners are being read, by namespace; none is zero.
    reading: BTreeMap<SmolStr, usize>,
    /// With how many pods a group was last looked at.
    followed: BTreeMap<ObjectKey, usize>,
    /// When groups last went from no live member to some; those that did lately.
    risen: BTreeMap<ObjectKey, Instant>,
    /// How many members may finish for which others are made, of each group, with the group's UID.
    spares: BTreeMap<ObjectKey, (SmolStr, i32)>,
    /// Groups of which that is another number now.
    news: BTreeSet<ObjectKey>,
    /// Groups in the order in which they are looked at in turn.
    turns: VecDeque<ObjectKey>,
    turned: Option<Instant>,
    /// Calls under way, by what they write.
    calls: Calls,
    /// Pods that were told that their group cannot be made.
    orphans: Orphans,
}

impl Gangs {
    /// Notes the answer to a call.
    pub fn answered(&mut self, what: &str, ok: bool, now: Instant) {
        self.calls.answered(what, ok, now);
    }

    /// Notes whether a group was made. Its pods are told why it was not.
    pub fn made(&mut self, model: &Model, group: &ObjectKey, result: &Result<(), CallError>, now: Instant) {
        if self.calls.answered(&what_makes(group), result.is_ok(), now)
            && let Err(CallError::Failed(why)) = result
        {
            self.tell(model, group, why);
        }
    }

    /// Notes what an owner says.
    pub fn owner_read(&mut self, owner: &OwnerKey, result: Result<OwnerFacts, CallError>, now: Instant) {
        if let Some(reading) = self.reading.get_mut(&owner.namespace) {
            *reading = reading.saturating_sub(1);
            if *reading == 0 {
                self.reading.remove(&owner.namespace);
            }
        }
        let Some(known) = self.owners.get_mut(owner) else { return };
        let kind = owner.kind;
        known.absences = if result.is_ok() { 0 } else { known.absences.saturating_add(1) };
        let result = match result {
            Ok(facts) => Ok(facts),
            Err(CallError::Gone) => {
                Err(format!("{kind} {} was not found in namespace {}", owner.name, owner.namespace))
            }
            Err(CallError::Failed(why)) => Err(format!("{kind} {} cannot be read: {why}", owner.name)),
            Err(CallError::Unanswered(_) | CallError::NotLeader) => {
                known.call.unanswered(now);
                return;
            }
        };
        known.call.answered(true, now);
        known.read = Some((known.asked.unwrap_or(now), result));
    }

    /// How many members of this group may finish for which its owner makes others, as far as that was read.
    pub fn spare(&self, key: &ObjectKey, group: &GroupRecord) -> Option<i32> {
        self.spares.get(key).filter(|(uid, _)| *uid == group.uid).map(|(_, spare)| *spare)
    }

    /// The groups of which that is another number than when this was last asked.
    pub fn take_news(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.news)
    }

    /// Notes what became of the groups that something happened to. Before anything is decided for them.
    pub fn heed(&mut self, model: &Model, touched: &BTreeSet<ObjectKey>, now: Instant) {
        self.risen.retain(|_, risen| now.duration_since(*risen) < SETTLES);
        for key in touched {
            self.note(model, key, now);
        }
    }

    /// Whether a group is as large as its owner says, as far as that matters: since its first pods came the owner was asked, and it
    /// is, or a time has passed. While a group has no pods nobody asks.
    pub fn settled(&self, model: &Model, key: &ObjectKey, now: Instant) -> bool {
        let risen = self.risen.get(key).filter(|risen| now.duration_since(**risen) < SETTLES);
        let (Some(risen), Some(record)) = (risen, model.groups.get(key)) else { return true };
        let (Some(made_for), (Some(pod), _)) = (&record.made_for, members(model, key)) else { return true };
        let Some(owner) = pod.owner(&key.namespace) else { return true };
        match self.owners.get(&owner).and_then(|owner| owner.read.as_ref()) {
            Some((asked, Ok(facts))) if asked >= risen => {
                let size = facts.size(pod).filter(|_| !facts.deleting && facts.uid == *made_for);
                size.is_none_or(|size| record.min_count == Some(size.start))
            }
            Some((asked, Err(_))) => asked >= risen,
            _ => false,
        }
    }

    /// What is to be done for the groups that were noted, and for some others in turn.
    pub fn pass(&mut self, model: &Model, clock: Clock) -> Vec<Command> {
        let (now, mut commands) = (clock.now, Vec::new());
        self.calls.forget(now);
        self.take_turns(model, now);
        for (key, since) in self.next() {
            if self.look(model, &key, since, now, &mut commands) {
                self.pending.remove(&key);
            }
        }
        self.orphans.emit(model, now, &mut commands);
        commands
    }

    /// A group was touched: it is looked at when it is missing, or has another number of pods.
    fn note(&mut self, model: &Model, key: &ObjectKey, now: Instant) {
        let (first, count) = members(model, key);
        if first.is_none() || !model.cluster.serves_groups_in(&key.namespace) {
            // Its turn forgets it.
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
        if known != Some(count) || !model.groups.contains_key(key) {
            self.pending.entry(key.clone()).or_insert(now);
        }
    }

    /// Those whose turn it is to be looked at.
    fn next(&mut self) -> Vec<(ObjectKey, Instant)> {
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

    fn take_turns(&mut self, model: &Model, now: Instant) {
        if self.turned.is_some_and(|last| now.duration_since(last) < Duration::from_secs(1)) {
            return;
        }
        self.turned = Some(now);
        let mut left = TURNS;
        // Who is gone takes nobody's turn, or what somebody makes and deletes would stand before everybody else's.
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
                self.spares.remove(&key);
            }
        }
        // Of an owner nothing is kept that is not asked for any more.
        self.owners.retain(|_, owner| owner.is_remembered(now));
    }

    /// Does what a group needs now; returns whether that is all.
    fn look(
        &mut self,
        model: &Model,
        key: &ObjectKey,
        since: Instant,
        now: Instant,
        commands: &mut Vec<Command>,
    ) -> bool {
        let (Some(pod), _) = members(model, key) else { return true };
        let record = model.groups.get(key);
        if record.is_some_and(|record| record.made_for.is_none() || record.deleting) {
            return true;
        }
        let facts = match self.facts(pod, key, since, now, commands) {
            Some(Ok(facts)) => facts,
            Some(Err(why)) => {
                if record.is_none() {
                    self.tell(model, key, &why);
                }
                return record.is_some();
            }
            None => return false,
        };
        if facts.deleting || !pod.is_of(&facts.uid) {
            // Pods of one that goes, or of one that came after it was read.
            return record.is_some();
        }
        let Some(size) = facts.size(pod) else { return record.is_some() };
        match record {
            Some(record) => self.follow(key, record, &facts, size, now, commands),
            None => {
                if self.calls.start_in_patience(what_makes(key), now) {
                    commands.push(Command::CreateGroup(Box::new(made(model, key, pod, &facts.uid, size.start))));
                }
                // Until the watch shows it.
                false
            }
        }
    }

    /// Makes the group as large as its owner says; returns whether it is.
    fn follow(
        &mut self,
        key: &ObjectKey,
        record: &GroupRecord,
        facts: &OwnerFacts,
        size: GroupSize,
        now: Instant,
        commands: &mut Vec<Command>,
    ) -> bool {
        // That of another owner of this name goes with it.
        if record.made_for.as_deref() != Some(facts.uid.as_str()) {
            return true;
        }
        let spare = (record.uid.clone(), size.spare);
        if self.spares.get(key) != Some(&spare) {
            self.spares.insert(key.clone(), spare);
            self.news.insert(key.clone());
        }
        let min_count = size.start;
        if record.min_count == Some(min_count) {
            return true;
        }
        if self.calls.start(format!("minCount of pod group {key}: {min_count}"), now) {
            commands.push(Command::SetMinCount { group: key.clone(), uid: record.uid.clone(), min_count });
        }
        false
    }

    /// What the owner of a pod says: known at once for a kind that nobody knows, read otherwise. `None` while it is being
    /// read.
    fn facts(
        &mut self,
        pod: &GangPod,
        key: &ObjectKey,
        since: Instant,
        now: Instant,
        commands: &mut Vec<Command>,
    ) -> Option<Result<OwnerFacts, String>> {
        let Some(owner) = pod.owner(&key.namespace) else {
            let uid = pod.origin.uid.clone().unwrap_or_default();
            return Some(Ok(OwnerFacts { uid, deleting: false, sizes: Sizes::Unknown, min_count: pod.min_count }));
        };
        let risen = self.risen.get(key).copied();
        let known = self.owners.entry(owner.clone()).or_default();
        // What was said before the first pods came does not count: they wait for the answer.
        let early = known.read.as_ref().is_some_and(|(at, _)| risen.is_some_and(|risen| *at < risen));
        if let Some((at, result)) = &known.read {
            let age = now.duration_since(*at);
            match result {
                Ok(facts) if *at >= since && !early && (age < FRESH || pod.is_of(&facts.uid)) => {
                    return Some(result.clone());
                }
                // It may have changed since: it is read again in a moment.
                Ok(_) if age < FRESH && !early => return None,
                Err(_) if age < known.absent() => return Some(result.clone()),
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

    /// Says why a group cannot be made, once to each of its pods.
    fn tell(&mut self, model: &Model, key: &ObjectKey, why: &str) {
        let note = |_: &Pod| orphans::cannot_be_made(&key.name, why);
        // A group that cannot be made is looked at again, and then whoever found no place in the queue.
        let _all = self.orphans.tell(model.cluster.members(key).filter(|pod| pod.live()), note);
    }
}

/// What the first live member that a label made one says, and how many live members there are.
fn members<'m>(model: &'m Model, key: &ObjectKey) -> (Option<&'m GangPod>, usize) {
    let live = || model.cluster.members(key).filter(|pod| pod.live());
    (live().find_map(|pod| model.gang_of(pod)), live().count())
}

/// The group of a gang, owned by the owner with this UID. Members must not be below the class of their group: it has the
/// lowest of theirs.
fn made(model: &Model, key: &ObjectKey, pod: &GangPod, uid: &str, size: i32) -> PodGroup {
    let live = model.cluster.members(key).filter(|pod| pod.live());
    let lowest: Option<&Pod> = live.min_by_key(|pod| (pod.priority, pod.key.clone()));
    let owner = OwnerReference {
        api_version: pod.origin.api_version.clone(),
        kind: pod.origin.kind.clone(),
        name: pod.origin.owner.clone(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    PodGroup {
        metadata: ObjectMeta {
            name: Some(key.name.to_string()),
            namespace: Some(key.namespace.to_string()),
            labels: Some([(LABEL_GANG.to_owned(), "true".to_owned())].into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: PodGroupSpec {
            scheduling_policy: SchedulingPolicy::gang(size),
            disruption_mode: pod.mode,
            priority_class_name: lowest.and_then(|pod| pod.priority_class_name.clone()),
            ..PodGroupSpec::default()
        },
        status: None,
    }
}

#[cfg(test)]
mod tests;

//! Room for gangs from a cluster autoscaler. Members that are held are pods that no autoscaler looks at, so it is asked otherwise:
//! by a [`ProvisioningRequest`](giveway_crds::autoscaling), or by placeholders, pods that ask for the same and are not held.
//!
//! What should exist follows from who waits, since when, and what exists; a pass says what is to be made and removed. A gang for
//! which no room comes is asked for again after a while, which grows with each attempt, so that nobody keeps room for ever that is
//! not enough.

mod ask;

use crate::command::Command;
use crate::config::{Config, ProvisioningMethod};
use crate::ledger::{Calls, Clock};
use crate::model::Model;
use crate::report::CallError;
use crate::status::Word;
use ask::{Ask, Requests, Step};
use giveway_planner::model::{ObjectKey, Pod};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How often it is looked at who waits.
const EVERY: Duration = Duration::from_millis(250);

/// What may be configured.
#[derive(Clone, Debug)]
pub struct Options {
    /// How an autoscaler is asked.
    pub method: ProvisioningMethod,
    /// How long a gang waits for room before.
    pub after: Duration,
    /// Whether it is asked at once where a plan stands that waits for it.
    pub first: bool,
    /// For no gang it is asked of which more pods wait.
    pub limit: usize,
    /// Image of placeholders.
    pub image: String,
    /// Schedulers for whose pods it is asked.
    pub schedulers: Vec<String>,
}

impl Options {
    /// From the flags.
    pub fn of(config: &Config) -> Self {
        Self {
            method: config.provisioning_method,
            after: config.provisioning_after,
            first: config.provisioning_first,
            limit: config.provisioning_limit as usize,
            image: config.placeholder_image.clone(),
            schedulers: config.scheduler_names.clone(),
        }
    }
}

/// How a gang waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// For room.
    Room,
    /// Its plan is put off, so that room can come first.
    PutOff,
    /// Its members are being given a place: nothing more is asked for, and what keeps the place stays.
    Placed,
}

/// What was asked, and what was done already.
#[derive(Debug)]
pub struct Provisioning {
    options: Options,
    asks: BTreeMap<ObjectKey, Ask>,
    calls: Calls,
    /// Groups of which there is something new to tell.
    news: BTreeSet<ObjectKey>,
    next: Option<Instant>,
}

impl Provisioning {
    /// Nothing was asked yet.
    pub fn new(options: Options) -> Self {
        Self { options, asks: BTreeMap::new(), calls: Calls::default(), news: BTreeSet::new(), next: None }
    }

    /// Notes the answer to a call.
    pub fn answered(&mut self, group: Option<&ObjectKey>, what: &str, result: Result<(), CallError>, now: Instant) {
        self.calls.answered(what, matches!(result, Ok(()) | Err(CallError::Gone)), now);
        if let Some(ask) = group.and_then(|group| self.asks.get_mut(group)) {
            match result {
                Ok(()) => ask.done(what),
                Err(CallError::Failed(why)) => ask.give_up(&why, now),
                Err(CallError::Gone | CallError::Unanswered(_) | CallError::NotLeader) => {}
            }
        }
    }

    /// What there is to tell of a gang.
    pub fn word(&self, group: &ObjectKey) -> Option<&Word> {
        self.asks.get(group)?.word.as_ref()
    }

    /// The groups of which there is something new to tell.
    pub fn take_news(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.news)
    }

    /// What is to be done for those who wait.
    pub fn pass(
        &mut self,
        model: &Model,
        waits: impl FnOnce() -> BTreeMap<ObjectKey, Wait>,
        clock: Clock,
    ) -> Vec<Command> {
        let off = self.options.method == ProvisioningMethod::Off;
        if (off && model.groups_with_placeholders().next().is_none()) || self.next.is_some_and(|at| clock.now < at) {
            return Vec::new();
        }
        self.next = Some(clock.now + EVERY);
        self.calls.forget(clock.now);
        let waits = if off { BTreeMap::new() } else { waits() };
        let gone: Vec<ObjectKey> = self.asks.keys().filter(|key| !waits.contains_key(*key)).cloned().collect();
        for key in gone {
            self.asks.remove(&key);
            self.news.insert(key);
        }
        let (kept, commands) = (BTreeSet::new(), Vec::new());
        let requests = requests_by_group(model);
        let mut step = Step { model, requests, clock, calls: &mut self.calls, kept, commands };
        for (key, wait) in &waits {
            if *wait == Wait::Placed {
                step.kept.extend(model.placeholders(key).map(|pod| pod.key.clone()));
                let its: Vec<ObjectKey> = step.requests_of(key).map(|(request, _)| request.clone()).collect();
                step.kept.extend(its);
            } else if let Some(record) = model.groups.get(key) {
                let ask = self.asks.entry(key.clone()).or_insert_with(|| Ask::new(&record.uid, clock.now));
                if ask.uid != record.uid {
                    *ask = Ask::new(&record.uid, clock.now);
                }
                let before = ask.word.clone();
                ask.look(&self.options, key, *wait, &mut step);
                if ask.word != before {
                    self.news.insert(key.clone());
                }
            }
        }
        remove_the_rest(&mut step);
        step.commands
    }
}

/// Removes what nobody needs of what exists.
fn remove_the_rest(step: &mut Step<'_>) {
    let Step { model, requests: _, clock, calls, kept, commands } = step;
    let pods = model.groups_with_placeholders().flat_map(|group| model.all_placeholders(group));
    for pod in pods.filter(|pod| !kept.contains(&pod.key)) {
        if calls.start(format!("end of placeholder {}", pod.key), clock.now) {
            commands.push(Command::RemovePlaceholder { pod: pod.key.clone(), uid: pod.uid.clone() });
        }
    }
    for (request, record) in &model.requests {
        let stays = kept.contains(request) || record.deleting;
        if !stays && calls.start(format!("end of request {request}"), clock.now) {
            commands.push(Command::WithdrawRequest { request: request.clone(), uid: record.uid.clone() });
        }
    }
}

/// The requests that were made for groups that exist and are not being deleted, by group.
fn requests_by_group(model: &Model) -> Requests<'_> {
    let mut found = Requests::new();
    for (request, record) in model.requests.iter().filter(|(_, record)| !record.deleting) {
        if model.groups.get(&record.group).is_some_and(|group| group.uid == record.group_uid) {
            found.entry(&record.group).or_default().push((request, record));
        }
    }
    found
}

/// The members that wait for room and for nothing else, by name.
fn waiting<'m>(model: &'m Model, key: &ObjectKey, schedulers: &[String]) -> Vec<&'m Pod> {
    let Some(group) = model.cluster.group(key) else { return Vec::new() };
    let waits = |pod: &&Pod| {
        pod.live() && !pod.bound() && pod.held && !pod.gated_by_others && schedulers.contains(&pod.scheduler_name)
    };
    let mut found: Vec<&Pod> =
        model.cluster.members(key).filter(waits).filter(|pod| !group.is_above(pod) && pod.unknown.is_empty()).collect();
    found.sort_by(|a, b| a.key.cmp(&b.key));
    found
}

#[cfg(test)]
mod tests;

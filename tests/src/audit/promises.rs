//! The promises of the design (section 6), checked against the audit log at rest: after every test, whatever it was
//! about.

use super::history::{GroupRecord, History, Key, PodRecord, Preemptor, Removal};
use super::{OPERATOR, SCHEDULER, rescues, topology};
use std::collections::{BTreeMap, BTreeSet};

/// The checks, and what they leave out.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    excused: BTreeSet<String>,
}

impl Promises {
    /// Every check.
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves out the check that this preemptor is bound in the end, because the test itself took its place or its
    /// pods away after the evictions.
    #[must_use]
    pub fn excuse_unbound(mut self, preemptor: &str) -> Self {
        self.excused.insert(preemptor.to_owned());
        self
    }

    /// Every promise that was broken, as a sentence each; empty when all were kept.
    pub fn broken(&self, history: &History) -> Vec<String> {
        let mut broken = evicted_once(history);
        broken.extend(torn_groups(history));
        broken.extend(planned_before(history));
        broken.extend(lower_priority(history));
        broken.extend(rescues::broken(history));
        broken.extend(topology::broken(history));
        broken.extend(self.bound_in_the_end(history));
        broken
    }

    /// Promise 1: nothing is evicted unless the whole preemptor then has a place.
    fn bound_in_the_end(&self, history: &History) -> Vec<String> {
        let mut broken = Vec::new();
        for (preemptor, victims) in victims_by_preemptor(history) {
            let (name, bound, needed) = match &preemptor {
                Preemptor::Group(key) => {
                    let Some(group) = history.groups.get(key).filter(|group| !group.deleted) else { continue };
                    let bound = history.members(key).filter(|(_, pod)| is_bound(pod)).count();
                    (key.1.clone(), bound, group.min_count.max(1))
                }
                Preemptor::Pod(uid) => {
                    let Some(pod) = history.pods.get(uid) else { continue };
                    if pod.bound.is_none() && pod.removed.is_some() {
                        continue;
                    }
                    (pod.key.1.clone(), usize::from(pod.bound.is_some()), 1)
                }
            };
            if bound < needed && !self.excused.contains(&name) {
                broken
                    .push(format!("{victims} pods were evicted for {name}, which has {bound} of {needed} pods bound"));
            }
        }
        broken
    }
}

/// Promise 4, first half: at most one accepted eviction a pod.
fn evicted_once(history: &History) -> Vec<String> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for removal in history.evicted() {
        *times.entry(&removal.uid).or_default() += 1;
    }
    let twice = times.into_iter().filter(|(_, times)| *times > 1);
    twice.map(|(uid, times)| format!("{} was evicted {times} times", name(history, uid))).collect()
}

/// Promise 2: a group in mode `PodGroup` is evicted whole or not at all, whoever started it.
fn torn_groups(history: &History) -> Vec<String> {
    let whole = history.groups.iter().filter(|(_, group)| group.whole);
    whole.flat_map(|(key, _)| torn(history, key)).collect()
}

/// How many groups in mode `PodGroup` lost some members to a preemption and kept others.
pub fn torn_count(history: &History) -> usize {
    let whole = |(_, group): &(&Key, &GroupRecord)| group.whole;
    history.groups.iter().filter(whole).filter(|(key, _)| !torn(history, key).is_empty()).count()
}

fn torn(history: &History, key: &Key) -> Vec<String> {
    let members: BTreeMap<&String, &PodRecord> = history.members(key).collect();
    let mut preempted: Vec<&Removal> = (history.removals.iter())
        .filter(|removal| removal.accepted && (removal.user == OPERATOR || removal.user == SCHEDULER))
        .filter(|removal| members.contains_key(&removal.uid))
        .collect();
    let mut broken = Vec::new();
    // Each round is one time that the group was preempted: its owner may create it anew, and lose it again.
    while let Some(first) = preempted.first().map(|removal| removal.at) {
        let existed = |pod: &PodRecord| {
            pod.bound.as_ref().is_some_and(|(bound, _)| *bound <= first) && pod.removed.is_none_or(|at| at >= first)
        };
        let round: BTreeMap<&&String, &&PodRecord> = members.iter().filter(|(_, pod)| existed(pod)).collect();
        let left: Vec<&str> =
            round.values().filter(|pod| pod.removed.is_none()).map(|pod| pod.key.1.as_str()).collect();
        if !left.is_empty() {
            let (gone, all) = (round.len() - left.len(), round.len());
            broken.push(format!(
                "group {} was torn apart: {gone} of its {all} pods were evicted, {} stayed",
                key.1,
                left.join(", ")
            ));
        }
        preempted.retain(|removal| !round.contains_key(&&removal.uid) && removal.at > first);
    }
    broken
}

/// How many accepted evictions no stored plan had announced.
pub fn unplanned_count(history: &History) -> usize {
    unplanned(history).count()
}

fn unplanned(history: &History) -> impl Iterator<Item = &Removal> {
    let unplanned = history.evicted().into_iter().filter(|removal| preemptor_of(history, removal).is_none());
    // The rest of a group of which the stock scheduler took a pod goes without a plan.
    unplanned.filter(|removal| !began_by_scheduler(history, removal))
}

/// Promise 4, second half: nothing is evicted without a plan that was stored before.
fn planned_before(history: &History) -> Vec<String> {
    unplanned(history)
        .map(|removal| format!("{} was evicted at {} without a plan stored before", removal.pod.1, removal.at))
        .collect()
}

fn began_by_scheduler(history: &History, removal: &Removal) -> bool {
    let group = history.pods.get(&removal.uid).and_then(|pod| pod.group.clone());
    let Some(group) = group else { return false };
    let key = (removal.pod.0.clone(), group);
    let whole = history.groups.get(&key).is_some_and(|group| group.whole);
    whole
        && history.removed_by(SCHEDULER).iter().any(|earlier| {
            let same = history.pods.get(&earlier.uid).is_some_and(|pod| pod.group.as_ref() == Some(&key.1));
            same && earlier.pod.0 == key.0 && earlier.at < removal.at
        })
}

/// Everything that is evicted has a lower effective priority than the preemptor.
fn lower_priority(history: &History) -> Vec<String> {
    let mut broken = Vec::new();
    for removal in history.evicted() {
        // Who goes for a critical add-on is no question of priority.
        let Some(plan) = history.plan_of(removal).filter(|record| record.plan.critical_addon.is_none()) else {
            continue;
        };
        let preemptor = plan.preemptor.clone();
        let taker = history.priority_of(&preemptor);
        let giver = history.effective_priority(&removal.uid);
        if giver >= taker {
            broken.push(format!(
                "{} of priority {giver:?} was evicted for {preemptor:?} of priority {taker:?}",
                removal.pod.1
            ));
        }
    }
    broken
}

fn preemptor_of(history: &History, removal: &Removal) -> Option<Preemptor> {
    history.plan_of(removal).map(|record| record.preemptor.clone())
}

fn victims_by_preemptor(history: &History) -> BTreeMap<Preemptor, usize> {
    let mut victims = BTreeMap::new();
    for preemptor in history.evicted().into_iter().filter_map(|removal| preemptor_of(history, removal)) {
        *victims.entry(preemptor).or_default() += 1;
    }
    victims
}

fn is_bound(pod: &PodRecord) -> bool {
    pod.bound.is_some() && pod.removed.is_none()
}

fn name<'a>(history: &'a History, uid: &'a str) -> &'a str {
    history.pods.get(uid).map_or(uid, |pod| &pod.key.1)
}

#[cfg(test)]
#[path = "promises_tests.rs"]
mod tests;

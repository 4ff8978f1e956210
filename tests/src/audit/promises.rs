//! The promises of the design (section 6), checked against the audit log at rest: after every test, whatever it was
//! about.

use super::groups::GroupRecord;
use super::history::{History, Key, PodRecord, Removal};
use super::plans::Preemptor;
use super::{OPERATOR, SCHEDULER, rescues, terms, topology, victims};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The evictions of a group are asked for within this time of each other.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// The checks, and what they leave out.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    /// Preemptors that need not be bound, and how many pods may have been evicted for each in vain.
    excused: BTreeMap<String, usize>,
    /// How many pods may have been evicted in vain altogether, for whomever.
    in_vain: usize,
    /// How many pods may have gone without a plan because their gang was bound by half.
    taken_down: usize,
    /// How many groups may be torn apart.
    torn: usize,
    /// What the names begin with of those whom the two numbers are for; `None`: they are for everybody.
    disturbed: Option<Vec<String>>,
    /// Groups that the test itself takes pods away from.
    torn_by_the_test: BTreeSet<String>,
    /// Groups that may be torn apart when the first one of their pods goes between these times.
    torn_between: Vec<(String, Timestamp, Timestamp)>,
    /// Plans of which an eviction may have been on its way when somebody deleted them, by name.
    on_their_way: BTreeSet<String>,
    /// Pods that may go without a plan, by UID.
    late: BTreeSet<String>,
    /// Namespaces in which nobody may be evicted, beside those with the annotation.
    protected: BTreeSet<String>,
    /// Budgets that nobody asks before kube-scheduler takes their pods.
    unguarded: BTreeSet<String>,
}

impl Promises {
    /// Every check.
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves out the check that this preemptor is bound in the end, because the test itself took its place or its
    /// pods away after the evictions, of which there are at most so many.
    #[must_use]
    pub fn excuse_unbound(mut self, preemptor: &str, evictions: usize) -> Self {
        self.excused.insert(preemptor.to_owned(), evictions);
        self
    }

    /// So many pods may be evicted in vain, where somebody spends the budgets of victims while they are being evicted.
    #[must_use]
    pub fn allow_in_vain(mut self, evictions: usize) -> Self {
        self.in_vain = evictions;
        self
    }

    /// So many pods may be evicted without a plan, of gangs that have fewer bound pods than they need.
    #[must_use]
    pub fn allow_taken_down(mut self, pods: usize) -> Self {
        self.taken_down = pods;
        self
    }

    /// This pod may be evicted without a plan: its eviction was asked for while its gang was bound by half, and was on its way for long.
    #[must_use]
    pub fn excuse_late(mut self, uid: &str) -> Self {
        self.late.insert(uid.to_owned());
        self
    }

    /// So many groups may be torn apart, where somebody spends a guaranteed budget when the first of a group's pods has gone:
    /// the others go as soon as the budget allows it.
    #[must_use]
    pub fn allow_torn(mut self, groups: usize) -> Self {
        self.torn = groups;
        self
    }

    /// What is [allowed in vain](Self::allow_in_vain) and [torn](Self::allow_torn) is so only for preemptors and groups whose names
    /// begin so: where somebody else really interfered.
    #[must_use]
    pub fn only_for(mut self, prefixes: impl IntoIterator<Item = String>) -> Self {
        self.disturbed = Some(prefixes.into_iter().collect());
        self
    }

    fn is_disturbed(&self, name: &str) -> bool {
        self.disturbed.as_ref().is_none_or(|prefixes| prefixes.iter().any(|prefix| name.starts_with(prefix)))
    }

    /// Pods that somebody else deletes from this group count as gone.
    #[must_use]
    pub fn excuse_torn(mut self, group: &str) -> Self {
        self.torn_by_the_test.insert(group.to_owned());
        self
    }

    /// A group may be torn apart when the first one of its pods goes at this time or within a second after it.
    #[must_use]
    pub fn excuse_torn_at(self, group: &str, at: Timestamp) -> Self {
        self.excuse_torn_between(group, at, at.saturating_add(UNDER_WAY).unwrap_or(at))
    }

    /// The group may be torn apart when the first one of its pods goes between these times.
    #[must_use]
    pub fn excuse_torn_between(mut self, group: &str, from: Timestamp, to: Timestamp) -> Self {
        self.torn_between.push((group.to_owned(), from, to));
        self
    }

    /// An eviction of this plan was asked for and not answered when somebody deleted it: it may have been carried out, so that its group
    /// goes on.
    #[must_use]
    pub fn excuse_on_its_way(mut self, plan: &str) -> Self {
        self.on_their_way.insert(plan.to_owned());
        self
    }

    /// Nobody in these namespaces may be evicted, as the operator was told by a flag.
    #[must_use]
    pub fn protecting(mut self, namespaces: impl IntoIterator<Item = String>) -> Self {
        self.protected.extend(namespaces);
        self
    }

    /// kube-scheduler may take the pods of this budget as it likes, because the test keeps it from asking, or plays it.
    #[must_use]
    pub fn excuse_unguarded(mut self, budget: &str) -> Self {
        self.unguarded.insert(budget.to_owned());
        self
    }

    /// Whether kube-scheduler is held to this budget.
    pub(super) fn guards(&self, budget: &str) -> bool {
        !self.unguarded.contains(budget)
    }

    /// Every promise that was broken, as a sentence each; empty when all were kept.
    pub fn broken(&self, history: &History) -> Vec<String> {
        let mut broken = evicted_once(history);
        broken.extend(self.torn_groups(history));
        broken.extend(self.planned_before(history));
        broken.extend(terms::broken(history, &self.on_their_way));
        broken.extend(victims::broken(history, &self.protected));
        broken.extend(rescues::broken(history));
        broken.extend(topology::broken(history));
        broken.extend(self.bound_in_the_end(history));
        broken
    }

    /// Promise 1: nothing is evicted unless the whole preemptor then has a place: all members that its last plan placed,
    /// also those beyond `minCount`.
    fn bound_in_the_end(&self, history: &History) -> Vec<String> {
        let (mut broken, mut excusable, mut in_vain) = (Vec::new(), Vec::new(), 0);
        for helped in helped(history).into_iter().filter(|helped| helped.whole.is_none()) {
            let Helped { name, victims, needed, bound, .. } = helped;
            let allowed = self.excused.get(&name);
            if allowed.is_none_or(|allowed| victims > *allowed) {
                let told = format!("{victims} pods were evicted for {name}, which has {bound} of {needed} pods bound");
                if self.is_disturbed(&name) {
                    in_vain += victims;
                    excusable.push(told);
                } else {
                    broken.push(told);
                }
            }
        }
        broken.extend(if in_vain <= self.in_vain { Vec::new() } else { excusable });
        broken
    }

    /// Promise 4, second half: nothing is evicted without a plan that was stored before.
    fn planned_before(&self, history: &History) -> Vec<String> {
        let unplanned = unplanned(history).filter(|removal| !self.late.contains(&removal.uid));
        let (half, others): (Vec<_>, Vec<_>) = unplanned.partition(|removal| bound_by_half(history, removal));
        let excused = if half.len() <= self.taken_down { Vec::new() } else { half };
        let told = others.into_iter().chain(excused);
        told.map(|removal| format!("{} was evicted at {} without a plan stored before", removal.pod.1, removal.at))
            .collect()
    }

    /// Promise 2: a group in mode `PodGroup` is evicted whole or not at all, whoever started it.
    fn torn_groups(&self, history: &History) -> Vec<String> {
        let whole = history.groups.iter().filter(|(_, group)| group.whole).map(|(key, _)| key);
        let (disturbed, others): (Vec<&Key>, Vec<&Key>) = whole.partition(|key| self.is_disturbed(&key.1));
        let excused = |key: &Key, first: Timestamp| {
            self.torn_between.iter().any(|(group, from, to)| *group == key.1 && (*from..=*to).contains(&first))
        };
        let torn = |keys: Vec<&Key>| -> Vec<String> {
            let torn = keys.into_iter().flat_map(|key| {
                let torn = torn(history, key, self.torn_by_the_test.contains(&key.1)).into_iter();
                torn.filter(move |(first, _)| !excused(key, *first)).map(|(_, sentence)| sentence)
            });
            torn.collect()
        };
        let (mut broken, excusable) = (torn(others), torn(disturbed));
        broken.extend(if excusable.len() <= self.torn { Vec::new() } else { excusable });
        broken
    }
}

/// A preemptor for whom others were evicted, and what became of it.
#[derive(Clone, Debug)]
pub struct Helped {
    /// Who.
    pub preemptor: Preemptor,
    /// Its name.
    pub name: String,
    /// The last plan for which somebody went.
    pub plan: String,
    /// When the first one of that plan was asked to go.
    pub first: Timestamp,
    /// How many went for it, by all its plans.
    pub victims: usize,
    /// How many of its pods had to be bound: those that were when the last one was asked to go, and all that the last plan placed, also
    /// those beyond `minCount`.
    pub needed: usize,
    /// How many were bound at the same time, at the most, after the last one was asked to go.
    pub bound: usize,
    /// When as many as had to be were bound for the first time.
    pub whole: Option<Timestamp>,
}

/// Everybody for whom others were evicted.
pub fn helped(history: &History) -> Vec<Helped> {
    let mut all: BTreeMap<Preemptor, (Helped, Timestamp, BTreeSet<&str>)> = BTreeMap::new();
    for removal in history.evicted() {
        let Some(record) = history.plan_of(removal) else { continue };
        let new = || Helped {
            preemptor: record.preemptor.clone(),
            name: history.name_of(&record.preemptor),
            plan: record.plan.id.clone(),
            first: removal.at,
            victims: 0,
            needed: 0,
            bound: 0,
            whole: None,
        };
        let (helped, last, placed) =
            all.entry(record.preemptor.clone()).or_insert_with(|| (new(), removal.at, BTreeSet::new()));
        if helped.plan != record.plan.id {
            (helped.plan, helped.first) = (record.plan.id.clone(), removal.at);
        }
        helped.victims += 1;
        *last = removal.at;
        *placed = record.plan.placements.iter().map(|place| place.uid.as_str()).collect();
    }
    let judged = |(mut helped, last, placed): (Helped, Timestamp, BTreeSet<&str>)| {
        let least = match &helped.preemptor {
            Preemptor::Group { key, .. } => history.groups.get(key).map_or(1, |group| group.min_count.max(1)),
            Preemptor::Pod(_) => 1,
        };
        // Who had a node when the last one was asked to go is none of those who got a place by that.
        let before = bound_at(history, &helped.preemptor, last);
        let before = before.filter(|(uid, _)| !placed.contains(uid.as_str())).count();
        helped.needed = least.max(before + placed.len());
        let bound = bound_at_once(history, &helped.preemptor, last);
        helped.bound = bound.iter().map(|(_, pods)| *pods).max().unwrap_or(0);
        helped.whole = bound.into_iter().find(|(_, pods)| *pods >= helped.needed).map(|(at, _)| at);
        helped
    };
    all.into_values().map(judged).collect()
}

/// The pods of a preemptor by UID, with when each was bound. A pod that was bound when another group had the name is not of it.
fn pods_of<'a>(history: &'a History, preemptor: &'a Preemptor) -> Vec<(&'a String, &'a PodRecord, Timestamp)> {
    let bound = |(uid, pod): (&'a String, &'a PodRecord)| Some((uid, pod, pod.bound.as_ref()?.0));
    match preemptor {
        Preemptor::Group { key, uid } => {
            let same = |at: Timestamp| history.incarnation(key, at).is_none_or(|of| of == uid);
            history.members(key).filter_map(bound).filter(|(_, _, at)| same(*at)).collect()
        }
        Preemptor::Pod(uid) => history.pods.get_key_value(uid).and_then(bound).into_iter().collect(),
    }
}

/// Those of them that had a node at this time.
fn bound_at<'a>(
    history: &'a History,
    preemptor: &'a Preemptor,
    time: Timestamp,
) -> impl Iterator<Item = (&'a String, &'a PodRecord)> {
    let there = move |pod: &PodRecord, at: Timestamp| at <= time && pod.removed.is_none_or(|removed| removed > time);
    let pods = pods_of(history, preemptor).into_iter();
    pods.filter(move |(_, pod, at)| there(pod, *at)).map(|(uid, pod, _)| (uid, pod))
}

/// How many pods of a preemptor were bound at the same time, from this moment to the one at which it is judged, each time that
/// another one was.
fn bound_at_once(history: &History, preemptor: &Preemptor, from: Timestamp) -> Vec<(Timestamp, usize)> {
    let namespace = match preemptor {
        Preemptor::Group { key, .. } => Some(&key.0),
        Preemptor::Pod(uid) => history.pods.get(uid).map(|pod| &pod.key.0),
    };
    let end = namespace.and_then(|namespace| history.judged_at(namespace, from));
    let times = pods_of(history, preemptor).into_iter().map(|(_, _, at)| at.max(from));
    let times: BTreeSet<Timestamp> = times.filter(|at| end.is_none_or(|end| *at <= end)).collect();
    times.into_iter().map(|time| (time, bound_at(history, preemptor, time).count())).collect()
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

/// How many groups in mode `PodGroup` lost some members to a preemption and kept others.
pub fn torn_count(history: &History) -> usize {
    let whole = |(_, group): &(&Key, &GroupRecord)| group.whole;
    history.groups.iter().filter(whole).filter(|(key, _)| !torn(history, key, false).is_empty()).count()
}

/// Every time that a group was torn apart: when the first pod went, and a sentence. `others`: whether a pod that somebody else
/// deleted counts as gone.
fn torn(history: &History, key: &Key, others: bool) -> Vec<(Timestamp, String)> {
    let members: BTreeMap<&String, &PodRecord> = history.members(key).collect();
    let mut preempted: Vec<&Removal> = (history.removals.iter())
        .filter(|removal| removal.accepted && (removal.user == OPERATOR || removal.user == SCHEDULER))
        .filter(|removal| members.contains_key(&removal.uid))
        .collect();
    let mut broken = Vec::new();
    // Each round is one time that the group was preempted: its owner may create it anew, and lose it again.
    while let Some(first) = preempted.first().map(|removal| removal.at) {
        let existed = |pod: &PodRecord| {
            pod.bound.as_ref().is_some_and(|(bound, _)| *bound <= first)
                && pod.removed.is_none_or(|at| at >= first)
                && pod.finished.is_none_or(|at| at >= first)
        };
        let round: BTreeMap<&&String, &&PodRecord> = members.iter().filter(|(_, pod)| existed(pod)).collect();
        let judged = history.judged_at(&key.0, first);
        let last = preempted.iter().filter(|removal| round.contains_key(&&removal.uid)).map(|removal| removal.at).max();
        // What somebody else deletes after the last eviction hides nothing, but for the moment in which others are under way.
        let gone = |pod: &PodRecord| {
            let in_time = |at: Timestamp| judged.is_none_or(|judged| at <= judged);
            let by_others = |at: Timestamp| others || last.is_some_and(|last| at <= last + UNDER_WAY);
            pod.preempted.is_some_and(in_time)
                || pod.removed.is_some_and(|at| in_time(at) && by_others(at))
                || pod.finished.is_some_and(in_time)
        };
        let left: Vec<&str> = round.values().filter(|pod| !gone(pod)).map(|pod| pod.key.1.as_str()).collect();
        if !left.is_empty() {
            let (gone, all) = (round.len() - left.len(), round.len());
            let left = left.join(", ");
            broken.push((
                first,
                format!("group {} was torn apart: {gone} of its {all} pods were evicted, {left} stayed", key.1),
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
    unplanned.filter(|removal| !history.began_by_scheduler(removal))
}

/// Whether the gang of this pod had fewer bound members than it needs when it went.
fn bound_by_half(history: &History, removal: &Removal) -> bool {
    let Some(group) = history.pods.get(&removal.uid).and_then(|pod| pod.group.as_ref()) else { return false };
    let key = (removal.pod.0.clone(), group.clone());
    let there = |pod: &PodRecord| {
        pod.bound.as_ref().is_some_and(|(at, _)| *at < removal.at) && pod.removed.is_none_or(|at| at >= removal.at)
    };
    let bound = history.members(&key).filter(|(_, pod)| there(pod)).count();
    history.groups.get(&key).is_some_and(|group| bound < group.min_count)
}

fn preemptor_of(history: &History, removal: &Removal) -> Option<Preemptor> {
    history.plan_of(removal).map(|record| record.preemptor.clone())
}

fn name<'a>(history: &'a History, uid: &'a str) -> &'a str {
    history.pods.get(uid).map_or(uid, |pod| &pod.key.1)
}

#[cfg(test)]
#[path = "promises_tests.rs"]
mod tests;

//! The preemptors for which pods were evicted, and whether they were bound afterwards.

use super::history::History;
use super::record::{PodRecord, Preemptor};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// A preemptor for which pods were evicted, and its bound pods afterwards.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The preemptor.
    pub preemptor: Preemptor,
    /// Its name.
    pub name: String,
    /// The last of its plans with an eviction.
    pub plan: String,
    /// The time of the first eviction for that plan.
    pub first: Timestamp,
    /// The number of pods evicted for all its plans.
    pub evictions: usize,
    /// The number of pods that had to be bound: those that were bound at the last eviction, and all placements of the last plan, also
    /// those beyond `minCount`.
    pub needed: usize,
    /// The largest number of pods that were bound at the same time after the last eviction.
    pub bound: usize,
    /// The first time at which the needed number of pods was bound.
    pub complete: Option<Timestamp>,
}

/// Returns all preemptors for which pods were evicted.
pub fn outcomes(history: &History) -> Vec<Outcome> {
    let mut all: BTreeMap<Preemptor, (Outcome, Timestamp, BTreeSet<&str>)> = BTreeMap::new();
    for removal in history.evicted() {
        let Some(record) = history.plan_of(removal) else { continue };
        let Some(preemptor) = &record.preemptor else { continue };
        let new = || Outcome {
            preemptor: preemptor.clone(),
            name: history.name_of(preemptor),
            plan: record.plan.id.clone(),
            first: removal.at,
            evictions: 0,
            needed: 0,
            bound: 0,
            complete: None,
        };
        let (outcome, last, placed) =
            all.entry(preemptor.clone()).or_insert_with(|| (new(), removal.at, BTreeSet::new()));
        if outcome.plan != record.plan.id {
            (outcome.plan, outcome.first) = (record.plan.id.clone(), removal.at);
        }
        outcome.evictions += 1;
        *last = removal.at;
        *placed = record.plan.placements.iter().map(|placement| placement.uid.as_str()).collect();
    }
    all.into_values().map(|(outcome, last, placed)| completed(history, outcome, last, &placed)).collect()
}

/// Fills in the numbers of needed and bound pods. `last` is the time of the last eviction, `placed` are the pods with a placement.
fn completed(history: &History, mut outcome: Outcome, last: Timestamp, placed: &BTreeSet<&str>) -> Outcome {
    let least = match &outcome.preemptor {
        Preemptor::Group { key, .. } => history.groups.get(key).map_or(1, |group| group.min_count.max(1)),
        Preemptor::Pod(_) => 1,
    };
    // A pod with a placement that was bound before the last eviction counts once.
    let before = bound_at(history, &outcome.preemptor, last);
    let before = before.filter(|(uid, _)| !placed.contains(uid.as_str())).count();
    outcome.needed = least.max(before + placed.len());
    let bound = bound_counts(history, &outcome.preemptor, last);
    outcome.bound = bound.iter().map(|(_, pods)| *pods).max().unwrap_or(0);
    outcome.complete = bound.into_iter().find(|(_, pods)| *pods >= outcome.needed).map(|(at, _)| at);
    outcome
}

/// Returns the bound pods of a preemptor by UID, with the time of binding. A pod that was bound while another PodGroup had the name is left
/// out.
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

/// Returns the pods of a preemptor that were bound at this time.
fn bound_at<'a>(
    history: &'a History,
    preemptor: &'a Preemptor,
    time: Timestamp,
) -> impl Iterator<Item = (&'a String, &'a PodRecord)> {
    let exists = move |pod: &PodRecord, at: Timestamp| at <= time && pod.removed.is_none_or(|removed| removed > time);
    let pods = pods_of(history, preemptor).into_iter();
    pods.filter(move |(_, pod, at)| exists(pod, *at)).map(|(uid, pod, _)| (uid, pod))
}

/// Returns the number of bound pods of a preemptor after each binding, from this time until the time at which it is judged.
fn bound_counts(history: &History, preemptor: &Preemptor, from: Timestamp) -> Vec<(Timestamp, usize)> {
    let namespace = match preemptor {
        Preemptor::Group { key, .. } => Some(&key.0),
        Preemptor::Pod(uid) => history.pods.get(uid).map(|pod| &pod.key.0),
    };
    let end = namespace.and_then(|namespace| history.judged_at(namespace, from));
    let times = pods_of(history, preemptor).into_iter().map(|(_, _, at)| at.max(from));
    let times: BTreeSet<Timestamp> = times.filter(|at| end.is_none_or(|end| *at <= end)).collect();
    times.into_iter().map(|time| (time, bound_at(history, preemptor, time).count())).collect()
}

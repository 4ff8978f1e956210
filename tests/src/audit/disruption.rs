//! Promise 2: a PodGroup in mode `PodGroup` is disrupted as a whole or not at all, no matter which component disrupts
//! it.

use super::breach::{Breach, BreachKind};
use super::history::History;
use super::record::{GroupRecord, Key, PodRecord, Removal};
use super::{OPERATOR, SCHEDULER};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// The evictions of one PodGroup are requested within this time.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// Returns every partial disruption.
pub(super) fn breaches(history: &History) -> Vec<Breach> {
    whole_groups(history).flat_map(|key| partial_disruptions(history, key)).collect()
}

/// Returns the number of PodGroups in mode `PodGroup` that lost some members to a preemption and kept others.
pub fn partial_disruption_count(history: &History) -> usize {
    whole_groups(history).filter(|key| !partial_disruptions(history, key).is_empty()).count()
}

fn whole_groups(history: &History) -> impl Iterator<Item = &Key> {
    let whole = |(_, group): &(&Key, &GroupRecord)| group.whole;
    history.groups.iter().filter(whole).map(|(key, _)| key)
}

fn partial_disruptions(history: &History, key: &Key) -> Vec<Breach> {
    let members: BTreeMap<&String, &PodRecord> = history.members(key).collect();
    let deleted = history.groups.get(key).and_then(|group| group.gone);
    let mut preempted: Vec<&Removal> = (history.removals.iter())
        .filter(|removal| removal.accepted && (removal.user == OPERATOR || removal.user == SCHEDULER))
        // Without their PodGroup pods are disrupted one by one.
        .filter(|removal| members.contains_key(&removal.uid) && deleted.is_none_or(|deleted| removal.at < deleted))
        .collect();
    let mut broken = Vec::new();
    // Each round is one disruption: the owner may recreate the pods, which may be preempted again.
    while let Some(first) = preempted.first().map(|removal| removal.at) {
        let existed = |pod: &PodRecord| {
            pod.bound.as_ref().is_some_and(|(bound, _)| *bound <= first)
                && pod.removed.is_none_or(|at| at >= first)
                && pod.finished.is_none_or(|at| at >= first)
        };
        let round: BTreeMap<&&String, &&PodRecord> = members.iter().filter(|(_, pod)| existed(pod)).collect();
        let judged = history.judged_at(&key.0, first);
        let ours = history.removals.iter().filter(|removal| removal.user == OPERATOR || removal.user == SCHEDULER);
        let last = ours.filter(|removal| round.contains_key(&&removal.uid)).map(|removal| removal.at).max();
        // A deletion by another user counts only until shortly after the last requested eviction: a later one must not
        // hide a partial disruption.
        let disrupted = |pod: &PodRecord| {
            let in_time = |at: Timestamp| judged.is_none_or(|judged| at <= judged);
            let under_way = |at: Timestamp| last.is_some_and(|last| at <= last + UNDER_WAY);
            pod.preempted.is_some_and(in_time)
                || pod.removed.is_some_and(|at| in_time(at) && under_way(at))
                || pod.finished.is_some_and(in_time)
        };
        let left: Vec<&str> = round.values().filter(|pod| !disrupted(pod)).map(|pod| pod.key.1.as_str()).collect();
        if !left.is_empty() {
            broken.push(Breach {
                kind: BreachKind::PartialDisruption { group: key.clone(), first },
                message: format!(
                    "PodGroup {} was partially disrupted: {} of {} pods evicted, but not {}",
                    key.1,
                    round.len() - left.len(),
                    round.len(),
                    left.join(", ")
                ),
            });
        }
        preempted.retain(|removal| !round.contains_key(&&removal.uid) && removal.at > first);
    }
    broken
}

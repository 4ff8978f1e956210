//! Promise 4, third part: the cause in a `Preemption` is true. For each cause, what justifies the evictions:
//!
//! ```text
//! Preemptor           the plan that it stores; `victims` and `critical_addons` check each victim
//! CriticalAddon       the same
//! MemberPreempted     before it was stored, kube-scheduler had preempted another pod of the PodGroup, whose mode is `PodGroup`; all its
//!                     pods existed and were bound at that time, so it evicts no replacement pod
//! PartiallyScheduled  the gang had fewer bound pods than it needs, and the test declares these evictions as expected
//! PartiallyDisrupted  before it was stored, another pod of the PodGroup had been evicted for a plan of its preemptor that also has its
//!                     pods, or for another plan that shares the PodGroup with that one: a new leader does not know for which; the rules
//!                     of the plan of its preemptor apply to its evictions (`History::ruling_plan`)
//! ```

use super::SCHEDULER;
use super::breach::{Breach, BreachKind};
use super::history::History;
use super::plans::ON_THE_WIRE;
use super::record::{Key, PlanRecord, PodRecord, Removal};
use giveway_crds::plan::Cause;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// Returns every `Preemption` without a preemptor for which pods were evicted although nothing justifies its cause.
pub(super) fn breaches(history: &History) -> Vec<Breach> {
    let mut stored: BTreeMap<&str, &PlanRecord> = BTreeMap::new();
    let mut gangs: BTreeMap<(Key, bool), Vec<String>> = BTreeMap::new();
    for removal in history.evicted() {
        let Some(record) = history.plan_of(removal).filter(|record| !record.plan.cause.is_plan()) else { continue };
        stored.insert(&record.plan.id, history.first_stored(record));
        if record.plan.cause == Cause::PartiallyScheduled {
            let gang = gang_of(history, removal);
            let complete = is_complete(history, &gang, removal.at);
            gangs.entry((gang, complete)).or_default().push(removal.uid.clone());
        }
    }
    let mut breaches: Vec<Breach> = stored.into_values().filter_map(|record| unjustified(history, record)).collect();
    breaches.extend(gangs.into_iter().map(|((group, complete), pods)| partially_scheduled(group, complete, pods)));
    breaches
}

/// Returns the breach if nothing justifies the cause of a `Preemption` as it was stored first.
fn unjustified(history: &History, record: &PlanRecord) -> Option<Breach> {
    match record.plan.cause {
        // `victims` and `critical_addons` check the victims of plans. `PartiallyScheduled` is checked at the time of each eviction.
        Cause::Preemptor | Cause::CriticalAddon | Cause::PartiallyScheduled => None,
        Cause::MemberPreempted => no_member_preempted(history, record),
        Cause::PartiallyDisrupted => not_partially_disrupted(history, record),
    }
}

/// Returns the breach if kube-scheduler had preempted no other pod of the PodGroup before, or if a pod was not bound at that time.
fn no_member_preempted(history: &History, record: &PlanRecord) -> Option<Breach> {
    let (id, group) = (&record.plan.id, unit_of(record));
    let whole = history.groups.get(&group).is_some_and(|group| group.whole);
    let incarnation = history.incarnation(&group, record.asked);
    let is_same = |at: Timestamp| history.incarnation(&group, at).is_none_or(|of| Some(of) == incarnation);
    let is_other = |uid: &str| !record.names(uid) && history.group_of(uid).as_ref() == Some(&group);
    let preempted: Vec<&Removal> = (history.removed_by(SCHEDULER).into_iter())
        .filter(|removal| whole && removal.at <= record.asked && is_same(removal.at) && is_other(&removal.uid))
        .collect();
    let Some(last) = preempted.last() else {
        return Some(Breach::other(format!(
            "Preemption {id} has cause MemberPreempted, but kube-scheduler had preempted no other pod of PodGroup {}",
            group.1
        )));
    };
    let not_bound = |removal: &Removal| record.pods().find(|pod| !was_bound(history, &group, &pod.uid, removal.at));
    if preempted.iter().any(|removal| not_bound(removal).is_none()) {
        return None;
    }
    let pod = not_bound(last)?;
    Some(Breach::other(format!(
        "Preemption {id} evicts pod {}, but it was not a bound pod of PodGroup {} when kube-scheduler preempted pod {}",
        pod.name, group.1, last.pod.1
    )))
}

/// Returns true if the pod belongs to this PodGroup, existed at this time, and was bound or its binding was in transit.
fn was_bound(history: &History, group: &Key, uid: &str, at: Timestamp) -> bool {
    let bound = |pod: &PodRecord| pod.bound.as_ref().is_some_and(|(bound, _)| *bound <= at + ON_THE_WIRE);
    let existed = history.pods.get(uid).is_some_and(|pod| pod.created <= at && bound(pod));
    existed && history.group_of(uid).as_ref() == Some(group)
}

/// Returns the breach if no plan of the preemptor had evicted another pod of the PodGroup before.
fn not_partially_disrupted(history: &History, record: &PlanRecord) -> Option<Breach> {
    let (id, group) = (&record.plan.id, unit_of(record));
    let Some(cancelled) = history.continued_plan(record) else {
        return Some(Breach::other(format!(
            "Preemption {id} has cause PartiallyDisrupted, but no plan of its preemptor with these pods of PodGroup {} \
             had started to evict",
            group.1
        )));
    };
    let is_member = |uid: &str| history.group_of(uid).as_ref() == Some(&group);
    let is_for_plan = |removal: &Removal| {
        let is_plan = history.plan_of(removal).is_some_and(|of| of.plan.cause.is_plan());
        removal.at <= record.asked && is_member(&removal.uid) && is_plan && cancelled.names(&removal.uid)
    };
    if history.evicted().into_iter().any(is_for_plan) {
        return None;
    }
    let pods = cancelled.pods().map(|pod| pod.uid.clone()).filter(|uid| is_member(uid)).collect();
    Some(Breach {
        kind: BreachKind::NotPartiallyDisrupted { at: record.asked, pods },
        message: format!(
            "Preemption {id} has cause PartiallyDisrupted, but plan {} had evicted no pod of PodGroup {}",
            cancelled.plan.id, group.1
        ),
    })
}

/// Returns the breach for the pods of a gang that were evicted with cause `PartiallyScheduled`.
fn partially_scheduled(group: Key, complete: bool, pods: Vec<String>) -> Breach {
    let (count, (noun, were)) = (pods.len(), if pods.len() == 1 { ("pod", "was") } else { ("pods", "were") });
    let why = if complete {
        "although the gang had as many bound pods as it needs"
    } else {
        "which the test does not declare as expected"
    };
    let name = &group.1;
    let message = format!("{count} {noun} of PodGroup {name} {were} evicted with cause PartiallyScheduled, {why}");
    Breach { kind: BreachKind::PartiallyScheduled { group, pods, complete }, message }
}

/// Returns the PodGroup of an evicted pod; the name of the pod if it names no PodGroup.
fn gang_of(history: &History, removal: &Removal) -> Key {
    history.group_of(&removal.uid).unwrap_or_else(|| removal.pod.clone())
}

/// Returns true if as many pods of the gang were bound at this time as it needs. A pod that was bound a moment before does not count,
/// because the eviction may have been in transit.
fn is_complete(history: &History, gang: &Key, at: Timestamp) -> bool {
    let is_bound = |pod: &PodRecord| {
        pod.bound.as_ref().is_some_and(|(bound, _)| *bound + ON_THE_WIRE < at)
            && pod.removed.is_none_or(|removed| removed >= at)
    };
    let bound = history.members(gang).filter(|(_, pod)| is_bound(pod)).count();
    history.groups.get(gang).is_none_or(|group| bound >= group.min_count)
}

/// Returns the PodGroup whose pods a `Preemption` without a preemptor evicts.
fn unit_of(record: &PlanRecord) -> Key {
    let unit = record.plan.victims.first();
    unit.map(|unit| (unit.namespace.clone(), unit.name.clone())).unwrap_or_default()
}

#[cfg(test)]
#[path = "causes_tests.rs"]
mod tests;

//! The promises about critical add-ons (design, section 5, "Critical pods"): which pods are victims, how they are evicted, and that
//! the taint is on the node only while the plan is in flight.

use super::OPERATOR;
use super::history::History;
use super::record::{How, Key, NodeWrite, PlanRecord, Removal};
use giveway_crds::critical;
use giveway_crds::plan::StoredRescue;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Returns one message for each breach.
pub(super) fn broken(history: &History) -> Vec<String> {
    let mut broken = Vec::new();
    for removal in history.evicted() {
        let Some(record) = history.ruling_plan(removal) else { continue };
        if let Some(stored) = record.plan.critical_addon {
            broken.extend(wrong_victim(history, record, removal));
            broken.extend(wrong_request(history, stored, removal));
            if !is_continued(history, removal) {
                broken.extend(before_the_taint(history, record, stored, removal));
            }
        }
    }
    broken.extend(taints(history));
    broken
}

/// Returns true if the pod is evicted because the plan, which was cancelled, had evicted other pods of its PodGroup. The add-on does not
/// need the capacity any more: the node has no taint, and the pod may keep a long grace period.
fn is_continued(history: &History, removal: &Removal) -> bool {
    history.plan_of(removal).is_some_and(|record| record.plan.critical_addon.is_none())
}

fn wrong_victim(history: &History, record: &PlanRecord, removal: &Removal) -> Option<String> {
    let (victim, addon) = (history.pods.get(&removal.uid)?, history.pods.get(&record.plan.preemptor.uid));
    let name = &victim.key.1;
    // A pod of a DaemonSet is evicted with its PodGroup in mode `PodGroup`.
    if victim.fixed && group_of(history, removal).is_none() {
        return Some(format!(
            "pod {name} was evicted for a critical add-on although it is static or owned by a DaemonSet"
        ));
    }
    if addon.is_some_and(|addon| !addon.critical) {
        return Some(format!(
            "pod {name} was evicted for {}, which is not a critical add-on",
            record.plan.preemptor.name
        ));
    }
    let equal = addon.is_none_or(|addon| addon.priority == victim.priority);
    (victim.critical && !equal)
        .then(|| format!("pod {name} was evicted for a critical add-on although it is critical itself"))
}

fn wrong_request(history: &History, stored: StoredRescue, removal: &Removal) -> Option<String> {
    let (victim, name) = (history.pods.get(&removal.uid)?, &removal.pod.1);
    let longest = critical::LONGEST_GRACE;
    let given = removal.grace.map_or(victim.grace, i64::from);
    if given > longest && !is_continued(history, removal) {
        return Some(format!(
            "pod {name} was evicted with a grace period of {given} s; at most {longest} s are allowed"
        ));
    }
    if given < victim.grace.min(longest) {
        return Some(format!(
            "pod {name} was evicted with a grace period of {given} s instead of its own {} s",
            victim.grace
        ));
    }
    if given < victim.grace && stored.step < 2 {
        return Some(format!("the grace period of pod {name} was shortened in step {}", stored.step));
    }
    let refused = history.refused_before(removal);
    match removal.how {
        How::Evict => None,
        // The other pods of a PodGroup may be removed by any request.
        _ if group_disrupted(history, removal) => None,
        _ if stored.step < 3 => Some(format!("pod {name} was deleted in step {}", stored.step)),
        _ if !refused => Some(format!("pod {name} was deleted before the Eviction API refused its eviction")),
        _ => None,
    }
}

/// The PodGroup of a pod, if its mode is `PodGroup`.
fn group_of(history: &History, removal: &Removal) -> Option<Key> {
    let key = (removal.pod.0.clone(), history.pods.get(&removal.uid)?.group.clone()?);
    history.groups.get(&key).filter(|group| group.whole).map(|_| key)
}

/// Returns true if another pod of the same PodGroup in mode `PodGroup` was evicted before.
fn group_disrupted(history: &History, removal: &Removal) -> bool {
    let Some(group) = group_of(history, removal) else { return false };
    let earlier = |other: &&Removal| other.at <= removal.at && other.uid != removal.uid;
    history.evicted().into_iter().filter(earlier).any(|other| group_of(history, other).as_ref() == Some(&group))
}

fn before_the_taint(history: &History, record: &PlanRecord, stored: StoredRescue, removal: &Removal) -> Option<String> {
    let node = &record.plan.placements.first()?.node;
    let last = history.nodes.iter().rev().find(|write| write.at <= removal.at && write.node == *node);
    // A taint of the same effect by another user also reserves the node.
    let reserved = last.is_some_and(|write| write.taints.iter().any(reserves));
    (stored.taint && !reserved).then(|| format!("pod {} was evicted before the node was tainted", removal.pod.1))
}

fn reserves(taint: &Value) -> bool {
    taint["key"] == "CriticalAddonsOnly" && taint["effect"] == "NoSchedule"
}

fn is_for(taint: &Value, uid: &str) -> bool {
    reserves(taint) && taint["value"] == uid
}

/// Checks that at most one node has a taint for a critical add-on at any time and no node at rest, and that the operator writes no other
/// taint.
fn taints(history: &History) -> Vec<String> {
    let plans = history.plans.iter().filter(|record| record.plan.critical_addon.is_some());
    let uids: BTreeSet<&str> = plans.map(|record| record.plan.preemptor.uid.as_str()).collect();
    let ours = |taint: &Value| uids.iter().any(|uid| is_for(taint, uid));
    let mut broken = Vec::new();
    let mut now: BTreeMap<&str, &Vec<Value>> = BTreeMap::new();
    let mut writes: Vec<&NodeWrite> = history.nodes.iter().collect();
    writes.sort_by_key(|write| write.version);
    for write in writes {
        let foreign = |taints: &[Value]| taints.iter().filter(|taint| !ours(taint)).cloned().collect::<Vec<_>>();
        let before = now.insert(&write.node, &write.taints).map_or(&[][..], Vec::as_slice);
        if write.user == OPERATOR && foreign(before) != foreign(&write.taints) {
            broken.push(format!("the operator changed taints of other users on node {}", write.node));
        }
        let tainted = now.iter().filter(|(_, taints)| taints.iter().any(ours)).count();
        if tainted > 1 {
            broken.push(format!("{tainted} nodes were tainted at the same time, at {}", write.at));
        }
    }
    let left = now.iter().filter(|(_, taints)| taints.iter().any(ours));
    broken.extend(left.map(|(node, _)| format!("node {node} is still tainted")));
    broken
}

#[cfg(test)]
#[path = "critical_addons_tests.rs"]
mod tests;

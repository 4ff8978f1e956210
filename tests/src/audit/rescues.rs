//! The promises about critical add-ons (design, section 5, "Critical pods"): who may go, how, and that taints come and go
//! with the plan.

use super::OPERATOR;
use super::budgets::refused_before;
use super::history::{History, How, Key, NodeWrite, Removal};
use super::plans::PlanRecord;
use giveway_crds::critical;
use giveway_crds::plan::StoredRescue;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Every promise that was broken, as a sentence each.
pub(super) fn broken(history: &History) -> Vec<String> {
    let mut broken = Vec::new();
    for removal in history.evicted() {
        let Some(record) = history.plan_of(removal) else { continue };
        if let Some(stored) = record.plan.critical_addon {
            broken.extend(wrong_victim(history, record, removal));
            broken.extend(wrong_way(history, stored, removal));
            broken.extend(before_the_taint(history, record, stored, removal));
        }
    }
    broken.extend(taints(history));
    broken
}

fn wrong_victim(history: &History, record: &PlanRecord, removal: &Removal) -> Option<String> {
    let (victim, addon) = (history.pods.get(&removal.uid)?, history.pods.get(&record.plan.preemptor.uid));
    let name = &victim.key.1;
    // A pod of a DaemonSet that has joined a whole group goes with it.
    if victim.fixed && group_of(history, removal).is_none() {
        return Some(format!("{name} was evicted for a critical add-on, and is static or of a DaemonSet"));
    }
    if addon.is_some_and(|addon| !addon.critical) {
        return Some(format!(
            "{name} was evicted as for a critical add-on, and {} is none",
            record.plan.preemptor.name
        ));
    }
    let equal = addon.is_none_or(|addon| addon.priority == victim.priority);
    (victim.critical && !equal).then(|| format!("{name} was evicted for a critical add-on, and is critical itself"))
}

fn wrong_way(history: &History, stored: StoredRescue, removal: &Removal) -> Option<String> {
    let (victim, name) = (history.pods.get(&removal.uid)?, &removal.pod.1);
    let longest = critical::LONGEST_GRACE;
    let given = removal.grace.map_or(victim.grace, i64::from);
    if given > longest {
        return Some(format!("{name} was given {given} s for a critical add-on, more than {longest} s"));
    }
    if given < victim.grace.min(longest) {
        return Some(format!("{name} was given {given} s for a critical add-on, and had {} s", victim.grace));
    }
    if given < victim.grace && stored.step < 2 {
        return Some(format!("the grace of {name} was shortened in step {}", stored.step));
    }
    let refused = refused_before(history, removal);
    match removal.how {
        How::Evict => None,
        // What was begun is finished, by whatever means.
        _ if begun(history, removal) => None,
        _ if stored.step < 3 => Some(format!("{name} was deleted in step {}", stored.step)),
        _ if !refused => Some(format!("{name} was deleted before the eviction API refused it")),
        _ => None,
    }
}

/// The whole group that a pod is of.
fn group_of(history: &History, removal: &Removal) -> Option<Key> {
    let key = (removal.pod.0.clone(), history.pods.get(&removal.uid)?.group.clone()?);
    history.groups.get(&key).filter(|group| group.whole).map(|_| key)
}

/// Whether another pod of the same whole group was evicted before.
fn begun(history: &History, removal: &Removal) -> bool {
    let Some(group) = group_of(history, removal) else { return false };
    let earlier = |other: &&Removal| other.at <= removal.at && other.uid != removal.uid;
    history.evicted().into_iter().filter(earlier).any(|other| group_of(history, other).as_ref() == Some(&group))
}

fn before_the_taint(history: &History, record: &PlanRecord, stored: StoredRescue, removal: &Removal) -> Option<String> {
    let node = &record.plan.placements.first()?.node;
    let last = history.nodes.iter().rev().find(|write| write.at <= removal.at && write.node == *node);
    // What somebody else keeps the node by is as good.
    let kept = last.is_some_and(|write| write.taints.iter().any(keeps));
    (stored.taint && !kept).then(|| format!("{} was evicted before the node was tainted", removal.pod.1))
}

fn keeps(taint: &Value) -> bool {
    taint["key"] == "CriticalAddonsOnly" && taint["effect"] == "NoSchedule"
}

fn is_for(taint: &Value, uid: &str) -> bool {
    keeps(taint) && taint["value"] == uid
}

/// At most one node has a taint of ours at any time, none at rest, and the operator writes no other.
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
            broken.push(format!("the operator changed foreign taints of node {}", write.node));
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
#[path = "rescues_tests.rs"]
mod tests;

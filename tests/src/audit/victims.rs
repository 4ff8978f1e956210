//! Pods that must not be victims: static pods and pods of protected namespaces. Unless the preemptor is a critical add-on, also critical
//! add-ons, pods whose priority is not below that of the preemptor, and all pods for a preemptor with the preemption policy `Never`.

use super::history::History;
use super::plans::ON_THE_WIRE;
use super::record::{How, PlanRecord, Removal};
use giveway_crds::plan::Cause;
use jiff::Timestamp;
use std::collections::BTreeSet;

/// Returns one message for each breach. `protected` are the namespaces that a flag of the operator protects.
pub(super) fn broken(history: &History, protected: &BTreeSet<String>) -> Vec<String> {
    let mut broken = Vec::new();
    for removal in history.evicted() {
        let (pod, namespace) = (&removal.pod.1, &removal.pod.0);
        if protected.contains(namespace) || is_protected(history, namespace, removal.at) {
            broken.push(format!("pod {pod} was evicted in namespace {namespace}, which is protected"));
        }
        // `critical_addons` checks the victims of critical add-ons, for which priorities are ignored.
        let is_for_addon = |record: &PlanRecord| record.plan.critical_addon.is_some();
        if history.plan_of(removal).is_some_and(is_for_addon) {
            continue;
        }
        if history.pods.get(&removal.uid).is_some_and(|pod| pod.mirror) {
            broken.push(format!("pod {pod} was evicted although it is a static pod"));
        }
        if history.pods.get(&removal.uid).is_some_and(|pod| pod.critical) {
            broken.push(format!("pod {pod} was evicted although it is a critical add-on"));
        }
        let record = history.ruling_plan(removal).filter(|record| !is_for_addon(record));
        broken.extend(record.and_then(|record| wrong_priority(history, removal, record)));
    }
    broken
}

fn wrong_priority(history: &History, removal: &Removal, record: &PlanRecord) -> Option<String> {
    let pod = &removal.pod.1;
    let Some(preemptor) = &record.preemptor else {
        let cause = record.plan.cause;
        let violates = removal.how != How::Evict && cause != Cause::PartiallyDisrupted;
        return violates.then(|| format!("pod {pod} was deleted, but not evicted, with cause {}", cause.as_str()));
    };
    let name = history.name_of(preemptor);
    if history.preempts_never(preemptor) == Some(true) {
        return Some(format!("pod {pod} was evicted for {name}, whose preemption policy is Never"));
    }
    let (priority, own) = (history.priority_of(preemptor), history.effective_priority(&removal.uid));
    let text = |priority: Option<i32>| priority.map_or_else(|| "unknown".to_owned(), |priority| priority.to_string());
    (own >= priority)
        .then(|| format!("pod {pod} of priority {} was evicted for {name} of priority {}", text(own), text(priority)))
}

/// Returns true if the namespace has had its annotation for so long that every component has observed it.
fn is_protected(history: &History, namespace: &str, at: Timestamp) -> bool {
    let mut since = None;
    for (when, _, protected) in history.protected.iter().filter(|(when, of, _)| *when <= at && of == namespace) {
        since = protected.then(|| since.unwrap_or(*when));
    }
    since.is_some_and(|since| at.duration_since(since).unsigned_abs() >= ON_THE_WIRE)
}

#[cfg(test)]
#[path = "victims_tests.rs"]
mod tests;

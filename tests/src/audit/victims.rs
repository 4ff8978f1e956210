//! Who is no victim, whoever wants the room: static pods, pods of protected namespaces, and, but for critical add-ons, everybody
//! for a preemptor that preempts nobody or is no more important.

use super::history::{History, Removal};
use super::plans::{ON_THE_WIRE, PlanRecord};
use jiff::Timestamp;
use std::collections::BTreeSet;

/// Every breach, as a sentence; `protected` are the namespaces that are protected all the time.
pub(super) fn broken(history: &History, protected: &BTreeSet<String>) -> Vec<String> {
    let mut broken = Vec::new();
    for removal in history.evicted() {
        let (pod, namespace) = (&removal.pod.1, &removal.pod.0);
        if protected.contains(namespace) || is_protected(history, namespace, removal.at) {
            broken.push(format!("{pod} was evicted in namespace {namespace}, which is protected"));
        }
        let record = history.plan_of(removal);
        // Who goes for a critical add-on is said there: it is no question of priority.
        if record.is_some_and(|record| record.plan.critical_addon.is_some()) {
            continue;
        }
        if history.pods.get(&removal.uid).is_some_and(|pod| pod.mirror) {
            broken.push(format!("{pod} was evicted, and is static"));
        }
        broken.extend(record.and_then(|record| taken_by(history, removal, record)));
    }
    broken
}

fn taken_by(history: &History, removal: &Removal, record: &PlanRecord) -> Option<String> {
    let (pod, preemptor) = (&removal.pod.1, &record.preemptor);
    let name = history.name_of(preemptor);
    if history.preempts_never(preemptor) == Some(true) {
        return Some(format!("{pod} was evicted for {name}, which preempts nobody"));
    }
    let (taker, giver) = (history.priority_of(preemptor), history.effective_priority(&removal.uid));
    (giver >= taker).then(|| format!("{pod} of priority {giver:?} was evicted for {name} of priority {taker:?}"))
}

/// Whether a namespace has had its annotation for so long that everybody has heard of it.
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

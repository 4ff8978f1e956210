//! Detects workloads that evict each other repeatedly.

use super::history::History;
use super::record::{Key, PodRecord, Preemptor};
use std::collections::BTreeMap;

/// Number of changes of direction at which two workloads count as evicting each other. One change can have a reason: a class that was
/// replaced.
const CHANGES: usize = 2;

/// Returns one message for each breach.
pub(super) fn broken(history: &History) -> Vec<String> {
    // For each pair of workloads: the one for which pods were last evicted, and the number of changes.
    let mut pairs: BTreeMap<[Key; 2], (Key, usize)> = BTreeMap::new();
    for removal in history.evicted() {
        let Some(victim) = history.pods.get(&removal.uid).map(workload) else { continue };
        let preemptor = history.plan_of(removal).and_then(|record| match record.preemptor.as_ref()? {
            Preemptor::Group { key, .. } => Some(key.clone()),
            Preemptor::Pod(uid) => history.pods.get(uid).map(workload),
        });
        let Some(preemptor) = preemptor.filter(|preemptor| *preemptor != victim) else { continue };
        let mut pair = [preemptor.clone(), victim];
        pair.sort();
        let (last, changes) = pairs.entry(pair).or_insert_with(|| (preemptor.clone(), 0));
        if *last != preemptor {
            *changes += 1;
            *last = preemptor;
        }
    }
    let in_turn = pairs.into_iter().filter(|(_, (_, changes))| *changes >= CHANGES);
    in_turn.map(|([one, other], _)| format!("the pods of {} and {} evict each other in turn", one.1, other.1)).collect()
}

/// Returns the PodGroup of a pod, or else its namespace and its name without the last part, which a controller generates.
fn workload(pod: &PodRecord) -> Key {
    let (namespace, name) = &pod.key;
    let name = match &pod.group {
        Some(group) => group,
        None => name.rsplit_once('-').map_or(name.as_str(), |(workload, _)| workload),
    };
    (namespace.clone(), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::handwritten::Log;
    use super::broken;
    use serde_json::json;

    /// Returns a log in which pods `a-N` and `b-N` are evicted for each other `times` times.
    fn story(times: usize) -> Log {
        let mut log = Log::default();
        let name = |turn: usize| format!("{}-{turn}", if turn.is_multiple_of(2) { "a" } else { "b" });
        for turn in 0..=times {
            log.single("default", &name(turn), json!({"spec": {"nodeName": "n"}}));
        }
        for turn in 0..times {
            log.plan_for_pod(&name(turn + 1), 9, &[&name(turn)]);
            log.evict_for(&name(turn), &name(turn + 1), 201);
        }
        log
    }

    #[test]
    fn two_workloads_that_evict_each_other_in_turn_are_reported() {
        assert_eq!(broken(&story(2).history()), Vec::<String>::new(), "each was evicted once");
        assert_eq!(broken(&story(3).history()), ["the pods of a and b evict each other in turn"]);
    }
}

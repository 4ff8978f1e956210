//! Promise 4, first part: a pod is evicted once, and for a plan that was stored before.

use super::breach::{Breach, BreachKind};
use super::history::History;
use super::record::{PodRecord, Removal};
use std::collections::BTreeMap;

/// Every pod that was evicted twice, and every eviction without a plan.
pub(super) fn breaches(history: &History) -> Vec<Breach> {
    let mut breaches = evicted_twice(history);
    breaches.extend(unplanned(history).map(|removal| Breach {
        kind: BreachKind::Unplanned {
            uid: removal.uid.clone(),
            partially_scheduled: partially_scheduled(history, removal),
        },
        message: format!("pod {} was evicted at {} without a plan stored before", removal.pod.1, removal.at),
    }));
    breaches
}

/// The number of accepted evictions without a plan that was stored before.
pub fn unplanned_count(history: &History) -> usize {
    unplanned(history).count()
}

fn evicted_twice(history: &History) -> Vec<Breach> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for removal in history.evicted() {
        *times.entry(&removal.uid).or_default() += 1;
    }
    let name = |uid: &str| history.pods.get(uid).map_or_else(|| uid.to_owned(), |pod| pod.key.1.clone());
    let twice = times.into_iter().filter(|(_, times)| *times > 1);
    twice.map(|(uid, times)| Breach::other(format!("pod {} was evicted {times} times", name(uid)))).collect()
}

/// The evictions without a plan. If kube-scheduler preempted one pod of a PodGroup, the operator needs no plan for the others.
fn unplanned(history: &History) -> impl Iterator<Item = &Removal> {
    let unplanned = history.evicted().into_iter().filter(|removal| history.plan_of(removal).is_none());
    unplanned.filter(|removal| !history.began_by_scheduler(removal))
}

/// Returns true if the gang of the pod had fewer bound members than it needs when the pod was evicted.
pub(super) fn partially_scheduled(history: &History, removal: &Removal) -> bool {
    let Some(group) = history.pods.get(&removal.uid).and_then(|pod| pod.group.as_ref()) else { return false };
    let key = (removal.pod.0.clone(), group.clone());
    let exists = |pod: &PodRecord| {
        pod.bound.as_ref().is_some_and(|(at, _)| *at < removal.at) && pod.removed.is_none_or(|at| at >= removal.at)
    };
    let bound = history.members(&key).filter(|(_, pod)| exists(pod)).count();
    history.groups.get(&key).is_some_and(|group| bound < group.min_count)
}

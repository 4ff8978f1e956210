//! Promise 4, first part: a pod is evicted once, and for a plan that was stored before the eviction.

use super::breach::Breach;
use super::history::History;
use super::record::Removal;
use std::collections::BTreeMap;

/// Returns every pod that was evicted twice, and every eviction without a plan.
pub(super) fn breaches(history: &History) -> Vec<Breach> {
    let mut breaches = evicted_twice(history);
    breaches.extend(unplanned(history).map(|removal| {
        Breach::other(format!("pod {} was evicted at {} without a plan stored before", removal.pod.1, removal.at))
    }));
    breaches
}

/// Returns the number of accepted evictions without a plan that was stored before.
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

/// Returns the evictions without a plan that was stored before, for any cause.
fn unplanned(history: &History) -> impl Iterator<Item = &Removal> {
    history.evicted().into_iter().filter(|removal| history.plan_of(removal).is_none())
}

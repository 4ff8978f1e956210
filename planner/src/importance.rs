//! Which victim is more important: the order in which units are spared (KEP-5710, preemption algorithm, step "sort";
//! design, section 4, step 5).

use crate::model::Unit;
use std::cmp::Ordering;

/// Orders units from the most to the least important: by priority, then group above pod, then more pods, then earlier
/// start, then name.
///
/// A pod of a group in mode `Pod` ranks as a group, as in kube-scheduler. A unit that is not known to have started
/// counts as started just now.
pub(crate) fn compare(a: &Unit, b: &Unit) -> Ordering {
    let started = |unit: &Unit| unit.started.unwrap_or(i64::MAX);
    (b.priority.cmp(&a.priority))
        .then_with(|| b.grouped.cmp(&a.grouped))
        .then_with(|| b.pods.len().cmp(&a.pods.len()))
        .then_with(|| started(a).cmp(&started(b)))
        .then_with(|| a.key.cmp(&b.key))
        .then_with(|| b.kind.cmp(&a.kind))
}

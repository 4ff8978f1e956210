//! Filter: what the node still has of every resource the pod asks for (kube-scheduler's NodeResourcesFit).

use crate::model::{ResourceId, Resources};
/// The first resource of which too little is free. A resource that is not asked for is not looked at.
pub(super) fn lacking(requests: &Resources, free: &[i128]) -> Option<ResourceId> {
    requests.iter().find(|(id, amount)| at(free, *id) < *amount).map(|(id, _)| id)
}

/// Returns how many pods with these requests fit, at most `limit`.
pub(super) fn how_many(requests: &Resources, free: &[i128], limit: usize) -> usize {
    let each = requests.iter().filter(|(_, amount)| *amount > 0).map(|(id, amount)| at(free, id).max(0) / amount);
    each.min().map_or(limit, |most| usize::try_from(most).unwrap_or(limit).min(limit))
}

/// Returns an amount; 0 for a resource that has none.
fn at(free: &[i128], id: ResourceId) -> i128 {
    free.get(usize::from(id)).copied().unwrap_or(0)
}

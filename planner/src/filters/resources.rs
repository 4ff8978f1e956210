//! Filter: what the node still has of every resource the pod asks for (kube-scheduler's NodeResourcesFit).

use crate::model::{ResourceId, Resources};
/// Returns the first requested resource of which too little is free; `None` if the requests fit. `free` is indexed by [`ResourceId`].
pub(super) fn lacking(requests: &Resources, free: &[i128]) -> Option<ResourceId> {
    requests.iter().find(|(id, amount)| at(free, *id) < *amount).map(|(id, _)| id)
}

/// Returns how many pods with these requests fit into the free amounts together, at most `limit`. `free` is indexed by [`ResourceId`].
pub(super) fn how_many(requests: &Resources, free: &[i128], limit: usize) -> usize {
    let each = requests.iter().filter(|(_, amount)| *amount > 0).map(|(id, amount)| at(free, id).max(0) / amount);
    each.min().map_or(limit, |most| usize::try_from(most).unwrap_or(limit).min(limit))
}

/// Returns the free amount of a resource; 0 for a resource that `free`, indexed by [`ResourceId`], does not contain.
fn at(free: &[i128], id: ResourceId) -> i128 {
    free.get(usize::from(id)).copied().unwrap_or(0)
}

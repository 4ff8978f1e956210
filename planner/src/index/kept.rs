//! The capacities that are cached from one decision to the next.

use super::capacities::Capacities;
use crate::api::Respect;
use crate::limits::{ANSWERS_KEPT, NODE_ANSWERS_KEPT};
use crate::model::{Cluster, EquivalenceClass};
use std::sync::Arc;

/// The capacities of nodes that are cached from one decision to the next, the most recently used ones last.
#[derive(Debug, Default)]
pub(crate) struct CapacityCache(Vec<Capacities>);

impl CapacityCache {
    /// Removes the cached capacities for this class, priority, `apart` and `respect` from the cache and returns them; if there are none, it
    /// returns capacities that are not computed yet. `apart` says that no two of the pods may be on one node, and `respect` which
    /// reservations count. `None` if the requests are too large to be represented. A class is found by its requests and constraints, also
    /// if its number has changed.
    pub(crate) fn take(
        &mut self,
        cluster: &Cluster,
        class: &Arc<EquivalenceClass>,
        priority: i32,
        apart: bool,
        respect: Respect,
    ) -> Option<Capacities> {
        let wanted = (priority, apart, respect);
        let fits = |known: &Capacities| (known.priority, known.apart, known.respect) == wanted && known.class == *class;
        let Some(at) = self.0.iter().position(fits) else {
            return Capacities::new(cluster, class, priority, apart, respect);
        };
        let mut known = self.0.remove(at);
        known.class = Arc::clone(class);
        Some(known)
    }

    /// Puts capacities into the cache as the most recently used ones. Above the upper bounds of the cache the least recently used ones are
    /// removed.
    pub(crate) fn put(&mut self, known: Capacities) {
        self.0.push(known);
        while self.0.len() > ANSWERS_KEPT
            || self.0.iter().map(|known| known.nodes.len()).sum::<usize>() > NODE_ANSWERS_KEPT
        {
            self.0.remove(0);
        }
    }
}

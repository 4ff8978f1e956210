//! The capacities that are cached from one decision to the next.

use super::capacities::Capacities;
use crate::api::Respect;
use crate::limits::{ANSWERS_KEPT, NODE_ANSWERS_KEPT};
use crate::model::{Cluster, EquivalenceClass};
use std::sync::Arc;

/// The cached capacities, the most recently used ones last.
#[derive(Debug, Default)]
pub(crate) struct Kept(Vec<Capacities>);

impl Kept {
    /// Removes and returns the cached capacities for a class, a priority, whether its pods need a node each, and the reservations that count;
    /// capacities that are not computed yet if none are cached. `None` if amounts are too large to be represented. A class whose last pod was
    /// deleted and that is used again has another number, and the same capacities.
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

    /// Returns capacities to the cache, and evicts the least recently used ones above the upper bounds.
    pub(crate) fn put(&mut self, known: Capacities) {
        self.0.push(known);
        while self.0.len() > ANSWERS_KEPT
            || self.0.iter().map(|known| known.nodes.len()).sum::<usize>() > NODE_ANSWERS_KEPT
        {
            self.0.remove(0);
        }
    }
}

//! Events that wait to be written. Whoever makes many pods wait can make as many events, again and again: they are bounded, those of one
//! namespace by half, and what is above that is not written.

use giveway_planner::SmolStr;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many wait at the most: a plan of ten thousand victims has one for each.
const MOST: usize = 20_000;
/// So many of one namespace.
const MOST_OF_NAMESPACE: usize = MOST / 2;

/// How many wait, by namespace. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Line(Arc<Mutex<BTreeMap<SmolStr, usize>>>);

/// A place in the line, which is given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    line: Line,
    namespace: SmolStr,
}

impl Line {
    /// A place for an event on an object of this namespace; `None` when too many wait.
    pub(super) fn join(&self, namespace: &SmolStr) -> Option<Place> {
        let mut waiting = self.waiting();
        let of_namespace = waiting.get(namespace).copied().unwrap_or_default();
        // Few namespaces have events at the same time.
        if of_namespace >= MOST_OF_NAMESPACE || waiting.values().sum::<usize>() >= MOST {
            return None;
        }
        waiting.insert(namespace.clone(), of_namespace + 1);
        Some(Place { line: self.clone(), namespace: namespace.clone() })
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<SmolStr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.line.waiting();
        match waiting.get_mut(&self.namespace) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(waiting.remove(&self.namespace)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_namespace_has_half_of_the_line_and_places_come_back() {
        let line = Line::default();
        let join = |namespace: &str| line.join(&namespace.into());
        let mut flood: Vec<Place> = (0..MOST).filter_map(|_| join("flood")).collect();
        assert_eq!(flood.len(), MOST / 2);
        let others: Vec<Place> = (0..MOST).filter_map(|number| join(&format!("team-{}", number % 10))).collect();
        assert_eq!(others.len(), MOST / 2);
        assert!(join("late").is_none());
        flood.pop();
        assert!(join("late").is_some() && join("flood").is_some());
        drop((flood, others));
        assert!(line.waiting().is_empty(), "nothing is remembered of those that were written");
    }
}

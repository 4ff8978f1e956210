//! A bounded number of slots, of which one namespace gets at most half, so that one namespace cannot use all of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots, and how many of them each namespace uses. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shares {
    places: Arc<Semaphore>,
    taken: Taken,
    most_of_one: usize,
}

type Taken = Arc<Mutex<BTreeMap<String, usize>>>;

/// One slot; dropping it frees the slot.
#[derive(Debug)]
pub struct Share {
    taken: Taken,
    namespace: String,
    _place: OwnedSemaphorePermit,
}

impl Shares {
    /// Creates `most` slots, of which one namespace gets at most half, rounded up.
    pub fn new(most: usize) -> Self {
        let places = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        Self { places, taken: Taken::default(), most_of_one: most.div_ceil(2) }
    }

    /// Takes a slot for this namespace until the result is dropped; `None` if no slot is free, or the namespace uses its maximum.
    pub fn take(&self, namespace: &str) -> Option<Share> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.get(namespace).copied().unwrap_or_default();
        if count >= self.most_of_one {
            return None;
        }
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        taken.insert(namespace.to_owned(), count + 1);
        Some(Share { taken: Arc::clone(&self.taken), namespace: namespace.to_owned(), _place: place })
    }

    /// Returns true if no namespace uses a slot.
    pub fn is_unused(&self) -> bool {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get(&self.namespace).copied() {
            Some(count) if count > 1 => taken.insert(self.namespace.clone(), count - 1),
            _ => taken.remove(&self.namespace),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 20_000;

    #[test]
    fn one_namespace_gets_at_most_half_of_the_slots_and_releases_them() {
        let shares = Shares::new(MOST);
        let take = |namespace: &str| shares.take(namespace);
        let mut flood: Vec<Share> = (0..MOST).filter_map(|_| take("flood")).collect();
        assert_eq!(flood.len(), MOST / 2);
        let others: Vec<Share> = (0..MOST).filter_map(|number| take(&format!("team-{}", number % 10))).collect();
        assert_eq!(others.len(), MOST / 2);
        assert!(take("late").is_none());
        flood.pop();
        assert!(take("late").is_some() && take("flood").is_some());
        drop((flood, others));
        assert!(shares.is_unused(), "nothing is remembered of those that are over");
    }
}

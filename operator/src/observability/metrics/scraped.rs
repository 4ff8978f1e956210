//! What is computed when the metrics are scraped: the content of each queue, and how long ago each watch delivered something. So it is also
//! right while passes take long, and costs a pass nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A queue of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueName {
    /// Changes of objects and answers of the API server that wait for the next pass.
    Inputs,
    /// Evictions.
    Evictions,
    /// Writes of plans.
    Plans,
    /// PodGroups that are created or get another `minCount`, and reads of their owners.
    Groups,
    /// All other calls on which a decision depends.
    Others,
    /// Calls on which no decision depends.
    Background,
    /// Events.
    Events,
}

impl QueueName {
    /// All queues.
    pub const ALL: [Self; 7] =
        [Self::Inputs, Self::Evictions, Self::Plans, Self::Groups, Self::Others, Self::Background, Self::Events];

    /// Returns the value of the label `queue` for this queue.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inputs => "inputs",
            Self::Evictions => "evictions",
            Self::Plans => "plans",
            Self::Groups => "groups",
            Self::Others => "others",
            Self::Background => "background",
            Self::Events => "events",
        }
    }
}

/// Depth and age of a queue, as `/metrics` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The queue.
    pub queue: QueueName,
    /// Number of entries.
    pub depth: usize,
    /// For how long the oldest entry has been waiting. For `Inputs`: for how long some inputs have been left by every pass.
    pub age: Duration,
}

/// The state that scrapes are computed from. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Scraped(Arc<Mutex<ScrapedState>>);

#[derive(Debug, Default)]
struct ScrapedState {
    /// Number of entries that have been added to any queue.
    added: u64,
    /// The entries of each queue of calls: when each was added, and its number.
    calls: BTreeMap<QueueName, BTreeSet<(Instant, u64)>>,
    /// Number of inputs that the last pass left, and since when every pass has left some.
    inputs: usize,
    backlog: Option<Instant>,
    /// When the watch of each kind last delivered something.
    observed: BTreeMap<&'static str, Instant>,
}

/// An entry of a queue. It leaves the queue when the value is dropped.
#[derive(Debug)]
#[must_use = "the entry leaves the queue when the value is dropped"]
pub struct Queued {
    scraped: Scraped,
    queue: QueueName,
    entry: (Instant, u64),
}

impl Drop for Queued {
    /// Removes the entry from its queue.
    fn drop(&mut self) {
        if let Some(entries) = self.scraped.lock().calls.get_mut(&self.queue) {
            entries.remove(&self.entry);
        }
    }
}

impl Scraped {
    /// Locks the state; a panic in another thread while it was locked is ignored.
    fn lock(&self) -> MutexGuard<'_, ScrapedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a new entry of a queue. The entry leaves the queue when the returned value is dropped.
    pub fn queued(&self, queue: QueueName, now: Instant) -> Queued {
        let mut state = self.lock();
        state.added += 1;
        let entry = (now, state.added);
        state.calls.entry(queue).or_default().insert(entry);
        Queued { scraped: self.clone(), queue, entry }
    }

    /// Records how many inputs are left for the next pass, when a pass begins at `now`.
    pub fn inputs_left(&self, number: usize, now: Instant) {
        let mut state = self.lock();
        state.inputs = number;
        state.backlog = (number > 0).then(|| state.backlog.unwrap_or(now));
    }

    /// Records that the watch of this kind delivered something at `now`.
    pub fn observed(&self, kind: &'static str, now: Instant) {
        self.lock().observed.insert(kind, now);
    }

    /// Returns for each queue the number of its entries, and for how long the oldest one has been waiting at `now`.
    pub fn queues(&self, now: Instant) -> Vec<Content> {
        let state = self.lock();
        let content = |queue: QueueName| {
            let (depth, oldest) = match (queue, state.calls.get(&queue)) {
                (QueueName::Inputs, _) => (state.inputs, state.backlog),
                (_, Some(entries)) => (entries.len(), entries.first().map(|(added, _)| *added)),
                (_, None) => (0, None),
            };
            Content { queue, depth, age: oldest.map_or(Duration::ZERO, |oldest| now.saturating_duration_since(oldest)) }
        };
        QueueName::ALL.into_iter().map(content).collect()
    }

    /// Returns for each kind how long before `now` its watch last delivered something.
    pub fn watches(&self, now: Instant) -> BTreeMap<&'static str, Duration> {
        self.lock().observed.iter().map(|(kind, at)| (*kind, now.saturating_duration_since(*at))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the queues that are not empty, with the age of the oldest entry in seconds.
    fn filled(scraped: &Scraped, now: Instant) -> Vec<(&'static str, usize, u64)> {
        let filled = scraped.queues(now).into_iter().filter(|content| content.depth > 0);
        filled.map(|content| (content.queue.as_str(), content.depth, content.age.as_secs())).collect()
    }

    #[test]
    fn a_queue_has_the_number_and_the_age_of_the_entries_that_are_not_dropped() {
        let (scraped, now) = (Scraped::default(), Instant::now());
        let first = scraped.queued(QueueName::Evictions, now);
        let second = scraped.queued(QueueName::Evictions, now + SECOND);
        // Two entries of the same moment are two.
        let events = [now, now].map(|now| scraped.queued(QueueName::Events, now));
        assert_eq!(filled(&scraped, now + 9 * SECOND), [("evictions", 2, 9), ("events", 2, 9)]);
        drop(first);
        assert_eq!(filled(&scraped, now + 9 * SECOND), [("evictions", 1, 8), ("events", 2, 9)]);
        drop((second, events));
        assert!(scraped.queues(now).iter().all(|content| content.depth == 0 && content.age == Duration::ZERO));
    }

    #[test]
    fn the_age_of_the_inputs_counts_from_the_first_of_the_passes_that_all_left_some() {
        let (scraped, now) = (Scraped::default(), Instant::now());
        scraped.inputs_left(5_000, now);
        scraped.inputs_left(900, now + SECOND);
        assert_eq!(filled(&scraped, now + 3 * SECOND), [("inputs", 900, 3)]);
        scraped.inputs_left(0, now + 3 * SECOND);
        assert!(filled(&scraped, now + 4 * SECOND).is_empty());
        scraped.inputs_left(1, now + 5 * SECOND);
        assert_eq!(filled(&scraped, now + 6 * SECOND), [("inputs", 1, 1)]);
    }

    #[test]
    fn the_last_event_of_a_watch_counts() {
        let (scraped, now) = (Scraped::default(), Instant::now());
        scraped.observed("Pod", now);
        scraped.observed("Node", now);
        scraped.observed("Pod", now + 4 * SECOND);
        assert_eq!(scraped.watches(now + 5 * SECOND), [("Node", 5 * SECOND), ("Pod", SECOND)].into());
    }
}

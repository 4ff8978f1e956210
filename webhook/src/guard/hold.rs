//! Slow refusals.
//!
//! A scheduler that is refused at once asks again at once, fifty times a second, and everything else that it does gets
//! slower; one that waits for its answer costs nothing. Refused pods of high priority are also first in its queue each
//! time they come back, so a crowd of them would leave it no time for others: answers go out one by one, [`SPACING`]
//! apart, as long as that makes nobody wait longer than the longest hold. The number of answers held back is bounded;
//! whoever is above the bound is answered at once. No answer is later than the deadline of its request, and on shutdown
//! every held one goes out.

use crate::deadline::Deadline;
use crate::metrics::GuardMetrics;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The time between two answers while many are held.
pub const SPACING: Duration = Duration::from_millis(250);

/// Where refusals wait.
#[derive(Debug)]
pub struct Holds {
    slots: Arc<Semaphore>,
    time: Duration,
    longest: Duration,
    /// When the next answer may go out.
    next: Arc<Mutex<Instant>>,
    end: CancellationToken,
    metrics: GuardMetrics,
}

impl Holds {
    /// Holds at most `most` refusals for `time`, for up to `longest` when there are many, and all of them no longer
    /// than until `end`.
    pub fn new(time: Duration, longest: Duration, most: usize, end: CancellationToken, metrics: GuardMetrics) -> Self {
        let slots = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        let next = Arc::new(Mutex::new(Instant::now()));
        Self { slots, time, longest: longest.max(time), next, end, metrics }
    }

    /// Begins to hold a refusal, in no case longer than until `deadline`; `None` when too many are held.
    pub fn begin(&self, deadline: Deadline) -> Option<Hold> {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            self.metrics.unheld.inc();
            return None;
        };
        self.metrics.held.inc();
        let (since, metrics) = (Instant::now(), self.metrics.clone());
        let latest = deadline.or_earlier(since + self.longest).at();
        let until = latest.min(since + self.time);
        let (next, end) = (Arc::clone(&self.next), self.end.clone());
        Some(Hold { since, until, latest, next, end, metrics, _slot: slot })
    }
}

/// A refusal that is held.
#[derive(Debug)]
pub struct Hold {
    since: Instant,
    until: Instant,
    latest: Instant,
    next: Arc<Mutex<Instant>>,
    end: CancellationToken,
    metrics: GuardMetrics,
    _slot: OwnedSemaphorePermit,
}

impl Hold {
    /// Waits until this time after the beginning. Returns false when the hold is over.
    pub async fn wait(&self, after: Duration) -> bool {
        let moment = self.since + after;
        tokio::select! {
            () = tokio::time::sleep_until(moment.min(self.until)) => moment < self.until,
            () = self.end.cancelled() => false,
        }
    }

    /// When this answer goes out.
    fn take_turn(&self) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let until = self.until.max(*next).min(self.latest);
        *next = until + SPACING;
        until
    }

    /// Waits until the hold is over.
    pub async fn wait_to_the_end(self) {
        self.metrics.holds.inc();
        let until = self.take_turn();
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = self.end.cancelled() => {}
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.metrics.held.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(80);
    const LONG: Duration = Duration::from_secs(60);

    fn holds(time: Duration) -> (Holds, CancellationToken, GuardMetrics) {
        let (end, metrics) = (CancellationToken::new(), GuardMetrics::default());
        (Holds::new(time, time, 1, end.clone(), metrics.clone()), end, metrics)
    }

    #[tokio::test]
    async fn answers_to_a_crowd_go_out_one_by_one_and_nobody_waits_longer_than_the_longest_hold() {
        let (time, longest) = (4 * SPACING, 6 * SPACING);
        let holds = Holds::new(time, longest, 10, CancellationToken::new(), GuardMetrics::default());
        let crowd: Vec<Hold> = (0..5).filter_map(|_| holds.begin(Deadline::after(LONG))).collect();
        let since = crowd[0].since;
        let turns: Vec<u128> = crowd.iter().map(|hold| (hold.take_turn() - since).as_millis()).collect();
        for (turn, wanted) in turns.iter().zip([4, 5, 6, 6, 6]) {
            assert!(turn.abs_diff(wanted * SPACING.as_millis()) < SPACING.as_millis() / 2, "{turns:?}");
        }
    }

    #[tokio::test]
    async fn a_refusal_is_held_for_its_time() {
        let (holds, _end, metrics) = holds(SHORT);
        let start = Instant::now();
        let hold = holds.begin(Deadline::after(LONG)).unwrap();
        assert_eq!(metrics.held.get(), 1);
        assert!(hold.wait(SHORT / 4).await);
        assert!(!hold.wait(LONG).await, "a look later than the hold is not waited for");
        hold.wait_to_the_end().await;
        assert!(start.elapsed() >= SHORT && start.elapsed() < LONG / 2, "{:?}", start.elapsed());
        assert_eq!((metrics.held.get(), metrics.holds.get(), metrics.unheld.get()), (0, 1, 0));
    }

    #[tokio::test]
    async fn no_refusal_is_held_longer_than_until_its_deadline_however_many_wait() {
        let holds = Holds::new(LONG, 2 * LONG, 10, CancellationToken::new(), GuardMetrics::default());
        let start = Instant::now();
        let crowd: Vec<Hold> = (0..5).filter_map(|_| holds.begin(Deadline::after(SHORT))).collect();
        assert!(!crowd[0].wait(LONG).await, "a look later than the deadline is not waited for");
        futures::future::join_all(crowd.into_iter().map(Hold::wait_to_the_end)).await;
        assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
    }

    #[tokio::test]
    async fn what_is_above_the_bound_is_not_held_and_counted() {
        let (holds, _end, metrics) = holds(LONG);
        let first = holds.begin(Deadline::after(LONG));
        assert!(holds.begin(Deadline::after(LONG)).is_none());
        assert_eq!((metrics.held.get(), metrics.holds.get(), metrics.unheld.get()), (1, 0, 1));
        drop(first);
        assert!(holds.begin(Deadline::after(LONG)).is_some(), "a slot is free again");
    }

    #[tokio::test]
    async fn a_shutdown_ends_every_hold() {
        let (holds, end, _) = holds(LONG);
        let hold = holds.begin(Deadline::after(LONG)).unwrap();
        let start = Instant::now();
        end.cancel();
        assert!(!hold.wait(LONG).await);
        hold.wait_to_the_end().await;
        assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
    }
}

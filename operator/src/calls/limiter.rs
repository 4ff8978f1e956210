//! The rate limit of evictions: evenly spaced, so that the evictions of a large plan are not one burst.
//!
//! Callers pass in the order of priority, then of arrival. A caller that does not need its turn any more gives it back.

use super::lane::QueuePosition;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How late a caller may be without delaying the next one, because timers are not more precise than that.
const SLACK: Duration = Duration::from_millis(5);

/// Lets a fixed number of callers pass per second.
#[derive(Debug)]
pub(super) struct RateLimiter(Mutex<LimiterQueue>);

/// The callers of a [`RateLimiter`] that wait, and the time of the next turn.
#[derive(Debug)]
struct LimiterQueue {
    interval: Duration,
    next: Option<Instant>,
    asked: u64,
    waiting: BTreeMap<QueuePosition, Arc<Notify>>,
}

impl LimiterQueue {
    /// Creates an empty queue that lets at most `per_second` callers pass in a second, evenly spaced.
    fn new(per_second: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self { interval, next: None, asked: 0, waiting: BTreeMap::new() }
    }

    /// Adds a caller with this priority to the queue. Returns its position and what wakes it when it is the first.
    fn ask(&mut self, priority: i32) -> (QueuePosition, Arc<Notify>) {
        self.asked += 1;
        let (place, wake) = ((Reverse(priority), self.asked), Arc::new(Notify::new()));
        self.waiting.insert(place, Arc::clone(&wake));
        (place, wake)
    }

    /// Lets the caller at this position pass if its turn has come. Otherwise returns `Err`: with the time of its turn
    /// if it is the first in the queue, and with `None` if others are before it.
    fn pass(&mut self, place: QueuePosition, now: Instant) -> Result<(), Option<Instant>> {
        if self.waiting.first_key_value().is_none_or(|(first, _)| *first != place) {
            return Err(None);
        }
        let turn = self.next.unwrap_or(now);
        if turn > now {
            return Err(Some(turn));
        }
        self.next = Some(turn.max(now - SLACK.min(self.interval)) + self.interval);
        self.leave(place);
        Ok(())
    }

    /// Removes the caller at this position from the queue and wakes the first of the remaining ones.
    fn leave(&mut self, place: QueuePosition) {
        self.waiting.remove(&place);
        if let Some((_, first)) = self.waiting.first_key_value() {
            first.notify_one();
        }
    }
}

impl RateLimiter {
    /// Creates a limiter that lets at most `per_second` callers pass in a second, evenly spaced.
    pub(super) fn new(per_second: u32) -> Self {
        Self(Mutex::new(LimiterQueue::new(per_second)))
    }

    /// Locks the queue of waiting callers; a panic in another thread while it was locked is ignored.
    fn turns(&self) -> MutexGuard<'_, LimiterQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a caller with this priority may pass, or until `permission` is cancelled.
    pub(super) async fn acquire(&self, priority: i32, permission: &CancellationToken) {
        let (place, wake) = self.turns().ask(priority);
        loop {
            let until = match self.turns().pass(place, Instant::now()) {
                Ok(()) => return,
                Err(until) => until,
            };
            let turn = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => wake.notified().await,
                }
            };
            tokio::select! {
                () = turn => {}
                () = permission.cancelled() => return self.turns().leave(place),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for a turn at `start` and returns after how many milliseconds it is granted, if the caller asks again at
    /// the returned times.
    fn pass(turns: &mut LimiterQueue, start: Instant) -> u128 {
        let (place, _) = turns.ask(0);
        let mut now = start;
        loop {
            match turns.pass(place, now) {
                Ok(()) => return now.duration_since(start).as_millis(),
                Err(until) => now = until.unwrap(),
            }
        }
    }

    #[test]
    fn callers_pass_at_the_given_rate_and_idle_time_is_not_saved_up() {
        let (mut turns, start) = (LimiterQueue::new(10), Instant::now());
        assert_eq!([0; 4].map(|_| pass(&mut turns, start)), [0, 100, 200, 300]);
        let later = start + Duration::from_secs(9);
        assert_eq!(pass(&mut turns, later), 0);
        assert!((95..=100).contains(&pass(&mut turns, later)), "but for what timers are late");
    }

    #[test]
    fn urgent_callers_pass_first_and_a_dropped_caller_returns_its_turn() {
        let (mut turns, now) = (LimiterQueue::new(1), Instant::now());
        let places: Vec<QueuePosition> = [10, 10, 10, 1000].map(|priority| turns.ask(priority).0).into();
        assert_eq!(turns.pass(places[0], now), Err(None), "another caller is more urgent");
        assert_eq!(turns.pass(places[3], now), Ok(()));
        turns.leave(places[0]);
        let next = now + Duration::from_secs(1);
        assert_eq!(turns.pass(places[1], now), Err(Some(next)));
        assert_eq!(turns.pass(places[1], next), Ok(()));
        assert_eq!(turns.waiting.len(), 1);
    }

    #[test]
    fn six_hundred_dropped_callers_do_not_delay_the_next_one() {
        let (mut turns, now) = (LimiterQueue::new(1), Instant::now());
        let mut places: Vec<QueuePosition> = (0..600).map(|_| turns.ask(10).0).collect();
        assert_eq!(turns.pass(places.remove(0), now), Ok(()));
        places.into_iter().for_each(|place| turns.leave(place));
        assert!(turns.waiting.is_empty());
        assert!(pass(&mut turns, now) <= 1000, "the next turn, and not the six hundredth");
    }

    #[tokio::test]
    async fn a_dropped_caller_stops_waiting_and_the_next_one_is_woken() {
        let (limiter, dropped, kept) =
            (Arc::new(RateLimiter::new(1000)), CancellationToken::new(), CancellationToken::new());
        let ask = |priority, permission: &CancellationToken| {
            let (limiter, permission) = (Arc::clone(&limiter), permission.clone());
            tokio::spawn(async move { limiter.acquire(priority, &permission).await })
        };
        let tasks: Vec<_> = (0..100).map(|n| ask(n % 3, if n % 2 == 0 { &dropped } else { &kept })).collect();
        dropped.cancel();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(limiter.turns().waiting.is_empty());
    }
}

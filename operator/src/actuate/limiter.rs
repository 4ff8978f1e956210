//! The rate of evictions: evenly spaced, so that a large plan does not arrive as one burst.

use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Lets a fixed number of callers pass a second, in the order in which they came.
#[derive(Debug)]
pub(super) struct Limiter(Mutex<Turns>);

#[derive(Debug)]
struct Turns {
    interval: Duration,
    next: Option<Instant>,
}

impl Turns {
    /// When a caller who comes now may pass.
    fn take(&mut self, now: Instant) -> Instant {
        let turn = self.next.map_or(now, |next| next.max(now));
        self.next = Some(turn + self.interval);
        turn
    }
}

impl Limiter {
    pub(super) fn new(per_second: u32) -> Self {
        Self(Mutex::new(Turns { interval: Duration::from_secs(1) / per_second.max(1), next: None }))
    }

    /// Waits for the caller's turn.
    pub(super) async fn acquire(&self) {
        let turn = self.0.lock().await.take(Instant::now());
        tokio::time::sleep_until(turn).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_pass_at_the_given_rate_and_idle_time_is_not_saved_up() {
        let mut turns = Turns { interval: Duration::from_millis(100), next: None };
        let start = Instant::now();
        let waits: Vec<u128> = (0..4).map(|_| turns.take(start).duration_since(start).as_millis()).collect();
        assert_eq!(waits, [0, 100, 200, 300]);
        let later = start + Duration::from_secs(9);
        assert_eq!(turns.take(later), later);
        assert_eq!(turns.take(later).duration_since(later).as_millis(), 100);
    }
}

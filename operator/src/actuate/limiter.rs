//! The rate of evictions: evenly spaced, so that a large plan does not arrive as one burst.

use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Lets a fixed number of callers pass a second, in the order in which they came.
#[derive(Debug)]
pub(super) struct Limiter {
    interval: Duration,
    next: Mutex<Option<Instant>>,
}

impl Limiter {
    pub(super) fn new(per_second: u32) -> Self {
        Self { interval: Duration::from_secs(1) / per_second.max(1), next: Mutex::new(None) }
    }

    /// Waits for the caller's turn.
    pub(super) async fn acquire(&self) {
        let mut next = self.next.lock().await;
        let now = Instant::now();
        let turn = next.map_or(now, |at| at.max(now));
        *next = Some(turn + self.interval);
        drop(next);
        tokio::time::sleep_until(turn).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn callers_pass_at_the_given_rate() {
        let limiter = Limiter::new(10);
        let start = Instant::now();
        for _ in 0..11 {
            limiter.acquire().await;
        }
        assert_eq!(start.elapsed().as_millis(), 1000);
    }
}

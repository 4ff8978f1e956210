//! Waiting for conditions, with a deadline and with the last state in the message when it passes.

use crate::statistics;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long to wait between two looks, at first.
const SHORTEST: Duration = Duration::from_millis(25);
/// How long at most.
const LONGEST: Duration = Duration::from_millis(250);

/// Time between two looks: a sixteenth of the time waited so far. Shorter intervals load the API server, which takes CPU from all tests.
fn pause(waited: Duration) -> Duration {
    (waited / 16).clamp(SHORTEST, LONGEST)
}

/// A condition that did not come true in time.
#[derive(Clone, Debug, thiserror::Error)]
#[error("waited {waited:.1?} in vain until {what}; the last state: {state}")]
pub struct TimedOut {
    /// The condition, as a clause.
    pub what: String,
    /// How long it was waited for.
    pub waited: Duration,
    /// What was seen last.
    pub state: String,
}

/// Adds to the statistics of the test, however the wait ends.
struct RecordedWait<'a> {
    what: &'a str,
    start: Instant,
}

impl Drop for RecordedWait<'_> {
    fn drop(&mut self) {
        statistics::waited(self.what, self.start.elapsed());
    }
}

/// Looks again and again until `probe` returns `Ok`, for at most `limit`; an `Err` is the state that it saw.
///
/// # Errors
/// The time is up.
pub async fn until<T>(
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T, TimedOut> {
    let start = Instant::now();
    let _recorded = RecordedWait { what, start };
    let mut state = "not looked at yet".to_owned();
    loop {
        let left = limit.saturating_sub(start.elapsed());
        // One more look at the very end: a slow machine may have slept over the deadline.
        match tokio::time::timeout(left.max(Duration::from_secs(1)), probe()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(seen)) => state = seen,
            Err(_) => {}
        }
        if start.elapsed() >= limit {
            return Err(TimedOut { what: what.to_owned(), waited: start.elapsed(), state });
        }
        sleep(pause(start.elapsed())).await;
    }
}

/// As [`until`], for tests.
///
/// # Panics
/// The time is up.
pub async fn wait_for<T>(what: &str, limit: Duration, probe: impl AsyncFnMut() -> Result<T, String>) -> T {
    match until(what, limit, probe).await {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_condition_that_comes_true_returns_its_value() {
        let mut looks = 0;
        let value = until("three looks", Duration::from_secs(5), async || {
            looks += 1;
            if looks == 3 { Ok(looks) } else { Err(format!("{looks} looks")) }
        });
        assert_eq!(value.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn a_condition_that_stays_false_is_reported_with_the_last_state() {
        let never = until("pigs fly", Duration::from_millis(60), async || Err::<(), _>("they walk".to_owned()));
        let message = never.await.unwrap_err().to_string();
        assert!(message.contains("in vain until pigs fly; the last state: they walk"), "{message}");
    }
}

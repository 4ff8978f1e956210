//! Waits for conditions with a deadline. After the deadline the message has the last state.

use crate::statistics;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// First interval between two probes.
const SHORTEST: Duration = Duration::from_millis(25);
/// Longest interval between two probes.
const LONGEST: Duration = Duration::from_millis(250);

/// Returns the interval to the next probe: a sixteenth of the time waited so far. Shorter intervals load the API server, which
/// takes CPU time from all tests.
fn pause(waited: Duration) -> Duration {
    (waited / 16).clamp(SHORTEST, LONGEST)
}

/// A condition that did not come true in time.
#[derive(Clone, Debug, thiserror::Error)]
#[error("not reached within {waited:.1?}: {what}; the last state: {state}")]
pub struct TimedOut {
    /// The condition, as a clause.
    pub what: String,
    /// How long the wait took.
    pub waited: Duration,
    /// The state at the last probe.
    pub state: String,
}

/// Adds the wait to the statistics of the test when it is dropped.
struct RecordedWait<'a> {
    what: &'a str,
    start: Instant,
}

impl Drop for RecordedWait<'_> {
    fn drop(&mut self) {
        statistics::waited(self.what, self.start.elapsed());
    }
}

/// Calls `probe` until it returns `Ok`, for at most `limit`. An `Err` describes the current state.
///
/// # Errors
/// If `limit` has passed.
pub async fn until<T>(
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T, TimedOut> {
    let start = Instant::now();
    let _recorded = RecordedWait { what, start };
    let mut state = "not probed yet".to_owned();
    loop {
        let left = limit.saturating_sub(start.elapsed());
        // A last probe after the deadline, because a slow machine may have slept past it.
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

/// Like [`until`], but panics after the deadline.
///
/// # Panics
/// If `limit` has passed.
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
        let mut calls = 0;
        let value = until("the third call", Duration::from_secs(5), async || {
            calls += 1;
            if calls == 3 { Ok(calls) } else { Err(format!("{calls} calls")) }
        });
        assert_eq!(value.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn a_condition_that_stays_false_is_reported_with_the_last_state() {
        let never =
            until("the pod is bound", Duration::from_millis(60), async || Err::<(), _>("it is pending".to_owned()));
        let message = never.await.unwrap_err().to_string();
        assert!(message.contains(": the pod is bound; the last state: it is pending"), "{message}");
    }
}

//! The API server's wall clock. Times in objects are the API server's: when a pod was created, when it should be gone, when a plan
//! was stored by an earlier leader whose machine had a clock of its own. A machine that is an hour off would take every victim
//! for one that never goes; so what is compared with such times is what the header `Date` of the API server's answers says, and
//! what has passed since.

use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::rfc2822;
use kube::Client;
use kube::client::Body;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the clocks are compared.
const EVERY: Duration = Duration::from_secs(60);
/// How soon again, when there was no answer.
const AGAIN: Duration = Duration::from_secs(2);
/// Longest wait for an answer: an older one tells the time no more.
const LIMIT: Duration = Duration::from_secs(2);
/// Differences up to this many seconds are the header's, which has whole seconds, and the answer's way.
const NO_DIFFERENCE: i64 = 3;

/// The API server's time: what it said last, and how long that is ago by the clock that nobody sets. Cheap to clone. Before the first
/// answer it is this machine's.
#[derive(Clone, Debug, Default)]
pub struct ServerTime(Arc<Mutex<Option<Told>>>);

/// What the API server said.
#[derive(Clone, Copy, Debug)]
struct Told {
    at: Instant,
    epoch_seconds: i64,
    /// By how much that is ahead of this machine's clock.
    ahead: i64,
}

impl Told {
    /// The time now. A machine's clock that is set meanwhile changes nothing.
    fn now(self, now: Instant) -> i64 {
        let since = i64::try_from(now.saturating_duration_since(self.at).as_secs()).unwrap_or(i64::MAX);
        self.epoch_seconds.saturating_add(since)
    }
}

impl ServerTime {
    /// The API server's time, in seconds since the epoch.
    pub fn epoch_seconds(&self) -> i64 {
        let told = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.map_or_else(|| Timestamp::now().as_second(), |told| told.now(Instant::now()))
    }

    /// Compares the clocks once. Returns whether there was an answer with a date.
    pub async fn compare(&self, client: &Client) -> bool {
        let Ok(request) = http::Request::get("/version").body(Body::empty()) else { return false };
        let Ok(Ok(answer)) = tokio::time::timeout(LIMIT, client.send(request)).await else { return false };
        let date = answer.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
        let here = Timestamp::now();
        let Some(ahead) = date.and_then(|date| ahead(date, here)) else { return false };
        let told = Told { at: Instant::now(), epoch_seconds: here.as_second().saturating_add(ahead), ahead };
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(told);
        if before.map_or(0, |before| before.ahead) != ahead {
            tracing::warn!(seconds = ahead, "the API server's clock is ahead of this machine's; its time counts");
        }
        true
    }

    /// Compares the clocks for ever.
    pub async fn keep(self, client: Client) {
        loop {
            let answered = self.compare(&client).await;
            tokio::time::sleep(if answered { EVERY } else { AGAIN }).await;
        }
    }
}

/// By how many seconds a date, as HTTP writes it, is ahead of `now`.
fn ahead(date: &str, now: Timestamp) -> Option<i64> {
    let theirs = rfc2822::parse(date).ok()?.timestamp();
    let ahead = theirs.as_second().saturating_sub(now.as_second());
    Some(if ahead.abs() <= NO_DIFFERENCE { 0 } else { ahead })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_tells_by_how_much_a_clock_is_ahead() {
        let now: Timestamp = "2026-11-22T18:00:00Z".parse().unwrap();
        assert_eq!(ahead("Sun, 22 Nov 2026 19:00:00 GMT", now), Some(3_600));
        assert_eq!(ahead("Sun, 22 Nov 2026 17:00:00 GMT", now), Some(-3_600));
        assert_eq!(ahead("Sun, 22 Nov 2026 17:59:57 GMT", now), Some(0), "the header has whole seconds");
        assert_eq!(ahead("yesterday", now), None);
    }

    #[test]
    fn a_clock_that_is_set_between_two_answers_changes_no_time() {
        let at = Instant::now();
        let told = Told { at, epoch_seconds: 1_000, ahead: 120 };
        assert_eq!((told.now(at), told.now(at + Duration::from_secs(59))), (1_000, 1_059));
    }
}

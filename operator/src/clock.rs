//! The wall clock of the API server. Times in objects are the API server's: when a pod was created, when it should have
//! terminated, when an earlier leader stored a plan. An operator whose own clock is an hour ahead would treat every
//! terminating victim as overdue. So these times are compared with the header `Date` of the API server's responses plus
//! the time that has passed since.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::rfc2822;
use kube::Client;
use kube::client::Body;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the clocks are compared.
const EVERY: Duration = Duration::from_secs(60);
/// How soon after a failure they are compared again.
const AGAIN: Duration = Duration::from_secs(2);
/// Timeout for the response; a later one would give an outdated time.
const LIMIT: Duration = Duration::from_secs(2);
/// Differences of at most this many seconds are ignored: the header has whole seconds, and the response takes time.
const NO_DIFFERENCE: i64 = 3;

/// The current time, passed in so that decisions read no clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Monotonic time.
    pub now: Instant,
    /// Wall-clock time of the API server in seconds since the epoch.
    pub epoch_seconds: i64,
}

impl Clock {
    /// Returns the current time, monotonic and as wall-clock time of the API server.
    pub fn read(server_time: &ServerTime) -> Self {
        Self { now: Instant::now(), epoch_seconds: server_time.epoch_seconds() }
    }

    /// Returns the wall-clock time at which `then` is reached, for messages; `then` must not be in the past.
    pub fn at(self, then: Instant) -> Timestamp {
        let seconds = then.saturating_duration_since(self.now).as_millis().div_ceil(1000);
        let then = self.epoch_seconds.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX));
        Timestamp::from_second(then).unwrap_or_default()
    }

    /// Returns the wall-clock time of the API server, in whole seconds, as objects store it.
    pub fn time(self) -> Time {
        Time(Timestamp::from_second(self.epoch_seconds).unwrap_or_default())
    }
}

/// The API server's time, computed from its last response and the monotonic clock. Before the first response it is this
/// machine's time. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ServerTime(Arc<Mutex<Option<ServerTimeSample>>>);

/// The API server's time in a response.
#[derive(Clone, Copy, Debug)]
struct ServerTimeSample {
    at: Instant,
    epoch_seconds: i64,
    /// By how many seconds the API server's clock is ahead of this machine's.
    ahead: i64,
}

impl ServerTimeSample {
    /// Returns the API server's time at `now`, in seconds since the epoch. Changes of this machine's wall clock have no effect.
    fn now(self, now: Instant) -> i64 {
        let since = i64::try_from(now.saturating_duration_since(self.at).as_secs()).unwrap_or(i64::MAX);
        self.epoch_seconds.saturating_add(since)
    }
}

impl ServerTime {
    /// Returns the API server's time, in seconds since the epoch; that of this machine before the first successful comparison.
    pub fn epoch_seconds(&self) -> i64 {
        let sample = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sample.map_or_else(|| Timestamp::now().as_second(), |sample| sample.now(Instant::now()))
    }

    /// Reads the API server's time from the header `Date` of one response. Returns true if there was one in time.
    pub async fn compare(&self, client: &Client) -> bool {
        let Ok(request) = http::Request::get("/version").body(Body::empty()) else { return false };
        let Ok(Ok(answer)) = tokio::time::timeout(LIMIT, client.send(request)).await else { return false };
        let date = answer.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
        let here = Timestamp::now();
        let Some(ahead) = date.and_then(|date| ahead(date, here)) else { return false };
        let sample =
            ServerTimeSample { at: Instant::now(), epoch_seconds: here.as_second().saturating_add(ahead), ahead };
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(sample);
        if before.map_or(0, |before| before.ahead) != ahead {
            tracing::warn!(seconds = ahead, "the API server's clock is ahead of this machine's; its time counts");
        }
        true
    }

    /// Compares the clocks every minute, and sooner after a failure. Never returns.
    pub async fn keep(self, client: Client) {
        loop {
            let answered = self.compare(&client).await;
            tokio::time::sleep(if answered { EVERY } else { AGAIN }).await;
        }
    }
}

/// Returns by how many seconds the HTTP date `date` is ahead of `now`, 0 for a difference of up to three seconds; `None` if the date cannot
/// be parsed.
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
        let sample = ServerTimeSample { at, epoch_seconds: 1_000, ahead: 120 };
        assert_eq!((sample.now(at), sample.now(at + Duration::from_secs(59))), (1_000, 1_059));
    }
}

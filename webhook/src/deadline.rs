//! Deadline of the response to a request.
//!
//! API servers append their timeout to the URL of a webhook (`/mutate?timeout=10s`). Guarantee: everything that is done
//! for a request, waiting included, is bounded by one deadline that counts from the arrival of its headers. A later response
//! is abandoned, because the API server no longer waits for it. No client can ask for more time than the webhook
//! configurations of the chart give.

use std::time::Duration;
use tokio::time::Instant;

/// Timeout of a request without the parameter: the API server's default.
pub const DEFAULT: Duration = Duration::from_secs(10);
/// Maximum time reserved for the transmission of the response.
const RESERVE: Duration = Duration::from_secs(1);

/// The latest time at which the response to a request must be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// Returns the deadline of a request that arrived at `arrival` with this query string: its parameter `timeout`,
    /// less a tenth of it (at most one second) for the transmission. A missing or invalid parameter counts as
    /// [`DEFAULT`], and a longer one as `longest`.
    pub fn from_arrival(arrival: Instant, query: Option<&str>, longest: Duration) -> Self {
        let timeout = query.and_then(timeout_of).unwrap_or(DEFAULT).min(longest);
        Self(arrival + (timeout - (timeout / 10).min(RESERVE)))
    }

    /// Returns the deadline that is `time` from now.
    pub fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// Returns this deadline, or `moment` if that is earlier.
    pub fn or_earlier(self, moment: Instant) -> Self {
        Self(self.0.min(moment))
    }

    /// Returns the instant at which the deadline passes.
    pub fn at(self) -> Instant {
        self.0
    }

    /// Returns the time until the deadline; zero after it.
    pub fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Waits for `future` until the deadline; `None` if the deadline passes first.
    pub async fn limit<F: Future>(self, future: F) -> Option<F::Output> {
        tokio::time::timeout_at(self.0, future).await.ok()
    }
}

/// Returns the duration in the parameter `timeout` of a query string, which the API server sets; `None` if it is missing or invalid.
fn timeout_of(query: &str) -> Option<Duration> {
    query.split('&').find_map(|pair| pair.strip_prefix("timeout=")).and_then(go_duration)
}

/// Parses a duration as Go writes it: `30s`, `1m0s`, `1.5s`, `500ms`. `None` if the text is none.
fn go_duration(text: &str) -> Option<Duration> {
    let (mut rest, mut seconds) = (text, 0.0_f64);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.')?);
        let (unit, after) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        let factor = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "%C2%B5s" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * factor;
        rest = after;
    }
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(30);

    fn given(query: Option<&str>) -> u128 {
        let arrival = Instant::now();
        (Deadline::from_arrival(arrival, query, LONGEST).at() - arrival).as_millis()
    }

    #[test]
    fn the_parameter_of_the_api_server_counts_less_a_reserve() {
        for (query, milliseconds) in [
            ("timeout=10s", 9_000),
            ("timeout=5s", 4_500),
            ("timeout=1s", 900),
            ("timeout=500ms", 450),
            ("timeout=1.5s", 1_350),
            ("timeout=30s", 29_000),
            ("a=b&timeout=2s&c", 1_800),
        ] {
            assert_eq!(given(Some(query)), milliseconds, "{query}");
        }
    }

    #[test]
    fn without_a_valid_timeout_parameter_the_default_counts_and_no_timeout_exceeds_the_maximum() {
        for query in
            ["", "timeout=", "timeout=0s", "timeout=5", "timeout=-3s", "timeout=1e9s", "timeout=s", "timeouts=1s"]
        {
            assert_eq!(given(Some(query)), 9_000, "{query}");
        }
        assert_eq!(given(None), 9_000);
        for query in ["timeout=1m0s", "timeout=1h", "timeout=31s"] {
            assert_eq!(given(Some(query)), 29_000, "{query}");
        }
        assert_eq!(given(Some("timeout=99999999999999999999h")), 9_000, "no duration at all");
        let arrival = Instant::now();
        for query in [Some("timeout=30s"), None] {
            let deadline = Deadline::from_arrival(arrival, query, Duration::from_secs(5));
            assert_eq!((deadline.at() - arrival).as_millis(), 4_500, "{query:?}");
        }
    }

    #[test]
    fn a_deadline_in_the_past_has_no_time_left() {
        let now = Instant::now();
        let passed = Deadline::from_arrival(now, None, LONGEST).or_earlier(now);
        assert_eq!((passed.at(), passed.remaining()), (now, Duration::ZERO));
    }

    #[tokio::test]
    async fn no_wait_exceeds_the_deadline() {
        let deadline = Deadline::after(Duration::from_millis(20));
        assert_eq!(deadline.limit(std::future::pending::<()>()).await, None);
        assert_eq!(Deadline::after(DEFAULT).limit(async { 5 }).await, Some(5));
    }
}

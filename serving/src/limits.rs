//! Time limits and the connection limit of a server.

use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior};

/// Limits of a server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Time limit of a TLS handshake.
    pub handshake: Duration,
    /// Time limit of the headers of a request from their first byte, and of the silence of a new connection.
    pub head: Duration,
    /// Time limit of an idle connection between requests: longer than that of API servers (90 s).
    pub idle: Duration,
    /// Maximum number of connections served at once.
    pub connections: usize,
    /// How long connections stay open after the start of a shutdown, to be closed by the response to their next
    /// request: a client that sends a request on an idle connection while it is being closed loses the request.
    pub linger: Duration,
    /// Time limit of requests that have started, after the start of a shutdown.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            connections: 1024,
            linger: Duration::from_secs(3),
            drain: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// Returns the interval of checks: short enough that no limit is exceeded by more than a quarter.
    pub(crate) fn tick(&self) -> Interval {
        let shortest = self.handshake.min(self.head).min(self.idle) / 4;
        let mut tick = tokio::time::interval(shortest.clamp(Duration::from_millis(10), Duration::from_secs(1)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tick
    }
}

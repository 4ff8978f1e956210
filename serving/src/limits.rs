//! How long and how many: the limits of a server.

use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior};

/// Limits of a server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long the headers of a request may take from their first byte; also how long a new connection may be silent.
    pub head: Duration,
    /// How long a connection may be idle between requests: longer than API servers keep theirs (90 s).
    pub idle: Duration,
    /// How many connections are served at once.
    pub connections: usize,
    /// How long connections stay open after shutdown was asked for, to be closed by the answer to their next request: a client
    /// that is just sending one on an idle connection that is being closed loses it.
    pub linger: Duration,
    /// How long requests that have begun may take after shutdown was asked for.
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
    /// How often connections are looked at: often enough that no limit is exceeded by more than a quarter.
    pub(crate) fn tick(&self) -> Interval {
        let shortest = self.handshake.min(self.head).min(self.idle) / 4;
        let mut tick = tokio::time::interval(shortest.clamp(Duration::from_millis(10), Duration::from_secs(1)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tick
    }
}

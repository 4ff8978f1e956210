//! Limits of a server.

use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior};

/// Limits of a server. A request is *unfinished* from its first byte (of a new connection: from the start of the TLS handshake)
/// until its body is complete. Only unfinished requests are limited per client address, because all API servers may have
/// one address.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Time limit of an unfinished request: handshake, headers, and body with its wait for memory.
    pub arrival: Duration,
    /// Time limit of a connection without a request, also before its first one: longer than that of API servers (90 s).
    pub idle: Duration,
    /// Maximum number of connections served at once.
    pub connections: usize,
    /// Maximum number of unfinished requests of one client address. Above it, its longest unfinished request is dismissed
    /// for each new one.
    pub unfinished: usize,
    /// Maximum size of a body in bytes. API servers accept objects of 3 MiB, and an update contains two of them.
    pub body: usize,
    /// Bytes of all bodies above [`SMALL`](crate::body::SMALL) that are in memory at once. Unfinished requests of one client
    /// address get a quarter of it.
    pub memory: usize,
    /// A request for which memory is reserved is dismissed if its client sends nothing for this time while another request
    /// waits for memory.
    pub stall: Duration,
    /// True if a client without a certificate may only send requests that change nothing and have no body, such as GET.
    pub authenticated: bool,
    /// How long connections stay open after the start of a shutdown, to be closed by the response to their next
    /// request: a client that sends a request on an idle connection while it is being closed loses the request.
    pub linger: Duration,
    /// Time limit of requests that have started, after the start of a shutdown.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            arrival: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            connections: 1024,
            unfinished: 256,
            body: 8 << 20,
            memory: 64 << 20,
            stall: Duration::from_secs(2),
            authenticated: false,
            linger: Duration::from_secs(3),
            drain: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// Returns the timer of the checks for connections that exceed a time limit: its interval is so short that no limit is exceeded by more
    /// than a quarter.
    pub(crate) fn tick(&self) -> Interval {
        let shortest = self.arrival.min(self.idle) / 4;
        let mut tick = tokio::time::interval(shortest.clamp(Duration::from_millis(10), Duration::from_secs(1)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::SMALL;

    #[test]
    fn the_page_about_security_states_the_default_limits() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/security.md")).unwrap();
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let limits = Limits::default();
        for text in [
            format!("it has {} seconds in total", limits.arrival.as_secs()),
            format!("an address may have {} of them", limits.unfinished),
            format!("nothing for {} seconds while another one waits for memory", limits.stall.as_secs()),
            format!("Bodies up to {} KiB", SMALL >> 10),
            format!("Bodies above {} KiB that are being processed may use {} MiB", SMALL >> 10, limits.memory >> 20),
        ] {
            assert!(page.contains(&text), "{text}");
        }
    }
}

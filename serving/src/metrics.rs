//! What a server counts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What a server counts; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ServerMetrics {
    /// Open connections.
    pub connections: Gauge,
    /// Connections that were closed to make room for others.
    pub closed_for_room: Counter,
    /// TLS handshakes that failed or timed out.
    pub handshake_failures: Counter,
}

impl ServerMetrics {
    /// Shows them under the prefix of `registry`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("connections", "Open connections", self.connections.clone());
        registry.register(
            "connections_closed_for_room",
            "Connections that were closed, the longest idle first, because all were taken",
            self.closed_for_room.clone(),
        );
        registry.register(
            "handshake_failures",
            "TLS handshakes that failed or timed out",
            self.handshake_failures.clone(),
        );
    }

    /// Counts a connection for as long as the guard lives.
    pub(crate) fn open(&self) -> Open {
        self.connections.inc();
        Open(self.connections.clone())
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

//! Metrics: counters of a server, metrics of the process, and their text format for scrapers.

mod about;
mod differences;
mod process;
mod text;

pub use about::{About, Label, MetricKind, label};
pub use differences::differences;
pub use process::{PROCESS, build_info, register as register_process};
pub use text::{classic, scrape};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of a server; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ServerMetrics {
    /// Open connections.
    pub connections: Gauge,
    /// Connections that were closed so that others could be served.
    pub closed_for_room: Counter,
    /// TLS handshakes that failed or timed out.
    pub handshake_failures: Counter,
    /// Bytes that are reserved for bodies.
    pub body_bytes: Gauge,
    /// Requests that were rejected because memory for their body was not free in time.
    pub bodies_without_room: Counter,
}

impl ServerMetrics {
    /// Registers the metrics of the server with these descriptions: of open connections, connections closed for others, failed
    /// TLS handshakes, bytes reserved for bodies, and requests rejected for lack of memory.
    pub fn register(&self, registry: &mut Registry, [open, closed, failed, bytes, rejected]: [&About; 5]) {
        open.register(registry, self.connections.clone());
        closed.register(registry, self.closed_for_room.clone());
        failed.register(registry, self.handshake_failures.clone());
        bytes.register(registry, self.body_bytes.clone());
        rejected.register(registry, self.bodies_without_room.clone());
    }

    /// Adds a connection to the number of open ones, until the returned guard is dropped.
    pub(crate) fn open(&self) -> OpenConnection {
        self.connections.inc();
        OpenConnection(self.connections.clone())
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

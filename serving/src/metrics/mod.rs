//! Metrics: what a server counts, what a process shows of itself, and how both are told to who scrapes them.

mod about;
mod differences;
mod process;
mod text;

pub use about::{About, Kind, Label, label};
pub use differences::differences;
pub use process::{PROCESS, build_info, register as register_process};
pub use text::{classic, scrape};

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
    /// Shows them under these names: those of the open connections, of the closed ones, and of the failed handshakes.
    pub fn register(&self, registry: &mut Registry, [open, closed, failed]: [&About; 3]) {
        open.register(registry, self.connections.clone());
        closed.register(registry, self.closed_for_room.clone());
        failed.register(registry, self.handshake_failures.clone());
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

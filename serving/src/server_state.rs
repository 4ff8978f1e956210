//! State shared by the connections of a server: its clock, and whether the accept loop waits for an idle connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// What the connections of a server share: the clock of the server, and whether its accept loop waits for an idle connection to close.
#[derive(Debug)]
pub struct ServerState {
    start: Instant,
    wanted: AtomicBool,
    idle: Notify,
}

impl Default for ServerState {
    fn default() -> Self {
        Self { start: Instant::now(), wanted: AtomicBool::new(false), idle: Notify::new() }
    }
}

impl ServerState {
    /// Returns the time that has passed since the server started. All phases of connections count from that start.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Waits until any connection has become idle, so that it may be closed and a new one accepted.
    pub async fn wait_for_idle_connection(&self) {
        self.wanted.store(true, Ordering::Release);
        self.idle.notified().await;
        self.wanted.store(false, Ordering::Release);
    }

    /// Reports that a connection has become idle: wakes the accept loop if it waits for that.
    pub fn report_idle_connection(&self) {
        if self.wanted.load(Ordering::Acquire) {
            self.idle.notify_one();
        }
    }
}

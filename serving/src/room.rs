//! State shared by the connections of a server: its clock, and whether the accept loop waits for an idle connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// What the connections of a server share: the clock of the server, and whether its accept loop waits for an idle connection to close.
#[derive(Debug)]
pub struct Room {
    start: Instant,
    wanted: AtomicBool,
    idle: Notify,
}

impl Default for Room {
    fn default() -> Self {
        Self { start: Instant::now(), wanted: AtomicBool::new(false), idle: Notify::new() }
    }
}

impl Room {
    /// Returns the time that has passed since the server started, by which connections state times.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Waits until any connection has become idle, so that it may be closed in favour of a new one.
    pub async fn someone_idle(&self) {
        self.wanted.store(true, Ordering::Release);
        self.idle.notified().await;
        self.wanted.store(false, Ordering::Release);
    }

    /// Reports that a connection has become idle, to the accept loop if that waits for one.
    pub fn tell_idle(&self) {
        if self.wanted.load(Ordering::Acquire) {
            self.idle.notify_one();
        }
    }
}

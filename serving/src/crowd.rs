//! All connections of a server: closes those that exceed a time limit, and the one that has been idle longest when all
//! slots are taken.
//!
//! A connection without a request in progress has been idle since its last progress, in any phase. At the limit, the
//! one that has been idle longest is closed, so that many silent clients cannot block a client that sends requests. A
//! connection in a handshake or in headers is not closed for [`GRACE`]; otherwise it could never finish them.

use crate::connection::{Connection, Order, Phase};
use crate::limits::Limits;
use crate::room::Room;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Minimum time that a handshake or the headers of a request get.
pub const GRACE: Duration = Duration::from_millis(250);

/// All connections of a server.
#[derive(Debug, Default)]
pub struct Crowd {
    room: Arc<Room>,
    members: Mutex<HashMap<u64, Arc<Connection>>>,
}

impl Crowd {
    /// Adds a connection that was just accepted, under a unique number.
    pub fn join(&self, number: u64) -> Arc<Connection> {
        let connection = Arc::new(Connection::new(Arc::clone(&self.room)));
        self.with(|members| members.insert(number, Arc::clone(&connection)));
        connection
    }

    /// Removes a connection.
    pub fn leave(&self, number: u64) {
        self.with(|members| members.remove(&number));
    }

    /// Closes every connection whose phase has lasted longer than its limit.
    pub fn dismiss_overdue(&self, limits: &Limits) {
        let now = self.room.now();
        self.with(|members| {
            for connection in members.values() {
                let phase = connection.phase();
                let (since, limit) = match phase {
                    Phase::Handshake(since) => (since, limits.handshake),
                    Phase::Head(since) => (since, limits.head),
                    Phase::Idle(since) => (since, limits.idle),
                    Phase::Busy | Phase::Dismissed => continue,
                };
                if now.saturating_sub(since) > limit && connection.dismiss(phase) {
                    tracing::debug!(?phase, "a connection is closed because it took too long");
                }
            }
        });
    }

    /// Closes the connection that has been idle longest. Returns false if every connection is busy or within [`GRACE`].
    pub fn dismiss_longest_idle(&self) -> bool {
        let now = self.room.now();
        self.with(|members| {
            let idle = members.values().filter_map(|connection| match connection.phase() {
                phase @ (Phase::Handshake(since) | Phase::Head(since)) if now.saturating_sub(since) >= GRACE => {
                    Some((since, phase, connection))
                }
                phase @ Phase::Idle(since) => Some((since, phase, connection)),
                _ => None,
            });
            let mut idle: Vec<_> = idle.collect();
            idle.sort_unstable_by_key(|(since, ..)| *since);
            idle.into_iter().any(|(_, phase, connection)| connection.dismiss(phase))
        })
    }

    /// Waits until a connection becomes idle.
    pub async fn someone_idle(&self) {
        self.room.someone_idle().await;
    }

    /// Sends an order to every connection.
    pub fn tell_all(&self, order: Order) {
        self.with(|members| members.values().for_each(|connection| connection.tell(order)));
    }

    fn with<T>(&self, change: impl FnOnce(&mut HashMap<u64, Arc<Connection>>) -> T) -> T {
        change(&mut self.members.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_with_the_longest_idle_time_is_dismissed_first_and_a_busy_one_never() {
        let crowd = Crowd::default();
        let members: Vec<_> = (0..4).map(|number| crowd.join(number)).collect();
        assert!(!crowd.dismiss_longest_idle(), "all are still in their handshake");
        let busy = members[0].begin_request();
        for index in [2, 1, 3] {
            drop(members[index].begin_request());
            std::thread::sleep(Duration::from_millis(1));
        }
        for index in [2, 1, 3] {
            assert!(crowd.dismiss_longest_idle());
            assert_eq!(members[index].phase(), Phase::Dismissed, "{index}");
        }
        assert!(!crowd.dismiss_longest_idle(), "the last one is busy");
        drop(busy);
        assert!(crowd.dismiss_longest_idle());
    }
}

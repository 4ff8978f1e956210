//! All connections of a server: closes those that exceed a time limit, and dismisses some for the sake of others.
//!
//! It does so in three cases: all connection slots are in use, a client address has too many unfinished requests, or
//! memory for a body is missing. Then the longest unfinished request is dismissed (of that address, or of those that hold
//! memory), and without one the connection that has been idle longest. A request gets [`GRACE`] before; otherwise it
//! could never finish. A complete request is never dismissed.

use crate::connection::{Connection, ConnectionPhase, Order};
use crate::limits::Limits;
use crate::memory::{BodyMemory, Shortage};
use crate::metrics::ServerMetrics;
use crate::server_state::ServerState;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Minimum time that an unfinished request gets.
pub const GRACE: Duration = Duration::from_millis(250);

/// The open connections of a server, with its limits and its memory for bodies of requests.
#[derive(Debug)]
pub struct Connections {
    /// Limits of the server.
    pub limits: Limits,
    /// Memory for bodies.
    pub memory: Arc<BodyMemory>,
    /// Metrics of the server.
    pub metrics: ServerMetrics,
    server: Arc<ServerState>,
    members: Mutex<HashMap<u64, Arc<Connection>>>,
}

impl Connections {
    /// Creates the set of connections, which is empty, for a server with these limits.
    pub fn new(limits: Limits, metrics: ServerMetrics) -> Self {
        let memory = Arc::new(BodyMemory::new(limits.memory, metrics.body_bytes.clone()));
        Self { limits, memory, metrics, server: Arc::default(), members: Mutex::default() }
    }

    /// Adds a connection that was just accepted from the client address `source`, under a unique number, and returns it. If the
    /// address has more unfinished requests than permitted, the connection of the oldest of these is closed.
    pub fn add(&self, number: u64, source: IpAddr) -> Arc<Connection> {
        let connection = Arc::new(Connection::new(source, Arc::clone(&self.server)));
        let unfinished = self.with(|members| {
            members.insert(number, Arc::clone(&connection));
            members.values().filter(|member| member.source == source && member.phase().is_unfinished()).count()
        });
        if unfinished > self.limits.unfinished {
            self.dismiss_longest(|member, phase| match phase {
                ConnectionPhase::Unfinished(since)
                | ConnectionPhase::Silent(since)
                | ConnectionPhase::Reserved(since) => member.source == source && self.is_past(since, GRACE),
                _ => false,
            });
        }
        connection
    }

    /// Removes the connection with this number from the set, because it has been closed.
    pub fn remove(&self, number: u64) {
        self.with(|members| members.remove(&number));
    }

    /// Closes every connection whose phase has lasted longer than the limit of that phase.
    pub fn dismiss_overdue(&self) {
        self.with(|members| {
            for connection in members.values() {
                let phase = connection.phase();
                let overdue = match phase {
                    ConnectionPhase::Unfinished(since) | ConnectionPhase::Reserved(since) => {
                        self.is_past(since, self.limits.arrival)
                    }
                    ConnectionPhase::Silent(since) | ConnectionPhase::Idle(since) => {
                        self.is_past(since, self.limits.idle)
                    }
                    ConnectionPhase::Busy | ConnectionPhase::Dismissed => false,
                };
                if overdue && connection.dismiss(phase) {
                    tracing::debug!(?phase, "a connection is closed because it took too long");
                }
            }
        });
    }

    /// Closes one connection so that a new one can be accepted, if there is one that may be closed: an unfinished request older than
    /// [`GRACE`], or else an idle connection. Returns false if there is none.
    pub fn dismiss_for_slot(&self) -> bool {
        self.dismiss_longest(|_, phase| match phase {
            ConnectionPhase::Unfinished(since) | ConnectionPhase::Silent(since) | ConnectionPhase::Reserved(since) => {
                self.is_past(since, GRACE)
            }
            ConnectionPhase::Idle(_) => true,
            ConnectionPhase::Busy | ConnectionPhase::Dismissed => false,
        })
    }

    /// Closes one connection whose unfinished request has memory reserved and whose client has stopped sending: of the client address that
    /// the shortage names, or of any. Returns false if there is none.
    pub fn dismiss_for_memory(&self, shortage: Shortage) -> bool {
        self.dismiss_longest(|member, phase| {
            let counts = match shortage {
                Shortage::OfSource(source) => member.source == source,
                Shortage::OfAll => true,
            };
            counts && matches!(phase, ConnectionPhase::Reserved(since) if self.is_past(since, self.limits.stall))
        })
    }

    /// Closes one of the connections for which `eligible` returns true: one with an unfinished request before an idle one, and of
    /// these the one whose phase has lasted longest. Returns false if there is none.
    fn dismiss_longest(&self, eligible: impl Fn(&Connection, ConnectionPhase) -> bool) -> bool {
        let dismissed = self.with(|members| {
            let candidates = members.values().filter_map(|member| {
                let phase = member.phase();
                let since = match phase {
                    ConnectionPhase::Unfinished(since)
                    | ConnectionPhase::Silent(since)
                    | ConnectionPhase::Reserved(since)
                    | ConnectionPhase::Idle(since) => since,
                    ConnectionPhase::Busy | ConnectionPhase::Dismissed => return None,
                };
                eligible(member, phase).then_some((!phase.is_unfinished(), since, phase, member))
            });
            let mut candidates: Vec<_> = candidates.collect();
            candidates.sort_unstable_by_key(|(is_idle, since, ..)| (*is_idle, *since));
            candidates.into_iter().any(|(.., phase, member)| member.dismiss(phase))
        });
        if dismissed {
            self.metrics.closed_for_room.inc();
        }
        dismissed
    }

    /// Returns true if more than `limit` has passed since `since`, a time after the start of the server.
    fn is_past(&self, since: Duration, limit: Duration) -> bool {
        self.server.now().saturating_sub(since) > limit
    }

    /// Waits until any connection has become idle, so that it may be closed and a new one accepted.
    pub async fn wait_for_idle_connection(&self) {
        self.server.wait_for_idle_connection().await;
    }

    /// Gives every connection an order, such as to close.
    pub fn tell_all(&self, order: Order) {
        self.with(|members| members.values().for_each(|connection| connection.tell(order)));
    }

    /// Calls a function with the connections by number, which are locked meanwhile, and returns its result.
    fn with<T>(&self, change: impl FnOnce(&mut HashMap<u64, Arc<Connection>>) -> T) -> T {
        change(&mut self.members.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::thread::sleep;

    const TICK: Duration = Duration::from_millis(1);

    fn source(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    fn connections(unfinished: usize) -> Connections {
        let limits = Limits { unfinished, stall: 100 * TICK, ..Limits::default() };
        Connections::new(limits, ServerMetrics::default())
    }

    #[test]
    fn the_connection_with_the_longest_idle_time_is_dismissed_first_and_a_busy_one_never() {
        let connections = connections(10);
        let members: Vec<_> = (0..4).map(|number| connections.add(number, source(1))).collect();
        assert!(!connections.dismiss_for_slot(), "all are still in their handshake");
        let (_, busy) = members[0].begin_request();
        assert!(members[0].complete_request());
        for index in [2, 1, 3] {
            drop(members[index].begin_request());
            sleep(TICK);
        }
        for index in [2, 1, 3] {
            assert!(connections.dismiss_for_slot());
            assert_eq!(members[index].phase(), ConnectionPhase::Dismissed, "{index}");
        }
        assert!(!connections.dismiss_for_slot(), "the last one is busy");
        drop(busy);
        assert!(connections.dismiss_for_slot());
    }

    #[test]
    fn an_address_with_too_many_unfinished_requests_loses_the_longest_one_and_other_addresses_none() {
        let connections = connections(2);
        let idle = connections.add(0, source(1));
        drop(idle.begin_request());
        let other = connections.add(1, source(2));
        let join = |number| {
            sleep(TICK);
            connections.add(number, source(1))
        };
        let mut own: Vec<_> = (2..5).map(join).collect();
        assert!(own.iter().all(|one| one.phase().is_unfinished()), "none of them is past its grace time");
        sleep(GRACE + 10 * TICK);
        own.push(join(5));
        let dismissed = |one: &Arc<Connection>| one.phase() == ConnectionPhase::Dismissed;
        assert_eq!(own.iter().map(dismissed).collect::<Vec<_>>(), [true, false, false, false]);
        assert!(!dismissed(&other) && !dismissed(&idle));
        assert!(
            connections.dismiss_for_slot() && !dismissed(&idle),
            "an unfinished request is closed before an idle connection"
        );
    }

    #[test]
    fn memory_is_taken_only_from_clients_that_have_stopped_sending() {
        let connections = connections(10);
        let (one, other) = (connections.add(0, source(1)), connections.add(1, source(2)));
        other.record_reservation();
        sleep(150 * TICK);
        one.record_reservation();
        assert!(!connections.dismiss_for_memory(Shortage::OfSource(source(1))), "it has just reserved its memory");
        assert!(connections.dismiss_for_memory(Shortage::OfAll));
        assert_eq!(other.phase(), ConnectionPhase::Dismissed);
        sleep(150 * TICK);
        assert!(connections.dismiss_for_memory(Shortage::OfSource(source(1))));
        assert_eq!(one.phase(), ConnectionPhase::Dismissed);
    }
}

//! Memory for bodies: a bounded number of bytes, of which the unfinished requests of one client address get a quarter.
//!
//! A complete body counts only against the total, so that clients behind one address are not limited together.

use prometheus_client::metrics::gauge::Gauge;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The memory for the bodies of a server.
#[derive(Debug)]
pub struct BodyMemory {
    total: usize,
    state: Mutex<MemoryState>,
    changed: Notify,
    used: Gauge,
}

#[derive(Debug, Default)]
struct MemoryState {
    /// Bytes of all reservations.
    used: usize,
    /// Bytes that are reserved for unfinished requests, by client address.
    unfinished: HashMap<IpAddr, usize>,
}

/// Why memory cannot be reserved now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The unfinished requests of this client address have reserved their part.
    OfSource(IpAddr),
    /// All memory is reserved.
    OfAll,
}

/// Reserved memory; free again when it is dropped.
#[derive(Debug)]
pub struct MemoryReservation {
    memory: Arc<BodyMemory>,
    bytes: usize,
    /// The client address that the reservation counts for until the request is complete.
    source: Option<IpAddr>,
}

impl BodyMemory {
    /// Creates the accounting for `total` bytes of memory for bodies; the gauge `used` shows how many are reserved.
    pub fn new(total: usize, used: Gauge) -> Self {
        Self { total, state: Mutex::default(), changed: Notify::new(), used }
    }

    /// Reserves memory for the body of an unfinished request from the client address `source`. The unfinished requests of one
    /// address may reserve a quarter of the total; only one that is alone may reserve more.
    ///
    /// # Errors
    /// The address, or the server, has too little memory left now.
    pub fn reserve(self: &Arc<Self>, source: IpAddr, bytes: usize) -> Result<MemoryReservation, Shortage> {
        let bytes = bytes.min(self.total);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let own = state.unfinished.get(&source).copied().unwrap_or_default();
        if own > 0 && own + bytes > self.total / 4 {
            return Err(Shortage::OfSource(source));
        }
        if state.used + bytes > self.total {
            return Err(Shortage::OfAll);
        }
        state.used += bytes;
        state.unfinished.insert(source, own + bytes);
        self.used.inc_by(signed(bytes));
        Ok(MemoryReservation { memory: Arc::clone(self), bytes, source: Some(source) })
    }

    /// Returns a future that ends when, after this call, memory becomes free or a request complete.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

impl MemoryState {
    /// Subtracts bytes from what the unfinished requests of a client address have reserved. Does nothing for `None`, the reservation of a
    /// complete request.
    fn forget(&mut self, source: Option<IpAddr>, bytes: usize) {
        let Some(source) = source else { return };
        match self.unfinished.get(&source).copied() {
            Some(own) if own > bytes => self.unfinished.insert(source, own - bytes),
            _ => self.unfinished.remove(&source),
        };
    }
}

impl MemoryReservation {
    /// Records that the request is complete: its reservation no longer counts for its client address, only for the total.
    pub fn complete(&mut self) {
        let mut state = self.memory.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.forget(self.source.take(), self.bytes);
        drop(state);
        self.memory.changed.notify_waiters();
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        let mut state = self.memory.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.used -= self.bytes;
        state.forget(self.source.take(), self.bytes);
        drop(state);
        self.memory.used.dec_by(signed(self.bytes));
        self.memory.changed.notify_waiters();
    }
}

/// Converts a number of bytes to the type of a gauge's value; a number that is too large becomes the largest one.
fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn source(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    #[test]
    fn unfinished_requests_of_one_address_get_a_quarter_and_complete_ones_are_not_limited_per_address() {
        let (gauge, one, other) = (Gauge::default(), source(1), source(2));
        let memory = Arc::new(BodyMemory::new(1000, gauge.clone()));
        let mut first = memory.reserve(one, 200).unwrap();
        assert_eq!(memory.reserve(one, 51).unwrap_err(), Shortage::OfSource(one));
        let second = memory.reserve(one, 50).unwrap();
        let third = memory.reserve(other, 250).unwrap();
        first.complete();
        let mut complete = vec![first];
        while let Ok(mut more) = memory.reserve(one, 200) {
            more.complete();
            complete.push(more);
        }
        assert_eq!((complete.len(), gauge.get()), (3, 900));
        assert_eq!(memory.reserve(one, 200).unwrap_err(), Shortage::OfAll);
        drop((second, third, complete));
        assert_eq!(gauge.get(), 0);
        assert!(memory.state.lock().unwrap().unfinished.is_empty(), "no address is remembered");
    }
}

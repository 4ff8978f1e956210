//! Phases of a connection, so that each phase can have its own time limit.
//!
//! The HTTP library has a single limit for idle connections and for slowly sent headers. API servers keep idle
//! connections for 90 seconds, and a request sent on a connection that is being closed is lost; a client that sends its
//! headers slowly must be disconnected much earlier. Therefore this module observes bytes and requests. A change of
//! phase is one atomic write and wakes no task, except a task that waits for an idle connection.

use crate::room::Room;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// The phase of a connection, with its start (time since the start of the server).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Accepted; the TLS handshake is not complete.
    Handshake(Duration),
    /// A request has started and its headers are not complete. The first request starts with the end of the handshake.
    Head(Duration),
    /// Nothing has arrived since the last request.
    Idle(Duration),
    /// A request is being answered; its body has a limit of its own.
    Busy,
    /// The connection is being closed.
    Dismissed,
}

/// Encodes a phase in one number: the phase itself in the lowest three bits, the microseconds in the bits above.
impl From<Phase> for u64 {
    fn from(phase: Phase) -> Self {
        let since = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX) << 3;
        match phase {
            Phase::Handshake(time) => since(time),
            Phase::Head(time) => since(time) | 1,
            Phase::Idle(time) => since(time) | 2,
            Phase::Busy => 3,
            Phase::Dismissed => 4,
        }
    }
}

impl From<u64> for Phase {
    fn from(number: u64) -> Self {
        let since = Duration::from_micros(number >> 3);
        match number & 7 {
            0 => Self::Handshake(since),
            1 => Self::Head(since),
            2 => Self::Idle(since),
            3 => Self::Busy,
            _ => Self::Dismissed,
        }
    }
}

/// What a connection has to do; later variants are stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Keep serving.
    Stay,
    /// Keep serving; the next response has `Connection: close`.
    Retire,
    /// Close after the response to the request that has started.
    Finish,
    /// Close now.
    Close,
}

/// One connection, shared by its stream, its requests and the set of all connections.
#[derive(Debug)]
pub struct Connection {
    phase: AtomicU64,
    order: AtomicU8,
    ordered: Notify,
    room: Arc<Room>,
}

impl Connection {
    /// Creates a connection in phase `Handshake`.
    pub fn new(room: Arc<Room>) -> Self {
        let phase = AtomicU64::new(Phase::Handshake(room.now()).into());
        Self { phase, order: AtomicU8::new(Order::Stay as u8), ordered: Notify::new(), room }
    }

    /// Returns the current phase.
    pub fn phase(&self) -> Phase {
        self.phase.load(Ordering::Acquire).into()
    }

    /// Marks the handshake as complete.
    pub fn begin_conversation(&self) {
        self.change(|phase| matches!(phase, Phase::Handshake(_)), Phase::Head(self.room.now()));
    }

    /// Marks the headers as complete; the request is being answered. The connection is idle again when the guard is
    /// dropped.
    pub fn begin_request(self: &Arc<Self>) -> RequestGuard {
        self.change(|phase| phase != Phase::Dismissed, Phase::Busy);
        RequestGuard(Arc::clone(self))
    }

    fn end_request(&self) {
        self.change(|phase| phase != Phase::Dismissed, Phase::Idle(self.room.now()));
        self.room.tell_idle();
    }

    fn bytes_arrived(&self) {
        if let Phase::Idle(_) = self.phase() {
            self.change(|phase| matches!(phase, Phase::Idle(_)), Phase::Head(self.room.now()));
        }
    }

    fn change(&self, from: impl Fn(Phase) -> bool, to: Phase) {
        // An error means that the phase must not change.
        let _ = self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| from(now.into()).then(|| to.into()));
    }

    /// Closes the connection if it is still in this phase, and returns true if so. A request that has started meanwhile
    /// is answered.
    pub fn dismiss(&self, phase: Phase) -> bool {
        let to = Phase::Dismissed.into();
        let dismissed = self.phase.compare_exchange(phase.into(), to, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if dismissed {
            self.tell(Order::Close);
        }
        dismissed
    }

    /// Sends an order; an order weaker than the last one has no effect.
    pub fn tell(&self, order: Order) {
        self.order.fetch_max(order as u8, Ordering::AcqRel);
        self.ordered.notify_one();
    }

    /// Waits for an order that is stronger than `last`.
    pub async fn ordered(&self, last: Order) -> Order {
        loop {
            let order = match self.order.load(Ordering::Acquire) {
                0 => Order::Stay,
                1 => Order::Retire,
                2 => Order::Finish,
                _ => Order::Close,
            };
            if order > last {
                return order;
            }
            self.ordered.notified().await;
        }
    }

    /// Returns true if the next response is the last one.
    pub fn retires(&self) -> bool {
        self.order.load(Ordering::Acquire) >= Order::Retire as u8
    }
}

/// Marks its connection as busy until it is dropped.
#[derive(Debug)]
pub struct RequestGuard(Arc<Connection>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.end_request();
    }
}

/// A stream that reports arriving bytes.
#[derive(Debug)]
pub struct Observed<S> {
    stream: S,
    connection: Arc<Connection>,
}

impl<S> Observed<S> {
    /// Observes `stream`.
    pub fn new(stream: S, connection: Arc<Connection>) -> Self {
        Self { stream, connection }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Observed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.connection.bytes_arrived();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Observed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_survives_being_a_number() {
        let time = Duration::from_millis(123_456);
        for phase in [Phase::Handshake(time), Phase::Head(time), Phase::Idle(time), Phase::Busy, Phase::Dismissed] {
            assert_eq!(Phase::from(u64::from(phase)), phase);
        }
    }

    #[test]
    fn a_connection_that_has_become_busy_is_not_dismissed_and_a_dismissed_one_stays_so() {
        let connection = Arc::new(Connection::new(Arc::default()));
        let handshake = connection.phase();
        connection.begin_conversation();
        assert!(!connection.dismiss(handshake), "its handshake has ended");
        let request = connection.begin_request();
        assert_eq!(connection.phase(), Phase::Busy);
        drop(request);
        let idle = connection.phase();
        assert!(matches!(idle, Phase::Idle(_)) && connection.dismiss(idle));
        drop(connection.begin_request());
        assert_eq!(connection.phase(), Phase::Dismissed);
    }
}

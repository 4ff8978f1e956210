//! Phases of a connection, so that each phase can have its own limit.
//!
//! The HTTP library has a single limit for idle connections and for slowly sent headers. API servers keep idle
//! connections for 90 seconds, and a request sent on a connection that is being closed is lost; a client that sends a
//! request slowly must be disconnected much earlier. Therefore this module observes bytes and requests. A change of
//! phase is one atomic write and wakes no task, except a task that waits for an idle connection.

use crate::server_state::ServerState;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// The phase of a connection, with its start (time since the start of the server).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionPhase {
    /// A request is unfinished: a part of the TLS handshake, of its headers or of its body is missing.
    Unfinished(Duration),
    /// Nothing has arrived since the TLS handshake. API servers open connections in advance, and send a request later or never.
    Silent(Duration),
    /// A request is unfinished, and memory is reserved for its body. The time is that of the reservation, or of the last
    /// bytes.
    Reserved(Duration),
    /// Nothing has arrived since the last request.
    Idle(Duration),
    /// A complete request is being answered.
    Busy,
    /// The connection is being closed.
    Dismissed,
}

impl ConnectionPhase {
    /// Returns true if the connection waits for the rest of a request, or for its first request.
    pub fn is_unfinished(self) -> bool {
        matches!(self, Self::Unfinished(_) | Self::Silent(_) | Self::Reserved(_))
    }
}

/// Encodes a phase in one number: the phase itself in the lowest three bits, the microseconds in the bits above.
impl From<ConnectionPhase> for u64 {
    fn from(phase: ConnectionPhase) -> Self {
        let since = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX) << 3;
        match phase {
            ConnectionPhase::Unfinished(time) => since(time),
            ConnectionPhase::Reserved(time) => since(time) | 1,
            ConnectionPhase::Idle(time) => since(time) | 2,
            ConnectionPhase::Busy => 3,
            ConnectionPhase::Dismissed => 4,
            ConnectionPhase::Silent(time) => since(time) | 5,
        }
    }
}

impl From<u64> for ConnectionPhase {
    fn from(number: u64) -> Self {
        let since = Duration::from_micros(number >> 3);
        match number & 7 {
            0 => Self::Unfinished(since),
            1 => Self::Reserved(since),
            2 => Self::Idle(since),
            3 => Self::Busy,
            5 => Self::Silent(since),
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
    /// Address of the client.
    pub source: IpAddr,
    phase: AtomicU64,
    order: AtomicU8,
    ordered: Notify,
    server: Arc<ServerState>,
}

impl Connection {
    /// Creates a connection of the client with the address `source`, in the phase before its first request. `server` is the state that all
    /// connections of the server share.
    pub fn new(source: IpAddr, server: Arc<ServerState>) -> Self {
        let phase = AtomicU64::new(ConnectionPhase::Unfinished(server.now()).into());
        Self { source, phase, order: AtomicU8::new(Order::Stay as u8), ordered: Notify::new(), server }
    }

    /// Returns the present phase of the connection, with its start.
    pub fn phase(&self) -> ConnectionPhase {
        self.phase.load(Ordering::Acquire).into()
    }

    /// Records that the TLS handshake has ended, so that the connection waits for its first request.
    pub fn end_handshake(&self) {
        self.change_phase(
            |phase| matches!(phase, ConnectionPhase::Unfinished(_)),
            ConnectionPhase::Silent(self.server.now()),
        );
    }

    /// Records that the headers of a request are complete. Returns the time since its first bytes arrived, and a guard: when the
    /// guard is dropped, the request counts as answered and the connection as idle.
    pub fn begin_request(self: &Arc<Self>) -> (Duration, RequestGuard) {
        // The client may have sent the headers together with the request before.
        self.bytes_arrived();
        let since = match self.phase() {
            ConnectionPhase::Unfinished(since) => self.server.now().saturating_sub(since),
            _ => Duration::ZERO,
        };
        (since, RequestGuard(Arc::clone(self)))
    }

    /// Records that memory is reserved for the body of the unfinished request.
    pub fn record_reservation(&self) {
        self.change_phase(
            |phase| matches!(phase, ConnectionPhase::Unfinished(_)),
            ConnectionPhase::Reserved(self.server.now()),
        );
    }

    /// Records that the request is complete and is being answered. Returns false, and changes nothing, if the connection was dismissed
    /// before.
    pub fn complete_request(&self) -> bool {
        self.change_phase(ConnectionPhase::is_unfinished, ConnectionPhase::Busy)
    }

    /// Records that a request was answered: the connection is idle.
    fn end_request(&self) {
        self.change_phase(|phase| phase != ConnectionPhase::Dismissed, ConnectionPhase::Idle(self.server.now()));
        self.server.report_idle_connection();
    }

    /// Records that bytes of a request arrived, which start or continue an unfinished request.
    fn bytes_arrived(&self) {
        match self.phase() {
            ConnectionPhase::Idle(_) | ConnectionPhase::Silent(_) => {
                let is_quiet = |phase| matches!(phase, ConnectionPhase::Idle(_) | ConnectionPhase::Silent(_));
                self.change_phase(is_quiet, ConnectionPhase::Unfinished(self.server.now()));
            }
            ConnectionPhase::Reserved(_) => {
                self.change_phase(
                    |phase| matches!(phase, ConnectionPhase::Reserved(_)),
                    ConnectionPhase::Reserved(self.server.now()),
                );
            }
            ConnectionPhase::Unfinished(_) | ConnectionPhase::Busy | ConnectionPhase::Dismissed => {}
        }
    }

    /// Changes the phase to `to` if `from` returns true for the present one. Returns true if it did.
    fn change_phase(&self, from: impl Fn(ConnectionPhase) -> bool, to: ConnectionPhase) -> bool {
        let changed =
            self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| from(now.into()).then(|| to.into()));
        changed.is_ok()
    }

    /// Orders the connection to close if it is still in this phase (with the same start), and returns true if so. If a request has
    /// started meanwhile, the phase is another one, and the request is answered.
    pub fn dismiss(&self, phase: ConnectionPhase) -> bool {
        let to = ConnectionPhase::Dismissed.into();
        let dismissed = self.phase.compare_exchange(phase.into(), to, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if dismissed {
            self.tell(Order::Close);
        }
        dismissed
    }

    /// Gives the connection's task an order; an order weaker than an earlier one has no effect.
    pub fn tell(&self, order: Order) {
        self.order.fetch_max(order as u8, Ordering::AcqRel);
        self.ordered.notify_one();
    }

    /// Waits until the connection has an order that is stronger than `last`, and returns it.
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

    /// Returns true if the next response must announce the end of the connection (`Connection: close`).
    pub fn next_response_is_last(&self) -> bool {
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

/// A stream that reports to its connection when bytes arrive. Written bytes are passed on without a report.
#[derive(Debug)]
pub struct ReadReportingStream<S> {
    stream: S,
    connection: Arc<Connection>,
}

impl<S> ReadReportingStream<S> {
    /// Wraps a stream, whose arriving bytes are reported to this connection.
    pub fn new(stream: S, connection: Arc<Connection>) -> Self {
        Self { stream, connection }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadReportingStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.connection.bytes_arrived();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadReportingStream<S> {
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
    use std::net::Ipv4Addr;

    #[test]
    fn a_phase_is_converted_to_a_number_and_back() {
        let time = Duration::from_millis(123_456);
        let (unfinished, silent, reserved) =
            (ConnectionPhase::Unfinished(time), ConnectionPhase::Silent(time), ConnectionPhase::Reserved(time));
        let phases = [
            unfinished,
            silent,
            reserved,
            ConnectionPhase::Idle(time),
            ConnectionPhase::Busy,
            ConnectionPhase::Dismissed,
        ];
        for phase in phases {
            assert_eq!(ConnectionPhase::from(u64::from(phase)), phase);
        }
    }

    #[test]
    fn a_complete_request_is_not_dismissed_and_a_dismissed_one_is_not_answered() {
        let connection = Arc::new(Connection::new(Ipv4Addr::LOCALHOST.into(), Arc::default()));
        let (_, request) = connection.begin_request();
        let unfinished = connection.phase();
        assert!(unfinished.is_unfinished());
        connection.record_reservation();
        assert!(matches!(connection.phase(), ConnectionPhase::Reserved(_)) && connection.phase().is_unfinished());
        assert!(connection.complete_request());
        assert_eq!(connection.phase(), ConnectionPhase::Busy);
        assert!(!connection.dismiss(unfinished), "it is being answered");
        drop(request);
        assert!(matches!(connection.phase(), ConnectionPhase::Idle(_)));

        let (_, request) = connection.begin_request();
        assert!(connection.phase().is_unfinished(), "headers that came with the request before count from now");
        assert!(connection.dismiss(connection.phase()));
        assert!(!connection.complete_request());
        drop(request);
        assert_eq!(connection.phase(), ConnectionPhase::Dismissed);
    }
}

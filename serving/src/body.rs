//! Reads the body of a request completely, before the request is answered.
//!
//! Guarantees: a body does not exceed its size limit, and the request arrives within its time limit. Memory is reserved
//! before more than [`SMALL`] bytes are read, and stays reserved until the body is dropped. A client that announces a body and
//! sends none therefore uses a connection and no memory, and a small body never waits for memory.

use crate::connection::Connection;
use crate::connections::{Connections, GRACE};
use crate::memory::MemoryReservation;
use http::StatusCode;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::Instant;
use warp::Reply as _;

/// A body up to this size in bytes needs no reservation: such bodies are bounded by the number of connections.
pub const SMALL: usize = 32 * 1024;

/// When the headers of a request had arrived, and from where. Every request has it as an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The time.
    pub at: Instant,
    /// Address of the client.
    pub source: IpAddr,
}

/// Why the body of a request was not read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// The client has no certificate.
    Unknown,
    /// The body exceeds this number of bytes.
    TooLarge(usize),
    /// The body exceeded its time limit.
    TooSlow,
    /// Other bodies use the memory, or the connection was dismissed for another one.
    NoRoom,
    /// The connection was closed, or the client broke the protocol.
    Broken(hyper::Error),
}

impl Unread {
    /// Returns the HTTP response, with status and text, to a request whose body was not read for this reason.
    pub(crate) fn response(&self) -> warp::reply::Response {
        let (status, text) = match self {
            Self::Unknown => (StatusCode::UNAUTHORIZED, "a client certificate is required\n".to_owned()),
            Self::TooLarge(most) => {
                (StatusCode::PAYLOAD_TOO_LARGE, format!("the body must be no more than {most} bytes\n"))
            }
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the body took too long\n".to_owned()),
            Self::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, "too many bytes are in flight: try again\n".to_owned()),
            Self::Broken(error) => (StatusCode::BAD_REQUEST, format!("the body ended early: {error}\n")),
        };
        warp::reply::with_status(text, status).into_response()
    }
}

/// A complete body with its reservation.
struct Complete {
    bytes: Vec<u8>,
    _reservation: MemoryReservation,
}

impl AsRef<[u8]> for Complete {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads the complete body of a request of this connection; `unfinished` is the time since the first bytes of the request arrived. Memory
/// for a body that is not small is reserved before, if necessary by closing other connections.
///
/// # Errors
/// The body is too large, takes too long or breaks off, or the memory did not become free in time.
pub(crate) async fn read(
    mut body: Incoming,
    connections: &Connections,
    connection: &Connection,
    unfinished: Duration,
) -> Result<Bytes, Unread> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    // Earlier than the connection would be closed, so that the client gets an answer.
    let left = (connections.limits.arrival - connections.limits.arrival / 10).saturating_sub(unfinished);
    let deadline = Instant::now() + left;
    let announced = body.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    // Without a length, as much memory is reserved as the largest body needs.
    let most = announced.unwrap_or(connections.limits.body);
    if most > connections.limits.body {
        return Err(Unread::TooLarge(connections.limits.body));
    }
    let (mut bytes, mut reservation) = (Vec::new(), None);
    loop {
        let frame = tokio::time::timeout_at(deadline, body.frame()).await.map_err(|_| Unread::TooSlow)?;
        let Some(frame) = frame else { break };
        // Trailers are ignored.
        let Ok(data) = frame.map_err(Unread::Broken)?.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > most {
            return Err(Unread::TooLarge(connections.limits.body));
        }
        if length > SMALL && reservation.is_none() {
            reservation = Some(reserve(connections, connection, most, deadline).await?);
            bytes.reserve_exact(announced.unwrap_or(length) - bytes.len());
        }
        bytes.extend_from_slice(&data);
    }
    Ok(match reservation {
        Some(mut reservation) => {
            reservation.complete();
            Bytes::from_owner(Complete { bytes, _reservation: reservation })
        }
        None => bytes.into(),
    })
}

/// Reserves memory for a body of this many bytes, and waits for that until `deadline`. While memory is missing, connections whose clients
/// have stopped sending are closed. It is an error if the deadline passes.
async fn reserve(
    connections: &Connections,
    connection: &Connection,
    bytes: usize,
    deadline: Instant,
) -> Result<MemoryReservation, Unread> {
    loop {
        let changed = connections.memory.changed();
        match connections.memory.reserve(connection.source, bytes) {
            Ok(reservation) => {
                connection.record_reservation();
                return Ok(reservation);
            }
            Err(shortage) => {
                connections.dismiss_for_memory(shortage);
            }
        }
        tokio::select! {
            () = changed => {}
            // Other clients may have stopped sending for long enough meanwhile.
            () = tokio::time::sleep(GRACE / 5) => {}
            () = tokio::time::sleep_until(deadline) => {
                connections.metrics.bodies_without_room.inc();
                return Err(Unread::NoRoom);
            }
        }
    }
}

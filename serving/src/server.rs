//! The accept loop: connections, their number, their limits and a graceful shutdown.
//!
//! Guarantees: a slow, silent or hostile client uses few connections, little memory and limited time. The number of
//! connections is bounded; at the limit an unfinished request or the connection that has been idle longest is closed for
//! the next one. On shutdown no connection is accepted, requests that have started are answered until a deadline, and a
//! connection in use is closed by a response that announces it, so that no client loses a request.

use crate::body::{self, Arrived, Unread};
use crate::connection::{Connection, Order, ReadReportingStream};
use crate::connections::{Connections, GRACE};
use crate::limits::Limits;
use crate::metrics::ServerMetrics;
use http::Request;
use http::header::{CONNECTION, HeaderValue};
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Interval};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use warp::filters::BoxedFilter;
use warp::reply::Response;

/// Maximum number of bytes that the HTTP library buffers per connection, headers included.
const MOST_BUFFERED: usize = 16 * 1024;

/// The tokens that shut down a server.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    /// Finish requests that have started, within [`Limits::drain`].
    pub drain: CancellationToken,
    /// Stop now.
    pub abort: CancellationToken,
}

/// Converts a filter of the HTTP framework (warp) to a service of the HTTP library (hyper), which gets requests with complete bodies.
pub fn service(
    filter: BoxedFilter<(Response,)>,
) -> impl Service<Request<Full<Bytes>>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + Sync + 'static
{
    hyper_util::service::TowerToHyperService::new(warp::service(filter))
}

/// Accepts connections on `listener` and answers their requests with `service`, within `limits`, until `shutdown`: over TLS with an
/// acceptor, in plain text without one. Returns when all connections are closed, or the limits of the shutdown have passed.
pub async fn serve<S>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    service: S,
    limits: Limits,
    shutdown: Shutdown,
    metrics: ServerMetrics,
) where
    S: Service<Request<Full<Bytes>>, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let (slots, mut tick) = (Arc::new(Semaphore::new(limits.connections)), limits.tick());
    let (linger, drain) = (limits.linger.min(limits.drain), limits.drain);
    let (tracker, connections) = (TaskTracker::new(), Arc::new(Connections::new(limits, metrics)));
    for number in 0.. {
        let next = async {
            let (stream, source) = accept(&listener, &connections, &mut tick).await;
            (stream, source, slot(&slots, &connections, &mut tick).await)
        };
        let (stream, source, slot) = tokio::select! {
            next = next => next,
            () = shutdown.drain.cancelled() => break,
        };
        let (open, connection) = (connections.metrics.open(), connections.add(number, source));
        let (tls, service, connections) = (tls.clone(), service.clone(), Arc::clone(&connections));
        tracker.spawn(async move {
            connect(stream, tls, service, &connection, &connections).await;
            connections.remove(number);
            drop((open, slot));
        });
    }
    drop(listener);
    tracker.close();
    let deadline = Instant::now() + drain;
    connections.tell_all(Order::Retire);
    tokio::select! {
        () = tracker.wait() => {}
        () = tokio::time::sleep(linger) => {}
        () = shutdown.abort.cancelled() => {}
    }
    connections.tell_all(Order::Finish);
    tokio::select! {
        () = tracker.wait() => {}
        () = tokio::time::sleep_until(deadline) => {
            tracing::warn!(connections = tracker.len(), "requests were not answered in time and are dropped");
        }
        () = shutdown.abort.cancelled() => {}
    }
    connections.tell_all(Order::Close);
}

/// Accepts and returns the next TCP connection, with the address of its client. Meanwhile, at each `tick`, it closes connections that
/// exceed a time limit.
async fn accept(listener: &TcpListener, connections: &Connections, tick: &mut Interval) -> (TcpStream, IpAddr) {
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, source)) => return (stream, source.ip().to_canonical()),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Most likely no file descriptor is free: wait until connections have ended instead of spinning.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            _ = tick.tick() => connections.dismiss_overdue(),
        }
    }
}

/// Waits until the server may have one more connection, and returns the permit that this connection holds. If no permit is free, another
/// connection is closed; if all are busy, it waits. The semaphore is never closed, so the result is never `None`.
async fn slot(slots: &Arc<Semaphore>, connections: &Connections, tick: &mut Interval) -> Option<OwnedSemaphorePermit> {
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        return Some(slot);
    }
    let mut dismissed = false;
    loop {
        dismissed = dismissed || connections.dismiss_for_slot();
        tokio::select! {
            // The semaphore is never closed.
            slot = Arc::clone(slots).acquire_owned() => return slot.ok(),
            () = connections.wait_for_idle_connection(), if !dismissed => {}
            // The grace time of unfinished requests may have ended meanwhile.
            () = tokio::time::sleep(GRACE / 5), if !dismissed => {}
            _ = tick.tick() => connections.dismiss_overdue(),
        }
    }
}

/// Runs the TLS handshake of an accepted connection, if there is an acceptor, and then answers its requests until it ends or is closed.
async fn connect<S>(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    service: S,
    connection: &Arc<Connection>,
    connections: &Connections,
) where
    S: Service<Request<Full<Bytes>>, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return serve_requests(stream, service, connection, connections, false).await };
    let handshake = tokio::select! {
        handshake = tls.accept(stream) => handshake,
        order = connection.ordered(Order::Retire) => {
            if order == Order::Close {
                connections.metrics.handshake_failures.inc();
                tracing::debug!("TLS handshake timed out");
            }
            return;
        }
    };
    match handshake {
        Ok(stream) => {
            // A certificate that the client offered was verified during the handshake.
            let is_known = stream.get_ref().1.peer_certificates().is_some();
            serve_requests(stream, service, connection, connections, is_known).await;
        }
        Err(error) => {
            connections.metrics.handshake_failures.inc();
            tracing::debug!(%error, "TLS handshake failed");
        }
    }
}

/// Reads a request completely and returns the response of `service`, or a response that says why the request was not read. `is_known` is
/// true if the client has authenticated with a certificate.
async fn answer<S>(
    request: Request<Incoming>,
    service: &S,
    connection: &Arc<Connection>,
    connections: &Connections,
    is_known: bool,
) -> Response
where
    S: Service<Request<Full<Bytes>>, Response = Response, Error = Infallible>,
{
    let (unfinished, _guard) = connection.begin_request();
    let arrived = Arrived { at: Instant::now(), source: connection.source };
    let (head, body) = request.into_parts();
    if connections.limits.authenticated && !is_known && !(head.method.is_safe() && body.is_end_stream()) {
        return Unread::Unknown.response();
    }
    let body = match body::read(body, connections, connection, unfinished).await {
        Ok(body) => body,
        Err(unread) => return unread.response(),
    };
    if !connection.complete_request() {
        return Unread::NoRoom.response();
    }
    let mut request = Request::from_parts(head, Full::new(body));
    request.extensions_mut().insert(arrived);
    let Ok(response) = service.call(request).await;
    response
}

/// Answers the HTTP requests of a connection until it ends or is closed. `is_known` is true if the client has authenticated with a
/// certificate.
async fn serve_requests<T, S>(
    stream: T,
    service: S,
    connection: &Arc<Connection>,
    connections: &Connections,
    is_known: bool,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Full<Bytes>>, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    connection.end_handshake();
    let observed = TokioIo::new(ReadReportingStream::new(stream, Arc::clone(connection)));
    let service = &service;
    let observed_service = service_fn(move |request| async move {
        let mut response = answer(request, service, connection, connections, is_known).await;
        // HTTP/1 announces the close with this header, and the library then closes the connection.
        if connection.next_response_is_last() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok::<_, Infallible>(response)
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(MOST_BUFFERED);
    let conversation = http.serve_connection(observed, observed_service);
    tokio::pin!(conversation);
    let mut last = Order::Stay;
    loop {
        tokio::select! {
            result = conversation.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(%error, "a connection ended early");
                }
                return;
            }
            order = connection.ordered(last) => match order {
                Order::Close => return,
                Order::Finish => {
                    last = Order::Finish;
                    conversation.as_mut().graceful_shutdown();
                }
                other => last = other,
            }
        }
    }
}

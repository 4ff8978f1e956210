//! The accept loop: connections, their number, their limits and a graceful shutdown.
//!
//! Guarantees: a slow, silent or hostile client uses few connections, little memory and limited time. The number of
//! connections is bounded; at the limit an unfinished request or the connection that has been idle longest is closed for
//! the next one. On shutdown no connection is accepted, requests that have started are answered until a deadline, and a
//! connection in use is closed by a response that announces it, so that no client loses a request.

use crate::body::{self, Arrived, Unread};
use crate::connection::{Connection, Order, ReadReportingStream};
use crate::crowd::{Crowd, GRACE};
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

/// Returns a filter of the HTTP framework as a service of the HTTP library. It gets complete requests.
pub fn service(
    filter: BoxedFilter<(Response,)>,
) -> impl Service<Request<Full<Bytes>>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + Sync + 'static
{
    hyper_util::service::TowerToHyperService::new(warp::service(filter))
}

/// Serves `service` on `listener` until shutdown: over TLS with an acceptor, in plain text without one.
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
    let (tracker, crowd) = (TaskTracker::new(), Arc::new(Crowd::new(limits, metrics)));
    for number in 0.. {
        let next = async {
            let (stream, source) = accept(&listener, &crowd, &mut tick).await;
            (stream, source, slot(&slots, &crowd, &mut tick).await)
        };
        let (stream, source, slot) = tokio::select! {
            next = next => next,
            () = shutdown.drain.cancelled() => break,
        };
        let (open, connection) = (crowd.metrics.open(), crowd.join(number, source));
        let (tls, service, crowd) = (tls.clone(), service.clone(), Arc::clone(&crowd));
        tracker.spawn(async move {
            connect(stream, tls, service, &connection, &crowd).await;
            crowd.leave(number);
            drop((open, slot));
        });
    }
    drop(listener);
    tracker.close();
    let deadline = Instant::now() + drain;
    crowd.tell_all(Order::Retire);
    tokio::select! {
        () = tracker.wait() => {}
        () = tokio::time::sleep(linger) => {}
        () = shutdown.abort.cancelled() => {}
    }
    crowd.tell_all(Order::Finish);
    tokio::select! {
        () = tracker.wait() => {}
        () = tokio::time::sleep_until(deadline) => {
            tracing::warn!(connections = tracker.len(), "requests were not answered in time and are dropped");
        }
        () = shutdown.abort.cancelled() => {}
    }
    crowd.tell_all(Order::Close);
}

/// Accepts and returns the next connection, with the address of its client.
async fn accept(listener: &TcpListener, crowd: &Crowd, tick: &mut Interval) -> (TcpStream, IpAddr) {
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
            _ = tick.tick() => crowd.dismiss_overdue(),
        }
    }
}

/// Returns a slot for one connection. If none is free, another connection is dismissed; if all are busy, the caller waits.
async fn slot(slots: &Arc<Semaphore>, crowd: &Crowd, tick: &mut Interval) -> Option<OwnedSemaphorePermit> {
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        return Some(slot);
    }
    let mut dismissed = false;
    loop {
        dismissed = dismissed || crowd.dismiss_for_slot();
        tokio::select! {
            // The semaphore is never closed.
            slot = Arc::clone(slots).acquire_owned() => return slot.ok(),
            () = crowd.someone_idle(), if !dismissed => {}
            // The grace time of unfinished requests may have ended meanwhile.
            () = tokio::time::sleep(GRACE / 5), if !dismissed => {}
            _ = tick.tick() => crowd.dismiss_overdue(),
        }
    }
}

/// Runs the TLS handshake of a connection, if there is TLS, and then answers its requests.
async fn connect<S>(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    service: S,
    connection: &Arc<Connection>,
    crowd: &Crowd,
) where
    S: Service<Request<Full<Bytes>>, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return converse(stream, service, connection, crowd, false).await };
    let handshake = tokio::select! {
        handshake = tls.accept(stream) => handshake,
        order = connection.ordered(Order::Retire) => {
            if order == Order::Close {
                crowd.metrics.handshake_failures.inc();
                tracing::debug!("TLS handshake timed out");
            }
            return;
        }
    };
    match handshake {
        Ok(stream) => {
            // A certificate that the client offered was verified during the handshake.
            let is_known = stream.get_ref().1.peer_certificates().is_some();
            converse(stream, service, connection, crowd, is_known).await;
        }
        Err(error) => {
            crowd.metrics.handshake_failures.inc();
            tracing::debug!(%error, "TLS handshake failed");
        }
    }
}

/// Reads a request completely and returns its response. `is_known` is true if the client has a certificate.
async fn answer<S>(
    request: Request<Incoming>,
    service: &S,
    connection: &Arc<Connection>,
    crowd: &Crowd,
    is_known: bool,
) -> Response
where
    S: Service<Request<Full<Bytes>>, Response = Response, Error = Infallible>,
{
    let (unfinished, _guard) = connection.begin_request();
    let arrived = Arrived { at: Instant::now(), source: connection.source };
    let (head, body) = request.into_parts();
    if crowd.limits.authenticated && !is_known && !(head.method.is_safe() && body.is_end_stream()) {
        return Unread::Unknown.response();
    }
    let body = match body::read(body, crowd, connection, unfinished).await {
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

/// Answers the requests of a connection until it ends or is closed.
async fn converse<T, S>(stream: T, service: S, connection: &Arc<Connection>, crowd: &Crowd, is_known: bool)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Full<Bytes>>, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    connection.begin_conversation();
    let observed = TokioIo::new(ReadReportingStream::new(stream, Arc::clone(connection)));
    let service = &service;
    let observed_service = service_fn(move |request| async move {
        let mut response = answer(request, service, connection, crowd, is_known).await;
        // HTTP/1 announces the close with this header, and the library then closes the connection.
        if connection.retires() {
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

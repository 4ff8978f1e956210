//! The accept loop: connections, their number, their time limits and a graceful shutdown.
//!
//! Guarantees: a slow, silent or hostile client uses one connection for a limited time. The number of connections is
//! bounded; at the limit, the connection that has been idle longest is closed for the next one. On shutdown no
//! connection is accepted, requests that have started are answered until a deadline, and a connection in use is closed
//! by a response that announces it, so that no client loses a request.

use crate::connection::{Connection, Observed, Order};
use crate::crowd::{Crowd, GRACE};
use crate::limits::Limits;
use crate::metrics::ServerMetrics;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
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

/// Returns a filter of the HTTP framework as a service of the HTTP library.
pub fn service(
    filter: BoxedFilter<(warp::reply::Response,)>,
) -> impl Service<Request<Incoming>, Response = warp::reply::Response, Error = Infallible, Future: Send>
+ Clone
+ Send
+ Sync
+ 'static {
    hyper_util::service::TowerToHyperService::new(warp::service(filter))
}

/// Serves `service` on `listener` until shutdown: over TLS with an acceptor, in plain text without one.
pub async fn serve<S, B>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    service: S,
    limits: Limits,
    shutdown: Shutdown,
    metrics: ServerMetrics,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let (slots, crowd) = (Arc::new(Semaphore::new(limits.connections)), Arc::new(Crowd::default()));
    let (tracker, mut tick) = (TaskTracker::new(), limits.tick());
    for number in 0.. {
        let next = async {
            let stream = accept(&listener, &crowd, &limits, &mut tick).await;
            (stream, slot(&slots, &crowd, &limits, &mut tick, &metrics).await)
        };
        let (stream, slot) = tokio::select! {
            next = next => next,
            () = shutdown.drain.cancelled() => break,
        };
        let (open, connection) = (metrics.open(), crowd.join(number));
        let (tls, service, metrics, crowd) = (tls.clone(), service.clone(), metrics.clone(), Arc::clone(&crowd));
        tracker.spawn(async move {
            connect(stream, tls, service, &connection, &metrics).await;
            crowd.leave(number);
            drop((open, slot));
        });
    }
    drop(listener);
    tracker.close();
    let deadline = Instant::now() + limits.drain;
    crowd.tell_all(Order::Retire);
    tokio::select! {
        () = tracker.wait() => {}
        () = tokio::time::sleep(limits.linger.min(limits.drain)) => {}
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

/// Accepts and returns the next connection.
async fn accept(listener: &TcpListener, crowd: &Crowd, limits: &Limits, tick: &mut Interval) -> TcpStream {
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => return stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Most likely no file descriptor is free: wait until connections have ended instead of spinning.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            _ = tick.tick() => crowd.dismiss_overdue(limits),
        }
    }
}

/// Returns a slot for one connection. If none is free, the connection that has been idle longest is closed; if all are
/// busy, the caller waits.
async fn slot(
    slots: &Arc<Semaphore>,
    crowd: &Crowd,
    limits: &Limits,
    tick: &mut Interval,
    metrics: &ServerMetrics,
) -> Option<OwnedSemaphorePermit> {
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        return Some(slot);
    }
    let mut dismissed = false;
    loop {
        if !dismissed && crowd.dismiss_longest_idle() {
            dismissed = true;
            metrics.closed_for_room.inc();
        }
        tokio::select! {
            // The semaphore is never closed.
            slot = Arc::clone(slots).acquire_owned() => return slot.ok(),
            () = crowd.someone_idle(), if !dismissed => {}
            // Connections in a handshake or in headers may have used up their grace time by now.
            () = tokio::time::sleep(GRACE / 5), if !dismissed => {}
            _ = tick.tick() => crowd.dismiss_overdue(limits),
        }
    }
}

async fn connect<S, B>(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    service: S,
    connection: &Arc<Connection>,
    metrics: &ServerMetrics,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return converse(stream, service, connection).await };
    let handshake = tokio::select! {
        handshake = tls.accept(stream) => handshake,
        order = connection.ordered(Order::Retire) => {
            if order == Order::Close {
                metrics.handshake_failures.inc();
                tracing::debug!("TLS handshake timed out");
            }
            return;
        }
    };
    match handshake {
        Ok(stream) => converse(stream, service, connection).await,
        Err(error) => {
            metrics.handshake_failures.inc();
            tracing::debug!(%error, "TLS handshake failed");
        }
    }
}

async fn converse<T, S, B>(stream: T, service: S, connection: &Arc<Connection>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    connection.begin_conversation();
    let observed = TokioIo::new(Observed::new(stream, Arc::clone(connection)));
    let observed_service = service_fn(|request| {
        let guard = connection.begin_request();
        let answer = service.call(request);
        async move {
            let mut answer = answer.await;
            // HTTP/1 announces the close with this header, and the library then closes the connection.
            if let (Ok(answer), true) = (&mut answer, connection.retires()) {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            drop(guard);
            answer
        }
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

//! The accept loop: connections, their number and their time limits, and a graceful end.
//!
//! Promises: a client that is slow, silent or hostile holds one connection for a limited time; the number of
//! connections is bounded, and when all are taken the one that has been idle longest makes room for the next; on
//! shutdown no new connection is accepted, requests that have begun are answered until a deadline, and a connection that
//! is in use is closed by an answer that says so, so that no client loses a request on it.

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

/// The most bytes that the HTTP library buffers of one connection, headers included.
const MOST_BUFFERED: usize = 16 * 1024;

/// How a server is told to end.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    /// Finish what has begun, within [`Limits::drain`].
    pub drain: CancellationToken,
    /// End now.
    pub abort: CancellationToken,
}

/// A filter of the HTTP framework as a service of the HTTP library.
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

/// The next connection.
async fn accept(listener: &TcpListener, crowd: &Crowd, limits: &Limits, tick: &mut Interval) -> TcpStream {
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => return stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Out of file descriptors, most likely: wait for connections to end instead of spinning.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            _ = tick.tick() => crowd.dismiss_overdue(limits),
        }
    }
}

/// A place for one connection. When all are taken, the connection that has been idle longest goes; while each is busy,
/// the next one waits.
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
            // Those that have only begun may be dismissed by now.
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
            // The answers of HTTP/1 say it by this header, and the library closes the connection after it.
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

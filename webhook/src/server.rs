//! The accept loop: connections, their number and their time limits, and a graceful end.
//!
//! Promises: a client that is slow, silent or hostile holds one connection for a limited time; the number of
//! connections is bounded, and those above the bound wait in the kernel's queue; on shutdown no new connection is
//! accepted, requests that have begun are answered until a deadline.

use crate::metrics::Metrics;
use crate::phase::{Observed, Phases};
use http::Request;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use warp::reply::Response;

/// Limits of a server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long the headers of a request may take from their first byte; also how long a new connection may be silent.
    pub head: Duration,
    /// How long a connection may be idle between requests: longer than API servers keep theirs (90 s).
    pub idle: Duration,
    /// How many connections are served at once.
    pub connections: usize,
    /// How long requests that have begun may take after shutdown was asked for.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            connections: 1024,
            drain: Duration::from_secs(20),
        }
    }
}

/// How a server is told to end.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    /// Finish what has begun, within [`Limits::drain`].
    pub drain: CancellationToken,
    /// End now.
    pub abort: CancellationToken,
}

/// Serves `service` on `listener` until shutdown: over TLS with an acceptor, in plain text without one.
pub async fn serve<S>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    service: S,
    limits: Limits,
    shutdown: Shutdown,
    metrics: Arc<Metrics>,
) where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let slots = Arc::new(Semaphore::new(limits.connections));
    let tracker = TaskTracker::new();
    loop {
        let next = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            next = next => next,
            () = shutdown.drain.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                // Out of file descriptors, most likely: wait for connections to end instead of spinning.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let open = metrics.connection();
        let (tls, service, limits, shutdown) = (tls.clone(), service.clone(), limits.clone(), shutdown.clone());
        let metrics = Arc::clone(&metrics);
        tracker.spawn(async move {
            let connection = connect(stream, tls, service, &limits, &shutdown, &metrics);
            tokio::select! {
                () = connection => {}
                () = shutdown.abort.cancelled() => {}
            }
            drop((open, slot));
        });
    }
    drop(listener);
    tracker.close();
    tokio::select! {
        () = tracker.wait() => {}
        () = tokio::time::sleep(limits.drain) => {
            tracing::warn!(connections = tracker.len(), "requests were not answered in time and are dropped");
            shutdown.abort.cancel();
        }
        () = shutdown.abort.cancelled() => {}
    }
}

async fn connect<S>(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    service: S,
    limits: &Limits,
    shutdown: &Shutdown,
    metrics: &Metrics,
) where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return converse(stream, service, limits, shutdown).await };
    let handshake = tokio::select! {
        handshake = tokio::time::timeout(limits.handshake, tls.accept(stream)) => handshake,
        () = shutdown.drain.cancelled() => return,
    };
    match handshake {
        Ok(Ok(stream)) => converse(stream, service, limits, shutdown).await,
        Ok(Err(error)) => {
            metrics.handshake_failures.inc();
            tracing::debug!(%error, "TLS handshake failed");
        }
        Err(_) => {
            metrics.handshake_failures.inc();
            tracing::debug!("TLS handshake timed out");
        }
    }
}

async fn converse<T, S>(stream: T, service: S, limits: &Limits, shutdown: &Shutdown)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let phases = Phases::default();
    let observed = TokioIo::new(Observed::new(stream, phases.clone()));
    let observed_service = service_fn(|request| {
        let guard = phases.begin_request();
        let answer = service.call(request);
        async move {
            let answer = answer.await;
            drop(guard);
            answer
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(None);
    let connection = http.serve_connection(observed, observed_service);
    tokio::pin!(connection);
    let mut draining = false;
    loop {
        tokio::select! {
            result = connection.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(%error, "a connection ended early");
                }
                return;
            }
            phase = phases.overdue(limits.head, limits.idle) => {
                tracing::debug!(?phase, "a connection is closed because it took too long");
                return;
            }
            () = shutdown.drain.cancelled(), if !draining => {
                draining = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

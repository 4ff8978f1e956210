//! What a connection is doing, so that each phase can have a time limit of its own.
//!
//! The HTTP library has one limit for an idle connection and for one that sends its headers slowly. API servers keep
//! idle connections for 90 seconds, and a request that meets a connection just being closed is lost; a client that
//! dribbles its headers is to be cut much earlier. So bytes and requests are observed here.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::Instant;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing has arrived since the last request.
    Idle(Instant),
    /// A request has begun and its headers are not complete. A new connection begins like this.
    Head(Instant),
    /// A request is being answered; its body has a limit of its own.
    Busy,
}

/// The phase of one connection, shared by its stream, its requests and its watchdog.
#[derive(Clone, Debug)]
pub struct Phases(watch::Sender<Phase>);

impl Default for Phases {
    fn default() -> Self {
        Self(watch::Sender::new(Phase::Head(Instant::now())))
    }
}

impl Phases {
    /// Headers are complete; the answer to the request begins. The connection is idle again when the guard is dropped.
    pub fn begin_request(&self) -> RequestGuard {
        self.0.send_replace(Phase::Busy);
        RequestGuard(self.clone())
    }

    fn bytes_arrived(&self) {
        self.0.send_if_modified(|phase| {
            let begins = matches!(phase, Phase::Idle(_));
            if begins {
                *phase = Phase::Head(Instant::now());
            }
            begins
        });
    }

    /// Waits until a phase has lasted longer than its limit.
    pub async fn overdue(&self, head: Duration, idle: Duration) -> Phase {
        let mut changes = self.0.subscribe();
        loop {
            let phase = *changes.borrow_and_update();
            let deadline = match phase {
                Phase::Head(since) => Some(since + head),
                Phase::Idle(since) => Some(since + idle),
                Phase::Busy => None,
            };
            let timer = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = changes.changed() => {
                    if changed.is_err() {
                        return phase;
                    }
                }
                () = timer => return phase,
            }
        }
    }
}

/// Held while a request is answered.
#[derive(Debug)]
pub struct RequestGuard(Phases);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.0.send_replace(Phase::Idle(Instant::now()));
    }
}

/// A stream that reports arriving bytes.
#[derive(Debug)]
pub struct Observed<S> {
    stream: S,
    phases: Phases,
}

impl<S> Observed<S> {
    /// Observes `stream`.
    pub fn new(stream: S, phases: Phases) -> Self {
        Self { stream, phases }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Observed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.phases.bytes_arrived();
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

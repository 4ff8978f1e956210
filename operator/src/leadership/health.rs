//! Serves `/metrics`, `/healthz` and `/readyz` over plain HTTP.

use crate::leadership::lease::Leadership;
use crate::leadership::watches::Watches;
use crate::observability::metrics::Metrics;
use giveway_serving::{self as serving, Limits, ServerMetrics, Shutdown};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::sync::watch;
use warp::http::StatusCode;
use warp::{Filter, Reply};

/// The input of the readiness check. A standby is ready; a leader is ready when every kind has been listed and no watch
/// is broken.
pub struct Readiness {
    /// Whether this process leads.
    pub leadership: Leadership,
    /// True when every kind has been listed.
    pub synced: watch::Receiver<bool>,
    /// The watches that are failing.
    pub watches: Watches,
}

impl Readiness {
    /// Returns why this process is not ready, or `None` if it is.
    fn lacks(&self) -> Option<String> {
        if !self.leadership.holds() {
            return None;
        }
        if !*self.synced.borrow() {
            return Some("the watches are not synced yet".to_owned());
        }
        self.watches.broken(Instant::now()).map(|why| format!("{why}: nothing is decided"))
    }
}

/// Serves until the process ends.
pub async fn serve(address: SocketAddr, metrics: Metrics, readiness: Readiness) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let readiness = Arc::new(readiness);
    let shown = Arc::clone(&readiness);
    let scrape = serving::metrics::scrape(move || {
        metrics.leads(shown.leadership.holds());
        metrics.watches_failing(shown.watches.failing(Instant::now()));
        metrics.encode()
    });
    let healthz = warp::path!("healthz").map(|| "ok".to_owned());
    let readyz = warp::path!("readyz").map(move || match readiness.lacks() {
        None => warp::reply::with_status("ok".to_owned(), StatusCode::OK),
        Some(why) => warp::reply::with_status(why, StatusCode::SERVICE_UNAVAILABLE),
    });
    let routes = scrape.or(warp::get().and(healthz.or(readyz)).map(Reply::into_response)).unify().boxed();
    // The metrics of this HTTP server itself are not exported.
    serving::serve(
        listener,
        None,
        serving::service(routes),
        Limits::default(),
        Shutdown::default(),
        ServerMetrics::default(),
    )
    .await;
    Ok(())
}

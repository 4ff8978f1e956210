//! `/metrics`, `/healthz` and `/readyz`, over plain HTTP.

use crate::lease::Leadership;
use crate::metrics::Metrics;
use giveway_serving::{self as serving, Limits, ServerMetrics, Shutdown};
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::sync::watch;
use warp::http::StatusCode;
use warp::{Filter, Reply};

/// Serves for as long as the process lives. Ready means: standing by for the lease, or leading with every kind listed.
pub async fn serve(
    address: SocketAddr,
    metrics: Metrics,
    leadership: Leadership,
    synced: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let metrics = warp::path!("metrics").map(move || {
        warp::reply::with_header(
            metrics.encode(),
            "content-type",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )
    });
    let healthz = warp::path!("healthz").map(|| "ok".to_owned());
    let readyz = warp::path!("readyz").map(move || {
        if *synced.borrow() || !leadership.holds() {
            warp::reply::with_status("ok".to_owned(), StatusCode::OK)
        } else {
            warp::reply::with_status("the watches are not synced yet".to_owned(), StatusCode::SERVICE_UNAVAILABLE)
        }
    });
    let routes = warp::get().and(metrics.or(healthz).or(readyz)).map(Reply::into_response).boxed();
    // What the server of the metrics counts is of no interest.
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

//! HTTP: which path does what.

use crate::admission::{Admission, NotReady};
use crate::deadline::Deadline;
use crate::guard::Guard;
use crate::guard::claim::Ledger;
use crate::health::Health;
use crate::lookup::Lookup;
use crate::metrics::Metrics;
use crate::review::ReviewResponse;
use bytes::Bytes;
use giveway_admission::judge::Endpoint;
use giveway_admission::wording::requests::NOT_READY;
use giveway_serving::Arrived;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use warp::filters::BoxedFilter;
use warp::reply::{Response, with_status};
use warp::{Filter, Reply};

/// Returns the routes that the HTTPS port serves for admission: `/mutate`, `/templates`, `/validate`, `/healthz`, `/readyz`. No review
/// takes longer than `longest`.
pub fn admission<L: Lookup>(
    admission: Arc<Admission<L>>,
    health: Health,
    longest: Duration,
) -> BoxedFilter<(Response,)> {
    let answer = |endpoint| {
        let admission = Arc::clone(&admission);
        move |body: Bytes, source, deadline| {
            let admission = Arc::clone(&admission);
            async move { admission.answer(endpoint, &body, source, deadline).await }
        }
    };
    review("mutate", longest, answer(Endpoint::Mutate))
        .or(review("templates", longest, answer(Endpoint::Templates)))
        .unify()
        .or(review("validate", longest, answer(Endpoint::Validate)))
        .unify()
        .or(probes(health))
        .unify()
        .boxed()
}

/// Returns the route that the HTTPS port serves for the guard: `/guard`. No review takes longer than `longest`.
pub fn guard<L: Ledger>(guard: Arc<Guard<L>>, longest: Duration) -> BoxedFilter<(Response,)> {
    review("guard", longest, move |body, _, deadline| {
        let guard = Arc::clone(&guard);
        async move { guard.answer(body, deadline).await }
    })
}

/// Returns the routes of the port without TLS: `/metrics`, `/healthz` and `/readyz`.
pub fn metrics(metrics: Arc<Metrics>, health: Health) -> BoxedFilter<(Response,)> {
    let shown = health.clone();
    let scrape = giveway_serving::metrics::scrape(move || {
        shown.set_metrics(&metrics);
        metrics.encode()
    });
    scrape.or(probes(health)).unify().boxed()
}

/// Returns the routes of the kubelet's probes: `/healthz` (the process is alive) and `/readyz` (the webhook can answer reviews).
fn probes(health: Health) -> BoxedFilter<(Response,)> {
    let alive = health.clone();
    let live = warp::path!("healthz").and(warp::get()).map(move || {
        alive.wait_for_view();
        text("ok\n", StatusCode::OK)
    });
    let ready = warp::path!("readyz").and(warp::get()).map(move || match health.problem() {
        None => text("ok\n", StatusCode::OK),
        Some(problem) => text(format!("{problem}\n"), StatusCode::SERVICE_UNAVAILABLE),
    });
    live.or(ready).unify().boxed()
}

/// Returns the route `POST /path`. It calls `answer` with the body, the client address and the deadline of each request (the API server's
/// timeout, or `longest` if that is shorter), and sends the AdmissionReview that it returns.
fn review<A>(
    path: &'static str,
    longest: Duration,
    answer: impl Fn(Bytes, IpAddr, Deadline) -> A + Clone + Send + Sync + 'static,
) -> BoxedFilter<(Response,)>
where
    A: Future<Output = Result<ReviewResponse, NotReady>> + Send + 'static,
{
    warp::path(path)
        .and(warp::path::end())
        .and(warp::post())
        .and(warp::ext::get::<Arrived>())
        .and(warp::query::raw().or(warp::any().map(String::new)).unify())
        .and(warp::body::bytes())
        .then(move |arrived: Arrived, query: String, body: Bytes| {
            let answer = answer(body, arrived.source, Deadline::from_arrival(arrived.at, Some(&query), longest));
            async move {
                match answer.await {
                    Ok(answer) => json(answer),
                    Err(_) => text(format!("{NOT_READY}\n"), StatusCode::SERVICE_UNAVAILABLE),
                }
            }
        })
        .boxed()
}

/// Returns the HTTP response with this AdmissionReview, in JSON, as its body.
fn json(answer: ReviewResponse) -> Response {
    let kind = HeaderValue::from_static("application/json");
    warp::reply::with_header(answer.into_bytes(), CONTENT_TYPE, kind).into_response()
}

/// Returns an HTTP response with this status and plain text.
fn text(message: impl Into<String>, status: StatusCode) -> Response {
    with_status(message.into(), status).into_response()
}

//! HTTP: which path does what.

use crate::admission::{Admission, NotReady};
use crate::body::{Body, BodyError, BodyLimits, Budget};
use crate::deadline::Deadline;
use crate::guard::Guard;
use crate::guard::claim::Ledger;
use crate::health::Health;
use crate::lookup::Lookup;
use crate::metrics::Metrics;
use crate::review::Answer;
use giveway_admission::judge::Endpoint;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use std::sync::Arc;
use tokio::time::Instant;
use warp::filters::BoxedFilter;
use warp::reply::{Response, with_status};
use warp::{Filter, Reply};

/// The HTTPS side: `/mutate`, `/templates`, `/validate`, `/healthz`, `/readyz`.
pub fn admission<L: Lookup>(admission: Arc<Admission<L>>, health: Health, budget: &Budget) -> BoxedFilter<(Response,)> {
    let answer = |endpoint| {
        let admission = Arc::clone(&admission);
        move |body: Body, deadline| {
            let admission = Arc::clone(&admission);
            async move { admission.answer(endpoint, &body, deadline).await }
        }
    };
    review("mutate", budget, answer(Endpoint::Mutate))
        .or(review("templates", budget, answer(Endpoint::Templates)))
        .unify()
        .or(review("validate", budget, answer(Endpoint::Validate)))
        .unify()
        .or(probes(health))
        .unify()
        .boxed()
}

/// The HTTPS side of the guard: `/guard`.
pub fn guard<L: Ledger>(guard: Arc<Guard<L>>, budget: &Budget) -> BoxedFilter<(Response,)> {
    review("guard", budget, move |body, deadline| {
        let guard = Arc::clone(&guard);
        async move { guard.answer(body, deadline).await }
    })
}

/// The plain-text side: `/metrics`, `/healthz`, `/readyz`.
pub fn metrics(metrics: Arc<Metrics>, health: Health) -> BoxedFilter<(Response,)> {
    let shown = health.clone();
    let scrape = giveway_serving::metrics::scrape(move || {
        shown.show(&metrics);
        metrics.encode()
    });
    scrape.or(probes(health)).unify().boxed()
}

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

fn review<A>(
    path: &'static str,
    budget: &Budget,
    answer: impl Fn(Body, Deadline) -> A + Clone + Send + Sync + 'static,
) -> BoxedFilter<(Response,)>
where
    A: Future<Output = Result<Answer, NotReady>> + Send,
{
    let budget = budget.clone();
    warp::path(path)
        .and(warp::path::end())
        .and(warp::post())
        .map(Instant::now)
        .and(warp::query::raw().or(warp::any().map(String::new)).unify())
        .and(warp::header::optional::<u64>("content-length"))
        .and(warp::body::stream())
        .then(move |arrival, query: String, length: Option<u64>, body| {
            let deadline = Deadline::from_arrival(arrival, Some(&query));
            let (answer, budget) = (answer.clone(), budget.clone());
            async move {
                let body = match budget.read(length, body, deadline).await {
                    Ok(body) => body,
                    Err(error) => return unread(&error, budget.limits()),
                };
                match answer(body, deadline).await {
                    Ok(answer) => json(answer),
                    Err(_) => text("not yet ready to handle request\n", StatusCode::SERVICE_UNAVAILABLE),
                }
            }
        })
        .boxed()
}

fn unread(error: &BodyError, limits: BodyLimits) -> Response {
    match error {
        BodyError::TooLarge => {
            let message = format!("the body must be no more than {} bytes\n", limits.bytes);
            text(message, StatusCode::PAYLOAD_TOO_LARGE)
        }
        BodyError::TooSlow => text("the body took too long\n", StatusCode::REQUEST_TIMEOUT),
        BodyError::NoRoom => text("too many bytes are in flight: try again\n", StatusCode::SERVICE_UNAVAILABLE),
        BodyError::Broken(error) => text(format!("the body ended early: {error}\n"), StatusCode::BAD_REQUEST),
    }
}

fn json(answer: Answer) -> Response {
    let kind = HeaderValue::from_static("application/json");
    warp::reply::with_header(answer.into_bytes(), CONTENT_TYPE, kind).into_response()
}

fn text(message: impl Into<String>, status: StatusCode) -> Response {
    with_status(message.into(), status).into_response()
}

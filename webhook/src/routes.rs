//! HTTP: which path does what, and the limits of a body.

use crate::admission::{Admission, NotReady};
use crate::deadline::Deadline;
use crate::guard::Guard;
use crate::guard::claim::Ledger;
use crate::judge::Endpoint;
use crate::lookup::Lookup;
use crate::metrics::Metrics;
use crate::review::Answer;
use crate::tls::Certificate;
use crate::watch::SharedView;
use futures::{Stream, StreamExt, pin_mut};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use warp::filters::BoxedFilter;
use warp::reply::{Response, with_status};
use warp::{Buf, Filter, Reply};

/// Limits of a request's body.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// Bytes. API servers accept objects of 3 MiB, and an update carries two of them.
    pub bytes: usize,
    /// How long the body may take.
    pub time: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { bytes: 8 * 1024 * 1024, time: Duration::from_secs(10) }
    }
}

/// Whether the webhook can do its work.
#[derive(Clone, Debug)]
pub struct Health {
    certificate: Arc<Certificate>,
    view: Arc<SharedView>,
}

impl Health {
    /// Ready when a certificate is loaded and the view is complete.
    pub fn new(certificate: Arc<Certificate>, view: Arc<SharedView>) -> Self {
        Self { certificate, view }
    }

    fn ready(&self) -> Response {
        if !self.certificate.is_loaded() {
            return text("no certificate is loaded\n", StatusCode::SERVICE_UNAVAILABLE);
        }
        if !self.view.is_synced() {
            return text("the watches are not synced\n", StatusCode::SERVICE_UNAVAILABLE);
        }
        text("ok\n", StatusCode::OK)
    }
}

/// The HTTPS side: `/mutate`, `/validate`, `/healthz`, `/readyz`.
pub fn admission<L: Lookup>(
    admission: Arc<Admission<L>>,
    health: Health,
    limits: BodyLimits,
) -> BoxedFilter<(Response,)> {
    let answer = |endpoint| {
        let admission = Arc::clone(&admission);
        move |body: Vec<u8>, deadline| {
            let admission = Arc::clone(&admission);
            async move { admission.answer(endpoint, &body, deadline).await }
        }
    };
    review("mutate", limits, answer(Endpoint::Mutate))
        .or(review("validate", limits, answer(Endpoint::Validate)))
        .unify()
        .or(probes(health))
        .unify()
        .boxed()
}

/// The HTTPS side of the guard: `/guard`.
pub fn guard<L: Ledger>(guard: Arc<Guard<L>>, limits: BodyLimits) -> BoxedFilter<(Response,)> {
    review("guard", limits, move |body, deadline| {
        let guard = Arc::clone(&guard);
        async move { guard.answer(body, deadline).await }
    })
}

/// The plain-text side: `/metrics`, `/healthz`, `/readyz`.
pub fn metrics(metrics: Arc<Metrics>, health: Health) -> BoxedFilter<(Response,)> {
    let scrape = warp::path!("metrics").and(warp::get()).map(move || {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        warp::reply::with_header(metrics.encode(), CONTENT_TYPE, kind).into_response()
    });
    scrape.or(probes(health)).unify().boxed()
}

fn probes(health: Health) -> BoxedFilter<(Response,)> {
    let live = warp::path!("healthz").and(warp::get()).map(|| text("ok\n", StatusCode::OK));
    let ready = warp::path!("readyz").and(warp::get()).map(move || health.ready());
    live.or(ready).unify().boxed()
}

fn review<A>(
    path: &'static str,
    limits: BodyLimits,
    answer: impl Fn(Vec<u8>, Deadline) -> A + Clone + Send + Sync + 'static,
) -> BoxedFilter<(Response,)>
where
    A: Future<Output = Result<Answer, NotReady>> + Send,
{
    warp::path(path)
        .and(warp::path::end())
        .and(warp::post())
        .map(Instant::now)
        .and(warp::query::raw().or(warp::any().map(String::new)).unify())
        .and(warp::header::optional::<u64>("content-length"))
        .and(warp::body::stream())
        .then(move |arrival, query: String, length: Option<u64>, body| {
            let deadline = Deadline::from_arrival(arrival, Some(&query));
            let answer = answer.clone();
            async move {
                let body = match read_body(length, body, limits).await {
                    Ok(body) => body,
                    Err(error) => return error.answer(limits),
                };
                match answer(body, deadline).await {
                    Ok(answer) => json(answer),
                    Err(_) => text("not yet ready to handle request\n", StatusCode::SERVICE_UNAVAILABLE),
                }
            }
        })
        .boxed()
}

/// A body that is not read to its end.
enum BodyError {
    TooLarge,
    TooSlow,
    Broken(warp::Error),
}

impl BodyError {
    fn answer(&self, limits: BodyLimits) -> Response {
        match self {
            Self::TooLarge => {
                let message = format!("the body must be no more than {} bytes\n", limits.bytes);
                text(&message, StatusCode::PAYLOAD_TOO_LARGE)
            }
            Self::TooSlow => text("the body took too long\n", StatusCode::REQUEST_TIMEOUT),
            Self::Broken(error) => text(&format!("the body ended early: {error}\n"), StatusCode::BAD_REQUEST),
        }
    }
}

async fn read_body<B: Buf>(
    length: Option<u64>,
    body: impl Stream<Item = Result<B, warp::Error>>,
    limits: BodyLimits,
) -> Result<Vec<u8>, BodyError> {
    let announced = length.map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
    if announced > limits.bytes {
        return Err(BodyError::TooLarge);
    }
    let read = async {
        pin_mut!(body);
        // What was announced is not believed: memory grows with what arrives.
        let mut bytes = Vec::new();
        while let Some(chunk) = body.next().await {
            let mut chunk = chunk.map_err(BodyError::Broken)?;
            if bytes.len() + chunk.remaining() > limits.bytes {
                return Err(BodyError::TooLarge);
            }
            while chunk.has_remaining() {
                let part = chunk.chunk();
                bytes.extend_from_slice(part);
                let taken = part.len();
                chunk.advance(taken);
            }
        }
        Ok(bytes)
    };
    tokio::time::timeout(limits.time, read).await.unwrap_or(Err(BodyError::TooSlow))
}

fn json(answer: Answer) -> Response {
    let kind = HeaderValue::from_static("application/json");
    warp::reply::with_header(answer.into_bytes(), CONTENT_TYPE, kind).into_response()
}

fn text(message: &str, status: StatusCode) -> Response {
    with_status(message.to_owned(), status).into_response()
}

//! Time limits of the API server's responses to lists and watches, and of the duration of a watch. Without them, a
//! watch whose request was lost or whose connection is dead would look like one without changes, and a list without
//! progress would never end.

use http::Request;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::{BoxError, Layer, Service};

/// Time limit for the response to a watch, which starts as soon as the watch is admitted.
pub const WATCH: Duration = Duration::from_secs(5);
/// Time limit for the response to a request for a page of a list: half of the API server's own limit.
pub const LIST: Duration = Duration::from_secs(30);
/// Time limit for a page of a list, including the time to read it.
pub const PAGE: Duration = LIST.saturating_mul(2);
/// Seconds after which the API server is asked to end a watch, which is then resumed: a connection that stays open without
/// data is noticed five seconds later.
pub const STREAM: u32 = 30;

/// Tower layer that adds the limits to a client.
#[derive(Clone, Copy)]
pub struct Patience {
    watch: Duration,
    list: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { watch: WATCH, list: LIST }
    }
}

impl Patience {
    /// Returns how long an API server may take to begin the response to a request with this query string.
    fn limit(self, query: Option<&str>) -> Duration {
        let watch = query.is_some_and(|query| query.split('&').any(|part| part == "watch=true"));
        if watch { self.watch } else { self.list }
    }
}

impl<S> Layer<S> for Patience {
    type Service = Patient<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Patient(inner, *self)
    }
}

/// A client that abandons a request without a response.
#[derive(Clone)]
pub struct Patient<S>(S, Patience);

impl<S, B> Service<Request<B>> for Patient<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let limit = self.1.limit(request.uri().query());
        let answer = self.0.call(request);
        Box::pin(async move {
            match tokio::time::timeout(limit, answer).await {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err(format!("the API server has not started its response within {limit:?}").into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower::{ServiceExt as _, service_fn};

    #[tokio::test]
    async fn requests_without_a_response_time_out_watches_earlier_than_lists() {
        let silent = service_fn(|_: Request<()>| std::future::pending::<Result<(), BoxError>>());
        let client = Patience { watch: Duration::from_millis(1), list: Duration::from_millis(2) }.layer(silent);
        for (uri, limit) in [("/api/v1/pods?&watch=true&timeoutSeconds=290", "1ms"), ("/api/v1/pods?limit=500", "2ms")]
        {
            let request = Request::builder().uri(uri).body(()).unwrap();
            let error = client.clone().oneshot(request).await.unwrap_err().to_string();
            assert_eq!(error, format!("the API server has not started its response within {limit}"));
        }
    }
}

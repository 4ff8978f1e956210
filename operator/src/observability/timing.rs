//! Measures every request of a client to the API server, by verb.

use crate::observability::metrics::{Metrics, catalogue};
use http::{Method, Request, Response};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;
use tower::{Layer, Service};

/// A layer that measures the requests of a client.
#[derive(Clone)]
pub struct Timed(pub Metrics);

impl<S> Layer<S> for Timed {
    type Service = TimedService<S>;

    /// Returns a client that passes its requests on to `inner` and measures them.
    fn layer(&self, inner: S) -> Self::Service {
        TimedService { inner, metrics: self.0.clone() }
    }
}

/// A client whose requests are measured.
pub struct TimedService<S> {
    inner: S,
    metrics: Metrics,
}

impl<S, B, A> Service<Request<B>> for TimedService<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    /// Returns whether the inner client is ready for a request.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    /// Passes a request on to the inner client. When it is answered, counts it by verb and status code, and records how long it took.
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (verb, start, metrics) = (verb(request.method()), Instant::now(), self.metrics.clone());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
            metrics.count(&catalogue::REQUESTS, &[verb, code.as_str()]);
            metrics.observe(&catalogue::REQUEST_SECONDS, &[verb], start.elapsed());
            answer
        })
    }
}

/// Returns Kubernetes' verb for the HTTP method of a request, for a label of metrics.
fn verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower::{ServiceExt as _, service_fn};

    #[tokio::test]
    async fn requests_are_counted_by_verb_and_code_and_those_without_an_answer_too() {
        let metrics = Metrics::default();
        let server = service_fn(|request: Request<()>| async move {
            match request.method() {
                &Method::DELETE => Err("no connection"),
                _ => Ok(Response::builder().status(429).body(()).unwrap()),
            }
        });
        let client = Timed(metrics.clone()).layer(server);
        let request = |method| Request::builder().method(method).body(()).unwrap();
        let mut client = client.boxed();
        assert!(client.ready().await.unwrap().call(request(Method::POST)).await.is_ok());
        assert!(client.ready().await.unwrap().call(request(Method::DELETE)).await.is_err());
        let text = metrics.encode();
        for line in [
            r#"giveway_operator_api_requests_total{verb="create",code="429"} 1"#,
            r#"giveway_operator_api_requests_total{verb="delete",code="none"} 1"#,
            r#"giveway_operator_api_request_duration_seconds_count{verb="create"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is not in:\n{text}");
        }
    }
}

//! A stand-in for an API server that gives a fixed answer to each method, for tests of calls.

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use std::convert::Infallible;

/// Returns a client of an API server that answers a request with the HTTP code and the body that `answer` returns for its method.
pub(super) fn api_server(answer: impl Fn(&Method) -> (u16, String) + Clone + Send + 'static) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (code, body) = answer(request.method());
        async move { Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap()) }
    });
    Client::new(service, "team")
}

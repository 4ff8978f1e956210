//! A collector of traces: receives OTLP over HTTP as JSON, as the OpenTelemetry Collector does, and keeps the spans for a test.

use anyhow::{Context as _, Result};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A running collector, which ends when the value is dropped.
pub struct Collector {
    url: String,
    spans: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl Collector {
    /// Starts a collector on a free port of this machine.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("a port for the collector")?;
        let url = format!("http://{}/v1/traces", listener.local_addr()?);
        let spans = Arc::default();
        let task = tokio::spawn(accept(listener, Arc::clone(&spans)));
        Ok(Self { url, spans, task })
    }

    /// Returns the URL to which traces are sent.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the received spans, each with the attributes of its resource under `resource`.
    pub fn spans(&self) -> Vec<Value> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, spans: Arc<Mutex<Vec<Value>>>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let spans = Arc::clone(&spans);
        let service = service_fn(move |request| take(request, Arc::clone(&spans)));
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn take(request: Request<Incoming>, spans: Arc<Mutex<Vec<Value>>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let right = request.method() == "POST"
        && request.uri().path() == "/v1/traces"
        && request.headers().get("content-type").is_some_and(|kind| kind == "application/json");
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let answer = match serde_json::from_slice::<Value>(&body) {
        Ok(told) if right => {
            let mut spans = spans.lock().unwrap_or_else(PoisonError::into_inner);
            for resource in told["resourceSpans"].as_array().into_iter().flatten() {
                let scopes = resource["scopeSpans"].as_array().into_iter().flatten();
                for span in scopes.flat_map(|scope| scope["spans"].as_array().into_iter().flatten()) {
                    let mut span = span.clone();
                    span["resource"] = resource["resource"]["attributes"].clone();
                    spans.push(span);
                }
            }
            Response::new(Full::from("{}"))
        }
        _ => {
            let mut answer = Response::new(Full::from("{}"));
            *answer.status_mut() = hyper::StatusCode::BAD_REQUEST;
            answer
        }
    };
    Ok(answer)
}

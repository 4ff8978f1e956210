//! As much of an API server as the page needs: lists in pages, and watches, of which that of pods has changes.

use super::objects;
use futures::{Stream, StreamExt as _, stream};
use giveway_cluster::watch::permitted::LIFETIME;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::broadcast;

/// Duration of a watch, as the page asks for it.
const WATCH: Duration = Duration::from_secs(LIFETIME as u64);

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The objects as text, by the plural of their kind.
type Texts = BTreeMap<&'static str, Vec<String>>;

pub struct ApiServer {
    pub url: String,
    changes: broadcast::Sender<String>,
    version: AtomicU64,
}

impl ApiServer {
    /// Starts it on a free port.
    pub async fn start(objects: BTreeMap<&'static str, Vec<Value>>) -> Self {
        let text = |objects: Vec<Value>| objects.iter().map(Value::to_string).collect();
        let texts: Arc<Texts> = Arc::new(objects.into_iter().map(|(plural, all)| (plural, text(all))).collect());
        let (changes, _) = broadcast::channel(1024);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let sender = changes.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (texts, sender) = (Arc::clone(&texts), sender.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let answer = answer(&texts, &sender, &request);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(async move {
                    // A watch that the client ends early needs no report.
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { url, changes, version: AtomicU64::new(10) }
    }

    /// Lets a pod end or run again, if pods are watched now.
    pub fn change_a_pod(&self) {
        let version = self.version.fetch_add(1, Ordering::Relaxed);
        let phase = if version.is_multiple_of(2) { "Succeeded" } else { "Running" };
        let event = json!({"type": "MODIFIED", "object": objects::running(0, phase, version)});
        let _ = self.changes.send(format!("{event}\n"));
    }
}

fn answer(texts: &Texts, changes: &broadcast::Sender<String>, request: &Request<Incoming>) -> Response<Body> {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let plural = path.rsplit('/').next().unwrap_or_default();
    // Which versions of native groups are served: none is.
    if plural.starts_with('v') && path.starts_with("/apis/scheduling.k8s.io/") {
        let status =
            json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not served"});
        let mut response = Response::new(text(status.to_string()));
        *response.status_mut() = hyper::StatusCode::NOT_FOUND;
        return response;
    }
    if query.contains("watch=true") {
        return Response::new(match plural {
            "pods" => watch(lines(changes.subscribe())),
            _ => watch(stream::pending()),
        });
    }
    let of = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.parse::<usize>().ok());
    let items = texts.get(plural).map(Vec::as_slice).unwrap_or_default();
    let (from, limit) = (of("continue=").unwrap_or(0), of("limit=").unwrap_or(usize::MAX));
    let end = from.saturating_add(limit).min(items.len());
    let page = items.get(from..end).unwrap_or_default();
    let rest = if end < items.len() { end.to_string() } else { String::new() };
    let metadata = json!({"resourceVersion": "1", "continue": rest});
    let list = format!(r#"{{"kind":"List","apiVersion":"v1","metadata":{metadata},"items":[{}]}}"#, page.join(","));
    Response::new(text(list))
}

fn text(text: String) -> Body {
    Full::new(Bytes::from(text)).boxed_unsync()
}

/// Returns the body of a watch of these lines.
fn watch(lines: impl Stream<Item = String> + Send + 'static) -> Body {
    let frames = lines.map(|line| Ok(Frame::data(Bytes::from(line))));
    StreamBody::new(frames.take_until(Box::pin(tokio::time::sleep(WATCH)))).boxed_unsync()
}

fn lines(changes: broadcast::Receiver<String>) -> impl Stream<Item = String> + Send {
    stream::unfold(changes, |mut changes| async move {
        let line = changes.recv().await.ok()?;
        Some((line, changes))
    })
}

//! As much of an API server as the webhook needs to become ready: lists, watches on which nothing ever happens, and
//! reads of objects that no list has: of a new class, which is found, and of those that are never answered.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpListener;
use warp::http::StatusCode;
use warp::reply::{Response, json as reply_json, with_status};
use warp::{Filter, Reply};

/// Name of a PriorityClass that was created a moment ago: it can be read, and no list has it.
pub const NEW_CLASS: &str = "new-class";
/// Start of the names of objects whose reads are never answered.
pub const SILENT: &str = "silent-";
/// Number of reads that were not answered.
static SILENT_READS: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of reads that were not answered.
#[allow(dead_code, reason = "for the tests of look-ups")]
pub fn silent_reads() -> usize {
    SILENT_READS.load(Ordering::Relaxed)
}

/// Objects by the plural of their kind.
pub type Objects = BTreeMap<&'static str, Vec<Value>>;

/// Starts it on a free port, with these objects.
pub async fn start(objects: Objects) -> SocketAddr {
    let objects = Arc::new(objects);
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    let all = warp::path::full()
        .and(query)
        .map(move |path: warp::path::FullPath, query: String| answer(&objects, path.as_str(), &query));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(warp::serve(all).incoming(listener).run());
    address
}

fn answer(objects: &Objects, path: &str, query: &str) -> Response {
    let plural = path.rsplit('/').next().unwrap_or_default();
    let is_silent = plural.starts_with(SILENT);
    if is_silent {
        SILENT_READS.fetch_add(1, Ordering::Relaxed);
    }
    if is_silent || query.contains("watch=true") {
        return warp::reply::stream(futures::stream::pending::<Result<Vec<u8>, Infallible>>()).into_response();
    }
    let is_list = ["priorityclasses", "podgroups", "workloads", "pods", "poddisruptionbudgets"].contains(&plural);
    if plural == "apis" {
        return reply_json(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})).into_response();
    }
    if plural == NEW_CLASS {
        let class = json!({
            "kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": {"name": NEW_CLASS},
            "value": 1000, "preemptionPolicy": "Never",
        });
        return reply_json(&class).into_response();
    }
    if !is_list {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound",
            "code": 404, "message": "there is nothing",
        });
        return with_status(reply_json(&status), StatusCode::NOT_FOUND).into_response();
    }
    let of = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.parse::<usize>().ok());
    let items = objects.get(plural).map(Vec::as_slice).unwrap_or_default();
    let (from, limit) = (of("continue=").unwrap_or(0), of("limit=").unwrap_or(usize::MAX));
    let page = &items[from.min(items.len())..from.saturating_add(limit).min(items.len())];
    let rest = (from + page.len() < items.len()).then(|| (from + page.len()).to_string());
    let metadata = json!({"resourceVersion": "1", "continue": rest.unwrap_or_default()});
    let items: Vec<String> = page.iter().map(Value::to_string).collect();
    let head = format!(r#"{{"kind":"List","apiVersion":"v1","metadata":{metadata},"items":["#);
    Response::new(format!("{head}{}]}}", items.join(",")).into())
}

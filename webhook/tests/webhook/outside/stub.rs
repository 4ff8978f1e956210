//! As much of an API server as the webhook needs to become ready: lists, watches on which nothing ever happens, and
//! nothing else.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use warp::http::StatusCode;
use warp::reply::{Response, json as reply_json, with_status};
use warp::{Filter, Reply};

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
    if query.contains("watch=true") {
        return warp::reply::stream(futures::stream::pending::<Result<Vec<u8>, Infallible>>()).into_response();
    }
    let is_list = ["priorityclasses", "podgroups", "workloads", "pods", "poddisruptionbudgets"].contains(&plural);
    if plural == "apis" {
        return reply_json(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})).into_response();
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

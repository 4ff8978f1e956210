//! Lists and watches against an API server that answers from a script.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use futures::{StreamExt as _, stream};
use giveway_cluster::objects::DecodedObject;
use giveway_cluster::objects::kinds::BUDGET;
use giveway_cluster::watch::permitted::{FORBIDDEN_RETRY, PermittedReader, PermittedScope};
use giveway_cluster::watch::{Event, KindReader, WatchFailure};
use http::{Request, Response};
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::WatchParams;
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

/// The answer to one request.
struct Answer {
    code: u16,
    text: String,
    /// True if the connection breaks after the text.
    breaks: bool,
    /// True if the response does not end after the text.
    stays: bool,
}

fn answer(text: impl ToString) -> Answer {
    Answer { code: 200, text: text.to_string(), breaks: false, stays: false }
}

/// Requests that were made: path and query.
type Asked = Arc<Mutex<Vec<String>>>;

/// Returns a client whose requests get these answers, each in pieces of 7 bytes.
fn client(answers: Vec<Answer>) -> (Client, Asked) {
    let asked = Asked::default();
    let (requests, answers) = (asked.clone(), Arc::new(Mutex::new(VecDeque::from(answers))));
    let service = tower::service_fn(move |request: Request<Body>| {
        requests.lock().unwrap().push(request.uri().to_string());
        let answer = answers.lock().unwrap().pop_front();
        async move {
            let Answer { code, text, breaks, stays } = answer.ok_or_else(|| io::Error::other("no answer is left"))?;
            let mut pieces: Vec<io::Result<_>> = text
                .as_bytes()
                .chunks(7)
                .map(|piece| Ok(http_body::Frame::data(bytes::Bytes::copy_from_slice(piece))))
                .collect();
            if breaks {
                pieces.push(Err(io::Error::other("connection reset")));
            }
            let rest = if stays { stream::pending().boxed() } else { stream::empty().boxed() };
            let body = StreamBody::new(stream::iter(pieces).chain(rest));
            Ok::<_, io::Error>(Response::builder().status(code).body(body).unwrap())
        }
    });
    (Client::new(service, "default"), asked)
}

/// Returns a reader of ConfigMaps whose requests get these answers.
fn reader(answers: Vec<Answer>) -> (KindReader<DecodedObject<ConfigMap>>, Asked) {
    let (client, asked) = client(answers);
    let params = WatchParams::default().labels("a=b").timeout(30);
    (KindReader::new(Api::all(client), params), asked)
}

fn map(name: &str, version: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "resourceVersion": version.to_string()}})
}

fn page(version: u32, token: &str, items: &[Value]) -> Answer {
    answer(
        json!({"kind": "ConfigMapList", "metadata": {"resourceVersion": version.to_string(), "continue": token}, "items": items}),
    )
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

/// Returns the next event in short.
async fn next(reader: &mut KindReader<DecodedObject<ConfigMap>>) -> String {
    let name = |object: DecodedObject<ConfigMap>| object.0.unwrap().metadata.name.unwrap();
    match reader.next().await {
        Ok(Event::Begun) => "started".to_owned(),
        Ok(Event::Listed(object)) => format!("listed {}", name(object)),
        Ok(Event::Complete) => "complete".to_owned(),
        Ok(Event::Applied(object)) => format!("applied {}", name(object)),
        Ok(Event::Deleted(object)) => format!("deleted {}", name(object)),
        Err(failure) => failure.to_string(),
    }
}

async fn expect(reader: &mut KindReader<DecodedObject<ConfigMap>>, events: &[&str]) {
    for expected in events {
        assert_eq!(next(reader).await, *expected);
    }
}

#[tokio::test]
async fn a_list_of_several_pages_is_continued_by_a_watch_at_the_last_known_version() {
    let bookmark = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"resourceVersion": "12"}});
    let changes = [event("ADDED", &map("c", 8)), event("DELETED", &map("a", 9)), event("BOOKMARK", &bookmark)].concat();
    let answers = vec![
        page(7, "more", &[map("a", 1), map("b", 2)]),
        page(7, "", &[]),
        answer(changes),
        answer(event("MODIFIED", &map("b", 13))),
    ];
    let (mut reader, asked) = reader(answers);
    assert!(reader.is_listing());
    expect(&mut reader, &["started", "listed a", "listed b"]).await;
    assert!(reader.is_listing());
    expect(&mut reader, &["complete", "applied c", "deleted a", "applied b"]).await;
    assert!(!reader.is_listing());
    let asked = asked.lock().unwrap().clone();
    let list = "labelSelector=a%3Db&limit=500";
    assert!(asked[0].contains(list) && !asked[0].contains("resourceVersion"), "a consistent list: {}", asked[0]);
    assert!(asked[1].contains("continue=more"), "{}", asked[1]);
    assert!(asked[2].contains("watch=true") && asked[2].contains("timeoutSeconds=30"), "{}", asked[2]);
    assert!(asked[2].ends_with("resourceVersion=7") && asked[3].ends_with("resourceVersion=12"), "{asked:?}");
}

#[tokio::test]
async fn a_list_that_breaks_off_begins_again() {
    let broken = Answer { breaks: true, ..answer(r#"{"metadata": {}, "items": [{"metadata": {"name": "a"}}, {"meta"#) };
    let short = answer(r#"{"metadata": {}, "items": [{"metadata": {"name": "a"}}, {"meta"#);
    let (mut reader, _) = reader(vec![broken, short, page(7, "", &[map("b", 2)])]);
    expect(&mut reader, &["started", "listed a"]).await;
    assert!(next(&mut reader).await.starts_with("list: "));
    expect(&mut reader, &["started", "listed a", "list: ServiceError: the list ends in the middle of its text"]).await;
    expect(&mut reader, &["started", "listed b", "complete"]).await;
}

#[tokio::test]
async fn everything_is_listed_again_after_changes_were_missed_and_not_after_another_error() {
    let status =
        |code: u16| json!({"kind": "Status", "status": "Failure", "message": "words", "reason": "Why", "code": code});
    let answers = vec![
        page(7, "", &[]),
        Answer { code: 500, ..answer(status(500)) },
        answer(event("ERROR", &status(410))),
        page(9, "", &[]),
        Answer { code: 410, ..answer(status(410)) },
        page(11, "", &[]),
        answer("{\"type\": \"ADDED\", \"object\": [}\n"),
        page(13, "", &[]),
    ];
    let (mut reader, asked) = reader(answers);
    expect(&mut reader, &["started", "complete"]).await;
    assert!(next(&mut reader).await.starts_with("watch: ApiError: words"));
    for _ in 0..3 {
        assert!(next(&mut reader).await.starts_with("watch: changes were missed: "));
        expect(&mut reader, &["started", "complete"]).await;
    }
    let lists = asked.lock().unwrap().iter().filter(|query| !query.contains("watch=true")).count();
    assert_eq!(lists, 4);
}

#[tokio::test]
async fn a_watch_that_ends_at_once_is_an_error() {
    let (mut reader, _) = reader(vec![page(7, "", &[]), answer(""), answer(event("ADDED", &map("a", 8)))]);
    expect(&mut reader, &["started", "complete", "watch: the API server ends it at once", "applied a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_silent_for_longer_than_it_may_last_is_continued() {
    let silent = Answer { stays: true, ..answer(event("ADDED", &map("a", 8))) };
    let (mut reader, asked) = reader(vec![page(7, "", &[]), silent, answer(event("DELETED", &map("a", 9)))]);
    expect(&mut reader, &["started", "complete", "applied a"]).await;
    expect(&mut reader, &["watch: the API server sent nothing for 35s and did not end it", "deleted a"]).await;
    assert!(asked.lock().unwrap()[2].ends_with("resourceVersion=8"));
}

#[tokio::test]
async fn a_kind_that_is_not_served_is_distinguished_from_other_errors() {
    let (mut reader, _) = reader(vec![
        Answer { code: 404, ..answer("404 page not found\n") },
        Answer { code: 503, ..answer("no endpoints") },
        answer("not JSON"),
    ]);
    let failure = reader.next().await.unwrap_err();
    assert!(failure.is_unserved(), "{failure}");
    let failure = reader.next().await.unwrap_err();
    assert!(!failure.is_unserved() && failure.to_string().contains("no endpoints"), "{failure}");
    expect(&mut reader, &["started"]).await;
    assert!(matches!(reader.next().await, Err(WatchFailure::List(_))));
}

/// Returns the response of an error.
fn refused(code: u16) -> Answer {
    Answer {
        code,
        ..answer(json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "Why", "code": code}))
    }
}

fn forbidden() -> Answer {
    refused(403)
}

/// Returns a watch that delivers this text and does not end.
fn open_watch(text: &str) -> Answer {
    Answer { stays: true, ..answer(text) }
}

/// Returns a reader of budgets, in the namespace `team` if those of the cluster are forbidden.
fn permitted(answers: Vec<Answer>) -> (PermittedReader, Asked) {
    let (client, asked) = client(answers);
    let namespace = Some("team".to_owned());
    (PermittedReader::new(client, &BUDGET, namespace, WatchParams::default()), asked)
}

/// Returns the next event in short, with the scope after it.
async fn next_permitted(reader: &mut PermittedReader) -> (String, PermittedScope) {
    let name = |object: Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let event = match reader.next().await {
        Ok(Event::Begun) => "started".to_owned(),
        Ok(Event::Listed(object)) => format!("listed {}", name(object)),
        Ok(Event::Complete) => "complete".to_owned(),
        Ok(Event::Applied(object)) => format!("applied {}", name(object)),
        Ok(Event::Deleted(object)) => format!("deleted {}", name(object)),
        Err(failure) if failure.is_forbidden() => "forbidden".to_owned(),
        Err(failure) => failure.to_string(),
    };
    (event, reader.scope())
}

async fn expect_permitted(reader: &mut PermittedReader, scope: PermittedScope, events: &[&str]) {
    for expected in events {
        assert_eq!(next_permitted(reader).await, ((*expected).to_owned(), scope));
    }
}

/// Returns the paths of the requests, with `watch` for a watch.
fn paths(asked: &Asked) -> Vec<String> {
    let root = "/apis/policy/v1/";
    let asked = asked.lock().unwrap();
    let path = |request: &String| {
        let (path, query) = request.split_once('?').unwrap();
        let watch = if query.contains("watch=true") { " watch" } else { "" };
        format!("{}{watch}", path.split_once(root).unwrap().1)
    };
    asked.iter().map(path).collect()
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_in_the_cluster_is_read_in_one_namespace_until_it_may() {
    let again = page(9, "", &[map("c", 1)]);
    let answers = vec![forbidden(), page(7, "", &[map("a", 1)]), open_watch(&event("ADDED", &map("b", 8))), again];
    let (mut reader, asked) = permitted(answers);
    expect_permitted(&mut reader, PermittedScope::Namespace, &["started", "listed a", "complete", "applied b"]).await;
    // A watch that lasts as long as it was asked to be is continued, and here it is silent for longer.
    let failure = next_permitted(&mut reader).await.0;
    assert_eq!(failure, "watch: the API server sent nothing for 35s and did not end it");
    tokio::time::advance(FORBIDDEN_RETRY).await;
    expect_permitted(&mut reader, PermittedScope::Cluster, &["started", "listed c", "complete"]).await;
    let (all, own) = ("poddisruptionbudgets", "namespaces/team/poddisruptionbudgets");
    assert_eq!(paths(&asked), [all, own, "namespaces/team/poddisruptionbudgets watch", all]);
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_granted_is_noticed_after_a_while() {
    let answers = vec![
        forbidden(),
        forbidden(),
        forbidden(),
        forbidden(),
        page(9, "", &[map("c", 1)]),
        open_watch(&event("DELETED", &map("c", 10))),
    ];
    let (mut reader, asked) = permitted(answers);
    let started = tokio::time::Instant::now();
    expect_permitted(&mut reader, PermittedScope::Nothing, &["forbidden", "forbidden"]).await;
    expect_permitted(&mut reader, PermittedScope::Cluster, &["started", "listed c", "complete", "deleted c"]).await;
    assert!(started.elapsed() >= 2 * FORBIDDEN_RETRY, "{:?}", started.elapsed());
    let (all, own) = ("poddisruptionbudgets", "namespaces/team/poddisruptionbudgets");
    assert_eq!(paths(&asked), [all, own, all, own, all, "poddisruptionbudgets watch"]);
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_revoked_ends_the_watch_and_narrows_the_list() {
    let answers = vec![
        page(7, "", &[map("a", 1)]),
        answer(event("ADDED", &map("b", 8))),
        forbidden(),
        forbidden(),
        page(9, "", &[]),
        forbidden(),
        forbidden(),
    ];
    let (mut reader, asked) = permitted(answers);
    expect_permitted(
        &mut reader,
        PermittedScope::Cluster,
        &["started", "listed a", "complete", "applied b", "forbidden"],
    )
    .await;
    expect_permitted(&mut reader, PermittedScope::Namespace, &["started", "complete", "forbidden"]).await;
    expect_permitted(&mut reader, PermittedScope::Nothing, &["forbidden"]).await;
    let (all, own) = ("poddisruptionbudgets", "namespaces/team/poddisruptionbudgets");
    let watches = [format!("{all} watch"), format!("{own} watch")];
    assert_eq!(paths(&asked), [all, &watches[0], &watches[0], all, own, &watches[1], own]);
    assert!(asked.lock().unwrap()[1].contains("timeoutSeconds=30"), "rights are checked again after 30 s");
}

#[tokio::test(start_paused = true)]
async fn an_outage_while_nothing_may_be_read_is_reported_and_ends() {
    let unavailable = Answer { code: 503, ..answer("no endpoints") };
    let (mut reader, _) = permitted(vec![forbidden(), forbidden(), unavailable, forbidden(), forbidden()]);
    expect_permitted(&mut reader, PermittedScope::Nothing, &["forbidden"]).await;
    let (failure, scope) = next_permitted(&mut reader).await;
    assert!(failure.contains("no endpoints") && scope == PermittedScope::Nothing, "{failure}");
    assert!(!reader.resume().await.unwrap(), "nothing is watched");
    let before = tokio::time::Instant::now();
    expect_permitted(&mut reader, PermittedScope::Nothing, &["forbidden"]).await;
    assert!(before.elapsed() < FORBIDDEN_RETRY, "what was not answered is requested at once");
}

#[tokio::test]
async fn a_kind_that_is_not_served_any_more_is_listed_again() {
    let (mut reader, _) = permitted(vec![page(7, "", &[]), refused(404), refused(404)]);
    expect_permitted(&mut reader, PermittedScope::Cluster, &["started", "complete"]).await;
    assert!(matches!(reader.next().await, Err(WatchFailure::Watch(_))));
    assert!(reader.next().await.unwrap_err().is_unserved());
}

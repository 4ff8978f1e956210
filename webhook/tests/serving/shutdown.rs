//! The end of a server: requests that have begun are answered, others are not accepted.

use crate::client::*;
use giveway_webhook::deadline::Deadline;
use giveway_webhook::lookup::Lookup;
use giveway_webhook::routes::BodyLimits;
use giveway_webhook::server::Limits;
use giveway_webhook::verdict::Reference;
use giveway_webhook::view::Found;
use giveway_webhook::watch::SharedView;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Holds every request that names something unknown until it is told to go on.
#[derive(Clone, Default)]
struct Gate {
    arrived: Arc<Notify>,
    go_on: Arc<Notify>,
}

impl Lookup for Gate {
    async fn fetch(&self, _: &BTreeSet<Reference>, _: Deadline) -> Found {
        self.arrived.notify_one();
        self.go_on.notified().await;
        Found::default()
    }
}

const UNKNOWN_CLASS: &[u8] = br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-2","resource":{"group":"","resource":"pods"},"operation":"CREATE","namespace":"a","object":{"spec":{"priorityClassName":"new"}}}}"#;

async fn server_with_a_request_in_flight(
    drain: Duration,
) -> (Server, Gate, tokio_rustls::client::TlsStream<TcpStream>) {
    let gate = Gate::default();
    let limits = Limits { drain, ..Limits::default() };
    let server = Server::with(limits, BodyLimits::default(), SharedView::complete(view()), gate.clone()).await;
    let mut stream = server.connect().await;
    send(&mut stream, "POST /mutate", UNKNOWN_CLASS).await;
    gate.arrived.notified().await;
    (server, gate, stream)
}

#[tokio::test]
async fn a_request_that_has_begun_is_answered_and_idle_connections_are_closed() {
    let (server, gate, mut busy) = server_with_a_request_in_flight(PATIENCE).await;
    let mut idle = server.connect().await;
    send(&mut idle, "GET /healthz", b"").await;
    read_response(&mut idle).await;

    server.shutdown.drain.cancel();
    until_closed(&mut idle).await;
    wait_for("new connections are refused", async || TcpStream::connect(server.address).await.is_err()).await;
    assert!(!server.task.is_finished(), "a request is still being answered");

    gate.go_on.notify_one();
    let (status, body) = read_response(&mut busy).await;
    assert_eq!(status, 200);
    assert!(body.contains(r#""uid":"u-2""#), "{body}");
    tokio::time::timeout(PATIENCE, server.task).await.expect("the server ends after the last answer").unwrap();
}

#[tokio::test]
async fn after_the_deadline_the_server_ends_without_the_answer() {
    let (server, _gate, mut busy) = server_with_a_request_in_flight(Duration::from_millis(200)).await;
    server.shutdown.drain.cancel();
    tokio::time::timeout(PATIENCE, server.task).await.expect("the server ends at its deadline").unwrap();
    let (_, bytes) = until_closed(&mut busy).await;
    assert!(bytes.is_empty());
}

#[tokio::test]
async fn a_second_signal_ends_the_server_at_once() {
    let (server, _gate, mut busy) = server_with_a_request_in_flight(Duration::from_secs(3600)).await;
    server.shutdown.drain.cancel();
    server.shutdown.abort.cancel();
    tokio::time::timeout(PATIENCE, server.task).await.expect("the server ends at once").unwrap();
    until_closed(&mut busy).await;
}

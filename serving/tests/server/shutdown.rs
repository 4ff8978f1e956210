//! Shutdown of a server: requests that have started are answered, new connections are not accepted.

use crate::client::*;
use giveway_serving::Limits;
use std::time::Duration;
use tokio::net::TcpStream;

#[tokio::test]
async fn a_started_request_is_answered_and_idle_connections_are_closed() {
    let server = Server::start(Limits::default()).await;
    let mut busy = server.busy().await;
    let mut idle = server.idle().await;
    server.shutdown.drain.cancel();
    until_closed(&mut idle).await;
    assert!(TcpStream::connect(server.address).await.is_err(), "new connections are refused");
    assert!(!server.task.is_finished(), "a request is still being answered");
    server.go_on.notify_one();
    assert_eq!(read_answer(&mut busy).await, "waited");
    tokio::time::timeout(PATIENCE, server.task).await.expect("the server ends after the last answer").unwrap();
}

#[tokio::test]
async fn a_connection_in_use_is_closed_by_its_next_answer_and_an_idle_one_after_a_while() {
    let server = Server::start(Limits { linger: Duration::from_millis(500), ..Limits::default() }).await;
    let (mut used, mut idle) = (server.idle().await, server.idle().await);
    server.shutdown.drain.cancel();
    until_refused(&server).await;
    ask(&mut used, "/ok").await;
    let (_, answer) = until_closed(&mut used).await;
    let answer = String::from_utf8(answer).unwrap().to_lowercase();
    assert!(answer.contains("connection: close") && answer.ends_with("ok"), "{answer}");
    let (waited, bytes) = until_closed(&mut idle).await;
    assert!(bytes.is_empty() && waited < PATIENCE, "{waited:?}");
    tokio::time::timeout(PATIENCE, server.task).await.expect("the server ends after the last connection").unwrap();
}

#[tokio::test]
async fn after_the_deadline_the_server_ends_without_the_answer() {
    let server = Server::start(Limits { drain: Duration::from_millis(200), ..Limits::default() }).await;
    let mut busy = server.busy().await;
    server.shutdown.drain.cancel();
    tokio::time::timeout(PATIENCE, server.task).await.expect("the server ends at its deadline").unwrap();
    let (_, bytes) = until_closed(&mut busy).await;
    assert!(bytes.is_empty());
}

#[tokio::test]
async fn a_second_signal_ends_the_server_at_once() {
    let server = Server::start(Limits { drain: Duration::from_secs(3600), ..Limits::default() }).await;
    let mut busy = server.busy().await;
    server.shutdown.drain.cancel();
    server.shutdown.abort.cancel();
    tokio::time::timeout(PATIENCE, server.task).await.expect("the server ends at once").unwrap();
    until_closed(&mut busy).await;
}

//! Clients that announce bodies and do not send them.

use crate::client::*;
use giveway_serving::Limits;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};

const KIB: usize = 1024;

/// Sends a complete request with a body of this length on a connection of its own, and expects its answer.
async fn complete(server: &Server, length: usize) {
    let mut stream = server.connect().await;
    post(&mut stream, "/length", length, &vec![b'x'; length]).await;
    assert_eq!(read_answer(&mut stream).await, length.to_string());
}

/// Returns a connection from another address of this machine.
async fn connect_from(server: &Server, source: Ipv4Addr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((source, 0).into()).unwrap();
    socket.connect(server.address).await.unwrap()
}

/// Waits until this many bytes are reserved for bodies.
async fn until_reserved(server: &Server, bytes: usize) {
    let reserved = async {
        while server.metrics.body_bytes.get() != i64::try_from(bytes).unwrap() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reserved).await.expect("the memory is not reserved in time");
}

#[tokio::test]
async fn complete_requests_are_answered_while_many_others_of_the_same_address_send_no_body() {
    let limits = Limits { connections: 64, unfinished: 16, arrival: Duration::from_secs(60), ..Limits::default() };
    let server = Server::start(limits).await;
    let mut flood = Vec::new();
    for _ in 0..200 {
        let mut stream = server.connect().await;
        post(&mut stream, "/length", 64 * KIB, b"").await;
        flood.push(stream);
    }
    for length in [5, 500, 20 * KIB, 200 * KIB] {
        complete(&server, length).await;
    }
    // A body that is not sent uses no memory.
    until_reserved(&server, 0).await;
    assert!(server.metrics.connections.get() >= 16, "others still wait for their bodies");
    until_closed(&mut flood[0]).await;
}

#[tokio::test]
async fn stalled_bodies_of_one_address_leave_memory_for_other_addresses() {
    let forever = Duration::from_secs(3600);
    let limits = Limits { memory: 400 * KIB, body: 200 * KIB, stall: forever, arrival: forever, ..Limits::default() };
    let server = Server::start(limits).await;
    let mut stalled = Vec::new();
    for _ in 0..4 {
        let mut stream = connect_from(&server, Ipv4Addr::new(127, 0, 0, 2)).await;
        post(&mut stream, "/length", 200 * KIB, &vec![b'x'; 40 * KIB]).await;
        stalled.push(stream);
    }
    until_reserved(&server, 200 * KIB).await;
    complete(&server, 150 * KIB).await;
    assert_eq!(server.metrics.bodies_without_room.get(), 0);
}

#[tokio::test]
async fn a_stalled_body_loses_its_memory_to_a_complete_one_of_the_same_address() {
    let stall = Duration::from_millis(300);
    let limits = Limits { memory: 200 * KIB, body: 200 * KIB, stall, ..Limits::default() };
    let server = Server::start(limits).await;
    let mut stalled = server.connect().await;
    post(&mut stalled, "/length", 200 * KIB, &vec![b'x'; 40 * KIB]).await;
    until_reserved(&server, 200 * KIB).await;
    complete(&server, 150 * KIB).await;
    let (_, bytes) = until_closed(&mut stalled).await;
    assert!(bytes.is_empty());
    until_reserved(&server, 0).await;
}

#[tokio::test]
async fn complete_bodies_keep_their_memory_and_the_next_one_is_rejected_when_it_gets_none_in_time() {
    let arrival = Duration::from_millis(600);
    let limits = Limits { memory: 200 * KIB, body: 200 * KIB, arrival, ..Limits::default() };
    let server = Server::start(limits).await;
    let mut first = server.connect().await;
    post(&mut first, "/wait", 150 * KIB, &vec![b'x'; 150 * KIB]).await;
    server.arrived.notified().await;
    assert_eq!(server.metrics.body_bytes.get(), 150 * 1024);
    let mut second = server.connect().await;
    post(&mut second, "/length", 100 * KIB, &vec![b'x'; 40 * KIB]).await;
    assert_eq!(read_answer(&mut second).await, "too many bytes are in flight: try again\n");
    assert_eq!(server.metrics.bodies_without_room.get(), 1);
    server.go_on.notify_one();
    assert_eq!(read_answer(&mut first).await, "waited");
    complete(&server, 200 * KIB).await;
}

#[tokio::test]
async fn a_body_that_is_sent_slowly_or_exceeds_its_limit_is_answered_with_the_reason() {
    let limits = Limits { body: 100 * KIB, arrival: Duration::from_millis(600), ..Limits::default() };
    let server = Server::start(limits).await;
    let mut slow = server.connect().await;
    post(&mut slow, "/length", 100, b"abc").await;
    assert_eq!(read_answer(&mut slow).await, "the body took too long\n");
    let mut large = server.connect().await;
    post(&mut large, "/length", 101 * KIB, b"").await;
    assert_eq!(read_answer(&mut large).await, "the body must be no more than 102400 bytes\n");
}

//! More clients than connection slots.

use crate::client::*;
use giveway_serving::Limits;
use giveway_serving::connections::GRACE;
use std::time::Duration;

fn limits(connections: usize) -> Limits {
    Limits { connections, ..Limits::default() }
}

#[tokio::test]
async fn when_all_slots_are_in_use_only_the_longest_idle_connection_is_closed() {
    let server = Server::start(limits(3)).await;
    let (mut first, mut second) = (server.idle().await, server.idle().await);
    let mut busy = server.busy().await;
    assert_eq!(answer(&mut second, "/ok").await, "ok");
    assert_eq!(answer(&mut server.connect().await, "/ok").await, "ok", "the new one is served");
    until_closed(&mut first).await;
    assert_eq!(answer(&mut second, "/ok").await, "ok", "the one that was used later stays");
    server.go_on.notify_one();
    assert_eq!(read_answer(&mut busy).await, "waited", "and so does the one that was being answered");
    assert_eq!(server.metrics.closed_for_room.get(), 1);
}

#[tokio::test]
async fn many_silent_connections_do_not_block_other_clients() {
    let server = Server::start(limits(4)).await;
    let mut strangers = Vec::new();
    for _ in 0..40 {
        strangers.push(server.connect().await);
    }
    // Silent connections are closed after 10 s; a client that sends a request is served long before.
    let served = tokio::time::timeout(Duration::from_secs(5), async {
        let mut stream = server.connect().await;
        answer(&mut stream, "/ok").await
    });
    let most = GRACE * u32::try_from(strangers.len()).unwrap();
    assert!(most > Duration::from_secs(5), "not because all of them were waited for");
    assert_eq!(served.await.expect("served in time"), "ok");
}

#[tokio::test]
async fn if_all_connections_are_busy_a_new_one_waits_for_an_idle_one() {
    let server = Server::start(limits(1)).await;
    let mut busy = server.busy().await;
    let mut next = server.connect().await;
    ask(&mut next, "/ok").await;
    let waited = tokio::time::timeout(Duration::from_millis(300), read_answer(&mut next)).await;
    assert!(waited.is_err(), "not served while the only slot is busy");
    server.go_on.notify_one();
    assert_eq!(read_answer(&mut busy).await, "waited");
    assert_eq!(read_answer(&mut next).await, "ok", "served as soon as the first one is idle");

    let busy = server.busy().await;
    let mut last = server.connect().await;
    ask(&mut last, "/ok").await;
    drop(busy);
    server.go_on.notify_one();
    assert_eq!(read_answer(&mut last).await, "ok", "served as soon as the first one is closed");
}

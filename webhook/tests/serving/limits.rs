//! Slow, silent, oversized and superfluous clients.

use crate::client::*;
use giveway_webhook::routes::BodyLimits;
use giveway_webhook::server::Limits;
use giveway_webhook::watch::SharedView;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn reviews_and_probes_are_answered_and_everything_else_is_not_found() {
    let server = Server::start(Limits::default(), BodyLimits::default()).await;
    for path in ["/mutate", "/validate"] {
        let (status, body) = server.request(&format!("POST {path}"), REVIEW).await;
        assert_eq!(status, 200);
        assert!(body.contains(r#""allowed":true"#) && body.contains(r#""uid":"u-1""#), "{body}");
        let (status, body) = server.request(&format!("POST {path}"), b"not a review").await;
        assert_eq!(status, 200, "a refusal is a review, not an HTTP error");
        assert!(body.contains(r#""allowed":false"#) && body.contains("the body is not JSON"), "{body}");
    }
    assert_eq!(server.request("GET /healthz", b"").await, (200, "ok\n".to_owned()));
    assert_eq!(server.request("GET /readyz", b"").await, (200, "ok\n".to_owned()));
    for (head, status) in [("GET /", 404), ("POST /mutate/x", 404), ("GET /mutate", 405), ("GET /metrics", 404)] {
        assert_eq!(server.request(head, b"").await.0, status, "{head}");
    }
}

#[tokio::test]
async fn before_the_watches_are_synced_the_server_is_not_ready_and_judges_nothing() {
    let view = SharedView::new(view().settings);
    let server = Server::with(Limits::default(), BodyLimits::default(), view, giveway_webhook::lookup::NoLookup).await;
    assert_eq!(server.request("GET /healthz", b"").await.0, 200);
    assert_eq!(server.request("GET /readyz", b"").await, (503, "the watches are not synced\n".to_owned()));
    let (status, body) = server.request("POST /mutate", REVIEW).await;
    assert_eq!((status, body.as_str()), (503, "not yet ready to handle request\n"));
}

#[tokio::test]
async fn a_client_that_does_not_finish_the_handshake_is_cut() {
    let server = Server::start(Limits { handshake: SHORT, ..Limits::default() }, BodyLimits::default()).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let (took, bytes) = until_closed(&mut silent).await;
    assert!(took >= SHORT - Duration::from_millis(50), "{took:?}");
    assert!(bytes.is_empty());
    let mut garbage = TcpStream::connect(server.address).await.unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    until_closed(&mut garbage).await;
    assert!(server.metrics.encode().contains("giveway_webhook_handshake_failures_total 2"));
    assert_eq!(server.request("GET /healthz", b"").await.0, 200);
}

#[tokio::test]
async fn slow_headers_are_cut_however_steadily_they_drip() {
    let server = Server::start(Limits { head: SHORT, ..Limits::default() }, BodyLimits::default()).await;
    let stream = server.connect().await;
    let (mut read, mut write) = tokio::io::split(stream);
    let drip = tokio::spawn(async move {
        let mut tick = tokio::time::interval(SHORT / 10);
        write.write_all(b"POST /mutate HTTP/1.1\r\nx: ").await.unwrap();
        loop {
            tick.tick().await;
            if write.write_all(b"y").await.is_err() || write.flush().await.is_err() {
                return;
            }
        }
    });
    let (took, _) = until_closed(&mut read).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    drip.abort();
}

#[tokio::test]
async fn a_silent_connection_is_cut_but_one_that_is_idle_between_requests_is_kept() {
    let limits = Limits { head: SHORT, idle: SHORT * 5, ..Limits::default() };
    let server = Server::start(limits, BodyLimits::default()).await;
    let mut silent = server.connect().await;
    let (took, _) = until_closed(&mut silent).await;
    assert!(took < SHORT * 4, "{took:?}");

    let mut kept = server.connect().await;
    send(&mut kept, "GET /healthz", b"").await;
    assert_eq!(read_response(&mut kept).await.0, 200);
    tokio::time::sleep(SHORT * 2).await;
    send(&mut kept, "POST /mutate", REVIEW).await;
    assert_eq!(read_response(&mut kept).await.0, 200);
    let (took, _) = until_closed(&mut kept).await;
    assert!(took >= SHORT * 4, "closed only after the idle time: {took:?}");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_answered_with_413_announced_or_not() {
    let server = Server::start(Limits::default(), BodyLimits { bytes: 1000, time: PATIENCE }).await;
    let mut announced = server.connect().await;
    announced.write_all(b"POST /mutate HTTP/1.1\r\nhost: h\r\ncontent-length: 1001\r\n\r\n").await.unwrap();
    let answer = read_response(&mut announced).await;
    assert_eq!(answer, (413, "the body must be no more than 1000 bytes\n".to_owned()));

    let mut chunked = server.connect().await;
    chunked.write_all(b"POST /mutate HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
    for _ in 0..3 {
        chunked.write_all(format!("190\r\n{}\r\n", "x".repeat(400)).as_bytes()).await.unwrap();
    }
    assert_eq!(read_response(&mut chunked).await.0, 413);
    assert_eq!(server.request("POST /mutate", &vec![b' '; 1000]).await.0, 200, "1000 bytes are within the limit");
}

#[tokio::test]
async fn a_body_that_takes_too_long_is_answered_with_408() {
    let server = Server::start(Limits::default(), BodyLimits { time: SHORT, ..BodyLimits::default() }).await;
    let mut stream = server.connect().await;
    stream.write_all(b"POST /mutate HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\nabc").await.unwrap();
    assert_eq!(read_response(&mut stream).await, (408, "the body took too long\n".to_owned()));
}

#[tokio::test]
async fn connections_above_the_bound_wait_for_a_place() {
    let server = Server::start(Limits { connections: 1, ..Limits::default() }, BodyLimits::default()).await;
    let first = server.connect().await;
    let mut second = Box::pin(server.connect());
    let waited = tokio::time::timeout(SHORT, &mut second).await;
    assert!(waited.is_err(), "the second connection is not served while the first is open");
    drop(first);
    let mut second = tokio::time::timeout(PATIENCE, second).await.unwrap();
    send(&mut second, "GET /healthz", b"").await;
    assert_eq!(read_response(&mut second).await.0, 200);
}

#[tokio::test]
async fn clients_that_vanish_at_any_point_leave_the_server_working() {
    let server = Server::start(Limits::default(), BodyLimits::default()).await;
    let whole = [&b"POST /mutate HTTP/1.1\r\nhost: h\r\ncontent-length: 208\r\n\r\n"[..], REVIEW].concat();
    for cut in (0..whole.len()).step_by(16) {
        let mut stream = server.connect().await;
        stream.write_all(&whole[..cut]).await.unwrap();
        stream.flush().await.unwrap();
    }
    wait_for("every connection is closed", async || server.metrics.encode().contains("giveway_webhook_connections 0"))
        .await;
    assert_eq!(server.request("POST /mutate", REVIEW).await.0, 200);
}

//! Requests and their bodies: what is answered, how large and how slow one may be.

use super::client::*;
use giveway_serving::Limits;
use giveway_webhook::watch::SharedView;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn reviews_and_probes_are_answered_and_everything_else_is_not_found() {
    let server = Server::start(Limits::default()).await;
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
    let server = Server::with(Limits::default(), view, giveway_webhook::lookup::NoLookup).await;
    assert_eq!(server.request("GET /healthz", b"").await.0, 200);
    assert_eq!(server.request("GET /readyz", b"").await, (503, "the watches are not synced\n".to_owned()));
    let (status, body) = server.request("POST /mutate", REVIEW).await;
    assert_eq!((status, body.as_str()), (503, "not yet ready to handle request\n"));
}

#[tokio::test]
async fn a_body_that_is_too_large_is_answered_with_413_announced_or_not() {
    let server = Server::start(Limits { body: 1000, ..Limits::default() }).await;
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
    let server = Server::start(Limits { arrival: 4 * SHORT, ..Limits::default() }).await;
    let mut stream = server.connect().await;
    stream.write_all(b"POST /mutate HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\nabc").await.unwrap();
    assert_eq!(read_response(&mut stream).await, (408, "the body took too long\n".to_owned()));
}

#[tokio::test]
async fn clients_that_vanish_at_any_point_leave_the_server_working() {
    let server = Server::start(Limits::default()).await;
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

//! Slow and silent clients.

use crate::client::*;
use giveway_serving::Limits;
use rustls::pki_types::PrivateKeyDer;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

const SHORT: Duration = Duration::from_millis(300);

fn acceptor() -> tokio_rustls::TlsAcceptor {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![pair.cert.der().clone()], key).unwrap();
    Arc::new(config).into()
}

#[tokio::test]
async fn a_client_that_does_not_complete_the_handshake_is_disconnected() {
    let server = Server::with(Limits { arrival: SHORT, ..Limits::default() }, Some(acceptor())).await;
    let mut silent = server.connect().await;
    let (took, bytes) = until_closed(&mut silent).await;
    assert!(took >= SHORT - Duration::from_millis(50), "{took:?}");
    assert!(bytes.is_empty());
    let mut garbage = server.connect().await;
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    until_closed(&mut garbage).await;
    assert_eq!(server.metrics.handshake_failures.get(), 2);
}

#[tokio::test]
async fn a_client_that_sends_headers_slowly_is_disconnected() {
    let server = Server::start(Limits { arrival: SHORT, ..Limits::default() }).await;
    let (mut read, mut write) = tokio::io::split(server.connect().await);
    let drip = tokio::spawn(async move {
        let mut tick = tokio::time::interval(SHORT / 10);
        write.write_all(b"GET /ok HTTP/1.1\r\nx: ").await.unwrap();
        while write.write_all(b"y").await.is_ok() {
            tick.tick().await;
        }
    });
    let (took, _) = until_closed(&mut read).await;
    assert!(took < SHORT * 4, "{took:?}");
    drip.abort();
}

#[tokio::test]
async fn a_connection_is_kept_while_it_is_idle_before_its_first_request_and_between_requests() {
    let server = Server::start(Limits { arrival: SHORT, idle: SHORT * 5, ..Limits::default() }).await;
    // An API server may open a connection in advance, and use it later.
    let mut silent = server.connect().await;
    tokio::time::sleep(SHORT * 2).await;
    assert_eq!(answer(&mut silent, "/ok").await, "ok");
    let (took, _) = until_closed(&mut server.connect().await).await;
    assert!(took >= SHORT * 4, "closed only after the idle time: {took:?}");

    let mut kept = server.idle().await;
    tokio::time::sleep(SHORT * 2).await;
    assert_eq!(answer(&mut kept, "/ok").await, "ok");
    let (took, _) = until_closed(&mut kept).await;
    assert!(took >= SHORT * 4, "closed only after the idle time: {took:?}");
}

#[tokio::test]
async fn a_request_that_takes_longer_than_any_limit_of_the_connection_is_answered() {
    let limits = Limits { arrival: SHORT, idle: SHORT, ..Limits::default() };
    let server = Server::start(limits).await;
    let mut busy = server.busy().await;
    tokio::time::sleep(SHORT * 3).await;
    server.go_on.notify_one();
    assert_eq!(read_answer(&mut busy).await, "waited");
}

//! A client without credentials that opens many connections and sends no complete review.

use super::client::*;
use giveway_serving::Limits;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

const KIB: usize = 1024;

/// Opens this many connections, and sends on each the headers of a review with this length and a part of its body. The server
/// may close some of them meanwhile.
async fn flood(server: &Server, connections: usize, length: usize, part: usize) -> Vec<TlsStream<TcpStream>> {
    let head = format!("POST /mutate?timeout=30s HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
    let start = [head.into_bytes(), vec![b' '; part]].concat();
    let mut open = Vec::new();
    for _ in 0..connections {
        let Ok(mut stream) = handshake(server.address, &server.authority).await else { continue };
        if stream.write_all(&start).await.is_ok() && stream.flush().await.is_ok() {
            open.push(stream);
        }
    }
    open
}

/// The review of a pod, with spaces before it.
fn padded(spaces: usize) -> Vec<u8> {
    [vec![b' '; spaces], REVIEW.to_vec()].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_300_reviews_of_one_address_lack_their_bodies_complete_ones_of_the_same_address_are_answered() {
    let server =
        Server::start(Limits { connections: 256, unfinished: 64, arrival: 6 * PATIENCE, ..Limits::default() }).await;
    let _open = flood(&server, 300, 64 * KIB, 0).await;
    for body in [padded(0), padded(20 * KIB), padded(100 * KIB)] {
        for _ in 0..5 {
            // Less than the time for which a review without a body may wait.
            assert_eq!(server.request("POST /mutate?timeout=2s", &body).await.0, 200);
        }
    }
    assert!(server.metrics.server.connections.get() >= 32, "the others still wait for their bodies");
    assert_eq!(server.metrics.server.bodies_without_room.get(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_stops_in_the_middle_of_large_bodies_delays_no_small_review_of_the_same_address() {
    let server = Server::start(Limits { memory: 32 << 20, stall: PATIENCE, ..Limits::default() }).await;
    let _open = flood(&server, 20, 8 << 20, 40 * KIB).await;
    wait_for("memory is reserved", async || server.metrics.server.body_bytes.get() == 8 << 20).await;
    assert_eq!(server.request("POST /mutate?timeout=1s", &padded(20 * KIB)).await.0, 200);
}

//! Clients without credentials that reach the webhook's port: pods of gangs are admitted whatever they send.

use crate::MINUTE;
use crate::guard::metric;
use crate::guard_cost::webhook_port;
use futures::{StreamExt as _, stream};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::future::ready;
use std::io::Result;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            gangs_are_admitted_while_1100_connections_send_no_complete_review;
    ]
}

/// Number of connections without a complete request: more than the webhook serves at once.
const CONNECTIONS: usize = 1100;
/// Number of connections that are being opened at the same time, so that a handshake is not slow only because of the others.
const CONCURRENCY: usize = 16;
/// Open files of the test, and of the webhook that it starts.
const FILES: u64 = 8192;

/// Permits this process, and those that it starts from now on, to open as many files as the system permits, up to [`FILES`].
fn permit_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(FILES, |maximum| maximum.min(FILES));
    if current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).unwrap();
    }
}

/// Connects to the webhook, and sends the headers of a review whose body never follows.
async fn unfinished(tls: TlsConnector, address: SocketAddr) -> Result<TlsStream<TcpStream>> {
    let mut stream = tls.connect(ServerName::from(address.ip()), TcpStream::connect(address).await?).await?;
    stream.write_all(b"POST /mutate?timeout=30s HTTP/1.1\r\nhost: h\r\ncontent-length: 65536\r\n\r\n").await?;
    stream.flush().await?;
    Ok(stream)
}

/// Opens the connections and returns those that the webhook has not closed at once.
async fn flood((address, authority): (SocketAddr, CertificateDer<'static>)) -> Vec<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(authority).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let tls = TlsConnector::from(Arc::new(config));
    let all = stream::iter(0..CONNECTIONS).map(|_| unfinished(tls.clone(), address)).buffer_unordered(CONCURRENCY);
    all.filter_map(|opened| ready(opened.ok())).collect().await
}

/// The connections come from the address of the API server.
async fn gangs_are_admitted_while_1100_connections_send_no_complete_review() {
    permit_open_files();
    // An unfinished request is closed only after 30 s, if no other one needs its place.
    let mut world = World::builder().webhook_flag("--timeout-seconds=30").start().await;
    world.nodes(1).cpus(16).create().await;
    let port = webhook_port(&mut world);
    // The creation of a pod that is rejected ends the test.
    let (open, first) = tokio::join!(flood(port), world.gang("first", 8).create());
    assert!(open.len() > CONNECTIONS / 2, "only {} connections were opened", open.len());
    let second = world.gang("second", 8).create().await;
    let held = metric(&mut world, "giveway_webhook_connections ").await;
    assert!(held >= 200, "only {held} connections were open while the gangs were admitted");
    for gang in [&first, &second] {
        gang.wait_bound(MINUTE).await;
    }
    assert_eq!(metric(&mut world, "giveway_webhook_bodies_without_room_total").await, 0);
    drop(open);
    world.check_promises().await;
}

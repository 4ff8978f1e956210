//! A server on a free port, and a client that sees every byte.

use giveway_admission::view::Settings;
use giveway_serving::{Limits, Shutdown, serve, service};
use giveway_webhook::admission::Admission;
use giveway_webhook::health::Health;
use giveway_webhook::lookup::{Lookup, NoLookup};
use giveway_webhook::metrics::Metrics;
use giveway_webhook::routes;
use giveway_webhook::tls::{Certificate, Directory, acceptor};
use giveway_webhook::view::View;
use giveway_webhook::watch::SharedView;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;

/// How long anything may take in these tests.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Longest time limit of a review.
const LONGEST: Duration = Duration::from_secs(10);

/// A running server with a certificate of its own.
pub struct Server {
    pub address: SocketAddr,
    pub directory: TempDir,
    pub authority: CertificateDer<'static>,
    pub certificate: Arc<Certificate>,
    pub metrics: Arc<Metrics>,
}

pub fn view() -> View {
    View::new(Settings { namespace: "own".into(), manage_new_classes: false, ..Settings::default() })
}

/// Writes a new self-signed pair and returns its certificate.
pub fn write_pair(directory: &Path) -> CertificateDer<'static> {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(directory.join("tls.crt"), pair.cert.pem()).unwrap();
    std::fs::write(directory.join("tls.key"), pair.signing_key.serialize_pem()).unwrap();
    pair.cert.der().clone()
}

pub fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

impl Server {
    pub async fn start(limits: Limits) -> Self {
        Self::with(limits, SharedView::complete(view()), NoLookup).await
    }

    pub async fn with<L: Lookup>(limits: Limits, view: SharedView, lookup: L) -> Self {
        Self::launch(limits, view, lookup, None).await
    }

    /// Starts a server that answers reviews only to clients with a certificate of these authorities.
    pub async fn authenticating(authorities: &Path) -> Self {
        let limits = Limits { authenticated: true, ..Limits::default() };
        Self::launch(limits, SharedView::complete(view()), NoLookup, Some(authorities)).await
    }

    async fn launch<L: Lookup>(limits: Limits, view: SharedView, lookup: L, authorities: Option<&Path>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = write_pair(directory.path());
        let (certificate, view, metrics) =
            (Arc::new(Certificate::default()), Arc::new(view), Arc::new(Metrics::default()));
        let mut files = Directory::new(directory.path().to_owned(), provider(), Arc::clone(&certificate));
        assert!(files.reload().unwrap());
        tokio::spawn(files.follow(Arc::clone(&metrics)));
        let admission = Admission::new(Arc::clone(&view), lookup, Arc::clone(&metrics), Duration::from_millis(50));
        let shutdown = Shutdown::default();
        let health = Health::new(Arc::clone(&certificate), Arc::clone(&view), shutdown.drain.clone());
        health.port_is_bound();
        let service = service(routes::admission(Arc::new(admission), health, LONGEST));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = acceptor(provider(), Arc::clone(&certificate), authorities).unwrap();
        tokio::spawn(serve(listener, Some(acceptor), service, limits, shutdown, metrics.server.clone()));
        Self { address, directory, authority, certificate, metrics }
    }

    pub async fn connect(&self) -> TlsStream<TcpStream> {
        handshake(self.address, &self.authority).await.unwrap()
    }

    /// One request on a connection of its own.
    pub async fn request(&self, head: &str, body: &[u8]) -> (u16, String) {
        let mut stream = self.connect().await;
        send(&mut stream, head, body).await;
        read_response(&mut stream).await
    }
}

pub async fn handshake(
    address: SocketAddr,
    authority: &CertificateDer<'static>,
) -> std::io::Result<TlsStream<TcpStream>> {
    handshake_as(address, authority, None).await
}

/// A client's certificate with its key.
pub type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// Connects as a client that offers this certificate.
pub async fn handshake_as(
    address: SocketAddr,
    authority: &CertificateDer<'static>,
    identity: Option<Identity>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match identity {
        Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
        None => config.with_no_client_auth(),
    };
    let stream = TcpStream::connect(address).await?;
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
}

/// Sends a request line with its headers and a body of announced length.
pub async fn send(stream: &mut TlsStream<TcpStream>, head: &str, body: &[u8]) {
    let head = format!("{head} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    stream.flush().await.unwrap();
}

/// Reads one response: its status and its body.
pub async fn read_response(stream: &mut TlsStream<TcpStream>) -> (u16, String) {
    let read = async {
        let mut bytes = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length =
                    head.lines().find_map(|l| l.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
                let length: usize = length.map_or(0, |l| l.trim().parse().unwrap());
                if body.len() >= length {
                    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
                    return (status, body.to_owned());
                }
            }
            let read = stream.read_buf(&mut bytes).await.unwrap();
            assert!(read > 0, "the connection ended inside a response: {text:?}");
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("no response in time")
}

/// Waits for a condition.
pub async fn wait_for(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("timeout while waiting until {what}"));
}

/// A request that is answered with a refusal, because it is no review.
pub const REVIEW: &[u8] = br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","resource":{"group":"","resource":"pods"},"operation":"CREATE","namespace":"a","object":{"metadata":{"name":"p"}}}}"#;

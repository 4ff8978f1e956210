//! A call that fails is logged once: by the operator, with the object, and not by the client library as well.

use giveway_cluster::client;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, Config};
use std::io::{self, Read as _, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use tracing_subscriber::EnvFilter;

/// The lines of a log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().map_err(|_| io::Error::other("the lock is poisoned"))?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts an API server that answers one request, with 500. Returns a client of it.
fn failing() -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        assert!(connection.read(&mut request).unwrap() > 0);
        let body = r#"{"kind":"Status","status":"Failure","message":"etcdserver: no leader","reason":"InternalError","code":500}"#;
        let head = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nConnection: close\r\n";
        write!(connection, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    });
    let mut config = Config::new(url.parse().unwrap());
    config.default_retry = false;
    // No certificate is needed, and this machine may have none.
    config.root_cert = Some(Vec::new());
    client::builder(config).unwrap().build()
}

/// Returns what is logged with this filter while an API server answers a request with 500, and the caller logs the error.
async fn logged(filter: &str) -> String {
    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    let _log = tracing::subscriber::set_default(log);
    let pods: Api<Pod> = Api::namespaced(failing(), "default");
    let error = pods.get("p").await.unwrap_err();
    tracing::warn!(%error, "the call failed");
    let text = lines.0.lock().unwrap().clone();
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn a_call_that_is_answered_with_500_is_logged_once() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let log = logged("info").await;
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.contains("the call failed") && log.contains("etcdserver: no leader"), "{log}");
    let log = logged("info,giveway_cluster::client=debug").await;
    let is_request = |line: &str| line.contains("requesting method=GET uri=http://");
    assert!(log.lines().any(is_request), "a user can have every request logged: {log}");
}

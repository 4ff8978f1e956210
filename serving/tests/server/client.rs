//! A plain-text server on a free port, and a client that reads raw bytes.

use giveway_serving::{Limits, ServerMetrics, Shutdown, serve, service};
use hyper::body::Bytes;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use warp::{Filter, Reply};

/// Time limit of every step in these tests.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A server with the paths `/ok`, answered at once, `/wait`, answered when [`Server::go_on`] is notified, and `/length`, which
/// returns the length of the body.
pub struct Server {
    pub address: SocketAddr,
    pub arrived: Arc<Notify>,
    pub go_on: Arc<Notify>,
    pub metrics: ServerMetrics,
    pub shutdown: Shutdown,
    pub task: JoinHandle<()>,
}

impl Server {
    pub async fn start(limits: Limits) -> Self {
        Self::with(limits, None).await
    }

    pub async fn with(limits: Limits, tls: Option<TlsAcceptor>) -> Self {
        let (arrived, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (tell, wait) = (Arc::clone(&arrived), Arc::clone(&go_on));
        let ok = warp::path!("ok").map(|| "ok".into_response());
        let slow = warp::path!("wait").then(move || {
            let (tell, wait) = (Arc::clone(&tell), Arc::clone(&wait));
            async move {
                tell.notify_one();
                wait.notified().await;
                "waited".into_response()
            }
        });
        let length =
            warp::path!("length").and(warp::body::bytes()).map(|body: Bytes| body.len().to_string().into_response());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (shutdown, metrics) = (Shutdown::default(), ServerMetrics::default());
        let service = service(ok.or(slow).unify().or(length).unify().boxed());
        let task = tokio::spawn(serve(listener, tls, service, limits, shutdown.clone(), metrics.clone()));
        Self { address, arrived, go_on, metrics, shutdown, task }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Returns a connection with a request in progress.
    pub async fn busy(&self) -> TcpStream {
        let mut stream = self.connect().await;
        ask(&mut stream, "/wait").await;
        self.arrived.notified().await;
        stream
    }

    /// Returns an idle connection that has been used.
    pub async fn idle(&self) -> TcpStream {
        let mut stream = self.connect().await;
        assert_eq!(answer(&mut stream, "/ok").await, "ok");
        stream
    }
}

pub async fn ask(stream: &mut TcpStream, path: &str) {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n").as_bytes()).await.unwrap();
}

/// Sends a request that announces a body of this length, and these bytes of it.
pub async fn post(stream: &mut TcpStream, path: &str, length: usize, body: &[u8]) {
    let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
}

/// Sends a request and returns the body of the response.
pub async fn answer(stream: &mut TcpStream, path: &str) -> String {
    ask(stream, path).await;
    read_answer(stream).await
}

/// Returns the body of a response.
pub async fn read_answer(stream: &mut TcpStream) -> String {
    let read = async {
        let mut bytes = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if body.len() >= length.unwrap().parse::<usize>().unwrap() {
                    return body.to_owned();
                }
            }
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the connection ended inside an answer: {text:?}");
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("no answer in time")
}

/// Waits until the server closes the connection, and returns how long that took and what arrived before.
pub async fn until_closed(stream: &mut (impl AsyncRead + Unpin)) -> (Duration, Vec<u8>) {
    let started = std::time::Instant::now();
    let mut bytes = Vec::new();
    let read = async { while stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {} };
    tokio::time::timeout(PATIENCE, read).await.expect("the connection was not closed in time");
    (started.elapsed(), bytes)
}

/// Waits until the server accepts no new connection, because it is shutting down.
pub async fn until_refused(server: &Server) {
    let refused = async { while TcpStream::connect(server.address).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, refused).await.expect("new connections are still accepted");
}

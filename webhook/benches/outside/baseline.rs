//! The same server, TLS and HTTP framework, with a handler that only reads.

use crate::process::{Place, Process, free_address, wait_ready, write_pair};
use giveway_serving::{Limits, ServerMetrics, Shutdown, serve, service};
use giveway_webhook::tls::{Certificate, Directory, acceptor};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::hint::black_box;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::net::TcpListener;
use warp::{Filter, Reply};

/// What is answered, whatever was asked.
const ANSWER: &str =
    r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":true}}"#;

/// How a body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// Not at all.
    Nothing,
    /// Into pieces that borrow from it.
    Borrowed,
    /// Into a tree of values.
    Values,
}

impl Handler {
    pub const ALL: [Self; 3] = [Self::Nothing, Self::Borrowed, Self::Values];

    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "baseline: nothing is read",
            Self::Borrowed => "baseline: borrowed",
            Self::Values => "baseline: values",
        }
    }

    fn read(self, body: &[u8]) {
        #[derive(Deserialize)]
        #[allow(dead_code, reason = "only the reading costs")]
        struct Request<'a> {
            uid: &'a str,
            operation: &'a str,
            #[serde(borrow)]
            object: &'a RawValue,
        }

        #[derive(Deserialize)]
        #[allow(dead_code, reason = "only the reading costs")]
        struct Review<'a> {
            #[serde(borrow)]
            request: Request<'a>,
        }

        match self {
            Self::Nothing => drop(black_box(body)),
            Self::Borrowed => drop(black_box(serde_json::from_slice::<Review>(body).unwrap())),
            Self::Values => drop(black_box(serde_json::from_slice::<Value>(body).unwrap())),
        }
    }
}

/// This program as a server.
pub struct Baseline {
    pub process: Process,
    pub place: Place,
    _directory: TempDir,
}

impl Baseline {
    pub async fn start(handler: Handler) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (authority, address) = (write_pair(directory.path()), free_address());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--serve", handler.name()]).arg(directory.path()).arg(address.to_string());
        let process = Process::start(&mut command);
        let place = Place { address, authority };
        wait_ready(&place).await;
        Self { process, place, _directory: directory }
    }
}

/// What the command line asks this program to serve.
pub fn asked() -> Option<(Handler, PathBuf, SocketAddr)> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [serve, name, directory, address] = arguments.as_slice() else { return None };
    let handler = Handler::ALL.into_iter().find(|handler| handler.name() == name)?;
    (serve == "--serve").then(|| (handler, directory.into(), address.parse().unwrap()))
}

/// Serves until killed.
pub async fn run(handler: Handler, directory: &Path, address: SocketAddr) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificate = Arc::new(Certificate::default());
    let mut files = Directory::new(directory.to_owned(), Arc::clone(&provider), Arc::clone(&certificate));
    assert!(files.reload().unwrap());
    let ready = warp::path!("readyz").map(|| "ok".into_response());
    let reviews = warp::post().and(warp::body::bytes()).map(move |body: warp::hyper::body::Bytes| {
        handler.read(&body);
        warp::reply::with_header(ANSWER, "content-type", "application/json").into_response()
    });
    let service = service(ready.or(reviews).unify().boxed());
    let (listener, tls) = (TcpListener::bind(address).await.unwrap(), acceptor(provider, certificate, None).unwrap());
    serve(listener, Some(tls), service, Limits::default(), Shutdown::default(), ServerMetrics::default()).await;
}

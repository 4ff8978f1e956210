//! A proxy between a daemon and the API server that injects faults by a script of the test: errors, hanging and late requests,
//! lost answers, cut watches, and killing the daemon before or after a write. Both sides use TLS; the daemon's credentials are
//! forwarded.

mod forward;
mod script;

pub use script::{Call, Fault, Script, no_faults};

use crate::control_plane::pki::Pki;
use anyhow::{Context as _, Result};
use forward::Upstream;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// State that the connections of a proxy share.
struct Shared {
    script: Mutex<Script>,
    /// Number of faults by kind, and of forwarded calls as `passed`.
    tally: Mutex<BTreeMap<&'static str, u64>>,
    /// Number of writes so far, except those of the lease.
    writes: Mutex<u64>,
    /// Warnings of the API server, with the calls.
    warnings: Mutex<BTreeSet<String>>,
    /// Changes when all running watches are to be cut.
    cut: watch::Sender<()>,
    /// The process to kill.
    daemon: Mutex<Option<u32>>,
    upstream: Upstream,
}

/// A running proxy, which ends when the value is dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    url: String,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy for the API server at this URL. It has a certificate of the cluster's authority and forwards all requests
    /// until a script is set.
    ///
    /// # Errors
    /// If no port is free or the certificate cannot be created.
    pub async fn start(server: &str, pki: &Pki) -> Result<Self> {
        let identity = pki.server(&[])?;
        let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
        let mut tls = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("a port for the proxy")?;
        let url = format!("https://127.0.0.1:{}", listener.local_addr()?.port());
        let shared = Arc::new(Shared {
            script: Mutex::new(no_faults()),
            tally: Mutex::default(),
            writes: Mutex::default(),
            warnings: Mutex::default(),
            cut: watch::Sender::new(()),
            daemon: Mutex::default(),
            upstream: Upstream::new(server, pki)?,
        });
        let task = tokio::spawn(accept(listener, acceptor, Arc::clone(&shared)));
        Ok(Self { shared, url, task })
    }

    /// Returns the URL of the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sets the script. Writes are counted from 1 again, and running watches are cut, so that the script decides on their
    /// restart.
    pub fn play(&self, script: Script) {
        *locked(&self.shared.writes) = 0;
        *locked(&self.shared.script) = script;
        self.shared.cut.send_replace(());
    }

    /// Sets the process that [`Fault::KillBefore`] and [`Fault::KillAfter`] kill.
    pub fn set_target(&self, pid: Option<u32>) {
        *locked(&self.shared.daemon) = pid;
    }

    /// Returns the number of writes since the script was set, except those of the lease.
    pub fn writes(&self) -> u64 {
        *locked(&self.shared.writes)
    }

    /// Returns the warnings of the API server since the start, such as unknown fields, with method and path of the call.
    pub fn warnings(&self) -> BTreeSet<String> {
        locked(&self.shared.warnings).clone()
    }

    /// Returns the number of faults of each kind since the start.
    pub fn tally(&self) -> BTreeMap<&'static str, u64> {
        locked(&self.shared.tally).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Accepts connections until the proxy is dropped.
async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(|request| forward::answer(&shared, request));
            // Broken connections are expected.
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Locks a mutex, also after a panic of a test.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

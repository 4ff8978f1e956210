//! A proxy between a daemon and the API server that a test scripts: it refuses, hangs, delays, loses answers, cuts watches and
//! kills the daemon before or after a write. TLS on both sides; the daemon's credentials go through as they are.

mod forward;
mod script;

pub use script::{Call, Fault, Script, calm};

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

/// What the connections of a proxy share.
struct Shared {
    script: Mutex<Script>,
    /// Faults by kind, and calls that went through as `passed`.
    tally: Mutex<BTreeMap<&'static str, u64>>,
    /// Writes so far, without those of the lease.
    writes: Mutex<u64>,
    /// What the API server warned of, with the calls.
    warnings: Mutex<BTreeSet<String>>,
    /// Changes when all watches that run have to break off.
    cut: watch::Sender<()>,
    /// Whom to kill.
    daemon: Mutex<Option<u32>>,
    upstream: Upstream,
}

/// A running proxy; it ends with this value.
pub struct Proxy {
    shared: Arc<Shared>,
    url: String,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy before the API server with this URL. It has a certificate of the cluster's own authority, and lets
    /// everything pass until it is told otherwise.
    ///
    /// # Errors
    /// No port is free, or the certificate cannot be made.
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
            script: Mutex::new(calm()),
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

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on this script decides. Writes are counted from 1 again, and watches that run break off, so that it decides
    /// on them too.
    pub fn play(&self, script: Script) {
        *locked(&self.shared.writes) = 0;
        *locked(&self.shared.script) = script;
        self.shared.cut.send_replace(());
    }

    /// The process that [`Fault::KillBefore`] and [`Fault::KillAfter`] kill.
    pub fn aim_at(&self, pid: Option<u32>) {
        *locked(&self.shared.daemon) = pid;
    }

    /// Writes since the script began, without those of the lease.
    pub fn writes(&self) -> u64 {
        *locked(&self.shared.writes)
    }

    /// What the API server warned of since the start, such as fields that it does not know, by method and path of the call.
    pub fn warnings(&self) -> BTreeSet<String> {
        locked(&self.shared.warnings).clone()
    }

    /// How many faults of each kind there were since the start.
    pub fn tally(&self) -> BTreeMap<&'static str, u64> {
        locked(&self.shared.tally).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Ends with the proxy; so do its connections.
async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(|request| forward::answer(&shared, request));
            // A connection that breaks is what the proxy is for.
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
        while connections.try_join_next().is_some() {}
    }
}

/// What a mutex guards, also after a panic of a test.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! A proxy between a daemon and the API server that injects faults by a script of the test: errors, hanging and late requests,
//! lost answers, cut watches, and killing the daemon before or after a write. Both sides use TLS; the daemon's credentials are
//! forwarded.

mod forward;
mod script;

pub use script::{Call, Fault, Script, no_faults};

use crate::control_plane::pki::Pki;
use crate::https::Server;
use anyhow::Result;
use forward::Upstream;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

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
    /// Changes when the packets of all running watches are to be dropped.
    lost: watch::Sender<()>,
    /// The process to kill.
    daemon: Mutex<Option<u32>>,
    upstream: Upstream,
}

/// A running proxy, which ends when the value is dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    url: String,
    _server: Server,
}

impl Proxy {
    /// Starts a proxy for the API server at this URL. It has a certificate of the cluster's authority and forwards all requests
    /// until a script is set.
    ///
    /// # Errors
    /// If no port is free or the certificate cannot be created.
    pub async fn start(server: &str, pki: &Pki) -> Result<Self> {
        let shared = Arc::new(Shared {
            script: Mutex::new(no_faults()),
            tally: Mutex::default(),
            writes: Mutex::default(),
            warnings: Mutex::default(),
            cut: watch::Sender::new(()),
            lost: watch::Sender::new(()),
            daemon: Mutex::default(),
            upstream: Upstream::new(server, pki)?,
        });
        let answering = Arc::clone(&shared);
        let server = Server::start(pki, move |request| {
            let shared = Arc::clone(&answering);
            async move { forward::answer(&shared, request).await }
        })
        .await?;
        Ok(Self { shared, url: server.url(), _server: server })
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

    /// Drops the packets of all running watches from now on, without an end of their connections, as if the machine of the API server had
    /// failed. New connections work.
    pub fn lose_watches(&self) {
        self.shared.lost.send_replace(());
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

/// Locks a mutex, also after a panic of a test.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

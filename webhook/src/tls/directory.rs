//! The pair in a directory: `tls.crt` and `tls.key`, as a Secret of type `kubernetes.io/tls` is mounted.
//!
//! A kubelet replaces both at once, by swapping the symbolic link `..data` that both files point through. So the link is
//! followed once for both, and the contents are compared, not watched.

use super::{Certificate, Pair};
use crate::error::Error;
use crate::metrics::Metrics;
use rustls::crypto::CryptoProvider;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Follows the files of a directory.
pub struct Directory {
    path: PathBuf,
    provider: Arc<CryptoProvider>,
    certificate: Arc<Certificate>,
    seen: Option<Result<Pair, String>>,
}

impl Directory {
    /// Creates the reader of the files `tls.crt` and `tls.key` in the directory `path`, which keeps `certificate` up to date.
    pub fn new(path: PathBuf, provider: Arc<CryptoProvider>, certificate: Arc<Certificate>) -> Self {
        Self { path, provider, certificate, seen: None }
    }

    /// Reads the files with certificate and key once. Returns true if they have changed and are in use now, and false if they are
    /// the same as before.
    ///
    /// # Errors
    /// The files cannot be read, or cannot be used. The same error is returned only once, until the files change again.
    pub fn reload(&mut self) -> Result<bool, Error> {
        let (found, error) = match self.read() {
            Ok(pair) => (Ok(pair), None),
            Err(error) => (Err(error.to_string()), Some(error)),
        };
        if self.seen.as_ref() == Some(&found) {
            return Ok(false);
        }
        let used = match (&found, error) {
            (Ok(pair), _) => pair.certified(&self.provider, |name| self.path.join(name).display().to_string()),
            (Err(_), Some(error)) => Err(error),
            (Err(_), None) => return Ok(false),
        };
        self.seen = Some(found);
        self.certificate.0.store(Some(Arc::new(used?)));
        Ok(true)
    }

    /// Reads the files with certificate and key every second and uses them if they have changed. Never returns.
    pub async fn follow(mut self, metrics: Arc<Metrics>) {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            match self.reload() {
                Ok(false) => {}
                Ok(true) => {
                    metrics.certificate_reload(true);
                    tracing::info!(directory = %self.path.display(), "a new certificate is in use");
                }
                Err(error) => {
                    metrics.certificate_reload(false);
                    let kept = self.certificate.is_loaded();
                    tracing::error!(%error, kept, "the certificate cannot be used; the one before, if any, is kept");
                }
            }
        }
    }

    /// Reads the certificate chain and its key, both from the same version of a mounted Secret.
    fn read(&self) -> Result<Pair, Error> {
        let mounted = std::fs::read_link(self.path.join("..data"));
        let place = mounted.map_or_else(|_| self.path.clone(), |target| self.path.join(target));
        let read = |name| {
            let path = place.join(name);
            std::fs::read(&path).map_err(|source| Error::ReadFile { path, source })
        };
        Ok(Pair { chain: read("tls.crt")?, key: read("tls.key")? })
    }
}

//! The serving certificate: read from a directory, replaced while the server runs.
//!
//! The directory holds `tls.crt` (chain, leaf first) and `tls.key`, as a Secret of type `kubernetes.io/tls` is
//! mounted. A kubelet replaces both by swapping a symbolic link, so the contents are compared, not watched. A pair that
//! cannot be used is logged once, and the one before stays in use.

use crate::error::Error;
use crate::metrics::Metrics;
use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsAcceptor;

/// The certificate in use.
#[derive(Debug, Default)]
pub struct Certificate(ArcSwapOption<CertifiedKey>);

impl Certificate {
    /// Whether there is one.
    pub fn is_loaded(&self) -> bool {
        self.0.load().is_some()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

/// An acceptor that shows each new client the certificate in use at that moment. HTTP/1.1 only, as API servers speak
/// it to webhooks.
pub fn acceptor(provider: Arc<CryptoProvider>, certificate: Arc<Certificate>) -> Result<TlsAcceptor, Error> {
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Follows the files of a directory.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    provider: Arc<CryptoProvider>,
    certificate: Arc<Certificate>,
    seen: Option<Result<Pair, String>>,
}

/// The contents of `tls.crt` and `tls.key`.
#[derive(Debug, PartialEq, Eq)]
struct Pair {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl Directory {
    /// Follows the directory at `path` and keeps `certificate` up to date.
    pub fn new(path: PathBuf, provider: Arc<CryptoProvider>, certificate: Arc<Certificate>) -> Self {
        Self { path, provider, certificate, seen: None }
    }

    /// Reads the files once. Returns whether they are another pair than before, and it is in use now.
    ///
    /// Errors: files that cannot be read, or cannot be used; each is returned once, until the files change again.
    pub fn reload(&mut self) -> Result<bool, Error> {
        let (found, error) = match self.read() {
            Ok(pair) => (Ok(pair), None),
            Err(error) => (Err(error.to_string()), Some(error)),
        };
        if self.seen.as_ref() == Some(&found) {
            return Ok(false);
        }
        let used = match (&found, error) {
            (Ok(pair), _) => self.certified(pair),
            (Err(_), Some(error)) => Err(error),
            (Err(_), None) => return Ok(false),
        };
        self.seen = Some(found);
        self.certificate.0.store(Some(Arc::new(used?)));
        Ok(true)
    }

    /// Reads the files every second, for ever.
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

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn read(&self) -> Result<Pair, Error> {
        let read = |path: PathBuf| std::fs::read(&path).map_err(|source| Error::ReadFile { path, source });
        Ok(Pair { chain: read(self.file("tls.crt"))?, key: read(self.file("tls.key"))? })
    }

    fn certified(&self, pair: &Pair) -> Result<CertifiedKey, Error> {
        let pem = |path: &Path, message: String| Error::Pem { path: path.to_owned(), message };
        let (chain_path, key_path) = (self.file("tls.crt"), self.file("tls.key"));
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pair.chain)
            .collect::<Result<_, _>>()
            .map_err(|error| pem(&chain_path, error.to_string()))?;
        if chain.is_empty() {
            return Err(pem(&chain_path, "holds no certificate".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(&pair.key).map_err(|error| pem(&key_path, error.to_string()))?;
        CertifiedKey::from_der(chain, key, &self.provider).map_err(Error::KeyPair)
    }
}

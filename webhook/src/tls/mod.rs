//! The serving certificate: read from a [`directory`] or from a [`secret`], replaced while the server runs. A pair that
//! cannot be used is logged once, and the one before stays in use.

mod directory;
mod secret;

pub use directory::Directory;
pub use secret::follow_secret;

use crate::error::Error;
use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The certificate in use.
#[derive(Debug, Default)]
pub struct Certificate(ArcSwapOption<CertifiedKey>);

impl Certificate {
    /// Whether there is one.
    pub fn is_loaded(&self) -> bool {
        self.0.load().is_some()
    }

    /// When it expires, in seconds since the epoch.
    pub fn until(&self) -> Option<i64> {
        let certified = self.0.load_full()?;
        let (_, leaf) = x509_parser::parse_x509_certificate(certified.cert.first()?).ok()?;
        Some(leaf.validity().not_after.timestamp())
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

/// A certificate chain (PEM, leaf first) and its key (PEM), as they are stored.
#[derive(PartialEq, Eq)]
struct Pair {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl Pair {
    /// The pair as the TLS library uses it; `place` tells in errors where a part of it was found.
    fn certified(&self, provider: &CryptoProvider, place: impl Fn(&str) -> String) -> Result<CertifiedKey, Error> {
        let pem = |part, message: String| Error::Pem { place: place(part), message };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&self.chain)
            .collect::<Result<_, _>>()
            .map_err(|error| pem("tls.crt", error.to_string()))?;
        if chain.is_empty() {
            return Err(pem("tls.crt", "holds no certificate".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| pem("tls.key", error.to_string()))?;
        CertifiedKey::from_der(chain, key, provider).map_err(Error::KeyPair)
    }
}

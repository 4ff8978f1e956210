//! The serving certificate: read from a [`directory`] or from a [`secret`], replaced while the server runs. A pair that
//! cannot be used is logged once, and the one before stays in use. Also: the authorities of certificates of clients.

mod directory;
mod secret;

pub use directory::Directory;
pub use secret::follow_secret;

use crate::error::Error;
use arc_swap::ArcSwapOption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The certificate that TLS connections use, which is replaced at runtime.
#[derive(Debug, Default)]
pub struct Certificate(ArcSwapOption<CertifiedKey>);

impl Certificate {
    /// Returns true if a valid certificate is loaded, so that TLS connections can be accepted.
    pub fn is_loaded(&self) -> bool {
        self.0.load().is_some()
    }

    /// Returns when the loaded certificate expires, in seconds since the epoch; `None` if none is loaded.
    pub fn expires_at(&self) -> Option<i64> {
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

/// Returns what accepts TLS connections, for HTTP/1.1 only, with the certificate that is in use at that moment. `authorities`
/// is a file of certificate authorities: with it, a client may send a certificate, which one of them must have signed.
///
/// # Errors
/// The file cannot be read or has no certificate, or the TLS library refuses its configuration.
pub fn acceptor(
    provider: Arc<CryptoProvider>,
    certificate: Arc<Certificate>,
    authorities: Option<&Path>,
) -> Result<TlsAcceptor, Error> {
    let clients = match authorities {
        Some(path) => verifier(path, Arc::clone(&provider))?,
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Returns what verifies client certificates: one of the certificate authorities in the file `authorities` must have signed them. A client
/// that sends no certificate is accepted.
fn verifier(authorities: &Path, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let bytes =
        std::fs::read(authorities).map_err(|source| Error::ReadFile { path: authorities.to_owned(), source })?;
    let unusable = |message: String| Error::Pem { place: authorities.display().to_string(), message };
    let mut roots = RootCertStore::empty();
    for found in CertificateDer::pem_slice_iter(&bytes) {
        let authority = found.map_err(|error| unusable(error.to_string()))?;
        roots.add(authority).map_err(|error| unusable(error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).allow_unauthenticated();
    verifier.build().map_err(|_| unusable("holds no certificate".to_owned()))
}

/// A certificate chain (PEM, leaf first) and its key (PEM), as they are stored.
#[derive(PartialEq, Eq)]
struct Pair {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl Pair {
    /// Parses the certificate chain and its key for the TLS library. `place` returns, for `tls.crt` or `tls.key`, where it was read: errors
    /// name that.
    ///
    /// # Errors
    /// Chain or key cannot be parsed, or do not belong together.
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

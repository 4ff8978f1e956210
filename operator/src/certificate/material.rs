//! Creates certificates and keys, and checks whether stored ones are usable.
//!
//! No input is assumed to be well-formed: a Secret may be empty or truncated, or hold a foreign certificate. An
//! unusable certificate or key is reported as [`Unusable`] with the reason, never by a panic.

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use std::time::Duration;
use time::OffsetDateTime;

/// `notBefore` of a new certificate lies this long in the past, because the clocks of API servers may be behind.
const BACKDATED: SignedDuration = SignedDuration::from_hours(1);

/// Why a certificate or a key cannot be used, or could not be made: a clause such as "its key belongs to another
/// certificate".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(String);

/// Creates the error for a certificate or key that cannot be used. `reason` is a clause that says why.
fn unusable(reason: impl Into<String>) -> Unusable {
    Unusable(reason.into())
}

/// The certificate of a certificate authority, as API servers get it in `caBundle`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Anchor {
    from: Timestamp,
    until: Timestamp,
    der: Vec<u8>,
}

impl Anchor {
    /// Reads the certificate of a certificate authority from its DER. The error says that it is no certificate, or not that of an
    /// authority.
    fn read(der: &[u8]) -> Result<Self, Unusable> {
        let (rest, certificate) = x509_parser::parse_x509_certificate(der)
            .map_err(|error| unusable(format!("is not a certificate: {error}")))?;
        if !rest.is_empty() || !certificate.is_ca() {
            return Err(unusable("is not the certificate of an authority"));
        }
        let (from, until) = validity(&certificate)?;
        Ok(Self { from, until, der: der.to_vec() })
    }

    /// Returns the CA certificates in a PEM bundle such as `caBundle`; none if the text is no PEM. Entries that are no CA certificate are
    /// skipped: API servers trust nothing because of them.
    pub fn bundle(pem: &[u8]) -> Vec<Self> {
        let parts = pem::parse_many(pem).unwrap_or_default();
        parts.iter().filter_map(|part| Self::read(part.contents()).ok()).collect()
    }

    /// Returns the CA certificate as PEM text.
    pub fn pem(&self) -> String {
        to_pem("CERTIFICATE", &self.der)
    }

    /// Returns from when and until when the CA certificate is valid (`notBefore`, `notAfter`).
    pub fn validity(&self) -> (Timestamp, Timestamp) {
        (self.from, self.until)
    }

    /// Returns true if the certificate is valid at `now`.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.from <= now && !self.has_expired(now)
    }

    /// Returns true if the certificate has expired at `now`.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.until <= now
    }

    /// Returns a root store for a TLS client that trusts only this authority.
    pub fn roots(&self) -> Result<RootCertStore, Unusable> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(self.der.clone())).map_err(|error| unusable(error.to_string()))?;
        Ok(roots)
    }
}

/// A certificate authority with its private key.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    anchor: Anchor,
    key: String,
}

/// Omits the private key.
impl std::fmt::Debug for Authority {
    /// Writes only the certificate, not the private key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Authority").field(&self.anchor).finish()
    }
}

impl Authority {
    /// Creates a certificate authority with a new key, which expires `lifetime` after `now`. Its common name contains `now`, which `openssl
    /// x509 -text` shows.
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub fn make(now: Timestamp, lifetime: SignedDuration) -> Result<Self, Unusable> {
        let mut params = params(Vec::new(), &format!("giveway-webhook-ca {now:.0}"), now, now + lifetime)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.self_signed(&key).map_err(failed)?;
        Ok(Self { anchor: Anchor::read(certificate.der())?, key: key.serialize_pem() })
    }

    /// Reads an authority from the PEM of its certificate and of its private key, and checks both.
    ///
    /// # Errors
    /// One of the two cannot be parsed, the certificate is not a CA certificate, or the key does not belong to it.
    pub fn read(certificate: &[u8], key: &[u8]) -> Result<Self, Unusable> {
        let part = pem::parse(certificate)
            .map_err(|error| unusable(format!("its certificate is not in PEM format: {error}")))?;
        let anchor = Anchor::read(part.contents()).map_err(|error| unusable(format!("its certificate {error}")))?;
        check_key(vec![CertificateDer::from(anchor.der.clone())], key)?;
        let key = String::from_utf8(key.to_vec()).map_err(|_| unusable("its key is not in PEM format"))?;
        Ok(Self { anchor, key })
    }

    /// Returns the CA certificate, without the private key.
    pub fn anchor(&self) -> &Anchor {
        &self.anchor
    }

    /// Returns the private key as PEM text.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns when the authority has to be replaced: when a third of its lifetime is left.
    pub fn renew_at(&self) -> Timestamp {
        third_left(self.anchor.validity())
    }

    /// Creates a key and a certificate, signed by this authority, for a server with these names (DNS names and IP addresses). The
    /// certificate expires `lifetime` after `now`, but no later than the authority.
    ///
    /// # Errors
    /// One of the names is neither a DNS name nor an IP address, or the cryptographic library fails.
    pub fn issue(&self, names: &[String], now: Timestamp, lifetime: SignedDuration) -> Result<Leaf, Unusable> {
        let until = (now + lifetime).min(self.anchor.until);
        let mut params = params(names.to_vec(), "giveway-webhook", now, until)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let der = CertificateDer::from(self.anchor.der.clone());
        let issuer = Issuer::from_ca_cert_der(&der, KeyPair::from_pem(&self.key).map_err(failed)?).map_err(failed)?;
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
        Ok(Leaf {
            chain: certificate.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
            authority: self.anchor.pem().into_bytes(),
        })
    }
}

/// The serving certificate of the webhook as stored in the Secret. Its content has not been checked.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Leaf {
    /// `tls.crt`: PEM, the server's certificate first.
    pub chain: Vec<u8>,
    /// `tls.key`: PEM.
    pub key: Vec<u8>,
    /// `ca.crt`: PEM of the authority. Only administrators read it.
    pub authority: Vec<u8>,
}

/// Omits the private key.
impl std::fmt::Debug for Leaf {
    /// Writes only the certificate chain, not the private key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Leaf").field(&String::from_utf8_lossy(&self.chain)).finish()
    }
}

impl Leaf {
    /// Checks that a client which trusts only `authority`, such as an API server, accepts this certificate at `now` for each of `names`,
    /// the server names (DNS names and IP addresses).
    ///
    /// # Errors
    /// The reason why the client would reject it.
    pub fn accepted_by(&self, authority: &Anchor, names: &[String], now: Timestamp) -> Result<(), Unusable> {
        let chain = self.chain()?;
        let (first, intermediates) = chain.split_first().ok_or_else(|| unusable("it has no certificate"))?;
        let parsed = ParsedCertificate::try_from(first).map_err(not_accepted)?;
        let seconds = u64::try_from(now.as_second()).map_err(|_| unusable("the clock is before 1970"))?;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &authority.roots()?, intermediates, now, algorithms)
            .map_err(not_accepted)?;
        for name in names {
            let server =
                ServerName::try_from(name.as_str()).map_err(|_| unusable(format!("{name:?} is not a name")))?;
            verify_server_name(&parsed, &server).map_err(|_| unusable(format!("it is not valid for {name}")))?;
        }
        Ok(())
    }

    /// Checks that this certificate can be served with its key, that a client which trusts only `authority` accepts it for all `names`
    /// (server names), and that more than a third of its lifetime is left. Returns when it has to be renewed.
    ///
    /// # Errors
    /// The reason why it must be replaced.
    pub fn check(&self, authority: &Anchor, names: &[String], now: Timestamp) -> Result<Timestamp, Unusable> {
        if self.chain.is_empty() && self.key.is_empty() {
            return Err(unusable("there is none"));
        }
        let chain = self.chain()?;
        check_key(chain.clone(), &self.key)?;
        self.accepted_by(authority, names, now)?;
        if self.authority != authority.pem().into_bytes() {
            return Err(unusable("the certificate of its authority is not stored with it"));
        }
        let first = chain.first().ok_or_else(|| unusable("it has no certificate"))?;
        let (_, certificate) = x509_parser::parse_x509_certificate(first)
            .map_err(|error| unusable(format!("it is not a certificate: {error}")))?;
        let renew_at = third_left(validity(&certificate)?);
        if renew_at <= now { Err(unusable("less than a third of its validity is left")) } else { Ok(renew_at) }
    }

    /// Parses the PEM of the certificate chain. Returns its certificates in order, that of the webhook first. The error says that the text
    /// is no PEM.
    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, Unusable> {
        CertificateDer::pem_slice_iter(&self.chain)
            .collect::<Result<_, _>>()
            .map_err(|error| unusable(format!("its certificate is not in PEM format: {error}")))
    }

    /// Returns when the webhook's certificate expires (`notAfter`), or `None` if it cannot be parsed.
    pub fn until(&self) -> Option<Timestamp> {
        let part = pem::parse(&self.chain).ok()?;
        let (_, certificate) = x509_parser::parse_x509_certificate(part.contents()).ok()?;
        validity(&certificate).ok().map(|(_, until)| until)
    }
}

/// Returns the content of a certificate that is still to be signed: valid for these server names from one hour before `now` (clocks of API
/// servers may be behind) until `until`, with `subject` as common name. The error is that of the cryptographic library.
fn params(names: Vec<String>, subject: &str, now: Timestamp, until: Timestamp) -> Result<CertificateParams, Unusable> {
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, subject);
    params.not_before = date(now - BACKDATED)?;
    params.not_after = date(until)?;
    Ok(params)
}

/// Converts a time to the type of the certificate library, in whole seconds. The error says that the library cannot represent it.
fn date(time: Timestamp) -> Result<OffsetDateTime, Unusable> {
    OffsetDateTime::from_unix_timestamp(time.as_second()).map_err(|error| unusable(error.to_string()))
}

/// Returns the first and the last time at which a certificate is valid (`notBefore`, `notAfter`).
fn validity(certificate: &x509_parser::certificate::X509Certificate<'_>) -> Result<(Timestamp, Timestamp), Unusable> {
    let time = |seconds| Timestamp::from_second(seconds).map_err(|error| unusable(error.to_string()));
    let validity = certificate.validity();
    Ok((time(validity.not_before.timestamp())?, time(validity.not_after.timestamp())?))
}

/// Returns the time at which a third of the period from `from` until `until` is left.
fn third_left((from, until): (Timestamp, Timestamp)) -> Timestamp {
    until - until.duration_since(from) / 3
}

/// Checks that the private key `key` (PEM) belongs to the first certificate of the chain. The error says why not.
fn check_key(chain: Vec<CertificateDer<'static>>, key: &[u8]) -> Result<(), Unusable> {
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| unusable(format!("its key is not in PEM format: {error}")))?;
    CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
        .map_err(|error| unusable(format!("its certificate and its key cannot be used together: {error}")))?;
    Ok(())
}

/// Encodes DER as PEM text. `tag` is the label after `BEGIN`, for example `CERTIFICATE`.
fn to_pem(tag: &str, der: &[u8]) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(tag, der), config)
}

/// Converts an error of the library that creates certificates to [`Unusable`].
fn failed(error: rcgen::Error) -> Unusable {
    unusable(error.to_string())
}

/// Converts an error of the check that a TLS client makes to [`Unusable`]: the client would not accept the certificate.
fn not_accepted(error: rustls::Error) -> Unusable {
    unusable(format!("it would not be accepted: {error}"))
}

#[cfg(test)]
mod tests;

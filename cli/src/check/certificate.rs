//! How long certificates are valid.

use k8s_openapi::jiff::Timestamp;
use x509_parser::pem::Pem;

/// A certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    /// Its subject.
    pub(super) subject: String,
    /// From when on it is valid.
    pub(super) from: Timestamp,
    /// Until when.
    pub(super) until: Timestamp,
}

impl Validity {
    /// Whole days that are left; negative when it has expired.
    pub(super) fn days_left(&self, now: Timestamp) -> i64 {
        (self.until.as_second() - now.as_second()).div_euclid(24 * 3600)
    }
}

/// The certificates of a PEM file; of a chain the one that expires first comes first.
///
/// # Errors
/// It is no PEM, has no certificate, or one that cannot be read.
pub(super) fn read(pem: &[u8]) -> Result<Vec<Validity>, String> {
    let mut found = Vec::new();
    for part in Pem::iter_from_buffer(pem) {
        let part = part.map_err(|error| format!("is no PEM: {error}"))?;
        let certificate = part.parse_x509().map_err(|error| format!("has an unreadable certificate: {error}"))?;
        let time = |seconds| Timestamp::from_second(seconds).map_err(|error| error.to_string());
        let validity = certificate.validity();
        found.push(Validity {
            subject: certificate.subject().to_string(),
            from: time(validity.not_before.timestamp())?,
            until: time(validity.not_after.timestamp())?,
        });
    }
    found.sort_by_key(|certificate| certificate.until);
    match found.is_empty() {
        true => Err("has no certificate".to_owned()),
        false => Ok(found),
    }
}

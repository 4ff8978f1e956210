//! Validity of the webhook's certificate and of its CA, and the component that renews them.

use super::facts::{Installation, Renewer};
use super::finding::Finding;
use super::wording::certificate::{self as wording, CertificateHolder};
use k8s_openapi::jiff::Timestamp;
use x509_parser::pem::Pem;

/// Certificates that expire in fewer days get a warning.
const SOON: i64 = 14;
/// The operator and cert-manager renew when a third of the validity remains; seconds by which the renewal may be late.
const LATE: i64 = 24 * 3600;
/// The Secret of the operator's CA.
const AUTHORITY: &str = "giveway-webhook-ca";

/// Returns a finding for each CA bundle of the webhook configurations, and one for the webhook's certificate in its Secret.
pub(super) fn findings(facts: &Installation) -> Vec<Finding> {
    let mut found = Vec::new();
    let configurations = [&facts.mutating, &facts.validating];
    let bundles = configurations.into_iter().flat_map(|known| known.iter().flatten()).flat_map(|c| &c.bundles);
    let mut bundles: Vec<&Vec<u8>> = bundles.collect();
    bundles.sort();
    bundles.dedup();
    for bundle in bundles {
        found.push(finding(facts, true, bundle));
    }
    let (namespace, secret) = (&facts.namespace, &facts.secret);
    found.push(match (&facts.serving, facts.renewer) {
        (Ok(Some(pem)), _) => finding(facts, false, pem),
        (Ok(None), Renewer::Operator) => wording::not_made(namespace, secret),
        (Ok(None), _) => wording::elsewhere(namespace, secret),
        (Err(why), _) => wording::certificate_unknown(why),
    });
    found
}

/// Returns the finding about the certificates in `pem`. `is_bundle` is true for a CA bundle of the webhook configurations, and false
/// for the webhook's certificate in its Secret.
fn finding(facts: &Installation, is_bundle: bool, pem: &[u8]) -> Finding {
    let secret = if is_bundle { AUTHORITY } else { facts.secret.as_str() };
    let holder = CertificateHolder { is_bundle, namespace: &facts.namespace, secret, renewer: facts.renewer };
    let certificates = match read(pem) {
        Ok(certificates) => certificates,
        Err(problem) => return wording::unusable(&holder, &problem),
    };
    // The last of the operator's CAs signs; the others remain until no replica needs them.
    let judged = if is_bundle && facts.renewer == Renewer::Operator { certificates.last() } else { None };
    let Some(judged) = judged.or(certificates.first()) else {
        return wording::unusable(&holder, wording::NO_CERTIFICATE);
    };
    let (days, subject) = (judged.days_left(facts.now), &judged.subject);
    let mut finding = if judged.until < facts.now {
        wording::expired(&holder, subject, judged.until)
    } else if let Some(early) = certificates.iter().find(|certificate| certificate.from > facts.now) {
        wording::not_valid_yet(&holder, &early.subject, early.from)
    } else {
        let authorities = if is_bundle { certificates.len() } else { 1 };
        let overdue = facts.renewer != Renewer::Other && judged.is_overdue(facts.now);
        wording::expires(&holder, subject, (days, judged.until), authorities, days < SOON || overdue)
    };
    finding.days_left = Some(days);
    finding
}

/// Subject of a certificate, and when it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Validity {
    /// Its subject.
    subject: String,
    /// Start of its validity.
    from: Timestamp,
    /// End of its validity.
    until: Timestamp,
}

impl Validity {
    /// Returns for how many whole days after `now` the certificate is valid; negative if it has expired.
    fn days_left(&self, now: Timestamp) -> i64 {
        (self.until.as_second() - now.as_second()).div_euclid(24 * 3600)
    }

    /// Returns true if the certificate should have been renewed before `now`: clearly less than a third of its validity remains.
    fn is_overdue(&self, now: Timestamp) -> bool {
        let life = self.until.as_second() - self.from.as_second();
        self.until.as_second() - now.as_second() + LATE < life / 3
    }
}

/// Returns the subject and the validity of each certificate in a PEM file, sorted by expiration.
///
/// # Errors
/// The text is no PEM, has no certificate, or an invalid one.
fn read(pem: &[u8]) -> Result<Vec<Validity>, String> {
    let mut found = Vec::new();
    for part in Pem::iter_from_buffer(pem) {
        let part = part.map_err(wording::no_pem)?;
        let certificate = part.parse_x509().map_err(wording::unreadable)?;
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
        true => Err(wording::NO_CERTIFICATE.to_owned()),
        false => Ok(found),
    }
}

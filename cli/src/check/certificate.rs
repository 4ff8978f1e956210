//! Validity of the webhook's certificate and of its CA, and the component that renews them.

use super::facts::{Installation, Renewer};
use super::finding::Finding;
use giveway_crds::wording::counted;
use k8s_openapi::jiff::Timestamp;
use x509_parser::pem::Pem;

/// Certificates that expire in fewer days get a warning.
const SOON: i64 = 14;
/// The operator and cert-manager renew when a third of the validity remains; seconds by which the renewal may be late.
const LATE: i64 = 24 * 3600;
/// The Secret of the operator's CA.
const AUTHORITY: &str = "giveway-webhook-ca";

/// Returns all findings about certificates.
pub(super) fn findings(facts: &Installation) -> Vec<Finding> {
    let mut found = Vec::new();
    let configurations = [&facts.mutating, &facts.validating];
    let bundles = configurations.into_iter().flat_map(|known| known.iter().flatten()).flat_map(|c| &c.bundles);
    let mut bundles: Vec<&Vec<u8>> = bundles.collect();
    bundles.sort();
    bundles.dedup();
    for bundle in bundles {
        found.push(finding(facts, "The webhooks' caBundle", AUTHORITY, bundle));
    }
    let (namespace, secret) = (&facts.namespace, &facts.secret);
    match (&facts.serving, facts.renewer) {
        (Ok(Some(pem)), _) => found.push(finding(facts, &format!("Secret {secret}"), secret, pem)),
        (Ok(None), Renewer::Operator) => found.push(Finding::fail(
            "certificate",
            format!("There is no Secret {namespace}/{secret}: the operator has not made the webhook's certificate."),
            format!("kubectl -n {namespace} logs deployment/giveway-operator"),
        )),
        (Ok(None), _) => found.push(Finding::warn(
            "certificate",
            format!(
                "The webhook's own certificate is not known: there is no Secret {namespace}/{secret}, so it runs outside the \
                 cluster."
            ),
            "Look at the directory that its flag --tls-directory names.",
        )),
        (Err(why), _) => found.push(Finding::unknown("certificate", "The webhook's own certificate", why)),
    }
    found
}

/// Returns the finding about the certificates in `pem`; the operator creates a new certificate when `secret` is
/// deleted.
fn finding(facts: &Installation, what: &str, secret: &str, pem: &[u8]) -> Finding {
    let namespace = &facts.namespace;
    let (renews, remedy) = match facts.renewer {
        Renewer::Operator => (
            "the operator renews it",
            format!(
                "kubectl -n {namespace} logs deployment/giveway-operator; a new one is made at once after kubectl -n \
                 {namespace} delete secret {secret}"
            ),
        ),
        Renewer::CertManager => {
            ("cert-manager renews it", format!("kubectl -n {namespace} describe certificates.cert-manager.io"))
        }
        Renewer::Somebody => {
            let remedy = "Renew it; with its authority change the chart's webhook.caBundle.";
            ("neither the operator nor cert-manager renews it", remedy.to_owned())
        }
    };
    let certificates = match read(pem) {
        Ok(certificates) => certificates,
        Err(problem) => return Finding::fail("certificate", format!("{what} {problem}."), remedy),
    };
    // The last of the operator's CAs signs; the others remain until no replica needs them.
    let judged = if secret == AUTHORITY && facts.renewer == Renewer::Operator { certificates.last() } else { None };
    let Some(judged) = judged.or(certificates.first()) else {
        return Finding::fail("certificate", format!("{what} has no certificate."), remedy);
    };
    let (days, subject) = (judged.days_left(facts.now), &judged.subject);
    let mut finding = if judged.until < facts.now {
        Finding::fail("certificate", format!("{what} ({subject}) expired on {}; {renews}.", date(judged.until)), remedy)
    } else if let Some(early) = certificates.iter().find(|certificate| certificate.from > facts.now) {
        let message = format!("{what} ({}) is valid only from {} on.", early.subject, early.from);
        Finding::fail("certificate", message, "Compare the clocks of the machines.")
    } else {
        let many = match certificates.len() {
            several if secret == AUTHORITY && several > 1 => format!("; {several} authorities are trusted"),
            _ => String::new(),
        };
        let (left, on) = (counted(days, "day", "days"), date(judged.until));
        let message = format!("{what} ({subject}) expires in {left}, on {on}; {renews}{many}.");
        let overdue = facts.renewer != Renewer::Somebody && judged.is_overdue(facts.now);
        match days < SOON || overdue {
            true => Finding::warn("certificate", message, remedy),
            false => Finding::ok("certificate", message),
        }
    };
    finding.days_left = Some(days);
    finding
}

fn date(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d").to_string()
}

/// A certificate.
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
    /// Returns the remaining whole days; negative if it has expired.
    fn days_left(&self, now: Timestamp) -> i64 {
        (self.until.as_second() - now.as_second()).div_euclid(24 * 3600)
    }

    /// Returns true if it should have been renewed: clearly less than a third of its validity remains.
    fn is_overdue(&self, now: Timestamp) -> bool {
        let life = self.until.as_second() - self.from.as_second();
        self.until.as_second() - now.as_second() + LATE < life / 3
    }
}

/// Returns the certificates of a PEM file, sorted by expiration.
///
/// # Errors
/// The text is no PEM, has no certificate, or an invalid one.
fn read(pem: &[u8]) -> Result<Vec<Validity>, String> {
    let mut found = Vec::new();
    for part in Pem::iter_from_buffer(pem) {
        let part = part.map_err(|error| format!("is not in PEM format: {error}"))?;
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

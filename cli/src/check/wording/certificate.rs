//! The webhook's certificate, its CA, and what renews them.

use super::unknown;
use crate::check::facts::Renewer;
use crate::check::finding::Finding;
use giveway_crds::wording::counted;
use k8s_openapi::jiff::Timestamp;

/// Error of [`unusable`]: the text has no certificate.
pub(in crate::check) const NO_CERTIFICATE: &str = "has no certificate";

/// Where a certificate is stored, and what renews it.
#[derive(Clone, Copy, Debug)]
pub(in crate::check) struct CertificateHolder<'a> {
    /// True for the CA in the webhook configurations, otherwise the certificate in the Secret.
    pub(in crate::check) is_bundle: bool,
    /// Namespace of the installation.
    pub(in crate::check) namespace: &'a str,
    /// The Secret with the certificate, or with the CA of the operator.
    pub(in crate::check) secret: &'a str,
    /// The component that renews it.
    pub(in crate::check) renewer: Renewer,
}

impl CertificateHolder<'_> {
    /// Returns what holds the certificate, as the subject of a sentence: the caBundle of the webhooks, or the Secret.
    fn what(&self) -> String {
        if self.is_bundle { "The webhooks' caBundle".to_owned() } else { format!("Secret {}", self.secret) }
    }

    /// Returns a clause that says which component renews the certificate, if one does.
    fn renews(&self) -> &'static str {
        match self.renewer {
            Renewer::Operator => "the operator renews it",
            Renewer::CertManager => "cert-manager renews it",
            Renewer::Other => "neither the operator nor cert-manager renews it",
        }
    }

    /// Returns what the user can do about a certificate that is not renewed.
    fn remedy(&self) -> String {
        let Self { namespace, secret, .. } = self;
        match self.renewer {
            Renewer::Operator => format!(
                "kubectl -n {namespace} logs deployment/giveway-operator; to get a new certificate at once: kubectl -n \
                 {namespace} delete secret {secret}"
            ),
            Renewer::CertManager => format!("kubectl -n {namespace} describe certificates.cert-manager.io"),
            Renewer::Other => {
                "Renew the certificate. If its certificate authority changes, set the chart's webhook.caBundle \
                 to the new one."
                    .to_owned()
            }
        }
    }
}

/// Failed: the operator has to create the webhook's certificate, and the Secret with it does not exist.
pub(in crate::check) fn not_made(namespace: &str, secret: &str) -> Finding {
    let message =
        format!("There is no Secret {namespace}/{secret}: the operator has not made the webhook's certificate.");
    Finding::fail("certificate", message, format!("kubectl -n {namespace} logs deployment/giveway-operator"))
}

/// Warning: the Secret with the webhook's certificate does not exist, and the operator does not have to create it, so the webhook runs
/// outside the cluster.
pub(in crate::check) fn elsewhere(namespace: &str, secret: &str) -> Finding {
    let message = format!(
        "The webhook's own certificate is not known: there is no Secret {namespace}/{secret}, so the webhook runs outside \
         the cluster."
    );
    Finding::warn("certificate", message, "Look at the directory that the webhook's flag --tls-directory names.")
}

/// Warning: the Secret with the webhook's certificate could not be read. `why` is the error.
pub(in crate::check) fn certificate_unknown(why: &str) -> Finding {
    unknown("certificate", "The webhook's own certificate", why)
}

/// Failed: the certificate cannot be used. `problem` is [`NO_CERTIFICATE`], or the text of [`no_pem`] or [`unreadable`].
pub(in crate::check) fn unusable(holder: &CertificateHolder<'_>, problem: &str) -> Finding {
    Finding::fail("certificate", format!("{} {problem}.", holder.what()), holder.remedy())
}

/// Error of [`unusable`]: the text is no PEM, because of `error`.
pub(in crate::check) fn no_pem(error: impl std::fmt::Display) -> String {
    format!("is not in PEM format: {error}")
}

/// Error of [`unusable`]: the PEM has something else than a certificate, because of `error`.
pub(in crate::check) fn unreadable(error: impl std::fmt::Display) -> String {
    format!("has an unreadable certificate: {error}")
}

/// Failed: the certificate, whose subject is `subject`, expired at `until`.
pub(in crate::check) fn expired(holder: &CertificateHolder<'_>, subject: &str, until: Timestamp) -> Finding {
    let (what, renews, date) = (holder.what(), holder.renews(), date(until));
    Finding::fail("certificate", format!("{what} ({subject}) expired on {date}; {renews}."), holder.remedy())
}

/// Failed: the certificate, whose subject is `subject`, becomes valid only at `from`, so a clock is wrong.
pub(in crate::check) fn not_valid_yet(holder: &CertificateHolder<'_>, subject: &str, from: Timestamp) -> Finding {
    let message = format!("{} ({subject}) is valid only from {from} on.", holder.what());
    Finding::fail("certificate", message, "Compare the clocks of the machines.")
}

/// Passed, or a warning if `soon`: the certificate is valid for `days` more days, up to `until`. `soon` is true if it expires soon or
/// should have been renewed; `authorities` is the number of CAs that are trusted.
pub(in crate::check) fn expires(
    holder: &CertificateHolder<'_>,
    subject: &str,
    (days, until): (i64, Timestamp),
    authorities: usize,
    soon: bool,
) -> Finding {
    let (what, renews, left, date) = (holder.what(), holder.renews(), counted(days, "day", "days"), date(until));
    let many = if authorities > 1 {
        format!("; API servers trust {authorities} certificate authorities")
    } else {
        String::new()
    };
    let message = format!("{what} ({subject}) expires in {left}, on {date}; {renews}{many}.");
    if soon { Finding::warn("certificate", message, holder.remedy()) } else { Finding::ok("certificate", message) }
}

/// Returns the date of a time in UTC, such as `2026-01-31`.
fn date(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d").to_string()
}

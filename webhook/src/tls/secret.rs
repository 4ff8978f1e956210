//! The pair in a Secret, read by the API: no mount, so the webhook starts before there is a certificate, and a new one is
//! in use at once instead of after the minute or two that a kubelet takes.

use super::{Certificate, Pair};
use crate::error::Error;
use crate::metrics::Metrics;
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use rustls::crypto::CryptoProvider;
use std::sync::Arc;

/// Watches the Secret `namespace/name` and replaces `certificate` when the Secret changes. Never returns. While the Secret is missing or
/// its certificate cannot be used, the certificate before stays in use.
pub async fn follow_secret(
    client: Client,
    namespace: &str,
    name: &str,
    provider: Arc<CryptoProvider>,
    certificate: Arc<Certificate>,
    metrics: Arc<Metrics>,
) {
    let secrets: Api<Secret> = Api::namespaced(client, namespace);
    let changes = watch_object(secrets, name).default_backoff();
    pin_mut!(changes);
    let mut seen = None;
    while let Some(change) = changes.next().await {
        let found = match change {
            Ok(Some(secret)) => pair(&secret),
            Ok(None) => {
                let kept = certificate.is_loaded();
                tracing::info!(secret = name, kept, "there is no Secret with a certificate");
                continue;
            }
            Err(error) => {
                tracing::warn!(secret = name, %error, "the watch of the certificate failed and is started again");
                continue;
            }
        };
        if seen.as_ref() == Some(&found) {
            continue;
        }
        match found.certified(&provider, |key| format!("{key} of Secret {namespace}/{name}")) {
            Ok(usable) => {
                certificate.0.store(Some(Arc::new(usable)));
                metrics.certificate_reload(true);
                tracing::info!(secret = name, "a new certificate is in use");
            }
            Err(error) => report(&error, &certificate, &metrics),
        }
        seen = Some(found);
    }
}

/// Returns certificate chain and key (`tls.crt`, `tls.key`) of a Secret; each is empty if it is missing.
fn pair(secret: &Secret) -> Pair {
    let bytes = |key| secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.clone());
    Pair { chain: bytes("tls.crt").unwrap_or_default(), key: bytes("tls.key").unwrap_or_default() }
}

/// Counts and logs that a new certificate cannot be used, because of `error`.
fn report(error: &Error, certificate: &Certificate, metrics: &Metrics) {
    metrics.certificate_reload(false);
    let kept = certificate.is_loaded();
    tracing::error!(%error, kept, "the certificate cannot be used; the one before, if any, is kept");
}

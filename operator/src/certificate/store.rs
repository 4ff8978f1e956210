//! Reads and writes the four objects of a renewal: two Secrets and two webhook configurations.
//!
//! Both Secrets are replaced, and both configurations patched, only in the resourceVersion that was read: if two
//! operators consider themselves the leader, the second write fails. Leadership is checked before each write. The
//! configurations are read before the Secrets, so that a bundle is never computed from Secrets that are older than the
//! configuration into which it is written.

use super::material::{Authority, Leaf};
use super::rotation::StoredAuthorities;
use crate::calls::FIELD_MANAGER;
use crate::leadership::lease::Leadership;
use crate::messages::report::CallError;
use giveway_crds::wording::events;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// Name of both webhook configurations.
pub const CONFIGURATION: &str = "giveway";
/// Secret with the webhook's certificate and key, which the webhook reads.
pub const LEAF_SECRET: &str = "giveway-webhook-tls";
/// Secret with the authorities and their keys. Only the operator needs it.
pub const AUTHORITY_SECRET: &str = "giveway-webhook-ca";
/// Annotation of the authority's Secret with the time since when the next authority has been in all bundles.
const PUBLISHED: &str = "scheduling.giveway.dev/next-ca-published";
/// Data keys of the authority's Secret.
const CURRENT: [&str; 2] = ["ca.crt", "ca.key"];
const NEXT: [&str; 2] = ["next-ca.crt", "next-ca.key"];

/// Timeout of one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Clients for the Secrets and the webhook configurations.
#[derive(Clone)]
pub struct Store {
    leadership: Leadership,
    secrets: Api<Secret>,
    mutating: Api<MutatingWebhookConfiguration>,
    validating: Api<ValidatingWebhookConfiguration>,
}

/// The objects that were read, with their resourceVersions.
pub struct ReadObjects {
    /// The usable content of the authority's Secret.
    pub stored: StoredAuthorities,
    /// Reasons why parts of the authority's Secret are unusable.
    pub complaints: Vec<String>,
    /// The content of the certificate's Secret; empty if it does not exist.
    pub leaf: Leaf,
    /// `caBundle` of each webhook.
    pub bundles: Vec<Vec<u8>>,
    configurations: Vec<Configuration>,
    authority_secret: Option<Secret>,
    leaf_secret: Option<Secret>,
}

/// The fields of a webhook configuration that are needed to write it.
struct Configuration {
    mutating: bool,
    version: Option<String>,
    webhooks: Vec<String>,
}

impl Store {
    /// Returns what reads and writes the Secrets in `namespace` and the webhook configurations. It writes only while `leadership` permits
    /// that.
    pub fn new(client: Client, namespace: &str, leadership: Leadership) -> Self {
        Self {
            leadership,
            secrets: Api::namespaced(client.clone(), namespace),
            mutating: Api::all(client.clone()),
            validating: Api::all(client),
        }
    }

    /// Returns the client for Secrets in the namespace of the installation.
    pub fn secrets(&self) -> &Api<Secret> {
        &self.secrets
    }

    /// Returns the client for mutating and that for validating webhook configurations.
    pub fn configurations(&self) -> (&Api<MutatingWebhookConfiguration>, &Api<ValidatingWebhookConfiguration>) {
        (&self.mutating, &self.validating)
    }

    /// Reads both webhook configurations, then both Secrets. An object that does not exist is no error: its fields are empty.
    ///
    /// # Errors
    /// The API server does not answer or denies the read.
    pub async fn read(&self) -> Result<ReadObjects, CallError> {
        let mutating = with_timeout(CALL_TIMEOUT, self.mutating.get_opt(CONFIGURATION)).await?;
        let validating = with_timeout(CALL_TIMEOUT, self.validating.get_opt(CONFIGURATION)).await?;
        let mut bundles = Vec::new();
        let mut configurations = Vec::new();
        let mut add = |mutating, meta: &ObjectMeta, webhooks: Vec<(&String, &WebhookClientConfig)>| {
            configurations.push(Configuration {
                mutating,
                version: meta.resource_version.clone(),
                webhooks: webhooks.iter().map(|(name, _)| (*name).clone()).collect(),
            });
            bundles.extend(
                webhooks.iter().map(|(_, client)| client.ca_bundle.as_ref().map(|b| b.0.clone()).unwrap_or_default()),
            );
        };
        if let Some(object) = &mutating {
            let webhooks = object.webhooks.iter().flatten().map(|webhook| (&webhook.name, &webhook.client_config));
            add(true, &object.metadata, webhooks.collect());
        }
        if let Some(object) = &validating {
            let webhooks = object.webhooks.iter().flatten().map(|webhook| (&webhook.name, &webhook.client_config));
            add(false, &object.metadata, webhooks.collect());
        }
        let authority_secret = with_timeout(CALL_TIMEOUT, self.secrets.get_opt(AUTHORITY_SECRET)).await?;
        let leaf_secret = with_timeout(CALL_TIMEOUT, self.secrets.get_opt(LEAF_SECRET)).await?;
        let (stored, complaints) = authority_secret.as_ref().map(authorities_in).unwrap_or_default();
        let leaf = leaf_secret.as_ref().map(leaf_in).unwrap_or_default();
        Ok(ReadObjects { stored, complaints, leaf, bundles, configurations, authority_secret, leaf_secret })
    }

    /// Replaces the content of the authority's Secret by `new`, only in the resourceVersion of `read`; creates the Secret if it did not
    /// exist then.
    ///
    /// # Errors
    /// The Secret has changed since it was read, or the API server rejects the write.
    pub async fn write_authorities(&self, read: &ReadObjects, new: &StoredAuthorities) -> Result<(), CallError> {
        let mut secret = read.authority_secret.clone().unwrap_or_else(|| new_secret(AUTHORITY_SECRET, "Opaque"));
        let pairs = [(CURRENT, &new.current), (NEXT, &new.next)];
        let data = pairs.into_iter().filter_map(|(keys, authority)| Some((keys, authority.as_ref()?)));
        secret.data = Some(
            data.flat_map(|([certificate, key], authority)| {
                let bytes = |text: String| ByteString(text.into_bytes());
                [
                    (certificate.to_owned(), bytes(authority.anchor().pem())),
                    (key.to_owned(), bytes(authority.key().to_owned())),
                ]
            })
            .collect(),
        );
        secret.annotations_mut().remove(PUBLISHED);
        if let Some(published) = new.published {
            secret.annotations_mut().insert(PUBLISHED.to_owned(), published.to_string());
        }
        self.put(&secret).await
    }

    /// Replaces the content of the Secret with the webhook's certificate by `new`, only in the resourceVersion of `read`; creates the
    /// Secret if it did not exist then.
    ///
    /// # Errors
    /// The Secret has changed since it was read, or the API server rejects the write.
    pub async fn write_leaf(&self, read: &ReadObjects, new: Leaf) -> Result<(), CallError> {
        let mut secret = read.leaf_secret.clone().unwrap_or_else(|| new_secret(LEAF_SECRET, "kubernetes.io/tls"));
        let data = [("tls.crt", new.chain), ("tls.key", new.key), ("ca.crt", new.authority)];
        secret.data = Some(data.into_iter().map(|(key, bytes)| (key.to_owned(), ByteString(bytes))).collect());
        self.put(&secret).await
    }

    /// Replaces a Secret in exactly its resourceVersion, or creates one that has no resourceVersion. The error is that of the write.
    async fn put(&self, secret: &Secret) -> Result<(), CallError> {
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match secret.metadata.resource_version {
            Some(_) => self.write(self.secrets.replace(&secret.name_any(), &params, secret)).await,
            None => self.write(self.secrets.create(&params, secret)).await,
        }
    }

    /// Makes one write call if this process is the leader. The call gets 10 s, or the rest of the lease if that is shorter. The error says
    /// that this process is not the leader, that no answer came in time, or what the API server answered.
    async fn write<T>(&self, call: impl Future<Output = Result<T, kube::Error>>) -> Result<(), CallError> {
        let _under_way = self.leadership.writing();
        let limit = self.leadership.remaining().ok_or(CallError::NotLeader)?.min(CALL_TIMEOUT);
        with_timeout(limit, call).await.map(|_| ())
    }

    /// Writes `bundle` as `caBundle` of every webhook of both configurations, only in the resourceVersions of `read`. The patch merges the
    /// list of webhooks by name; because it contains the resourceVersion, it cannot add a webhook that was removed meanwhile.
    ///
    /// # Errors
    /// A configuration has changed since it was read, or the API server rejects the write.
    pub async fn write_bundle(&self, read: &ReadObjects, bundle: &[u8]) -> Result<(), CallError> {
        let bundle = ByteString(bundle.to_vec());
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        for configuration in &read.configurations {
            let webhooks: Vec<_> = configuration
                .webhooks
                .iter()
                .map(|name| json!({ "name": name, "clientConfig": { "caBundle": bundle } }))
                .collect();
            let metadata = json!({ "resourceVersion": configuration.version });
            let patch = Patch::Strategic(json!({ "metadata": metadata, "webhooks": webhooks }));
            if configuration.mutating {
                self.write(self.mutating.patch(CONFIGURATION, &params, &patch)).await?;
            } else {
                self.write(self.validating.patch(CONFIGURATION, &params, &patch)).await?;
            }
        }
        Ok(())
    }
}

/// Waits for an API call for at most `limit`. The error is that of the call, or that no answer came in time.
async fn with_timeout<T>(limit: Duration, call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, CallError> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer.map_err(CallError::from),
        Err(_) => Err(CallError::Failed(format!("no answer within {:.1} s", limit.as_secs_f32()))),
    }
}

impl ReadObjects {
    /// Returns the UID of the Secret with the name `secret`, for events; empty if it does not exist. The API server accepts events about an
    /// object that does not exist.
    pub fn uid_of(&self, secret: &str) -> String {
        let secrets = [&self.authority_secret, &self.leaf_secret].into_iter().flatten();
        let mut named = secrets.filter(|found| found.name_any() == secret);
        named.next().and_then(|found| found.uid()).unwrap_or_default()
    }
}

/// Returns a Secret with this name and type, without data, and with Giveway's labels. It is not written.
fn new_secret(name: &str, type_: &str) -> Secret {
    let labels = [("app.kubernetes.io/name", "giveway"), ("app.kubernetes.io/managed-by", FIELD_MANAGER)];
    let labels: BTreeMap<String, String> = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let metadata = ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    Secret { metadata, type_: Some(type_.to_owned()), ..Secret::default() }
}

/// Returns the value of `key` in the data of a Secret; `None` if it has no such key.
fn data_of<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    secret.data.as_ref()?.get(key).map(|bytes| bytes.0.as_slice())
}

/// Reads the current and the next authority from the authority's Secret, and since when the next one has been in all bundles. The sentences
/// say why an authority that the Secret contains is left out: it cannot be used.
fn authorities_in(secret: &Secret) -> (StoredAuthorities, Vec<String>) {
    let mut complaints = Vec::new();
    let mut authority = |[certificate, key]: [&str; 2]| {
        let (found, key) = (data_of(secret, certificate), data_of(secret, key));
        if found.is_none() && key.is_none() {
            return None;
        }
        let read = Authority::read(found.unwrap_or_default(), key.unwrap_or_default());
        read.map_err(|why| complaints.push(events::certificate_unusable(certificate, &why.to_string()))).ok()
    };
    let (current, next) = (authority(CURRENT), authority(NEXT));
    let published: Option<Timestamp> = secret.annotations().get(PUBLISHED).and_then(|time| time.parse().ok());
    (StoredAuthorities { current, next, published }, complaints)
}

/// Reads the webhook's certificate chain, its key and its CA from their Secret. A part that the Secret does not have is empty.
fn leaf_in(secret: &Secret) -> Leaf {
    let value = |key| data_of(secret, key).unwrap_or_default().to_vec();
    Leaf { chain: value("tls.crt"), key: value("tls.key"), authority: value("ca.crt") }
}

#[cfg(test)]
mod tests;

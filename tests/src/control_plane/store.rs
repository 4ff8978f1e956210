//! Reads and writes the contents of etcd directly through etcd's JSON gateway.

use anyhow::{Context as _, Result};
use http::{Request, Uri};
use k8s_openapi::ByteString;
use kube::{Client, Config};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Prefix of all keys of Kubernetes.
const FIRST: &[u8] = b"/registry/";
/// The first key after that prefix.
const END: &[u8] = b"/registry0";

/// The stored objects, by key.
pub(super) type Contents = BTreeMap<Vec<u8>, Stored>;

/// A stored object.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Stored {
    #[serde(default)]
    key: ByteString,
    /// The revision of its last change, in decimal.
    #[serde(default)]
    pub(super) mod_revision: String,
    /// The value; empty if only keys were read.
    #[serde(default)]
    pub(super) value: ByteString,
}

#[derive(Deserialize)]
struct Found {
    #[serde(default)]
    kvs: Vec<Stored>,
}

/// A client of etcd on this machine.
#[derive(Clone)]
pub(super) struct Store {
    client: Client,
}

impl Store {
    /// Returns a client of the etcd with this client port.
    pub(super) fn at(port: u16) -> Result<Self> {
        let url: Uri = format!("http://127.0.0.1:{port}").parse()?;
        Ok(Self { client: Client::try_from(Config::new(url))? })
    }

    /// Returns all stored objects, or only their keys and revisions.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub(super) async fn contents(&self, keys_only: bool) -> Result<Contents> {
        let range = json!({ "key": bytes(FIRST), "range_end": bytes(END), "keys_only": keys_only });
        let found: Found = self.call("range", &range).await?;
        Ok(found.kvs.into_iter().map(|stored| (stored.key.0.clone(), stored)).collect())
    }

    /// Returns the object with this key.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub(super) async fn value(&self, key: &[u8]) -> Result<Option<ByteString>> {
        let found: Found = self.call("range", &json!({ "key": bytes(key) })).await?;
        Ok(found.kvs.into_iter().next().map(|stored| stored.value))
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub(super) async fn delete(&self, key: &[u8]) -> Result<()> {
        self.call::<Value>("deleterange", &json!({ "key": bytes(key) })).await?;
        Ok(())
    }

    /// Stores an object.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub(super) async fn put(&self, key: &[u8], value: &ByteString) -> Result<()> {
        self.call::<Value>("put", &json!({ "key": bytes(key), "value": value })).await?;
        Ok(())
    }

    async fn call<T: DeserializeOwned>(&self, what: &str, body: &Value) -> Result<T> {
        let request = Request::post(format!("/v3/kv/{what}")).body(serde_json::to_vec(body)?)?;
        self.client.request(request).await.with_context(|| format!("asking etcd for a {what}"))
    }
}

fn bytes(bytes: &[u8]) -> ByteString {
    ByteString(bytes.to_vec())
}

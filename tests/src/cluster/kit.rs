//! The client and the namespace that builders and handles use.

use crate::wait::wait_for;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{ObjectMeta, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;

/// Number of concurrent requests while many objects are created.
const CONCURRENCY: usize = 16;

/// A client and the namespace in which objects are created. Cheap to clone.
#[derive(Clone)]
pub struct Kit {
    /// A client with all rights.
    pub client: Client,
    /// The namespace of namespaced objects.
    pub namespace: String,
}

impl Kit {
    /// Returns a kit for the namespace `default`.
    pub fn new(client: Client) -> Self {
        Self { client, namespace: "default".to_owned() }
    }

    /// Creates a namespace and waits until pods can be created in it.
    ///
    /// # Panics
    /// If it is rejected.
    pub async fn new_namespace(&self, name: &str) -> Self {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        Api::all(self.client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
        let kit = Self { client: self.client.clone(), namespace: name.to_owned() };
        let accounts = kit.api::<ServiceAccount>();
        wait_for("the namespace has a ServiceAccount", Duration::from_secs(30), async || {
            let account = accounts.get_opt("default").await.map_err(|error| error.to_string())?;
            account.map(|_| ()).ok_or_else(|| "the ServiceAccount default does not exist".to_owned())
        })
        .await;
        kit
    }

    /// Returns an API handle for one kind in the kit's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates many objects with bounded concurrency and returns them in the same order.
    ///
    /// # Panics
    /// If one of them is rejected.
    pub(super) async fn create_all<K>(api: &Api<K>, objects: Vec<K>) -> Vec<K>
    where
        K: Resource + Clone + Debug + Serialize + DeserializeOwned,
        K::DynamicType: Default,
    {
        stream::iter(objects)
            .map(|object| async move {
                let created = api.create(&PostParams::default(), &object).await;
                created.unwrap_or_else(|error| panic!("creating {}: {error}", describe(&object)))
            })
            .buffered(CONCURRENCY)
            .collect()
            .await
    }
}

fn describe<K: Resource>(object: &K) -> String
where
    K::DynamicType: Default,
{
    format!("{} {}", K::kind(&K::DynamicType::default()), object.meta().name.as_deref().unwrap_or("without a name"))
}

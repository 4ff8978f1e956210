//! Asks the API server for objects that a request names and the watches do not know yet.
//!
//! `kubectl apply -f` of a class, a group and its pods in one file is faster than a watch. Without this, the group
//! would be refused because its class "was not found" a few milliseconds after it was created.

use crate::metrics::Metrics;
use crate::verdict::Reference;
use crate::watch::{SharedView, Viewed};
use giveway_crds::{PodGroup, Workload};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{Api, Client};
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// How long all look-ups of one round may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Something that can put missing objects into the view.
pub trait Lookup: Send + Sync + 'static {
    /// Looks for the objects and puts those it finds into the view. Returns whether it found any.
    fn fetch(&self, missing: &BTreeSet<Reference>) -> impl Future<Output = bool> + Send;
}

/// Finds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLookup;

impl Lookup for NoLookup {
    async fn fetch(&self, _: &BTreeSet<Reference>) -> bool {
        false
    }
}

/// Asks the API server.
#[derive(Clone)]
pub struct ApiLookup {
    client: Client,
    view: Arc<SharedView>,
    metrics: Arc<Metrics>,
}

impl ApiLookup {
    /// Asks through `client` and puts what it finds into `view`.
    pub fn new(client: Client, view: Arc<SharedView>, metrics: Arc<Metrics>) -> Self {
        Self { client, view, metrics }
    }

    async fn one(&self, reference: &Reference) -> bool {
        self.metrics.lookups.inc();
        match reference {
            Reference::Class(name) => self.get(Api::<PriorityClass>::all(self.client.clone()), name).await,
            Reference::PodGroup { namespace, name } => {
                self.get(Api::<PodGroup>::namespaced(self.client.clone(), namespace), name).await
            }
            Reference::Workload { namespace, name } => {
                self.get(Api::<Workload>::namespaced(self.client.clone(), namespace), name).await
            }
        }
    }

    async fn get<K: Viewed>(&self, api: Api<K>, name: &str) -> bool {
        match api.get_opt(name).await {
            Ok(Some(object)) => {
                self.view.write(|view| object.store(view));
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), name, %error, "an object could not be looked up");
                false
            }
        }
    }
}

impl Lookup for ApiLookup {
    async fn fetch(&self, missing: &BTreeSet<Reference>) -> bool {
        let all = futures::future::join_all(missing.iter().map(|reference| self.one(reference)));
        match tokio::time::timeout(LIMIT, all).await {
            Ok(found) => found.contains(&true),
            Err(_) => {
                tracing::warn!("look-ups took too long");
                false
            }
        }
    }
}

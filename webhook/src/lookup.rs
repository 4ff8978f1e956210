//! Asks the API server for objects that a request names and the watches do not know yet.
//!
//! `kubectl apply -f` of a class, a group and its pods in one file is faster than a watch. Without this, the group
//! would be refused because its class "was not found" a few milliseconds after it was created.
//!
//! Promises: what is found answers the request that it was looked up for and is then forgotten, so that it can never
//! hide what the watch says later; no look-up outlasts the deadline of its request; their number at the same time is
//! bounded.

use crate::deadline::Deadline;
use crate::metrics::Metrics;
use crate::view::{LookedUp, templates_of};
use giveway_admission::verdict::Reference;
use giveway_admission::view::GroupView;
use giveway_crds::priority::Class;
use giveway_crds::{PodGroup, Workload};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Time limit of all look-ups of one round.
const LIMIT: Duration = Duration::from_secs(2);
/// Maximum number of concurrent look-ups; further ones wait.
const MOST: usize = 32;

/// Finds missing objects.
pub trait Lookup: Send + Sync + 'static {
    /// Looks up the objects until the deadline, and returns those that were found by then.
    fn fetch(&self, missing: &BTreeSet<Reference>, deadline: Deadline) -> impl Future<Output = LookedUp> + Send;
}

/// Finds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLookup;

impl Lookup for NoLookup {
    async fn fetch(&self, _: &BTreeSet<Reference>, _: Deadline) -> LookedUp {
        LookedUp::default()
    }
}

/// Reads missing objects from the API server.
#[derive(Clone)]
pub struct ApiLookup {
    client: Client,
    metrics: Arc<Metrics>,
    slots: Arc<Semaphore>,
}

impl ApiLookup {
    /// Creates a look-up that reads through `client`.
    pub fn new(client: Client, metrics: Arc<Metrics>) -> Self {
        Self { client, metrics, slots: Arc::new(Semaphore::new(MOST)) }
    }

    /// Reads an object that the view does not contain. One that cannot be read counts as absent.
    async fn one(&self, reference: &Reference) -> LookedUp {
        let mut found = LookedUp::default();
        match reference {
            Reference::Class(name) => {
                let class = self.get(Api::<PriorityClass>::all(self.client.clone()), name).await;
                found.classes.extend(class.map(|class| Class::from_object(&class)));
            }
            Reference::PodGroup { namespace, name } => {
                let group = self.get(Api::<PodGroup>::namespaced(self.client.clone(), namespace), name).await;
                found.groups.extend(group.map(|group| (namespace.clone(), named(name, GroupView::of(&group)))));
            }
            Reference::Workload { namespace, name } => {
                let workload = self.get(Api::<Workload>::namespaced(self.client.clone(), namespace), name).await;
                found.workloads.extend(workload.map(|w| (namespace.clone(), named(name, templates_of(&w)))));
            }
        }
        found
    }

    /// Sends one GET; `None` if the object does not exist or the call fails.
    async fn get<K>(&self, api: Api<K>, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let _slot = self.slots.acquire().await;
        self.metrics.lookups.inc();
        api.get_opt(name).await.unwrap_or_else(|error| {
            tracing::warn!(kind = %K::kind(&()), name, %error, "an object could not be looked up");
            None
        })
    }
}

fn named<T>(name: &str, value: T) -> BTreeMap<String, T> {
    BTreeMap::from([(name.to_owned(), value)])
}

impl Lookup for ApiLookup {
    async fn fetch(&self, missing: &BTreeSet<Reference>, deadline: Deadline) -> LookedUp {
        let mut found = LookedUp::default();
        let all = async {
            for one in futures::future::join_all(missing.iter().map(|reference| self.one(reference))).await {
                found.extend(one);
            }
        };
        if deadline.or_earlier(Instant::now() + LIMIT).limit(all).await.is_none() {
            tracing::warn!("look-ups took too long");
        }
        found
    }
}

//! Asks the API server for objects that a request names and the watches do not know yet.
//!
//! `kubectl apply -f` of a class, a group and its pods in one file is faster than a watch. Without this, the group
//! would be refused because its class "was not found" a few milliseconds after it was created.
//!
//! Promises: what is found answers the request that it was looked up for and is then forgotten, so that it can never
//! hide what the watch says later; no look-up outlasts the deadline of its request; their number at the same time is
//! bounded, in all and for each client address, so that reviews that a client without credentials forges leave slots for
//! those of the API servers.

use crate::deadline::Deadline;
use crate::metrics::Metrics;
use crate::view::{LookedUp, templates_of};
use giveway_admission::namespaced::put;
use giveway_admission::verdict::Reference;
use giveway_admission::view::GroupView;
use giveway_crds::priority::Class;
use giveway_crds::{PodGroup, Workload};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Time limit of all look-ups of one round.
const LIMIT: Duration = Duration::from_secs(2);
/// Maximum number of concurrent look-ups; further ones wait.
const MOST: usize = 32;
/// Maximum number of concurrent look-ups for one client address.
const MOST_OF_ONE: usize = MOST / 2;

/// Reads objects from the API server that the watches have not delivered yet.
pub trait Lookup: Send + Sync + 'static {
    /// Reads these objects from the API server, for a review from this client address, and returns those that exist and could
    /// be read. If not all are read by the deadline, or within two seconds, it returns none.
    fn fetch(
        &self,
        missing: &BTreeSet<Reference>,
        source: IpAddr,
        deadline: Deadline,
    ) -> impl Future<Output = LookedUp> + Send;
}

/// Looks up nothing: only what the watches have delivered is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLookup;

impl Lookup for NoLookup {
    async fn fetch(&self, _: &BTreeSet<Reference>, _: IpAddr, _: Deadline) -> LookedUp {
        LookedUp::default()
    }
}

/// Limits concurrent look-ups, in all and for each client address. At most [`MOST_OF_ONE`] look-ups for one address run, or
/// wait to run, at the same time, so those for another address wait for no more than that.
#[derive(Debug)]
struct Slots {
    all: Semaphore,
    by_source: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
}

impl Slots {
    /// Creates the limits, with no look-up running.
    fn new() -> Self {
        Self { all: Semaphore::new(MOST), by_source: Mutex::default() }
    }

    /// Waits until a look-up for this client address may run, and returns the permits that it holds until it ends. The semaphores are never
    /// closed, so the result is never `None`.
    async fn take(&self, source: IpAddr) -> Option<(OwnedSemaphorePermit, SemaphorePermit<'_>)> {
        let own = self.of(source).acquire_owned().await.ok()?;
        Some((own, self.all.acquire().await.ok()?))
    }

    /// Returns the semaphore for the look-ups of one client address. Semaphores of addresses without look-ups are removed.
    fn of(&self, source: IpAddr) -> Arc<Semaphore> {
        let mut sources = self.by_source.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slots) = sources.get(&source).and_then(Weak::upgrade) {
            return slots;
        }
        sources.retain(|_, slots| slots.strong_count() > 0);
        let slots = Arc::new(Semaphore::new(MOST_OF_ONE));
        sources.insert(source, Arc::downgrade(&slots));
        slots
    }
}

/// Reads missing objects from the API server.
#[derive(Clone)]
pub struct ApiLookup {
    client: Client,
    metrics: Arc<Metrics>,
    slots: Arc<Slots>,
}

impl ApiLookup {
    /// Creates a look-up that reads objects from the API server through `client`, and counts its reads in `metrics`.
    pub fn new(client: Client, metrics: Arc<Metrics>) -> Self {
        Self { client, metrics, slots: Arc::new(Slots::new()) }
    }

    /// Reads this object from the API server, for a review from the client address `source`. The result is empty if the object does not
    /// exist or cannot be read.
    async fn one(&self, reference: &Reference, source: IpAddr) -> LookedUp {
        let mut found = LookedUp::default();
        match reference {
            Reference::Class(name) => {
                let class = self.get(Api::<PriorityClass>::all(self.client.clone()), name, source).await;
                found.classes.extend(class.map(|class| Class::from_object(&class)));
            }
            Reference::PodGroup { namespace, name } => {
                let group = self.get(Api::<PodGroup>::namespaced(self.client.clone(), namespace), name, source).await;
                if let Some(group) = group {
                    put(&mut found.groups, Some(namespace), Some(name), GroupView::of(&group));
                }
            }
            Reference::Workload { namespace, name } => {
                let workload =
                    self.get(Api::<Workload>::namespaced(self.client.clone(), namespace), name, source).await;
                if let Some(workload) = workload {
                    put(&mut found.workloads, Some(namespace), Some(name), templates_of(&workload));
                }
            }
        }
        found
    }

    /// Reads the object `name` from the API server, as soon as the limits permit another look-up for the client address `source`; `None` if
    /// it does not exist or the read fails.
    async fn get<K>(&self, api: Api<K>, name: &str, source: IpAddr) -> Option<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let _slot = self.slots.take(source).await;
        self.metrics.lookups.inc();
        api.get_opt(name).await.unwrap_or_else(|error| {
            tracing::warn!(kind = %K::kind(&()), name, %error, "an object could not be looked up");
            None
        })
    }
}

impl Lookup for ApiLookup {
    async fn fetch(&self, missing: &BTreeSet<Reference>, source: IpAddr, deadline: Deadline) -> LookedUp {
        let mut found = LookedUp::default();
        let all = async {
            let each = missing.iter().map(|reference| self.one(reference, source));
            for one in futures::future::join_all(each).await {
                found.extend(one);
            }
        };
        if deadline.or_earlier(Instant::now() + LIMIT).limit(all).await.is_none() {
            tracing::warn!("look-ups took too long");
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use std::net::Ipv4Addr;

    fn source(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    #[test]
    fn look_ups_for_one_address_leave_slots_for_others_and_addresses_are_forgotten() {
        let slots = Slots::new();
        let take = |last| slots.take(source(last)).now_or_never().flatten();
        let mut flood: Vec<_> = (0..MOST).filter_map(|_| take(1)).collect();
        assert_eq!(flood.len(), MOST / 2);
        let mut waiting = Box::pin(slots.take(source(1)));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(take(2).is_some(), "another address has free slots");
        flood.pop();
        assert!(waiting.now_or_never().flatten().is_some(), "the next one of the same address");
        drop(flood);
        assert!(take(3).is_some());
        assert_eq!(slots.by_source.lock().unwrap().keys().copied().collect::<Vec<_>>(), [source(3)]);
    }
}

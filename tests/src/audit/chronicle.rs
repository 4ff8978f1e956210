//! The events of the watches of pods and budgets, in the order of etcd's revisions.
//!
//! The audit log has the requests, but not the number of ready pods of a budget at the time of a request. The watches add this. A
//! resource version is the revision of etcd at which the object was written, so the events of both watches have one exact order.

use super::history::Key;
use crate::cluster::ready;
use crate::wait::wait_for;
use futures::StreamExt as _;
use giveway_crds::keys;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::core::Selector;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Deadline for the watches to catch up: a failed watch is retried after 30 s at most.
const CAUGHT_UP: Duration = Duration::from_secs(90);

/// The state of a pod from one revision on.
#[derive(Clone, Debug)]
pub struct PodVersion {
    /// Namespace and name.
    pub key: Key,
    /// Its UID.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// True if it is ready and not terminating: the disruption controller counts it as healthy.
    pub healthy: bool,
    /// True if it is terminating.
    pub terminating: bool,
    /// The threshold in its annotation (KEP-3280).
    pub threshold: Option<i32>,
}

/// The state of a budget from one revision on.
#[derive(Clone, Debug)]
pub struct BudgetVersion {
    /// Namespace and name.
    pub key: Key,
    /// The pods that it selects.
    pub selector: Selector,
    /// Its status; `None` before the disruption controller has written one.
    pub status: Option<BudgetStatus>,
}

/// The status of a budget, which the disruption controller and accepted evictions write.
#[derive(Clone, Debug)]
pub struct BudgetStatus {
    /// The desired number of healthy pods.
    pub desired: i64,
    /// The number of healthy pods that the controller counted.
    pub healthy: i64,
    /// Names of pods whose eviction was granted and whose termination the controller has not observed.
    pub disrupted: BTreeSet<String>,
}

/// An event of the watches.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A pod was created or changed.
    Pod(PodVersion),
    /// The pod with this UID was removed.
    PodRemoved(String),
    /// A budget was created or changed.
    Budget(BudgetVersion),
    /// A budget was removed.
    BudgetRemoved(Key),
}

/// All events, by revision.
#[derive(Clone, Debug, Default)]
pub struct Chronicle {
    /// The events.
    pub events: BTreeMap<u64, Seen>,
    /// True if a watch was interrupted and restarted with a list, so that events may be missing.
    pub gap: bool,
    listed: usize,
}

impl Chronicle {
    /// Returns the revision of each object that exists: pods by UID (`true`), budgets by name.
    fn existing(&self) -> BTreeMap<(bool, String), u64> {
        let mut there = BTreeMap::new();
        let budget = |key: &Key| (false, format!("{}/{}", key.0, key.1));
        for (revision, seen) in &self.events {
            let (object, exists) = match seen {
                Seen::Pod(pod) => ((true, pod.uid.clone()), true),
                Seen::PodRemoved(uid) => ((true, uid.clone()), false),
                Seen::Budget(seen) => (budget(&seen.key), true),
                Seen::BudgetRemoved(key) => (budget(key), false),
            };
            if exists {
                there.insert(object, *revision);
            } else {
                there.remove(&object);
            }
        }
        there
    }

    /// Returns the revisions of events that a later event of the same object supersedes.
    fn superseded(&self) -> BTreeSet<u64> {
        let existing: BTreeSet<u64> = self.existing().into_values().collect();
        self.events.keys().copied().filter(|revision| !existing.contains(revision)).collect()
    }

    /// Returns the number of changes of pods and budgets, up to these lists, that the watches have not observed yet: versions of objects
    /// that exist, and deletions.
    fn missing(&self, pods: &Listed, budgets: &Listed) -> usize {
        let unseen = [pods, budgets].into_iter().flat_map(|listed| &listed.objects);
        let unseen = unseen.filter(|revision| !self.events.contains_key(*revision)).count();
        if self.gap {
            // Deletions during a gap are never observed.
            return unseen;
        }
        let there = self.existing();
        let removed = there.iter().filter(|((pod, _), revision)| {
            let listed = if *pod { pods } else { budgets };
            **revision <= listed.at && !listed.objects.contains(*revision)
        });
        unseen + removed.count()
    }
}

/// A list: its revision and the revisions of its objects.
struct Listed {
    at: u64,
    objects: BTreeSet<u64>,
}

impl Listed {
    async fn of<K>(client: &Client) -> Result<Self, String>
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let list =
            Api::<K>::all(client.clone()).list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let at = list.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(Self { at, objects: list.items.iter().map(revision).collect() })
    }
}

/// Records a chronicle until it is dropped.
pub struct Chronicler {
    client: Client,
    chronicle: Arc<Mutex<Chronicle>>,
    tasks: [JoinHandle<()>; 2],
}

impl Chronicler {
    /// Starts the watches and waits until both have listed the existing objects.
    ///
    /// # Panics
    /// If the API server does not answer.
    pub async fn start(client: Client) -> Self {
        let chronicle: Arc<Mutex<Chronicle>> = Arc::default();
        let pods = tokio::spawn(follow(Api::<Pod>::all(client.clone()), chronicle.clone(), pod, |pod: &Pod| {
            Seen::PodRemoved(pod.uid().unwrap_or_default())
        }));
        let budgets = Api::<PodDisruptionBudget>::all(client.clone());
        let budgets = tokio::spawn(follow(budgets, chronicle.clone(), budget, |budget: &PodDisruptionBudget| {
            Seen::BudgetRemoved(key(budget))
        }));
        let this = Self { client, chronicle, tasks: [pods, budgets] };
        wait_for("pods and budgets are watched", Duration::from_secs(30), async || {
            let listed = this.chronicle.lock().unwrap().listed;
            if listed == 2 { Ok(()) } else { Err(format!("{listed} of 2 lists are complete")) }
        })
        .await;
        this
    }

    /// Removes all events except the last one of each existing object; the others belong to a test that has ended.
    ///
    /// # Panics
    /// If the watches do not catch up.
    pub async fn forget_test(&self) {
        let superseded = self.read().await.superseded();
        self.chronicle.lock().unwrap().events.retain(|revision, _| !superseded.contains(revision));
    }

    /// Returns the events so far, including those of all writes before this call unless there is a [gap](Chronicle::gap).
    ///
    /// # Panics
    /// If the watches do not catch up.
    pub async fn read(&self) -> Chronicle {
        let mut listed = None;
        wait_for("the watches of pods and budgets caught up", CAUGHT_UP, async || {
            if listed.is_none() {
                listed = Some((
                    Listed::of::<Pod>(&self.client).await?,
                    Listed::of::<PodDisruptionBudget>(&self.client).await?,
                ));
            }
            let Some((pods, budgets)) = &listed else { return Err("nothing is listed yet".to_owned()) };
            let chronicle = self.chronicle.lock().unwrap();
            let missing = chronicle.missing(pods, budgets);
            if missing == 0 { Ok(chronicle.clone()) } else { Err(format!("{missing} revisions were not observed")) }
        })
        .await
    }
}

impl Drop for Chronicler {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn follow<K>(api: Api<K>, chronicle: Arc<Mutex<Chronicle>>, seen: fn(&K) -> Seen, gone: fn(&K) -> Seen)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    K::DynamicType: Default,
{
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    let mut lists = 0;
    while let Some(event) = events.next().await {
        let mut chronicle = chronicle.lock().unwrap();
        match event {
            Ok(Event::Init) => {
                lists += 1;
                chronicle.gap |= lists > 1;
            }
            Ok(Event::InitDone) => chronicle.listed += 1,
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                chronicle.events.insert(revision(&object), seen(&object));
            }
            Ok(Event::Delete(object)) => {
                chronicle.events.insert(revision(&object), gone(&object));
            }
            // A watch that ended is resumed at its last revision; if that is not possible, the objects are listed again.
            Err(_) => {}
        }
    }
}

fn revision<K: kube::Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn key<K: kube::Resource>(object: &K) -> Key {
    (object.meta().namespace.clone().unwrap_or_default(), object.meta().name.clone().unwrap_or_default())
}

fn pod(pod: &Pod) -> Seen {
    Seen::Pod(PodVersion {
        key: key(pod),
        uid: pod.uid().unwrap_or_default(),
        labels: pod.labels().clone(),
        healthy: ready(pod),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        threshold: pod.annotations().get(keys::ANNOTATION_THRESHOLD).and_then(|text| text.parse().ok()),
    })
}

fn budget(budget: &PodDisruptionBudget) -> Seen {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
    let status = budget.status.as_ref().filter(|status| status.observed_generation == budget.metadata.generation);
    Seen::Budget(BudgetVersion {
        key: key(budget),
        selector: selector.try_into().unwrap_or_default(),
        status: status.map(|status| BudgetStatus {
            desired: i64::from(status.desired_healthy),
            healthy: i64::from(status.current_healthy),
            disrupted: status.disrupted_pods.iter().flat_map(BTreeMap::keys).cloned().collect(),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(at: u64, objects: &[u64]) -> Listed {
        Listed { at, objects: objects.iter().copied().collect() }
    }

    fn seen(name: &str) -> Seen {
        let metadata = serde_json::json!({"namespace": "default", "name": name, "uid": name});
        pod(&serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap())
    }

    #[test]
    fn writes_and_removals_before_the_list_are_missing_until_they_are_observed() {
        let mut chronicle = Chronicle::default();
        chronicle.events.insert(1, seen("a"));
        chronicle.events.insert(2, seen("b"));
        let none = listed(9, &[]);
        assert_eq!(chronicle.missing(&listed(9, &[1, 2]), &none), 0);
        assert_eq!(chronicle.missing(&listed(9, &[1, 2, 5]), &none), 1, "a write that the watch has not reported");
        assert_eq!(chronicle.missing(&listed(9, &[1]), &none), 1, "a removal of b that the watch has not reported");
        assert_eq!(chronicle.missing(&listed(1, &[1]), &none), 0, "b was created after the list");
        chronicle.events.insert(3, Seen::PodRemoved("b".to_owned()));
        assert_eq!(chronicle.missing(&listed(9, &[1]), &none), 0);
        // Deletions during a gap are never observed.
        chronicle.gap = true;
        assert_eq!(chronicle.missing(&none, &none), 0);
    }
}

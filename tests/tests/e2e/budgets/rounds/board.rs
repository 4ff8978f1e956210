//! What the API server tells of pods and of refused preemptors, through one watch each, and waiting for it.

use futures::{StreamExt as _, stream};
use giveway_tests::cluster::ready;
use k8s_openapi::api::core::v1::{Event as Told, Pod};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(300);

/// The pods that exist, and why preemptors were told that nothing helps them.
#[derive(Default)]
pub struct State {
    /// By UID.
    pub pods: BTreeMap<String, Pod>,
    /// UIDs of all pods that were seen with a node, also of those that are gone.
    pub bound: BTreeSet<String>,
    /// By namespace and name of the preemptor.
    pub refused: BTreeMap<(String, String), String>,
}

impl State {
    /// The pods of a namespace that are ready.
    pub fn ready_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods.values().filter(move |pod| pod.metadata.namespace.as_deref() == Some(namespace) && ready(pod))
    }
}

/// Follows the cluster. Cheap to clone.
#[derive(Clone)]
pub struct Board {
    state: Arc<Mutex<State>>,
    changes: watch::Receiver<u64>,
}

enum Seen {
    Pod(Box<Event<Pod>>),
    Told(Box<Event<Told>>),
}

impl Board {
    /// Starts the watches.
    pub fn start(client: &Client) -> (Self, JoinHandle<()>) {
        let (sender, changes) = watch::channel(0);
        let state: Arc<Mutex<State>> = Arc::default();
        let board = Self { state: state.clone(), changes };
        let pods = watcher(Api::<Pod>::all(client.clone()), watcher::Config::default()).default_backoff();
        let told = watcher(Api::<Told>::all(client.clone()), watcher::Config::default()).default_backoff();
        let pods = pods.map(|seen| seen.map(Box::new).map(Seen::Pod)).boxed();
        let told = told.map(|seen| seen.map(Box::new).map(Seen::Told)).boxed();
        let task = tokio::spawn(async move {
            let mut seen = stream::select(pods, told);
            while let Some(seen) = seen.next().await {
                match seen {
                    Ok(Seen::Pod(event)) => state.lock().unwrap().take_pod(*event),
                    Ok(Seen::Told(event)) => state.lock().unwrap().take_told(*event),
                    Err(_) => {}
                }
                sender.send_modify(|count| *count += 1);
            }
        });
        (board, task)
    }

    /// What is known now.
    pub fn look<T>(&self, probe: impl FnOnce(&State) -> T) -> T {
        probe(&self.state.lock().unwrap())
    }

    /// Waits until `probe` finds what it looks for; `None` when the time is up.
    pub async fn find<T>(&self, limit: Duration, probe: impl Fn(&State) -> Option<T>) -> Option<T> {
        let mut changes = self.changes.clone();
        let found = tokio::time::timeout(limit, async {
            loop {
                if let Some(found) = probe(&self.state.lock().unwrap()) {
                    return found;
                }
                changes.changed().await.expect("the watches have ended");
            }
        });
        found.await.ok()
    }

    /// Waits until `probe` finds what it looks for.
    pub async fn wait<T>(&self, what: &str, probe: impl Fn(&State) -> Option<T>) -> T {
        self.find(LIMIT, probe).await.unwrap_or_else(|| panic!("waited {LIMIT:?} in vain until {what}"))
    }
}

impl State {
    fn take_pod(&mut self, event: Event<Pod>) {
        match event {
            Event::Apply(pod) | Event::InitApply(pod) => {
                if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) {
                    self.bound.extend(pod.metadata.uid.clone());
                }
                self.pods.insert(pod.metadata.uid.clone().unwrap_or_default(), pod);
            }
            Event::Delete(pod) => drop(self.pods.remove(pod.metadata.uid.as_deref().unwrap_or_default())),
            Event::Init | Event::InitDone => {}
        }
    }

    fn take_told(&mut self, event: Event<Told>) {
        let (Event::Apply(told) | Event::InitApply(told)) = event else { return };
        if told.reason.is_some_and(|reason| reason.starts_with("Unschedulable")) {
            let about = told.involved_object;
            let key = (about.namespace.unwrap_or_default(), about.name.unwrap_or_default());
            self.refused.insert(key, told.message.unwrap_or_default());
        }
    }
}

//! A cache of all pods and of the events about unschedulable preemptors, filled by one watch each, with functions that wait
//! for a state.

use futures::{StreamExt as _, stream};
use giveway_tests::cluster::ready;
use k8s_openapi::api::core::v1::{Event as Report, Pod};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Deadline of every wait.
const LIMIT: Duration = Duration::from_secs(300);

/// The existing pods, and the events that report preemptors as unschedulable.
#[derive(Default)]
pub struct State {
    /// By UID.
    pub pods: BTreeMap<String, Pod>,
    /// UIDs of all pods that were ever bound, including deleted ones.
    pub bound: BTreeSet<String>,
    /// Messages of `Unschedulable…` events, by namespace and name of the preemptor.
    pub unschedulable: BTreeMap<(String, String), String>,
}

impl State {
    /// Returns the ready pods of a namespace.
    pub fn ready_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods.values().filter(move |pod| pod.metadata.namespace.as_deref() == Some(namespace) && ready(pod))
    }
}

/// Handle of the cache. Cheap to clone.
#[derive(Clone)]
pub struct Board {
    state: Arc<Mutex<State>>,
    changes: watch::Receiver<u64>,
}

enum Observed {
    Pod(Box<Event<Pod>>),
    Report(Box<Event<Report>>),
}

impl Board {
    /// Starts the watches.
    pub fn start(client: &Client) -> (Self, JoinHandle<()>) {
        let (sender, changes) = watch::channel(0);
        let state: Arc<Mutex<State>> = Arc::default();
        let board = Self { state: state.clone(), changes };
        let pods = watcher(Api::<Pod>::all(client.clone()), watcher::Config::default()).default_backoff();
        let reports = watcher(Api::<Report>::all(client.clone()), watcher::Config::default()).default_backoff();
        let pods = pods.map(|event| event.map(Box::new).map(Observed::Pod)).boxed();
        let reports = reports.map(|event| event.map(Box::new).map(Observed::Report)).boxed();
        let task = tokio::spawn(async move {
            let mut observed = stream::select(pods, reports);
            while let Some(event) = observed.next().await {
                match event {
                    Ok(Observed::Pod(event)) => state.lock().unwrap().take_pod(*event),
                    Ok(Observed::Report(event)) => state.lock().unwrap().take_report(*event),
                    Err(_) => {}
                }
                sender.send_modify(|count| *count += 1);
            }
        });
        (board, task)
    }

    /// Reads the current state.
    pub fn look<T>(&self, probe: impl FnOnce(&State) -> T) -> T {
        probe(&self.state.lock().unwrap())
    }

    /// Waits until `probe` returns a value; returns `None` after `limit`.
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

    /// Waits until `probe` returns a value. Panics after [`LIMIT`].
    pub async fn wait<T>(&self, what: &str, probe: impl Fn(&State) -> Option<T>) -> T {
        self.find(LIMIT, probe).await.unwrap_or_else(|| panic!("still waiting after {LIMIT:?}: {what}"))
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

    fn take_report(&mut self, event: Event<Report>) {
        let (Event::Apply(report) | Event::InitApply(report)) = event else { return };
        if report.reason.is_some_and(|reason| reason.starts_with("Unschedulable")) {
            let about = report.involved_object;
            let key = (about.namespace.unwrap_or_default(), about.name.unwrap_or_default());
            self.unschedulable.insert(key, report.message.unwrap_or_default());
        }
    }
}

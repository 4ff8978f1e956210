//! What the API server tells of all pods, through one watch, and waiting for it.

use super::compare::yaml;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The pods by UID, as they were seen last.
#[derive(Clone)]
pub struct Board {
    pods: Arc<Mutex<HashMap<String, Pod>>>,
    changes: watch::Receiver<u64>,
}

impl Board {
    /// Starts the watch.
    pub fn start(client: Client) -> (Self, JoinHandle<()>) {
        let (sender, changes) = watch::channel(0);
        let pods: Arc<Mutex<HashMap<String, Pod>>> = Arc::default();
        let board = Self { pods: pods.clone(), changes };
        let task = tokio::spawn(async move {
            let mut events = watcher(Api::<Pod>::all(client), watcher::Config::default()).boxed();
            while let Some(event) = events.next().await {
                let uid = |pod: &Pod| pod.metadata.uid.clone().unwrap_or_default();
                match event {
                    // A pod that is gone keeps its last state: what became of it is asked for later.
                    Ok(Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod)) => {
                        pods.lock().unwrap().insert(uid(&pod), pod);
                    }
                    Ok(Event::Init | Event::InitDone) | Err(_) => {}
                }
                sender.send_modify(|count| *count += 1);
            }
        });
        (board, task)
    }

    /// Waits until `probe` finds what it looks for in a pod.
    pub async fn wait<T>(&self, what: &str, uid: &str, probe: impl Fn(&Pod) -> Option<T>) -> T {
        let mut changes = self.changes.clone();
        let found = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                if let Some(found) = self.pods.lock().unwrap().get(uid).and_then(&probe) {
                    return found;
                }
                changes.changed().await.expect("the watch of the pods has ended");
            }
        });
        match found.await {
            Ok(found) => found,
            Err(_) => {
                let seen = self.pods.lock().unwrap().get(uid).map(yaml);
                panic!("waited in vain until {what}: {}", seen.unwrap_or_default())
            }
        }
    }
}

/// What the scheduler decided on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It runs on this node.
    Bound(String),
    /// It fits nowhere, for this reason.
    Unschedulable(String),
}

/// What the scheduler decided; `None` while it has not.
pub fn verdict(pod: &Pod) -> Option<Verdict> {
    if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) {
        return Some(Verdict::Bound(node));
    }
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let told = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    let current = told.observed_generation.is_none() || told.observed_generation == pod.metadata.generation;
    let unschedulable = told.reason.as_deref() == Some("Unschedulable") && current;
    unschedulable.then(|| Verdict::Unschedulable(told.message.clone().unwrap_or_default()))
}

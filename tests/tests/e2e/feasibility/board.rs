//! A cache of all pods, filled by one watch, with a function that waits for a state of a pod.

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

/// The last observed state of each pod, by UID.
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
                    // A deleted pod keeps its last state, because its result may be read later.
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

    /// Waits until `probe` returns a value for the pod.
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
                panic!("not reached before the deadline: {what}: {}", seen.unwrap_or_default())
            }
        }
    }
}

/// The decision of kube-scheduler on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is bound to this node.
    Bound(String),
    /// It fits on no node, with this message.
    Unschedulable(String),
}

/// Returns the decision of kube-scheduler on a pod, or `None` if there is none yet.
pub fn verdict(pod: &Pod) -> Option<Verdict> {
    if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) {
        return Some(Verdict::Bound(node));
    }
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    let current = condition.observed_generation.is_none() || condition.observed_generation == pod.metadata.generation;
    let unschedulable = condition.reason.as_deref() == Some("Unschedulable") && current;
    unschedulable.then(|| Verdict::Unschedulable(condition.message.clone().unwrap_or_default()))
}

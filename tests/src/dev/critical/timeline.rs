//! Prints the stages of an add-on as they happen, from watches of pods, nodes and stored plans, with the seconds since its pod
//! was deleted and since the replacement was `Unschedulable`.

use super::layout::ADDON;
use crate::world::World;
use anyhow::{Result, bail};
use futures::{StreamExt as _, stream};
use giveway_crds::plan::StoredPlan;
use giveway_crds::preemption::assemble;
use giveway_crds::{Preemption, critical};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// An event of one of the watches.
enum Observed {
    Pod(Box<Event<Pod>>),
    Node(Box<Event<Node>>),
    Preemption(Box<Event<Preemption>>),
}

/// The pending add-on and its observed state.
pub(super) struct Timeline {
    start: Instant,
    /// Earlier pods of the Deployment.
    before: BTreeSet<String>,
    /// The printed stages, with their times.
    printed: BTreeMap<&'static str, Instant>,
    /// Name and UID of the add-on.
    pub(super) addon: Option<(String, String)>,
    /// The node to which it is bound.
    pub(super) node: Option<String>,
    plan: Option<StoredPlan>,
    tainted: BTreeSet<String>,
    terminating: BTreeSet<String>,
    removed: BTreeSet<String>,
}

impl Timeline {
    /// Starts the clock.
    pub(super) fn new(before: impl Iterator<Item = String>) -> Self {
        println!("   since     since\n deleted  Unschedulable");
        Self {
            start: Instant::now(),
            before: before.collect(),
            printed: BTreeMap::new(),
            addon: None,
            node: None,
            plan: None,
            tainted: BTreeSet::new(),
            terminating: BTreeSet::new(),
            removed: BTreeSet::new(),
        }
    }

    /// Prints the line `what` if it was not printed before.
    pub(super) fn print(&mut self, what: &'static str, text: &str) {
        if self.printed.contains_key(what) {
            return;
        }
        let now = Instant::now();
        self.printed.insert(what, now);
        let since = self.seconds("unschedulable", what);
        let since = since.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.2} s"));
        println!("{:>6.2} s  {since:>8}  {what:<13} {text}", (now - self.start).as_secs_f64());
    }

    /// Returns the seconds between two printed lines.
    pub(super) fn seconds(&self, from: &str, to: &str) -> Option<f64> {
        let (from, to) = (self.printed.get(from)?, self.printed.get(to)?);
        Some(to.saturating_duration_since(*from).as_secs_f64())
    }

    /// Returns the observed plan.
    pub(super) fn plan(&self) -> Option<&StoredPlan> {
        self.plan.as_ref()
    }

    /// Watches and prints until the add-on is bound and its taint is removed. Calls `predict` as soon as the add-on is
    /// `Unschedulable`.
    ///
    /// # Errors
    /// If the deadline has passed.
    pub(super) async fn follow(
        &mut self,
        world: &World,
        limit: Duration,
        mut predict: impl AsyncFnMut(&str) -> Result<String>,
    ) -> Result<()> {
        let client = world.client();
        let all = watcher::Config::default;
        let pods = watcher(Api::<Pod>::all(client.clone()), all()).map(|seen| seen.map(Box::new).map(Observed::Pod));
        let nodes = watcher(Api::<Node>::all(client.clone()), all()).map(|seen| seen.map(Box::new).map(Observed::Node));
        let plans = watcher(Api::<Preemption>::all(client), all());
        let plans = plans.map(|seen| seen.map(Box::new).map(Observed::Preemption));
        let mut seen = stream::select(stream::select(pods.boxed(), nodes.boxed()), plans.boxed());
        let deadline = tokio::time::Instant::from_std(self.start + limit);
        while !(self.printed.contains_key("bound") && self.printed.contains_key("untainted")) {
            match tokio::time::timeout_at(deadline, seen.next()).await {
                Ok(Some(Ok(Observed::Pod(event)))) => self.pod(*event),
                Ok(Some(Ok(Observed::Node(event)))) => self.node(*event),
                Ok(Some(Ok(Observed::Preemption(event)))) => self.preemption(*event),
                // The stream restarts an interrupted watch itself.
                Ok(Some(Err(_))) => {}
                Ok(None) | Err(_) => {
                    let last = self.plan.as_ref().map_or("no plan exists", |plan| plan.message.as_str());
                    bail!("{ADDON} is not bound after {limit:?}: {last}");
                }
            }
            if let (true, false, Some((name, _))) =
                (self.printed.contains_key("unschedulable"), self.printed.contains_key("predicted"), self.addon.clone())
            {
                let text = predict(&name).await?;
                self.print("predicted", &text);
            }
            self.print_stages();
        }
        Ok(())
    }

    fn pod(&mut self, event: Event<Pod>) {
        let (pod, deleted) = match event {
            Event::Apply(pod) | Event::InitApply(pod) => (pod, false),
            Event::Delete(pod) => (pod, true),
            Event::Init | Event::InitDone => return,
        };
        let uid = pod.uid().unwrap_or_default();
        if deleted || pod.metadata.deletion_timestamp.is_some() {
            self.terminating.insert(uid.clone());
        }
        if deleted {
            self.removed.insert(uid);
            return;
        }
        let its =
            pod.namespace().as_deref() == Some("kube-system") && pod.labels().get("app").is_some_and(|a| a == ADDON);
        if !its || self.before.contains(&uid) {
            return;
        }
        self.addon = Some((pod.name_any(), uid));
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let unschedulable =
            conditions.iter().find(|c| c.type_ == "PodScheduled" && c.reason.as_deref() == Some("Unschedulable"));
        if let Some(condition) = unschedulable {
            let message = condition.message.clone().unwrap_or_default();
            self.print("unschedulable", &format!("pod {}: {message}", pod.name_any()));
        }
        self.node = pod.spec.and_then(|spec| spec.node_name).filter(|node| !node.is_empty());
    }

    fn node(&mut self, event: Event<Node>) {
        let (Event::Apply(node) | Event::InitApply(node)) = event else { return };
        let Some((_, uid)) = &self.addon else { return };
        let taint = critical::taint(uid);
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        let ours = taints.iter().any(|t| t.key == taint.key && t.value == taint.value && t.effect == taint.effect);
        let name = node.name_any();
        if ours {
            self.tainted.insert(name.clone());
            self.print("tainted", &format!("node {name} with {}={uid}:{}", taint.key, taint.effect));
        } else if self.tainted.remove(&name) {
            self.print("untainted", &format!("node {name} has no taint of Giveway"));
        }
    }

    fn preemption(&mut self, event: Event<Preemption>) {
        let (Event::Apply(preemption) | Event::InitApply(preemption)) = event else { return };
        let preemptor = preemption.spec.preemptor.as_ref();
        let its = self.addon.as_ref().is_some_and(|(_, uid)| preemptor.is_some_and(|preemptor| *uid == preemptor.uid));
        // The plan of the demonstration fits into one object.
        if let (true, Ok(plan)) = (its, assemble(vec![preemption])) {
            self.plan = Some(plan);
        }
    }

    /// Prints the stages that have been reached.
    fn print_stages(&mut self) {
        if let Some(plan) = self.plan.clone() {
            self.print("planned", &plan.reason);
            let victims: BTreeSet<&String> = plan.victims.iter().flat_map(|v| &v.pods).map(|pod| &pod.uid).collect();
            let all = |some: &BTreeSet<String>| !victims.is_empty() && victims.iter().all(|uid| some.contains(*uid));
            if all(&self.terminating) {
                self.print("evicted", &format!("{} pods are terminating", victims.len()));
            }
            if all(&self.removed) {
                self.print("removed", &format!("{} pods", victims.len()));
            }
        }
        if let (Some(node), Some((name, _))) = (self.node.clone(), self.addon.clone()) {
            self.print("bound", &format!("pod {name} to node {node}"));
        }
    }
}

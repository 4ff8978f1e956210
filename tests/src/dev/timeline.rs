//! Prints the stages of a gang as they happen, from watches of pods, groups and stored plans.

use crate::cluster::scheduling_gates;
use crate::world::World;
use anyhow::{Result, bail};
use futures::{StreamExt as _, stream};
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_crds::preemption::assemble;
use giveway_crds::{PodGroup, Preemption, condition, keys};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::watcher::{self, Event, watcher};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// An event of one of the watches.
enum Observed {
    Pod(Box<Event<Pod>>),
    Group(Box<Event<PodGroup>>),
    Preemption(Box<Event<Preemption>>),
}

/// The gang and its observed state.
pub(super) struct Timeline {
    gang: String,
    size: usize,
    start: Instant,
    printed: BTreeSet<&'static str>,
    members: BTreeMap<String, Member>,
    victims: BTreeSet<String>,
    terminating: BTreeSet<String>,
    plan: Option<StoredPlan>,
    status: String,
}

struct Member {
    gated: bool,
    node: Option<String>,
}

impl Timeline {
    /// Starts the clock.
    pub(super) fn new(gang: &str, size: usize) -> Self {
        Self {
            gang: gang.to_owned(),
            size,
            start: Instant::now(),
            printed: BTreeSet::new(),
            members: BTreeMap::new(),
            victims: BTreeSet::new(),
            terminating: BTreeSet::new(),
            plan: None,
            status: "no status was observed".to_owned(),
        }
    }

    /// Prints one line with the time.
    pub(super) fn print(&self, what: &str, text: &str) {
        println!("{:>7.2} s  {what:<10} {text}", self.start.elapsed().as_secs_f64());
    }

    /// Prints the line `what` if it was not printed before.
    fn once(&mut self, what: &'static str, text: &str) {
        if self.printed.insert(what) {
            self.print(what, text);
        }
    }

    /// Watches and prints until every member is bound.
    ///
    /// # Errors
    /// If the deadline has passed; the message has the condition of the gang.
    pub(super) async fn follow(&mut self, world: &World, limit: Duration) -> Result<()> {
        let kit = world.kit();
        let pods =
            watcher(kit.api::<Pod>(), watcher::Config::default()).map(|seen| seen.map(Box::new).map(Observed::Pod));
        let groups = watcher(kit.api::<PodGroup>(), watcher::Config::default());
        let groups = groups.map(|seen| seen.map(Box::new).map(Observed::Group));
        let preemptions = watcher(Api::<Preemption>::all(kit.client.clone()), watcher::Config::default());
        let preemptions = preemptions.map(|seen| seen.map(Box::new).map(Observed::Preemption));
        let mut seen = stream::select(stream::select(pods.boxed(), groups.boxed()), preemptions.boxed());
        let deadline = tokio::time::Instant::from_std(self.start + limit);
        while !self.printed.contains("bound") {
            match tokio::time::timeout_at(deadline, seen.next()).await {
                Ok(Some(Ok(Observed::Pod(event)))) => self.pod(*event),
                Ok(Some(Ok(Observed::Group(event)))) => self.group(*event),
                Ok(Some(Ok(Observed::Preemption(event)))) => self.preemption(*event),
                // The stream restarts an interrupted watch itself.
                Ok(Some(Err(_))) => {}
                Ok(None) | Err(_) => bail!("{} is not bound after {limit:?}: {}", self.gang, self.status),
            }
            self.print_stages();
        }
        Ok(())
    }

    /// Returns the observed plan.
    pub(super) fn plan(&self) -> Option<&StoredPlan> {
        self.plan.as_ref()
    }

    fn pod(&mut self, event: Event<Pod>) {
        let (pod, deleted) = match event {
            Event::Apply(pod) | Event::InitApply(pod) => (pod, false),
            Event::Delete(pod) => (pod, true),
            Event::Init | Event::InitDone => return,
        };
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        if deleted || pod.metadata.deletion_timestamp.is_some() {
            self.terminating.insert(uid.clone());
        }
        let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(keys::LABEL_POD_GROUP));
        if label != Some(&self.gang) {
            return;
        }
        if deleted {
            self.members.remove(&uid);
            return;
        }
        let gated = scheduling_gates(&pod).iter().any(|gate| gate == keys::GATE);
        let node = pod.spec.and_then(|spec| spec.node_name).filter(|node| !node.is_empty());
        self.members.insert(uid, Member { gated, node });
    }

    fn group(&mut self, event: Event<PodGroup>) {
        let (Event::Apply(group) | Event::InitApply(group)) = event else { return };
        if group.metadata.name.as_deref() != Some(&self.gang) {
            return;
        }
        let status = group.status.unwrap_or_default();
        if let Some(found) = condition::find(&status.conditions, condition::types::SCHEDULED) {
            self.status = format!("{} {}: {}", found.status, found.reason, found.message);
        }
    }

    fn preemption(&mut self, event: Event<Preemption>) {
        let (Event::Apply(preemption) | Event::InitApply(preemption)) = event else { return };
        let state = preemption.status.as_ref().map(|status| status.state);
        if preemption.spec.preemptor.as_ref().is_none_or(|preemptor| preemptor.name != self.gang)
            || state == Some(PlanState::Cancelled)
        {
            return;
        }
        // The plan of the demonstration fits into one object.
        if let Ok(plan) = assemble(vec![preemption]) {
            self.victims = plan.victims.iter().flat_map(|victim| &victim.pods).map(|pod| pod.uid.clone()).collect();
            self.plan = Some(plan);
        }
    }

    /// Prints the stages that have been reached.
    fn print_stages(&mut self) {
        let gated = self.members.values().filter(|member| member.gated).count();
        let bound = self.members.values().filter(|member| member.node.is_some()).count();
        if gated == self.size {
            self.once("gated", &format!("{gated} pods exist, all gated until all of them fit"));
        }
        if let Some(plan) = self.plan.clone() {
            self.once("planned", &describe_plan(&plan));
        }
        let count = self.victims.intersection(&self.terminating).count();
        if count > 0 && count == self.victims.len() {
            self.once("evicted", &format!("{count} pods are terminating or removed"));
        }
        if gated == 0 && self.members.len() == self.size {
            self.once("ungated", &format!("{} pods", self.size));
        }
        if bound == self.size {
            let nodes: BTreeSet<&String> = self.members.values().filter_map(|member| member.node.as_ref()).collect();
            let text = format!("{bound} pods on {} nodes", nodes.len());
            self.once("bound", &text);
        }
    }
}

fn describe_plan(plan: &StoredPlan) -> String {
    let groups = plan.victims.iter().filter(|victim| victim.kind == "PodGroup").count();
    let singles = plan.victims.len() - groups;
    let nodes: BTreeSet<&str> = plan.placements.iter().map(|placement| placement.node.as_str()).collect();
    let highest = plan.cost.highest_victim_priority.map_or_else(|| "none".to_owned(), |priority| priority.to_string());
    format!(
        "by {}: {} pods on {} nodes; {} victims ({groups} whole groups, {singles} single pods), highest \
         priority {highest}, {} budget violations",
        plan.strategy,
        plan.placements.len(),
        nodes.len(),
        plan.cost.victim_pods,
        plan.cost.budget_violations
    )
}

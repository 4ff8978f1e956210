//! Outages of nodes. A plan that has evicted pods outlasts an outage that is shorter than `--node-outage-grace`: it is not cancelled, and no
//! further pods are evicted for its preemptor.

use super::{Event, World};
use crate::simulation::excuses::{Disturbance, Touch, disturbed, overtaken};
use crate::simulation::object::{Kind, set_condition};
use crate::simulation::server::time_of;
use giveway_crds::plan::PlanState;
use giveway_tests::audit::{History, PlanRecord, Preemptor, Removal};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// `--node-outage-grace`, in milliseconds.
const GRACE: u64 = 60_000;

/// The clocks of the leaders differ from the API server's by at most this, in milliseconds.
const SKEW: u64 = 4_000;

/// When the leader finds other capacity for a preemptor whose victims terminate late, it is bound within this time after the end of its plan.
const ELSEWHERE: Duration = Duration::from_secs(10);

/// When a plan is cancelled for a preemptor of higher priority, that is nominated within this time.
const NOMINATED: Duration = Duration::from_secs(2);

/// An outage of a node.
pub struct Outage {
    node: String,
    /// When it began and ended, in milliseconds.
    from: u64,
    until: u64,
}

impl World {
    /// Begins or ends an outage of a node.
    pub(super) fn outage(&mut self, name: &str, begins: bool) {
        let (now, time) = (self.now, self.server.time());
        let status = if begins { "False" } else { "True" };
        let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": time});
        let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
        self.server.change(Kind::Node, name, |node| {
            set_condition(node, condition);
            if begins {
                node["spec"]["taints"] = json!([taint]);
            }
        });
        if begins {
            self.outages.push(Outage { node: name.to_owned(), from: now, until: u64::MAX });
            return;
        }
        // The node controller removes the taint a moment after the node has become ready.
        let soon = self.between(0, 2_000);
        self.after(soon, Event::Untaint(name.to_owned()));
        let ended = self.outages.iter_mut().rev().find(|outage| outage.node == name && outage.until == u64::MAX);
        let Some(outage) = ended else { return };
        outage.until = now;
        // The node counts as lost from the end of the grace period on.
        if now - outage.from + SKEW >= GRACE {
            let lost = [outage.from + GRACE - SKEW, now + soon];
            self.disturbed.extend(lost.map(|at| Disturbance { at, touch: Touch::Node(name.to_owned()) }));
        }
    }

    /// Removes the taint of an outage that has ended.
    pub(super) fn untaint(&mut self, name: &str) {
        self.server.change(Kind::Node, name, |node| node["spec"]["taints"] = Value::Null);
    }
}

/// The plans that outlasted a short outage of one of their nodes, and those that did not.
#[derive(Default)]
pub struct Outlasted {
    /// The number of plans that had evicted pods when a node of their placements became not ready.
    pub judged: usize,
    /// One message for each breach.
    pub broken: Vec<String>,
}

/// Judges the plans with evictions during short outages of their nodes.
pub fn judge(world: &World, history: &History) -> Outlasted {
    let mut found = Outlasted::default();
    for outage in world.outages.iter().filter(|outage| outage.until.saturating_sub(outage.from) + SKEW < GRACE) {
        let (from, until) = (time_of(outage.from), time_of(outage.until));
        for plan in committed(history, &outage.node, from) {
            let end = end_of(history, plan).filter(|(at, _)| *at <= until);
            let broken = match end {
                Some((at, PlanState::Cancelled | PlanState::Failed)) if !is_bound(history, plan, at + ELSEWHERE) => {
                    Some((at, "was cancelled"))
                }
                _ => further_eviction(history, plan, from, until).map(|at| (at, "was followed by further evictions")),
            };
            if broken.is_some_and(|(at, _)| excuse(world, history, plan, at).is_some()) {
                continue;
            }
            found.judged += 1;
            found.broken.extend(broken.map(|(at, what)| {
                let (id, node) = (&plan.plan.id, &outage.node);
                format!("plan {id} {what} at {at}, during a short outage of node {node}")
            }));
        }
    }
    found
}

/// Returns the plans in flight that had evicted a pod by this time and have a placement on this node.
fn committed<'h>(history: &'h History, node: &str, at: Timestamp) -> Vec<&'h PlanRecord> {
    let evicted = history.evicted().into_iter().filter(|removal| removal.at < at);
    let plans: BTreeSet<&str> = evicted.filter_map(|removal| removal.plan.as_deref()).collect();
    let stored = |id: &&str| history.plans.iter().rev().find(|record| record.at <= at && record.plan.id == **id);
    let placed = |record: &&PlanRecord| record.plan.placements.iter().any(|placement| placement.node == node);
    let in_flight = |record: &&PlanRecord| record.plan.cause.is_plan() && record.plan.state.in_flight();
    plans.iter().filter_map(stored).filter(in_flight).filter(placed).collect()
}

/// Returns when a plan ended, and its last state.
fn end_of(history: &History, plan: &PlanRecord) -> Option<(Timestamp, PlanState)> {
    let mut stored = history.plans.iter().filter(|record| record.plan.id == plan.plan.id && record.at >= plan.at);
    stored.find(|record| !record.plan.state.in_flight()).map(|record| (record.at, record.plan.state))
}

/// Returns true if as many pods of the preemptor as it needs are bound at this time.
fn is_bound(history: &History, plan: &PlanRecord, at: Timestamp) -> bool {
    let bound = |uid: &str| history.bindings.iter().any(|binding| binding.uid == uid && binding.at <= at);
    match &plan.preemptor {
        Some(Preemptor::Pod(uid)) => bound(uid),
        Some(Preemptor::Group { key, .. }) => {
            let live = history.members(key).filter(|(_, pod)| pod.removed.is_none_or(|gone| gone > at));
            let bound = live.filter(|(uid, _)| bound(uid)).count();
            history.groups.get(key).is_none_or(|group| bound >= group.min_count)
        }
        None => true,
    }
}

/// Returns when a pod was evicted for another plan of the same preemptor, which the first plan does not name, before that plan was
/// completed.
fn further_eviction(history: &History, plan: &PlanRecord, from: Timestamp, until: Timestamp) -> Option<Timestamp> {
    let completed = end_of(history, plan).filter(|(_, state)| *state == PlanState::Completed).map(|(at, _)| at);
    let until = completed.map_or(until, |at| at.min(until));
    let other = |record: &PlanRecord| record.plan.id != plan.plan.id && record.preemptor == plan.preemptor;
    let mut evicted = history.evicted().into_iter().filter(|removal| (from..=until).contains(&removal.at));
    let further = evicted.find(|removal| !plan.names(&removal.uid) && history.plan_of(removal).is_some_and(&other))?;
    Some(further.at)
}

/// Returns the reason for which a plan may end before this time: something was taken from it, an eviction was refused or failed, or
/// kube-scheduler did not bind a member.
fn excuse(world: &World, history: &History, plan: &PlanRecord, at: Timestamp) -> Option<String> {
    let record = &plan.plan;
    let first = history.plans.iter().find(|other| other.plan.id == record.id).map_or(plan.asked, |first| first.asked);
    let for_it = |removal: &&Removal| removal.plan.as_ref() == Some(&record.id) && removal.at <= at;
    let refused = history.removals.iter().filter(for_it).any(|removal| !removal.accepted);
    let failed = plan.pods().any(|pod| world.thwarted.contains_key(&pod.uid));
    let unbound = record.placements.iter().any(|placement| world.scheduler.unbound.contains_key(&placement.uid));
    if refused || failed || unbound {
        return Some("a call failed".to_owned());
    }
    // A preemptor of higher priority that replaces the plan is nominated a moment after the end of the plan.
    let during = |when: Timestamp| (first..=at + NOMINATED).contains(&when);
    disturbed(world, record, first, at).or_else(|| overtaken(history, plan, during))
}

//! Domains of topology, simply: a group that must stay within one value of a node label is planned for once per value, as
//! if its members asked for that value themselves, and the cheapest answer counts.

use super::decide::plan_anywhere;
use crate::api::{Context, Decision, Domain, NearestDomain, Preemptor};
use crate::model::{Cluster, Group, ObjectKey};
use smol_str::SmolStr;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Decides for a group with a topology key; `None` for everybody else.
pub(crate) fn plan(cluster: &Cluster, preemptor: &Preemptor, context: &Context) -> Option<Decision> {
    let Preemptor::Group(key) = preemptor else { return None };
    let group = cluster.group(key)?;
    let label = group.topology.clone()?;
    let waiting: Vec<ObjectKey> =
        cluster.members(key).filter(|pod| pod.live() && !pod.bound()).map(|pod| pod.key.clone()).collect();
    let mut trace = Vec::new();
    let mut best: Option<(Decision, Domain)> = None;
    for value in values(cluster, group, &label) {
        let mut within = cluster.clone();
        waiting.iter().for_each(|pod| within.confine(pod, &label, &value));
        let decision = plan_anywhere(&within, preemptor, context);
        if matches!(decision, Decision::Nothing | Decision::WaitingForPods { .. }) {
            return Some(decision);
        }
        let domain = Domain { key: label.clone(), value };
        trace.push(format!("{domain}: {}", outcome(&decision)));
        if best.as_ref().is_none_or(|(known, _)| rank(&decision) < rank(known)) {
            best = Some((decision, domain));
        }
    }
    let Some((mut decision, chosen)) = best else {
        // Every member asks for a value that no node has.
        let mut nowhere = cluster.clone();
        waiting.iter().for_each(|pod| nowhere.confine(pod, &label, ""));
        return Some(plan_anywhere(&nowhere, preemptor, context));
    };
    match &mut decision {
        Decision::Fits { domain, .. } => *domain = Some(chosen),
        Decision::Preempt(plan) => {
            plan.domain = Some(chosen);
            plan.trace.splice(0..0, trace);
        }
        Decision::Unschedulable(shortfall) => shortfall.domain = Some(Box::new(NearestDomain { domain: chosen })),
        Decision::Nothing | Decision::WaitingForPods { .. } => {}
    }
    Some(decision)
}

/// The values that the group may have: that of its members that have a node or were released for one, or else all.
fn values(cluster: &Cluster, group: &Group, label: &str) -> BTreeSet<SmolStr> {
    let live = || cluster.members(&group.key).filter(|pod| pod.live());
    let bound = live()
        .filter_map(|pod| cluster.node(pod.node.as_deref()?))
        .map(|node| node.labels.get(label).map(SmolStr::new));
    let released = live().filter(|pod| !pod.bound() && !pod.held).filter_map(|pod| pod.asks_for(label));
    let pinned: BTreeSet<Option<SmolStr>> = bound.chain(released.map(|value| Some(value.into()))).collect();
    match pinned.len() {
        0 => cluster.nodes().filter_map(|node| node.labels.get(label)).map(SmolStr::new).collect(),
        1 => pinned.into_iter().flatten().collect(),
        _ => BTreeSet::new(),
    }
}

/// Smaller is better; equal ones are taken by name.
fn rank(decision: &Decision) -> impl Ord {
    match decision {
        Decision::Fits { left, .. } => (0, *left, None, Reverse(0)),
        Decision::Preempt(plan) => (1, 0, Some(plan.cost), Reverse(plan.placements.len())),
        Decision::Unschedulable(shortfall) => (2, 0, None, Reverse(shortfall.fits_at_most())),
        Decision::Nothing | Decision::WaitingForPods { .. } => (3, 0, None, Reverse(0)),
    }
}

fn outcome(decision: &Decision) -> String {
    match decision {
        Decision::Fits { placements, left: 0, .. } => format!("{} members fit", placements.len()),
        Decision::Preempt(plan) => format!("{} members, {}", plan.placements.len(), plan.cost),
        Decision::Unschedulable(shortfall) => shortfall.to_string(),
        Decision::Fits { placements, .. } => format!("{} members fit, without the others", placements.len()),
        Decision::Nothing | Decision::WaitingForPods { .. } => String::new(),
    }
}

//! Taints of Giveway: at most one node has one, which keeps it for a critical add-on. A taint that no plan needs is removed.

use crate::messages::command::Command;
use crate::messages::report::CallError;
use crate::model::Model;
use crate::plans::{Flight, Flights};
use giveway_crds::critical;
use giveway_crds::wording::conditions::addon::taint_stays;
use giveway_planner::SmolStr;
use std::time::{Duration, Instant};

/// Interval at which taints without a plan are searched for.
const SWEEP: Duration = Duration::from_secs(60);
/// The interval while there are such taints.
const SWEEP_AGAIN: Duration = Duration::from_secs(5);

/// Returns the nodes with a taint that Giveway added, each with the UID of the pod in the value of the taint. A taint is Giveway's if a
/// `Preemption` names that pod.
pub fn tainted_nodes(model: &Model) -> Vec<(&SmolStr, &str)> {
    let ours = model.plans.tainted_for();
    let taints = model.cluster.nodes().flat_map(|node| node.taints.iter().map(move |taint| (node, taint)));
    let uids = taints.filter_map(|(node, t)| Some((&node.name, critical::uid_of(&t.key, &t.value, &t.effect)?)));
    uids.filter(|(_, uid)| ours.contains(uid)).collect()
}

/// The removal of taints that no plan needs.
#[derive(Debug, Default)]
pub struct Taints {
    next_sweep: Option<Instant>,
    /// Message about a taint that could not be removed.
    kept: Option<String>,
}

impl Taints {
    /// Returns the number of nodes with a taint of Giveway, and the commands that remove the taints for which no plan is in flight; `None`
    /// if the last search was a moment ago.
    pub fn sweep(&mut self, model: &Model, flights: &Flights, now: Instant) -> Option<(usize, Vec<Command>)> {
        if self.next_sweep.is_some_and(|next| next > now) {
            return None;
        }
        let needs = |flight: &Flight, node: &SmolStr, uid: &str| {
            flight.plan.preemptor.uid == uid && flight.tainted_node() == Some(node.as_str())
        };
        let tainted = tainted_nodes(model);
        let count = tainted.len();
        let stray: Vec<Command> = tainted
            .into_iter()
            .filter(|(node, uid)| !flights.with_pod(uid).any(|flight| needs(flight, node, uid)))
            .map(|(node, uid)| Command::Taint { node: node.clone(), uid: uid.into(), add: false, plan: None })
            .collect();
        self.next_sweep = Some(now + if stray.is_empty() { SWEEP } else { SWEEP_AGAIN });
        Some((count, stray))
    }

    /// Records the answer to removing the taint for the pod with this UID from a node; `failed` is the error, or `None` if the taint was
    /// removed.
    pub fn removed(&mut self, node: &str, uid: &str, failed: Option<&CallError>) {
        self.kept = failed.map(|error| taint_stays(node, uid, &error.to_string()));
    }

    /// Returns the message that the taint whose removal was tried last is still on its node; `None` if it was removed.
    pub fn kept(&self) -> Option<&str> {
        self.kept.as_deref()
    }
}

//! Filter: topology spread constraints that must hold (kube-scheduler's PodTopologySpread).

use super::around::Around;
use super::node_affinity;
use super::taints;
use crate::api::Refusal;
use crate::filters::nodes::Rank;
use crate::model::{Pod, SpreadConstraint};
pub(super) fn refuse(around: Around<'_, '_>, pod: &Pod, rank: Rank) -> Option<Refusal> {
    let constraints = &pod.constraints.spread;
    constraints.iter().any(|constraint| !allows(around, pod, rank, constraint)).then_some(Refusal::Spread)
}

fn allows(around: Around<'_, '_>, pod: &Pod, rank: Rank, constraint: &SpreadConstraint) -> bool {
    let Some(own) = around.node(rank).labels.get(&constraint.topology_key) else { return false };
    let (mut fewest, mut here, mut eligible) = (usize::MAX, 0, 0);
    for (value, ranks) in around.domains(&constraint.topology_key) {
        let mut counted = ranks.iter().filter(|rank| counts(around, pod, **rank, constraint)).peekable();
        if counted.peek().is_none() {
            continue;
        }
        // Places that are held elsewhere must not raise the minimum: they may never be taken.
        let is_here = value == own.as_str();
        let seen = if is_here { around } else { around.only_there() };
        let peers = |rank: &Rank| seen.occupants(*rank).filter(|other| is_peer(constraint, pod, other)).count();
        let matching: usize = counted.map(peers).sum();
        fewest = fewest.min(matching);
        eligible += 1;
        if is_here {
            here = matching;
        }
    }
    if eligible < constraint.min_domains {
        fewest = 0;
    }
    let itself = usize::from(constraint.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels)));
    here + itself <= constraint.max_skew.saturating_add(fewest)
}

/// Whether a node's pods are counted: it has the topology keys of all constraints, and the policies of this one do not
/// rule it out.
fn counts(around: Around<'_, '_>, pod: &Pod, rank: Rank, constraint: &SpreadConstraint) -> bool {
    let node = around.node(rank);
    let mut keys = pod.constraints.spread.iter().map(|constraint| &constraint.topology_key);
    keys.all(|key| node.labels.contains_key(key))
        && (!constraint.honors_affinity || node_affinity::matches(pod, node))
        && (!constraint.honors_taints || taints::refuse(pod, node).is_none())
}

/// Whether a pod on a node is one of those that are to be spread. The empty selector counts nobody: the scheduler takes
/// it for a constraint that only asks for the topology key.
fn is_peer(constraint: &SpreadConstraint, pod: &Pod, other: &Pod) -> bool {
    other.key.namespace == pod.key.namespace
        && !other.terminating
        && constraint.selector.as_ref().is_some_and(|selector| !selector.is_empty() && selector.matches(&other.labels))
}

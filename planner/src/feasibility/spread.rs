//! Filter: topology spread constraints that must hold (kube-scheduler's PodTopologySpread, default node policies).

use super::nodes::Rank;
use super::{Refusal, Room, node_affinity};
use crate::model::{Pod, SpreadConstraint};

pub(super) fn refuse(room: &Room<'_>, pod: &Pod, rank: Rank) -> Option<Refusal> {
    let constraints = &pod.constraints.spread;
    constraints.iter().any(|constraint| !allows(room, pod, rank, constraint)).then_some(Refusal::Spread)
}

fn allows(room: &Room<'_>, pod: &Pod, rank: Rank, constraint: &SpreadConstraint) -> bool {
    let Some(own) = room.nodes.at(rank).labels.get(&constraint.topology_key) else { return false };
    let Some(domains) = room.topology.get(constraint.topology_key.as_str()) else { return false };
    let (mut fewest, mut here, mut eligible) = (usize::MAX, 0, 0);
    for (value, ranks) in domains {
        let mut counted = ranks.iter().filter(|rank| counts(room, pod, **rank)).peekable();
        if counted.peek().is_none() {
            continue;
        }
        let matching =
            counted.map(|rank| room.occupants(*rank).filter(|other| is_peer(constraint, pod, other)).count());
        let matching: usize = matching.sum();
        fewest = fewest.min(matching);
        eligible += 1;
        if *value == own.as_str() {
            here = matching;
        }
    }
    if eligible < constraint.min_domains {
        fewest = 0;
    }
    let itself = usize::from(constraint.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels)));
    here + itself <= constraint.max_skew.saturating_add(fewest)
}

/// Whether a node's pods are counted: it has every topology key, and the pod's node affinity allows it.
fn counts(room: &Room<'_>, pod: &Pod, rank: Rank) -> bool {
    let node = room.nodes.at(rank);
    let keys = &mut pod.constraints.spread.iter().map(|constraint| &constraint.topology_key);
    keys.all(|key| node.labels.contains_key(key)) && node_affinity::matches(pod, node)
}

/// Whether a pod on a node is one of those that are to be spread.
fn is_peer(constraint: &SpreadConstraint, pod: &Pod, other: &Pod) -> bool {
    other.key.namespace == pod.key.namespace
        && !other.terminating
        && constraint.selector.as_ref().is_some_and(|selector| selector.matches(&other.labels))
}

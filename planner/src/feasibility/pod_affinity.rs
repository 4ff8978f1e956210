//! Filter: required pod affinity and anti-affinity, from both sides (kube-scheduler's InterPodAffinity).

use super::nodes::Rank;
use super::{Refusal, Room};
use crate::model::{AffinityTerm, Cluster, Pod, PodIndex};
use std::collections::BTreeSet;

/// The topology keys that matter for placing `members`: their own, and those of bound or waiting pods whose
/// anti-affinity is about a member. Empty when no pod has to look at other nodes.
pub(super) fn topology_keys<'a>(cluster: &'a Cluster, members: &[PodIndex]) -> BTreeSet<&'a str> {
    let members: Vec<&Pod> = members.iter().filter_map(|index| cluster.pod_at(*index)).collect();
    let mut keys = BTreeSet::new();
    for pod in members.iter().filter(|pod| pod.constraints.looks_at_other_nodes()) {
        let constraints = &pod.constraints;
        keys.extend(constraints.affinity.iter().chain(&constraints.anti_affinity).map(|t| t.topology_key.as_str()));
        keys.extend(constraints.spread.iter().map(|c| c.topology_key.as_str()));
    }
    for pod in cluster.anti_affine() {
        for term in &pod.constraints.anti_affinity {
            if members.iter().any(|member| about(term, member)) {
                keys.insert(&term.topology_key);
            }
        }
    }
    keys
}

/// Whether a term is about a pod.
pub(super) fn about(term: &AffinityTerm, pod: &Pod) -> bool {
    (term.namespaces.is_empty() || term.namespaces.contains(&pod.key.namespace))
        && term.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
}

pub(super) fn refuse(room: &Room<'_>, pod: &Pod, rank: Rank) -> Option<Refusal> {
    let constraints = &pod.constraints;
    for term in &constraints.anti_affinity {
        if domain(room, term, rank).iter().any(|other| room.occupants(*other).any(|occupant| about(term, occupant))) {
            return Some(Refusal::AntiAffinity);
        }
    }
    for key in room.topology.keys() {
        let guards = |occupant: &Pod| {
            occupant.constraints.anti_affinity.iter().any(|term| term.topology_key == *key && about(term, pod))
        };
        if same_domain(room, key, rank).iter().any(|other| room.occupants(*other).any(guards)) {
            return Some(Refusal::AntiAffinity);
        }
    }
    (!constraints.affinity.is_empty() && !attracted(room, pod, rank)).then_some(Refusal::Affinity)
}

/// Whether every affinity term finds somebody in the node's domain. The first pod of a set that is attracted by itself
/// may go anywhere where the topology keys exist.
fn attracted(room: &Room<'_>, pod: &Pod, rank: Rank) -> bool {
    let terms = &pod.constraints.affinity;
    let labels = &room.nodes.at(rank).labels;
    if !terms.iter().all(|term| labels.contains_key(&term.topology_key)) {
        return false;
    }
    let wanted = |occupant: &Pod| terms.iter().all(|term| about(term, occupant));
    if terms.iter().all(|term| domain(room, term, rank).iter().any(|other| room.occupants(*other).any(wanted))) {
        return true;
    }
    let anywhere = (0..room.nodes.len()).any(|other| room.occupants(other).any(wanted));
    !anywhere && wanted(pod)
}

fn domain<'r>(room: &'r Room<'_>, term: &AffinityTerm, rank: Rank) -> &'r [Rank] {
    same_domain(room, &term.topology_key, rank)
}

/// The nodes of a node's domain; none when it has no label for the key.
fn same_domain<'r>(room: &'r Room<'_>, key: &str, rank: Rank) -> &'r [Rank] {
    let value = room.nodes.at(rank).labels.get(key);
    let domain = value.and_then(|value| room.topology.get(key)?.get(value.as_str()));
    domain.map_or(&[], Vec::as_slice)
}

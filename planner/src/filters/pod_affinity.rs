//! Filter: required pod affinity and anti-affinity, from both sides (kube-scheduler's InterPodAffinity).

use super::around::Around;
use crate::api::Refusal;
use crate::filters::nodes::Rank;
use crate::model::{AffinityTerm, ClassId, Cluster, EquivalenceClass, Pod, PodIndex};
use std::collections::BTreeSet;

/// A pod that is not there, and the node that is held for it.
type Held = (PodIndex, Rank);

/// The kinds of pods with a required anti-affinity that are on nodes, or whose places are held.
fn repelling<'a>(cluster: &'a Cluster, held: &[Held]) -> impl Iterator<Item = (ClassId, &'a EquivalenceClass)> {
    let kind = |(pod, _): &Held| {
        let id = cluster.row(*pod).class;
        Some((id, cluster.class(id)?.as_ref()))
    };
    cluster.repelling().chain(held.iter().filter_map(kind))
}

/// The topology keys that matter for placing `members`: their own, and those of pods on nodes, or with held places, whose
/// anti-affinity is about a member. Empty when no pod has to look at other nodes.
pub(super) fn topology_keys<'a>(cluster: &'a Cluster, members: &[PodIndex], held: &[Held]) -> BTreeSet<&'a str> {
    let members: Vec<&Pod> = members.iter().filter_map(|index| cluster.pod_at(*index)).collect();
    let mut keys = BTreeSet::new();
    for pod in members.iter().filter(|pod| pod.constraints.looks_at_other_nodes()) {
        let constraints = &pod.constraints;
        keys.extend(constraints.affinity.iter().chain(&constraints.anti_affinity).map(|t| t.topology_key.as_str()));
        keys.extend(constraints.spread.iter().map(|c| c.topology_key.as_str()));
    }
    for (_, kind) in repelling(cluster, held) {
        for term in &kind.constraints.anti_affinity {
            if members.iter().any(|member| about(cluster, term, member)) {
                keys.insert(&term.topology_key);
            }
        }
    }
    keys
}

/// Whether the anti-affinity of a pod of another kind than `own`, wherever it is or has a place held, is about one of `members`.
pub(crate) fn repelled(cluster: &Cluster, members: &[PodIndex], own: ClassId, held: &[Held]) -> bool {
    let others = repelling(cluster, held).filter(|(id, _)| *id != own);
    let mut terms = others.flat_map(|(_, kind)| &kind.constraints.anti_affinity);
    terms.any(|term| members.iter().filter_map(|m| cluster.pod_at(*m)).any(|member| about(cluster, term, member)))
}

/// Whether a term is about a pod.
pub(crate) fn about(cluster: &Cluster, term: &AffinityTerm, pod: &Pod) -> bool {
    cluster.in_namespaces(&term.namespaces, &pod.key.namespace)
        && term.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
}

pub(super) fn refuse(around: Around<'_, '_>, pod: &Pod, rank: Rank) -> Option<Refusal> {
    let constraints = &pod.constraints;
    let cluster = around.cluster();
    for term in &constraints.anti_affinity {
        let unwanted = |other: &Rank| around.occupants(*other).any(|occupant| about(cluster, term, occupant));
        if around.domain(&term.topology_key, rank).iter().any(unwanted) {
            return Some(Refusal::AntiAffinity);
        }
    }
    for key in around.keys() {
        let guards = |occupant: &Pod| {
            let mut terms = occupant.constraints.anti_affinity.iter();
            terms.any(|term| term.topology_key == *key && about(cluster, term, pod))
        };
        if around.domain(key, rank).iter().any(|other| around.occupants(*other).any(guards)) {
            return Some(Refusal::AntiAffinity);
        }
    }
    (!constraints.affinity.is_empty() && !attracted(around, pod, rank)).then_some(Refusal::Affinity)
}

/// Whether every affinity term finds somebody in the node's domain; it must be somebody whom all the terms are about. The
/// first pod of a set that is attracted by itself may go anywhere where the topology keys exist; it is the first when
/// nobody is in any domain of any of the terms.
fn attracted(around: Around<'_, '_>, pod: &Pod, rank: Rank) -> bool {
    let terms = &pod.constraints.affinity;
    let cluster = around.cluster();
    let labels = &around.node(rank).labels;
    if !terms.iter().all(|term| labels.contains_key(&term.topology_key)) {
        return false;
    }
    let wanted = |occupant: &Pod| terms.iter().all(|term| about(cluster, term, occupant));
    let there = |other: &Rank| around.occupants(*other).any(wanted);
    if terms.iter().all(|term| around.domain(&term.topology_key, rank).iter().any(there)) {
        return true;
    }
    let in_a_domain = |other: &Rank| {
        let labels = &around.node(*other).labels;
        terms.iter().any(|term| labels.contains_key(&term.topology_key))
    };
    let first = !(0..around.nodes()).filter(in_a_domain).any(|other| there(&other));
    first && wanted(pod)
}

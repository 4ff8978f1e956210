//! Filter: required pod affinity and anti-affinity, from both sides (kube-scheduler's InterPodAffinity). What is counted for it
//! is in [`super::neighbours`].

use super::labels::Labels;
use super::nodes::Held;
use crate::model::{AffinityTerm, ClassId, Cluster, Pod, PodIndex};
use std::collections::{BTreeMap, BTreeSet};

/// Whether the anti-affinity of a pod of another class than `own`, wherever it is or has a place held, is about one of
/// `members`.
pub(crate) fn repelled(cluster: &Cluster, members: &[PodIndex], own: ClassId, held: &[Held]) -> bool {
    let waiting = held.iter().filter_map(|(pod, _)| {
        let id = cluster.row(*pod).class;
        Some((id, cluster.class(id)?.as_ref()))
    });
    let others = cluster.repelling().chain(waiting).filter(|(id, _)| *id != own);
    let terms: BTreeSet<&AffinityTerm> = others.flat_map(|(_, class)| &class.constraints.anti_affinity).collect();
    if terms.is_empty() {
        return false;
    }
    // Members differ for them in the labels that they ask for.
    let labels = Labels::of(terms.iter().filter_map(|term| term.selector.as_ref()));
    let mut kinds: BTreeMap<_, &Pod> = BTreeMap::new();
    for member in members.iter().filter_map(|member| cluster.pod_at(*member)) {
        kinds.entry((member.key.namespace.as_str(), labels.of_pod(member))).or_insert(member);
    }
    terms.iter().any(|term| kinds.values().any(|member| about(cluster, term, member)))
}

/// Whether a term is about a pod.
pub(crate) fn about(cluster: &Cluster, term: &AffinityTerm, pod: &Pod) -> bool {
    cluster.in_namespaces(&term.namespaces, &pod.key.namespace)
        && term.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
}

//! Filter: required pod affinity and anti-affinity, from both sides (kube-scheduler's InterPodAffinity). What is counted for it
//! is in [`super::neighbours`].

use super::nodes::Held;
use crate::model::{AffinityTerm, ClassId, Cluster, Pod, PodIndex};

/// Whether the anti-affinity of a pod of another class than `own`, wherever it is or has a place held, is about one of
/// `members`.
pub(crate) fn repelled(cluster: &Cluster, members: &[PodIndex], own: ClassId, held: &[Held]) -> bool {
    let waiting = held.iter().filter_map(|(pod, _)| {
        let id = cluster.row(*pod).class;
        Some((id, cluster.class(id)?.as_ref()))
    });
    let others = cluster.repelling().chain(waiting).filter(|(id, _)| *id != own);
    let mut terms = others.flat_map(|(_, class)| &class.constraints.anti_affinity);
    terms.any(|term| members.iter().filter_map(|m| cluster.pod_at(*m)).any(|member| about(cluster, term, member)))
}

/// Whether a term is about a pod.
pub(crate) fn about(cluster: &Cluster, term: &AffinityTerm, pod: &Pod) -> bool {
    cluster.in_namespaces(&term.namespaces, &pod.key.namespace)
        && term.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
}

//! Filter: topology spread constraints with `DoNotSchedule` (kube-scheduler's `PodTopologySpread`). The counts are in
//! [`super::neighbours`].

use super::{node_affinity, taints};
use crate::model::{Node, Pod, SpreadConstraint};

/// Returns true if `constraint`, a topology spread constraint of `pod`, counts the pods on `node`, by `nodeAffinityPolicy` and
/// `nodeTaintsPolicy`. That the node has the topology keys of all spread constraints of the pod is not checked here.
pub(super) fn counts(pod: &Pod, constraint: &SpreadConstraint, node: &Node) -> bool {
    (!constraint.honors_affinity || node_affinity::matches(pod, node))
        && (!constraint.honors_taints || taints::refuse(pod, node).is_none())
}

/// Returns true if `constraint`, a topology spread constraint of `pod`, counts the pod `other`: it is in the same namespace, not
/// terminating, and matches the selector. The empty selector matches no pod, as in kube-scheduler, where such a constraint only requires
/// the topology key.
pub(crate) fn is_peer(constraint: &SpreadConstraint, pod: &Pod, other: &Pod) -> bool {
    other.key.namespace == pod.key.namespace
        && !other.terminating
        && constraint.selector.as_ref().is_some_and(|selector| !selector.is_empty() && selector.matches(&other.labels))
}

//! Filter: topology spread constraints with `DoNotSchedule` (kube-scheduler's `PodTopologySpread`). The counts are in
//! [`super::neighbours`].

use super::{node_affinity, taints};
use crate::model::{Node, Pod, SpreadConstraint};

/// Returns true if the inclusion policies of a pod's constraint admit a node, so that its pods are counted. In addition the node must have
/// the topology keys of all constraints of the pod.
pub(super) fn counts(pod: &Pod, constraint: &SpreadConstraint, node: &Node) -> bool {
    (!constraint.honors_affinity || node_affinity::matches(pod, node))
        && (!constraint.honors_taints || taints::refuse(pod, node).is_none())
}

/// Returns true if a topology spread constraint of a pod counts another pod. The empty selector matches no pod, as in kube-scheduler, where
/// such a constraint only requires the topology key.
pub(crate) fn is_peer(constraint: &SpreadConstraint, pod: &Pod, other: &Pod) -> bool {
    other.key.namespace == pod.key.namespace
        && !other.terminating
        && constraint.selector.as_ref().is_some_and(|selector| !selector.is_empty() && selector.matches(&other.labels))
}

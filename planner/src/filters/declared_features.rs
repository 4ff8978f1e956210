//! Filter: features of the kubelet that a pod needs and the node does not declare (kube-scheduler's `NodeDeclaredFeatures`).

use crate::api::Refusal;
use crate::model::{Node, Pod};
/// Returns a refusal if the node does not declare a feature that the pod needs.
pub(super) fn refuse(pod: &Pod, node: &Node) -> Option<Refusal> {
    let mut needed = pod.constraints.features.iter();
    needed.any(|feature| !node.features.contains(*feature)).then_some(Refusal::Features)
}

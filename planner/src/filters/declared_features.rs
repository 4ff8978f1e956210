//! Filter: features of the kubelet that a pod needs and the node does not declare (kube-scheduler's `NodeDeclaredFeatures`).

use crate::api::Refusal;
use crate::model::{Node, Pod};
/// Returns `Refusal::Features` if the node does not declare a kubelet feature that the pod needs; `None` if it declares all of them.
pub(super) fn refuse(pod: &Pod, node: &Node) -> Option<Refusal> {
    let mut needed = pod.constraints.features.iter();
    needed.any(|feature| !node.features.contains(*feature)).then_some(Refusal::Features)
}

//! Filter: a pod that names its node fits on no other (kube-scheduler's NodeName).

use crate::api::Refusal;
use crate::model::{Node, Pod};
/// Returns `Refusal::NodeName` if the pod is bound to another node (`spec.nodeName`); otherwise `None`.
pub(super) fn refuse(pod: &Pod, node: &Node) -> Option<Refusal> {
    let named = pod.node.as_ref()?;
    (*named != node.name).then_some(Refusal::NodeName)
}

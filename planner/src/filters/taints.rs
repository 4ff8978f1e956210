//! Filter: taints that the pod does not tolerate (kube-scheduler's TaintToleration).

use crate::api::Refusal;
use crate::model::{Node, Pod};
/// Returns a refusal if the node has a taint that the pod does not tolerate.
pub(super) fn refuse(pod: &Pod, node: &Node) -> Option<Refusal> {
    let taint = node.taints.iter().find(|taint| !pod.tolerates(taint))?;
    Some(Refusal::Taint(taint.key.clone(), taint.value.clone()))
}

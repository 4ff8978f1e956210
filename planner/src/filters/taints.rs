//! Filter: taints that the pod does not tolerate (kube-scheduler's TaintToleration).

use crate::api::Refusal;
use crate::model::{Node, Pod};
/// Returns `Refusal::Taint` with the first taint of the node that the pod does not tolerate; `None` if it tolerates all.
pub(super) fn refuse(pod: &Pod, node: &Node) -> Option<Refusal> {
    let taint = node.taints.iter().find(|taint| !pod.tolerates(taint))?;
    Some(Refusal::Taint(taint.key.clone(), taint.value.clone()))
}

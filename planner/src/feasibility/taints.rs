//! Filter: taints that the pod does not tolerate (kube-scheduler's TaintToleration).

use super::Refusal;
use crate::model::{Node, Pod, Taint, Toleration};

pub(super) fn refuse(pod: &Pod, node: &Node) -> Option<Refusal> {
    let taint = node.taints.iter().find(|taint| !tolerates(pod, taint))?;
    Some(Refusal::Taint(taint.key.clone(), taint.value.clone()))
}

/// Whether one of the pod's tolerations covers a taint.
pub(super) fn tolerates(pod: &Pod, taint: &Taint) -> bool {
    pod.constraints.tolerations.iter().any(|toleration| covers(toleration, taint))
}

fn covers(toleration: &Toleration, taint: &Taint) -> bool {
    (toleration.effect.is_empty() || toleration.effect == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key)
        && (toleration.exists || toleration.value == taint.value)
}

//! Filter: a cordoned node admits only pods that tolerate it (kube-scheduler's `NodeUnschedulable`).

use crate::api::Refusal;
use crate::model::{Node, Pod, Taint};
/// Returns `Refusal::Unschedulable` if the node is cordoned and the pod does not tolerate that; otherwise `None`.
pub(super) fn refuse(pod: &Pod, node: &Node) -> Option<Refusal> {
    if !node.unschedulable {
        return None;
    }
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        value: String::new(),
        effect: "NoSchedule".to_owned(),
    };
    (!pod.tolerates(&cordon)).then_some(Refusal::Unschedulable)
}

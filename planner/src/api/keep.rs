//! Reservation of a node for a critical add-on while its victims terminate: a taint, or else a nomination of the pod.

use crate::model::{Cluster, Pod, Taint};
use giveway_crds::critical;

/// Returns the taint by which Giveway reserves a node for the pod with this UID, in the planner's form.
pub fn taint(uid: &str) -> Taint {
    let taint = critical::taint(uid);
    Taint { key: taint.key, value: taint.value.unwrap_or_default(), effect: taint.effect }
}

/// Returns true if the taint can be used: the pod tolerates it, and the node is not reserved for another pod by a taint of the same key and
/// effect, of which a node can have only one.
pub fn can_taint(cluster: &Cluster, pod: &Pod, node: &str) -> bool {
    let taint = taint(&pod.uid);
    pod.tolerates(&taint) && !kept_by_others(cluster, node, &taint)
}

/// Returns true if the node has a taint of the same key and effect with another value.
fn kept_by_others(cluster: &Cluster, node: &str, ours: &Taint) -> bool {
    let taints = cluster.node(node).map_or(&[][..], |node| &node.taints);
    taints.iter().any(|t| t.key == ours.key && t.effect == ours.effect && t.value != ours.value)
}

//! Reservation of a node for a critical add-on while its victims terminate: a taint, or else a nomination of the pod.

use crate::model::{Cluster, Pod, Taint};
use giveway_crds::critical;

/// Returns the taint by which Giveway reserves a node for the pod with this UID, as a taint of the planner's model.
pub fn taint(uid: &str) -> Taint {
    let taint = critical::taint(uid);
    Taint { key: taint.key, value: taint.value.unwrap_or_default(), effect: taint.effect }
}

/// Returns true if the node with the name `node` can be reserved for `pod` by a taint: the pod tolerates the taint, and the node is not
/// reserved for another pod by a taint of the same key and effect, of which a node can have only one.
pub fn can_taint(cluster: &Cluster, pod: &Pod, node: &str) -> bool {
    let taint = taint(&pod.uid);
    pod.tolerates(&taint) && !is_reserved_for_another(cluster, node, &taint)
}

/// Returns true if the node with the name `node` is reserved for another pod: it has a taint with the key and effect of `ours`, but another
/// value.
fn is_reserved_for_another(cluster: &Cluster, node: &str, ours: &Taint) -> bool {
    let taints = cluster.node(node).map_or(&[][..], |node| &node.taints);
    taints.iter().any(|t| t.key == ours.key && t.effect == ours.effect && t.value != ours.value)
}

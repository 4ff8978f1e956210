//! Filter: the nodes that can attach the volumes of a pod's claims (kube-scheduler's VolumeBinding). What is not bound yet
//! keeps to the topologies that its class allows.

use super::node_affinity::term_matches;
use crate::api::Refusal;
use crate::model::{Node, Pod};

/// Returns `Refusal::Volumes` if the node cannot attach a volume of the pod: the node matches none of the volume's node selector terms.
/// `None` if it can attach all.
pub(super) fn refuse(pod: &Pod, node: &Node) -> Option<Refusal> {
    let mut pins = pod.constraints.volumes.iter();
    pins.any(|terms| !terms.iter().any(|term| term_matches(term, node))).then_some(Refusal::Volumes)
}

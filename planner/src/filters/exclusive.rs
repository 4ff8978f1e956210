//! Filters: ports of the node that are taken (kube-scheduler's NodePorts), and claims that another pod uses and only one pod may use
//! (`ReadWriteOncePod`, kube-scheduler's VolumeRestrictions).

use crate::api::Refusal;
use crate::model::{Exclusive, Node, Pod};

/// Returns why two pods cannot be on one node: they have the same host port, or use the same claim that only one pod may use
/// (`ReadWriteOncePod`). `None` if they can. Each port is looked up in the other pod's sorted list, because a pod may list thousands.
pub(super) fn conflict(pod: &Pod, other: &Pod) -> Option<Refusal> {
    let there = &other.constraints.exclusive;
    pod.constraints.exclusive.iter().find_map(|own| match own {
        Exclusive::Port { port, .. } => {
            let from = there.partition_point(|taken| taken.port().is_some_and(|taken| taken < *port));
            let mut equal = there[from..].iter().take_while(|taken| taken.port() == Some(*port));
            equal.any(|taken| is_same_port(own, taken)).then_some(Refusal::Ports)
        }
        Exclusive::Claim(_) => there.binary_search(own).is_ok().then_some(Refusal::ClaimInUse),
    })
}

/// Returns true if two host ports of the same number conflict: they have the same protocol, and the same address or one of them any
/// address. False if one of the two is a claim.
fn is_same_port(own: &Exclusive, taken: &Exclusive) -> bool {
    let every = |ip: &str| ip.is_empty() || ip == "0.0.0.0";
    match (own, taken) {
        (Exclusive::Port { ip, protocol, .. }, Exclusive::Port { ip: taken_ip, protocol: taken, .. }) => {
            protocol == taken && (every(ip) || every(taken_ip) || ip == taken_ip)
        }
        _ => false,
    }
}

/// Returns `Refusal::ClaimInUse` if a pod on another node uses a claim of this pod that only one pod may use: no eviction on this node
/// makes it feasible. Otherwise `None`.
pub(super) fn refuse(pod: &Pod, node: &Node) -> Option<Refusal> {
    let user_on = pod.constraints.user_on.as_ref()?;
    (*user_on != node.name).then_some(Refusal::ClaimInUse)
}

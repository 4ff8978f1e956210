//! Filter: ports of the node that are taken (kube-scheduler's NodePorts).

use crate::model::{HostPort, Pod};
/// Whether two pods want the same port of a node.
pub(super) fn conflict(one: &Pod, other: &Pod) -> bool {
    one.constraints.ports.iter().any(|a| other.constraints.ports.iter().any(|b| same(a, b)))
}

fn same(a: &HostPort, b: &HostPort) -> bool {
    let every = |ip: &str| ip.is_empty() || ip == "0.0.0.0";
    a.port == b.port && a.protocol == b.protocol && (every(&a.ip) || every(&b.ip) || a.ip == b.ip)
}

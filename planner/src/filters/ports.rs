//! Filter: ports of the node that are taken (kube-scheduler's NodePorts).

use crate::model::{HostPort, Pod};

/// Returns true if two pods need the same host port. Each port is looked up, because a pod may list thousands.
pub(super) fn conflict(one: &Pod, other: &Pod) -> bool {
    let there = &other.constraints.ports;
    one.constraints.ports.iter().any(|a| {
        let from = there.partition_point(|b| b.port < a.port);
        there[from..].iter().take_while(|b| b.port == a.port).any(|b| same(a, b))
    })
}

fn same(a: &HostPort, b: &HostPort) -> bool {
    let every = |ip: &str| ip.is_empty() || ip == "0.0.0.0";
    a.protocol == b.protocol && (every(&a.ip) || every(&b.ip) || a.ip == b.ip)
}

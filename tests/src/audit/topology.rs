//! The promise about domains of topology (design, section 4): the pods of a group that asks for one value of a node label
//! have one, always.

use super::groups::GroupRecord;
use super::history::{History, Key, PodRecord};
use jiff::Timestamp;

/// A member that got a node.
struct Seat<'h> {
    pod: &'h PodRecord,
    at: Timestamp,
    node: &'h str,
    /// The value that the node had then.
    value: Option<&'h str>,
}

/// Every time that a member got a node outside the domain of those that had one.
pub(super) fn broken(history: &History) -> Vec<String> {
    history.groups.iter().flat_map(|(key, group)| split(history, key, group)).collect()
}

fn split(history: &History, key: &Key, group: &GroupRecord) -> Vec<String> {
    let Some(label) = group.topology.as_deref() else { return Vec::new() };
    let mut seats: Vec<Seat<'_>> = history.members(key).filter_map(|(_, pod)| seat(history, pod, label)).collect();
    seats.sort_by_key(|seat| seat.at);
    let mut broken = Vec::new();
    for (index, seat) in seats.iter().enumerate() {
        let (name, node) = (&seat.pod.key.1, seat.node);
        let Some(value) = seat.value else {
            broken.push(format!("{name} of group {} got node {node}, which has no label {label}", key.1));
            continue;
        };
        // Who was asked to go before is no neighbour any more.
        let live = |other: &&Seat<'_>| other.pod.removed.is_none_or(|at| at >= seat.at);
        if let Some(other) = seats[..index].iter().filter(live).find(|other| other.value != seat.value) {
            broken.push(format!(
                "{name} of group {} got node {node} with {label}={value}, and {} has node {} with {label}={}",
                key.1,
                other.pod.key.1,
                other.node,
                other.value.unwrap_or("")
            ));
        }
    }
    broken
}

fn seat<'h>(history: &'h History, pod: &'h PodRecord, label: &str) -> Option<Seat<'h>> {
    let (at, node) = pod.bound.as_ref()?;
    let written = history.nodes.iter().rev().find(|write| write.node == *node && write.at <= *at);
    let value = written.and_then(|write| write.labels.get(label)).map(String::as_str);
    Some(Seat { pod, at: *at, node, value })
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;

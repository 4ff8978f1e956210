//! The promise about topology domains (design, section 4): the pods of a PodGroup with a topology constraint are always in one
//! domain.

use super::history::History;
use super::record::{GroupRecord, Key, PodRecord};
use jiff::Timestamp;

/// A bound member with its domain.
struct BoundMember<'h> {
    pod: &'h PodRecord,
    at: Timestamp,
    node: &'h str,
    /// The value of the node label at that time.
    value: Option<&'h str>,
}

/// Returns one message for each binding of a member outside the domain of the bound members.
pub(super) fn broken(history: &History) -> Vec<String> {
    history.groups.iter().flat_map(|(key, group)| outside(history, key, group)).collect()
}

fn outside(history: &History, key: &Key, group: &GroupRecord) -> Vec<String> {
    let Some(label) = group.topology.as_deref() else { return Vec::new() };
    let mut members: Vec<BoundMember<'_>> =
        history.members(key).filter_map(|(_, pod)| bound_member(history, pod, label)).collect();
    members.sort_by_key(|member| member.at);
    let mut broken = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let (name, node) = (&member.pod.key.1, member.node);
        let Some(value) = member.value else {
            broken
                .push(format!("pod {name} of PodGroup {} was bound to node {node}, which has no label {label}", key.1));
            continue;
        };
        // A pod that was removed before the binding does not count.
        let exists = |other: &&BoundMember<'_>| other.pod.removed.is_none_or(|at| at >= member.at);
        if let Some(other) = members[..index].iter().filter(exists).find(|other| other.value != member.value) {
            broken.push(format!(
                "pod {name} of PodGroup {} was bound to node {node} with {label}={value} while pod {} was on node {} with {label}={}",
                key.1,
                other.pod.key.1,
                other.node,
                other.value.unwrap_or("")
            ));
        }
    }
    broken
}

fn bound_member<'h>(history: &'h History, pod: &'h PodRecord, label: &str) -> Option<BoundMember<'h>> {
    let (at, node) = pod.bound.as_ref()?;
    let written = history.nodes.iter().rev().find(|write| write.node == *node && write.at <= *at);
    let value = written.and_then(|write| write.labels.get(label)).map(String::as_str);
    Some(BoundMember { pod, at: *at, node, value })
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;

//! The topology domain of PodGroups that must be placed within one domain.

use super::GroupFacts;
use giveway_planner::Cluster;
use giveway_planner::model::{Group, Pod};
use std::collections::BTreeMap;

/// Maximum number of values that a sentence names.
const NAMED: usize = 4;

/// Returns the domain of the bound pods as in "16 pods have a node in rack=r3", or an empty string if they are not in one domain.
pub(super) fn bound(facts: &GroupFacts<'_>) -> String {
    let (cluster, group) = (&facts.model.cluster, facts.group);
    let Some(key) = group.topology.as_deref() else { return String::new() };
    let live = cluster.members(&group.key).filter(|pod| pod.live());
    let mut nodes = live.filter_map(|pod| pod.node.as_deref()).filter(|node| cluster.node(node).is_some());
    let first = nodes.next().and_then(|node| value_of(cluster, node, key));
    match first.filter(|first| nodes.all(|node| value_of(cluster, node, key) == Some(first))) {
        Some(value) => format!(" in {key}={value}"),
        None => String::new(),
    }
}

/// Returns a sentence why the pods of a group can never be within one domain: their nodes or node selectors belong to several domains.
/// `None` if they can.
pub fn contradiction(cluster: &Cluster, group: &Group) -> Option<String> {
    let key = group.topology.as_deref()?;
    let mut values: BTreeMap<&str, String> = BTreeMap::new();
    for pod in cluster.members(&group.key).filter(|pod| pod.live()) {
        let Some((value, sentence)) = claim(cluster, pod, key) else { continue };
        values.entry(value).or_insert(sentence);
    }
    if values.len() < 2 {
        return None;
    }
    let mut named: Vec<String> = values.values().take(NAMED).cloned().collect();
    if values.len() > NAMED {
        named.push(format!("others are or want to be in {} more", values.len() - NAMED));
    }
    Some(format!("Its pods cannot be within one value of {key}: {}.", named.join(", ")))
}

/// Returns the topology value of a pod's node, or of its node selector if it is pending, with a clause that says so. The value is empty if
/// the node has no such label. `None` if the node no longer exists.
fn claim<'a>(cluster: &'a Cluster, pod: &'a Pod, key: &str) -> Option<(&'a str, String)> {
    let name = &pod.key.name;
    let Some(node) = pod.node.as_deref() else {
        let value = pod.asks_for(key)?;
        return Some((value, format!("pod {name} asks for {value} in its nodeSelector")));
    };
    Some(match cluster.node(node)?.labels.get(key) {
        Some(value) => (value, format!("pod {name} is in {value}")),
        None => ("", format!("pod {name} is on node {node}, which has no such label")),
    })
}

/// Returns the value of a node's topology label.
fn value_of<'a>(cluster: &'a Cluster, node: &str, key: &str) -> Option<&'a str> {
    cluster.node(node)?.labels.get(key).map(String::as_str)
}

//! The topology domain of PodGroups that must be placed within one domain.

use super::GroupFacts;
use giveway_crds::plan::StoredDomain;
use giveway_crds::wording::conditions::pod_group::{DomainClaim, no_common_domain};
use giveway_planner::Cluster;
use giveway_planner::model::{Group, Pod};
use std::collections::BTreeMap;

/// Maximum number of values that a sentence names.
const NAMED: usize = 4;

/// Returns the topology domain in which all bound pods of a PodGroup are; `None` if it has no topology key or no bound pods, or if they are
/// in several domains or in none.
pub(super) fn bound(facts: &GroupFacts<'_>) -> Option<StoredDomain> {
    let (cluster, group) = (&facts.model.cluster, facts.group);
    let key = group.topology.as_deref()?;
    let live = cluster.members(&group.key).filter(|pod| pod.live());
    let mut nodes = live.filter_map(|pod| pod.node.as_deref()).filter(|node| cluster.node(node).is_some());
    let first = nodes.next().and_then(|node| value_of(cluster, node, key));
    let value = first.filter(|first| nodes.all(|node| value_of(cluster, node, key) == Some(first)))?;
    Some(StoredDomain { key: key.to_owned(), value: value.to_owned() })
}

/// Returns a sentence why the live pods of a group can never be within one topology domain: their nodes, or the node selectors of pending
/// ones, belong to several domains. `None` if they can.
pub fn contradiction(cluster: &Cluster, group: &Group) -> Option<String> {
    let key = group.topology.as_deref()?;
    let mut values: BTreeMap<&str, (&str, DomainClaim<'_>)> = BTreeMap::new();
    for pod in cluster.members(&group.key).filter(|pod| pod.live()) {
        let Some((value, claim)) = claim(cluster, pod, key) else { continue };
        values.entry(value).or_insert((pod.key.name.as_str(), claim));
    }
    if values.len() < 2 {
        return None;
    }
    let named: Vec<(&str, DomainClaim<'_>)> = values.values().take(NAMED).copied().collect();
    Some(no_common_domain(key, &named, values.len() - named.len()))
}

/// Returns the value of the topology label `key` of a pod's node, or the value that its node selector asks for if it is pending, and which
/// of them it is. The value is empty if the node has no such label. `None` if the node no longer exists, or the selector asks for no value.
fn claim<'a>(cluster: &'a Cluster, pod: &'a Pod, key: &str) -> Option<(&'a str, DomainClaim<'a>)> {
    let Some(node) = pod.node.as_deref() else {
        let value = pod.asks_for(key)?;
        return Some((value, DomainClaim::AsksFor(value)));
    };
    Some(match cluster.node(node)?.labels.get(key) {
        Some(value) => (value, DomainClaim::IsIn(value)),
        None => ("", DomainClaim::OnUnlabelledNode(node)),
    })
}

/// Returns the value of a node's label `key`; `None` if the node or the label does not exist.
fn value_of<'a>(cluster: &'a Cluster, node: &str, key: &str) -> Option<&'a str> {
    cluster.node(node)?.labels.get(key).map(String::as_str)
}

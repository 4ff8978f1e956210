//! What is not known of the requirements of members (design, section 4, "Unknown is not infeasible").

use crate::api::Unknown;
use crate::filters::{Nodes, unsuitable};
use crate::limits::MOST_UNKNOWN_NAMED;
use crate::model::{Cluster, Pod, PodIndex, ResourceId};
use crate::problem::{Demand, Effort};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the unknown requirements of the members; `None` if all requirements are known.
pub(super) fn unknown(cluster: &Cluster, demand: &Demand) -> Option<Unknown> {
    let pods = demand.members.iter().filter_map(|member| cluster.pod_at(*member));
    let stored = pods.flat_map(|pod| pod.unknown.iter().cloned());
    let why: BTreeSet<String> =
        stored.chain(served_elsewhere(cluster, &demand.members)).take(MOST_UNKNOWN_NAMED).collect();
    (!why.is_empty()).then(|| of_members(cluster, demand, why.into_iter().collect()))
}

/// Returns the members of a demand with `why`, the requirements that the planner cannot evaluate, in words.
pub(super) fn of_members(cluster: &Cluster, demand: &Demand, why: Vec<String>) -> Unknown {
    let pods = demand.members.iter().filter_map(|member| cluster.pod_at(*member));
    Unknown { members: pods.map(|pod| pod.key.clone()).collect(), why }
}

/// Returns the first of the members of one class that follow each other, and so on: what members of one class share is read once for them.
pub(super) fn first_of_class(cluster: &Cluster, members: &[PodIndex]) -> impl Iterator<Item = PodIndex> {
    let runs = members.chunk_by(|a, b| cluster.row(*a).class == cluster.row(*b).class);
    runs.filter_map(|run| run.first().copied())
}

/// Returns, as words, the requested extended resources that a DeviceClass serves and that a suitable node does not offer itself:
/// kube-scheduler looks for devices on such a node (KEP-5004). Where no effort is left to find such a node, there may be one.
fn served_elsewhere(cluster: &Cluster, members: &[PodIndex]) -> impl Iterator<Item = String> {
    let mut examples: BTreeMap<_, &Pod> = BTreeMap::new();
    for member in first_of_class(cluster, members) {
        if let Some(pod) = cluster.pod_at(member) {
            examples.entry(cluster.row(member).class).or_insert(pod);
        }
    }
    let (nodes, effort) = (Nodes::new(cluster), Effort::of_explanation());
    let lacks = |pod: &Pod, id: ResourceId| {
        let mut without = (0..nodes.len()).map(|rank| nodes.at(rank)).filter(|node| node.allocatable(id) == 0);
        !effort.take(nodes.len()) || without.any(|node| unsuitable(pod, node).is_none())
    };
    let mut found: BTreeSet<ResourceId> = BTreeSet::new();
    for pod in examples.into_values() {
        let served = pod.requests.iter().map(|(id, _)| id).filter(|id| cluster.is_served(*id));
        let new: Vec<ResourceId> = served.filter(|id| !found.contains(id) && lacks(pod, *id)).collect();
        found.extend(new);
    }
    let words = |id: ResourceId| {
        let name = cluster.resource_name(id);
        format!("devices for {name} (dynamic resource allocation) on nodes that offer none of it themselves")
    };
    found.into_iter().map(words).collect::<Vec<_>>().into_iter()
}

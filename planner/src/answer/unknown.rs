//! What is not known of the requirements of members (design, section 4, "Unknown is not infeasible").

use crate::api::Unknown;
use crate::filters::{Nodes, unsuitable};
use crate::limits::MOST_UNKNOWN_NAMED;
use crate::model::{Cluster, Pod, PodIndex, ResourceId};
use crate::problem::{Demand, Effort};
use std::collections::{BTreeMap, BTreeSet};

/// Returns which requirements of the members are not known, so that evictions might not help; `None` if all are known.
pub(super) fn unknown(cluster: &Cluster, demand: &Demand) -> Option<Unknown> {
    let pods = demand.members.iter().filter_map(|member| cluster.pod_at(*member));
    let stored = pods.flat_map(|pod| pod.unknown.iter().cloned());
    let why: BTreeSet<String> =
        stored.chain(devices_needed(cluster, &demand.members)).take(MOST_UNKNOWN_NAMED).collect();
    (!why.is_empty()).then(|| unknown_because(cluster, demand, why.into_iter().collect()))
}

/// Returns the members of a demand together with `why`: the requirements, in words, that the planner cannot evaluate.
pub(super) fn unknown_because(cluster: &Cluster, demand: &Demand, why: Vec<String>) -> Unknown {
    let pods = demand.members.iter().filter_map(|member| cluster.pod_at(*member));
    Unknown { members: pods.map(|pod| pod.key.clone()).collect(), why }
}

/// Returns the first one of each run of successive members of one equivalence class, so that what they share is read once.
pub(super) fn first_of_class(cluster: &Cluster, members: &[PodIndex]) -> impl Iterator<Item = PodIndex> {
    let runs = members.chunk_by(|a, b| cluster.row(*a).class == cluster.row(*b).class);
    runs.filter_map(|run| run.first().copied())
}

/// Returns, in words, which requested extended resources a DeviceClass serves on a suitable node that does not offer them itself:
/// kube-scheduler looks for devices on such a node (KEP-5004), and the planner does not know them. If no effort is left to look for such a
/// node, there is assumed to be one.
fn devices_needed(cluster: &Cluster, members: &[PodIndex]) -> impl Iterator<Item = String> {
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

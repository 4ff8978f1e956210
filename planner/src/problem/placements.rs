//! Placements of a plan by name: members and their nodes.

use crate::api::Placement;
use crate::filters::{Nodes, Rank};
use crate::model::{Cluster, PodIndex};

/// Converts placed members (pod and rank of the node in `nodes`) to the placements of a plan, in the same order: with inter-pod
/// constraints, each member fits beside those before it.
pub(crate) fn placements(cluster: &Cluster, nodes: &Nodes<'_>, placed: &[(PodIndex, Rank)]) -> Vec<Placement> {
    let placement = |(index, rank): &(PodIndex, Rank)| {
        let pod = cluster.pod_at(*index)?;
        Some(Placement { pod: pod.key.clone(), uid: pod.uid.clone(), node: nodes.at(*rank).name.clone() })
    };
    placed.iter().filter_map(placement).collect()
}

//! Checks a decision again, against the cluster as it is now.

use crate::api::{Context, Placement, Refusal};
use crate::filters::{Nodes, Nomination, Occupancy, Rank, unsuitable};
use crate::limits::PLACEMENT_ROUNDS;
use crate::model::{Cluster, Node, Pod, PodIndex, Taint};
use crate::problem::Reserved;
use smol_str::SmolStr;
use std::collections::BTreeSet;

/// The taints that the node controller adds to a node that is not ready.
pub const OUTAGE_TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Checks that all placements of an earlier decision still fit together. Pods with a UID in `terminated` count as terminated, other
/// terminating pods as running; reservations of other pods count as for a preemptor of this `priority`. A pod that is already bound to its
/// planned node is accepted. That a group is within one topology domain is not checked.
///
/// # Errors
/// A sentence that says which placement does not fit, and why.
pub fn still_fits(
    cluster: &Cluster,
    placements: &[Placement],
    priority: i32,
    context: &Context,
    terminated: &BTreeSet<SmolStr>,
) -> Result<(), String> {
    let nodes = Nodes::new(cluster);
    let mut waiting = Vec::new();
    for placement in placements {
        if let Some(index) = check_pod(cluster, placement)? {
            waiting.push((index, placement));
        }
    }
    let members: Vec<PodIndex> = waiting.iter().map(|(index, _)| *index).collect();
    let own = members.iter().copied().collect();
    let held = relevant_nominations(cluster, &waiting, &Reserved { priority, respect: context.respect, own });
    let mut occupancy = Occupancy::new(cluster, &nodes, &members, &held);
    if let Some((key, rank)) = domain(cluster, &waiting) {
        occupancy = occupancy.within(key, rank, &held);
    }
    let leavers: Vec<PodIndex> = terminated.iter().filter_map(|uid| cluster.pod_with_uid(uid)).collect();
    occupancy.take(&leavers);
    // kube-scheduler binds in its own order, so that a member that was placed later may have been bound earlier.
    for _ in 0..PLACEMENT_ROUNDS {
        let mut refused = Vec::new();
        for (index, placement) in &waiting {
            match rank(cluster, placement)
                .filter(|rank| occupancy.has_inter_pod_constraints() && occupancy.refuse(*index, *rank).is_none())
            {
                Some(rank) if is_suitable(cluster, context, nodes.at(rank), *index) => occupancy.add(*index, rank),
                _ => refused.push((*index, *placement)),
            }
        }
        if refused.len() == waiting.len() {
            break;
        }
        waiting = refused;
    }
    for (index, placement) in waiting {
        let Some(pod) = cluster.pod_at(index) else { continue };
        let Some(rank) = rank(cluster, placement) else {
            return Err(format!(
                "Node {}, planned for pod {}, does not exist any more.",
                placement.node, placement.pod
            ));
        };
        if let Some(refusal) = refusal(context, pod, nodes.at(rank)).or_else(|| occupancy.refuse(index, rank)) {
            let why = refusal.on_one_node(|id| cluster.resource_name_for(pod, id));
            return Err(format!("Pod {} does not fit on node {} any more: {why}.", placement.pod, placement.node));
        }
        occupancy.add(index, rank);
    }
    Ok(())
}

/// Returns the rank (index in the list of nodes) of the planned node among all nodes; `None` if the node does not exist.
fn rank(cluster: &Cluster, placement: &Placement) -> Option<Rank> {
    cluster.rank_of(cluster.node_index(&placement.node)?)
}

/// Returns the reservations that can matter for the members in `waiting`, which are not bound yet: those on their planned nodes, or all of
/// them if pods on other nodes can make a node infeasible for a member.
fn relevant_nominations(cluster: &Cluster, waiting: &[(PodIndex, &Placement)], reserved: &Reserved) -> Vec<Nomination> {
    let depends_on_others =
        |(index, _): &(PodIndex, &Placement)| cluster.pod_at(*index).is_some_and(Pod::depends_on_other_nodes);
    if waiting.iter().any(depends_on_others) || reserved.repelling(cluster).next().is_some() {
        return reserved.all(cluster);
    }
    let ranks: BTreeSet<Rank> = waiting.iter().filter_map(|(_, placement)| rank(cluster, placement)).collect();
    reserved.among(cluster, ranks.into_iter())
}

/// Returns true if a node is feasible for the pod `index` by the filters that do not depend on other pods; see [`refusal`].
fn is_suitable(cluster: &Cluster, context: &Context, node: &Node, index: PodIndex) -> bool {
    cluster.pod_at(index).is_some_and(|pod| refusal(context, pod, node).is_none())
}

/// Returns why a node is infeasible for a pod by the filters that do not depend on other pods; `None` if it is feasible. On nodes that
/// recover from a short outage, the taints of the outage are ignored.
fn refusal(context: &Context, pod: &Pod, node: &Node) -> Option<Refusal> {
    if !context.recovering.contains(&node.name) {
        return unsuitable(pod, node);
    }
    let lasting = |taint: &&Taint| !OUTAGE_TAINTS.contains(&taint.key.as_str());
    let taints = node.taints.iter().filter(lasting).cloned().collect();
    unsuitable(pod, &Node { taints, ..node.clone() })
}

/// Returns, if the members in `waiting` must be placed within one topology domain, its topology key and the rank (index in the list of
/// nodes) of one of its nodes; otherwise `None`.
fn domain<'c>(cluster: &'c Cluster, waiting: &[(PodIndex, &Placement)]) -> Option<(&'c str, Rank)> {
    let (index, placement) = waiting.first()?;
    let key = cluster.group_of(cluster.pod_at(*index)?)?.topology.as_deref()?;
    Some((key, rank(cluster, placement)?))
}

/// Returns the index of a placement's pod if it is still to be bound; `None` if it is bound to the planned node.
///
/// # Errors
/// Why the placement is not valid any more, as a sentence: the pod does not exist, has ended or is terminating, or is bound to another
/// node.
fn check_pod(cluster: &Cluster, placement: &Placement) -> Result<Option<PodIndex>, String> {
    let Placement { pod: key, uid, node } = placement;
    let found = cluster.pod_index(key).and_then(|index| Some((index, cluster.pod_at(index)?)));
    let Some((index, pod)) = found.filter(|(_, pod)| pod.uid == *uid) else {
        return Err(format!("Pod {key} does not exist any more."));
    };
    if !pod.live() {
        return Err(format!("Pod {key} is terminating or has ended."));
    }
    match &pod.node {
        None => Ok(Some(index)),
        Some(bound) if bound == node => Ok(None),
        Some(bound) => Err(format!("Pod {key} is bound to node {bound} instead of {node}.")),
    }
}

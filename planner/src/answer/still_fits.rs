//! Checks a decision again, against the cluster as it is now.

use crate::api::{Context, Placement, Refusal};
use crate::filters::{Held, Nodes, Occupancy, Rank, unsuitable};
use crate::limits::PLACEMENT_ROUNDS;
use crate::model::{Cluster, Node, Pod, PodIndex, Taint};
use crate::problem::Reserved;
use smol_str::SmolStr;
use std::collections::BTreeSet;

/// The taints that the node controller adds to a node that is not ready.
pub const OUTAGE_TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Checks that the placements fit together without the pods with the UIDs in `gone`. Other terminating pods count as
/// running, and reservations of other pods of at least `priority` count. A pod that is already bound to its placement is accepted. The
/// topology domain of a group is not checked here: its placements are in one domain.
///
/// # Errors
/// A sentence that says which placement does not fit, and why.
pub fn still_fits(
    cluster: &Cluster,
    placements: &[Placement],
    priority: i32,
    context: &Context,
    gone: &BTreeSet<SmolStr>,
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
    let held = held(cluster, &waiting, &Reserved { priority, respect: context.respect, own });
    let mut room = Occupancy::new(cluster, &nodes, &members, &held);
    if let Some((key, rank)) = domain(cluster, &waiting) {
        room = room.within(key, rank, &held);
    }
    let leavers: Vec<PodIndex> = gone.iter().filter_map(|uid| cluster.pod_with_uid(uid)).collect();
    room.take(&leavers);
    // kube-scheduler binds in its own order, so that a member that was placed later may have been bound earlier.
    for _ in 0..PLACEMENT_ROUNDS {
        let mut refused = Vec::new();
        for (index, placement) in &waiting {
            match rank(cluster, placement).filter(|rank| room.looks_around() && room.refuse(*index, *rank).is_none()) {
                Some(rank) if suits(cluster, context, nodes.at(rank), *index) => room.add(*index, rank),
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
        if let Some(refusal) = refusal(context, pod, nodes.at(rank)).or_else(|| room.refuse(index, rank)) {
            let why = refusal.on_one_node(|id| cluster.resource_name_for(pod, id));
            return Err(format!("Pod {} does not fit on node {} any more: {why}.", placement.pod, placement.node));
        }
        room.add(index, rank);
    }
    Ok(())
}

/// Returns the rank of the planned node among all nodes; `None` if the node does not exist.
fn rank(cluster: &Cluster, placement: &Placement) -> Option<Rank> {
    cluster.rank_of(cluster.node_index(&placement.node)?)
}

/// Returns the reservations that can matter: those on the planned nodes, unless pods on other nodes can make a node infeasible for a member.
fn held(cluster: &Cluster, waiting: &[(PodIndex, &Placement)], reserved: &Reserved) -> Vec<Held> {
    let looks_around =
        |(index, _): &(PodIndex, &Placement)| cluster.pod_at(*index).is_some_and(Pod::depends_on_other_nodes);
    if waiting.iter().any(looks_around) || reserved.repelling(cluster).next().is_some() {
        return reserved.all(cluster);
    }
    let ranks: BTreeSet<Rank> = waiting.iter().filter_map(|(_, placement)| rank(cluster, placement)).collect();
    reserved.among(cluster, ranks.into_iter())
}

/// Returns true if a node is feasible for a pod, whatever else runs there.
fn suits(cluster: &Cluster, context: &Context, node: &Node, index: PodIndex) -> bool {
    cluster.pod_at(index).is_some_and(|pod| refusal(context, pod, node).is_none())
}

/// Returns why a node is infeasible for a pod whatever else runs there; `None` if it is not. On nodes that recover from a short outage, the
/// taints of the outage are ignored.
fn refusal(context: &Context, pod: &Pod, node: &Node) -> Option<Refusal> {
    if !context.recovering.contains(&node.name) {
        return unsuitable(pod, node);
    }
    let lasting = |taint: &&Taint| !OUTAGE_TAINTS.contains(&taint.key.as_str());
    let taints = node.taints.iter().filter(lasting).cloned().collect();
    unsuitable(pod, &Node { taints, ..node.clone() })
}

/// Returns, if the members must be placed within one topology domain, its topology key and the rank of one of its nodes; otherwise `None`.
fn domain<'c>(cluster: &'c Cluster, waiting: &[(PodIndex, &Placement)]) -> Option<(&'c str, Rank)> {
    let (index, placement) = waiting.first()?;
    let key = cluster.group_of(cluster.pod_at(*index)?)?.topology.as_deref()?;
    Some((key, rank(cluster, placement)?))
}

/// Returns the pod of a placement if it is still to be bound; `None` if it is bound to the planned node.
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

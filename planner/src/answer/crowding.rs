//! Members whose nominations keep each other out.
//!
//! kube-scheduler counts the pods that are nominated to a node as if they ran there, for every pod that it tries on that node, and those
//! of no other node. So where more members have their places on one node than a spread allows at first, each of them finds the
//! node too full and all others empty, and none is ever bound, although all of them fit.

use crate::api::Placement;
use crate::filters::is_peer;
use crate::model::{Cluster, Pod, SpreadConstraint};
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// So many different constraints are looked at on a node. A gang with more of them is let in nowhere.
const MOST_CONSTRAINTS: usize = 64;

/// UIDs of the members that are more on their node than the skew of a spread constraint that one of them has, and that counts them. Where
/// there are no more, the domain with the fewest lets in its own, and then the next one. Where there are, others may yet be bound before and
/// make it even enough: which of the nodes these are is not looked for.
pub fn crowding(cluster: &Cluster, placements: &[Placement]) -> BTreeSet<SmolStr> {
    let mut nodes: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for placement in placements {
        let pod = cluster.pod(&placement.pod).filter(|pod| pod.uid == placement.uid && pod.live() && !pod.bound());
        nodes.entry(&placement.node).or_default().extend(pod);
    }
    let mut crowding = BTreeSet::new();
    for mates in nodes.values().filter(|mates| mates.len() > 1) {
        let mut known: BTreeSet<&SpreadConstraint> = BTreeSet::new();
        for (pod, constraint) in mates.iter().flat_map(|pod| pod.constraints.spread.iter().map(move |c| (*pod, c))) {
            if known.len() >= MOST_CONSTRAINTS || !known.insert(constraint) {
                continue;
            }
            let peers = || mates.iter().filter(|mate| is_peer(constraint, pod, mate));
            if peers().count() > constraint.max_skew {
                crowding.extend(peers().map(|mate| mate.uid.clone()));
            }
        }
    }
    crowding
}

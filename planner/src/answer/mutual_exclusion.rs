//! Members whose nominations exclude each other.
//!
//! For every pod that it tries on a node, kube-scheduler counts the pods nominated to that node as if they ran there, and no pods nominated
//! to other nodes. If more members are nominated to one node than a spread constraint allows at first, each of them finds that node too
//! full and all others empty, and none is ever bound, although all of them fit.

use crate::api::Placement;
use crate::filters::is_peer;
use crate::limits::MOST_SPREADS_COMPARED;
use crate::model::{Cluster, Pod, SpreadConstraint};
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the UIDs of the members that may keep each other from being bound: more of them are placed on one node than the `maxSkew` of a
/// topology spread constraint that counts them. If no node has more, the members are bound one after the other. If a node has more, they
/// may be bound nevertheless, because members that are bound earlier can make the distribution even; that is not determined.
pub fn mutually_exclusive(cluster: &Cluster, placements: &[Placement]) -> BTreeSet<SmolStr> {
    let mut nodes: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for placement in placements {
        let pod = cluster.pod(&placement.pod).filter(|pod| pod.uid == placement.uid && pod.live() && !pod.bound());
        nodes.entry(&placement.node).or_default().extend(pod);
    }
    let mut excluding = BTreeSet::new();
    for mates in nodes.values().filter(|mates| mates.len() > 1) {
        let mut known: BTreeSet<&SpreadConstraint> = BTreeSet::new();
        for (pod, constraint) in mates.iter().flat_map(|pod| pod.constraints.spread.iter().map(move |c| (*pod, c))) {
            if known.len() >= MOST_SPREADS_COMPARED || !known.insert(constraint) {
                continue;
            }
            let peers = || mates.iter().filter(|mate| is_peer(constraint, pod, mate));
            if peers().count() > constraint.max_skew {
                excluding.extend(peers().map(|mate| mate.uid.clone()));
            }
        }
    }
    excluding
}

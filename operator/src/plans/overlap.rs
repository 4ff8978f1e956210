//! Which victims may be evicted while the reservation of placements is still in progress.
//!
//! Reserving the placements of a large gang takes as long as its evictions, so both overlap where that cannot cause a
//! needless eviction: no other pod may take the capacity of a placement between the first eviction and the reservation.
//!
//! * Other pods cannot take a placement that consists only of the capacity of running victims on its node. These
//!   victims are evicted when every placement on their nodes is reserved. If their PodGroup is disrupted as a whole,
//!   all nodes of the PodGroup count.
//! * Any pod can take a placement that needs free capacity: no victim is evicted before all of these placements are
//!   reserved.
//! * No eviction starts before the first placement is reserved, because every nomination may be rejected, and no further one while a
//!   reservation has failed. All placements are reserved first if a budget can
//!   refuse an eviction, or if the preemptor is a critical add-on.

use super::{Flight, current, reserved};
use giveway_planner::SmolStr;
use giveway_planner::model::Cluster;
use std::collections::{BTreeMap, BTreeSet};

impl Flight {
    /// Returns the nodes on which no victim may be evicted yet, because placements there are not reserved; `None` if no victim may be
    /// evicted on any node.
    pub(super) fn blocked_nodes(&self, cluster: &Cluster) -> Option<BTreeSet<SmolStr>> {
        if self.rescue.is_some() {
            return self.are_placements_reserved(cluster).then(BTreeSet::new);
        }
        let missing: BTreeSet<SmolStr> =
            self.members.iter().filter(|member| !reserved(cluster, member)).map(|member| member.node.clone()).collect();
        let failed = self.members.iter().any(|member| member.nominate.tries() > 0);
        let is_none_reserved = !self.members.iter().any(|member| reserved(cluster, member));
        let may_begin = !failed && !is_none_reserved && self.need_only_capacity_of_victims(cluster, &missing);
        (missing.is_empty() || may_begin).then_some(missing)
    }

    /// Returns true if the reservations permit to evict the plan's victim at index `unit`: none of its pods is on a `blocked` node.
    /// `blocked` is `None` if no victim may be evicted.
    pub(super) fn may_evict_unit(&self, unit: usize, blocked: Option<&BTreeSet<SmolStr>>) -> bool {
        let pods = &self.plan.victims[unit].pods;
        blocked.is_some_and(|nodes| pods.iter().all(|pod| !nodes.contains(pod.node.as_str())))
    }

    /// Returns true if the placements on these nodes need only the capacity of victims that are still running there.
    fn need_only_capacity_of_victims(&self, cluster: &Cluster, nodes: &BTreeSet<SmolStr>) -> bool {
        let mut left: BTreeMap<(&str, u16), i128> = BTreeMap::new();
        let there = self.victims.iter().filter_map(|victim| current(cluster, &victim.pod, &victim.uid));
        for pod in there.filter(|pod| pod.live()) {
            let Some(node) = pod.node.as_deref().filter(|node| nodes.contains(*node)) else { continue };
            pod.requests.iter().for_each(|(id, amount)| *left.entry((node, id)).or_default() += amount);
        }
        for member in self.members.iter().filter(|member| nodes.contains(&member.node)) {
            let Some(pod) = current(cluster, &member.pod, &member.uid) else { continue };
            for (id, amount) in pod.requests.iter() {
                let left = left.entry((&member.node, id)).or_default();
                *left -= amount;
                if *left < 0 {
                    return false;
                }
            }
        }
        true
    }
}

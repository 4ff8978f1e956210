//! Which victims may be asked to go while places are still being reserved.
//!
//! Reserving the places of a large gang takes as long as evicting for it, so the two overlap, where nobody is evicted in
//! vain by that: a place must not be lost to somebody else between the first eviction and its reservation.
//!
//! * A place that consists of the room of victims on its node cannot be lost while they are there. They go when every
//!   place on their nodes is reserved, and their group goes whole, so all of its nodes count.
//! * A place that needs free room may be taken by anybody: nobody goes before all of these are reserved.
//! * Nobody new goes while a reservation has failed, nor before all places are kept where a budget may refuse a victim,
//!   or for a critical add-on.

use super::{Flight, current, reserved};
use giveway_planner::SmolStr;
use giveway_planner::model::Cluster;
use std::collections::{BTreeMap, BTreeSet};

/// Whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nobody's.
    Nobody,
    /// That of every unit without a pod on one of these nodes.
    Except(BTreeSet<SmolStr>),
}

impl Turn {
    /// Whether everybody may go.
    pub(super) fn is_everybody(&self) -> bool {
        matches!(self, Self::Except(nodes) if nodes.is_empty())
    }
}

impl Flight {
    /// Whose turn it is to go, by the places that are reserved.
    pub(super) fn turn(&self, cluster: &Cluster) -> Turn {
        if self.rescue.is_some() {
            return if self.places_kept(cluster) { Turn::Except(BTreeSet::new()) } else { Turn::Nobody };
        }
        let missing: BTreeSet<SmolStr> =
            self.members.iter().filter(|member| !reserved(cluster, member)).map(|member| member.node.clone()).collect();
        let failed = self.members.iter().any(|member| member.nominate.tries() > 0);
        if !missing.is_empty() && (failed || !self.of_victims_only(cluster, &missing)) {
            return Turn::Nobody;
        }
        Turn::Except(missing)
    }

    /// Whether a unit's turn has come.
    pub(super) fn is_turn_of(&self, unit: usize, turn: &Turn) -> bool {
        let Turn::Except(nodes) = turn else { return false };
        nodes.is_empty() || self.plan.victims[unit].pods.iter().all(|pod| !nodes.contains(pod.node.as_str()))
    }

    /// Whether the places on these nodes need no room but that of victims who are still there.
    fn of_victims_only(&self, cluster: &Cluster, nodes: &BTreeSet<SmolStr>) -> bool {
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

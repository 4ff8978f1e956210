//! Checks whether pods that are evicted for a critical add-on fit on another node.

use crate::filters::{Nodes, Occupancy, Rank, repelled, unsuitable_if_unbound};
use crate::model::{ClassId, Cluster, Pod, PodIndex};
use crate::problem::Effort;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Cached results on which nodes evicted pods fit.
pub(crate) struct Elsewhere<'a> {
    cluster: &'a Cluster,
    /// All nodes.
    nodes: &'a Nodes<'a>,
    /// Reservations of nominated pods.
    held: &'a [(PodIndex, Rank)],
    /// The occupancy with every bound pod, without inter-pod constraints.
    amounts: Occupancy<'a>,
    effort: Effort,
    /// By class: the first two feasible nodes, if only amounts decide.
    open: BTreeMap<ClassId, [Option<Rank>; 2]>,
}

impl<'a> Elsewhere<'a> {
    pub(crate) fn new(cluster: &'a Cluster, nodes: &'a Nodes<'a>, held: &'a [(PodIndex, Rank)]) -> Self {
        let amounts = Occupancy::of_amounts(cluster, nodes, held);
        Self { cluster, nodes, held, amounts, effort: Effort::of_places(), open: BTreeMap::new() }
    }

    /// Returns true if a pod fits on another node than this one without evictions; false also if no effort is left.
    pub(crate) fn has_place(&mut self, index: PodIndex, without: Rank) -> bool {
        let Some(pod) = self.cluster.pod_at(index) else { return false };
        let kind = self.cluster.row(index).class;
        let alone = pod.constraints.exclusive.is_empty()
            && !pod.constraints.looks_at_other_nodes()
            && !repelled(self.cluster, &[index], kind, self.held.iter().map(|(pod, _)| *pod));
        let open = match self.open.get(&kind).filter(|_| alone) {
            Some(open) => *open,
            None if alone => {
                if !self.effort.take(self.nodes.len()) {
                    return false;
                }
                let open = self.first_two(index, pod, &self.amounts);
                self.open.insert(kind, open);
                open
            }
            None => {
                if !self.effort.take(self.nodes.len() + self.cluster.pod_bound()) {
                    return false;
                }
                let mut room = self.room(&[index]);
                room.take(&[index]);
                self.first_two(index, pod, &room)
            }
        };
        open.into_iter().flatten().any(|rank| rank != without)
    }

    fn first_two(&self, index: PodIndex, pod: &Pod, room: &Occupancy<'_>) -> [Option<Rank>; 2] {
        let mut open = (0..self.nodes.len()).filter(|rank| self.fits(index, pod, *rank, room));
        [open.next(), open.next()]
    }

    fn fits(&self, index: PodIndex, pod: &Pod, rank: Rank, room: &Occupancy<'_>) -> bool {
        room.refuse(index, rank).is_none() && unsuitable_if_unbound(pod, self.nodes.at(rank)).is_none()
    }

    fn room(&self, pods: &[PodIndex]) -> Occupancy<'a> {
        Occupancy::new(self.cluster, self.nodes, pods, self.held)
    }

    /// Returns true if these pods fit on other nodes than their own, all of them at the same time, without `gone` and with the add-on
    /// placed. The largest is placed first, each on the first node where it fits.
    pub(crate) fn have_places(&mut self, pods: &[PodIndex], gone: &[PodIndex], addon: (PodIndex, Rank)) -> bool {
        if !self.effort.take(pods.len() * self.nodes.len() + self.cluster.pod_bound()) {
            return false;
        }
        let mut room = self.room(pods);
        room.take(gone);
        room.add(addon.0, addon.1);
        let mut order: Vec<(PodIndex, &Pod)> =
            pods.iter().filter_map(|p| Some((*p, self.cluster.pod_at(*p)?))).collect();
        order.sort_by_key(|(_, pod)| (Reverse(self.cluster.share_of(&pod.requests)), &pod.key));
        order.into_iter().all(|(index, pod)| {
            let mut others = (0..self.nodes.len()).filter(|rank| *rank != addon.1);
            let place = others.find(|rank| self.fits(index, pod, *rank, &room));
            place.inspect(|rank| room.add(index, *rank)).is_some()
        })
    }
}

//! What is free on every node under an assumption: some pods gone, others placed. A room is cheap to copy and to change
//! back, and is never shared between assumptions.

use super::around::Around;
use super::nodes::{Nodes, Rank};
use super::{Refusal, pod_affinity, ports, resources, spread};
use crate::model::{Cluster, Pod, PodIndex};
use std::collections::{BTreeMap, BTreeSet};

/// What is free, and who is there.
#[derive(Clone)]
pub(crate) struct Room<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) nodes: &'a Nodes<'a>,
    width: usize,
    free: Vec<i128>,
    /// By rank: the pods that a filter may ask about. All of them when pods look at other nodes, else those with ports.
    occupants: Vec<Vec<PodIndex>>,
    /// Topology domains by key; empty unless pods look at other nodes.
    pub(super) topology: BTreeMap<&'a str, BTreeMap<&'a str, Vec<Rank>>>,
    /// Pods that are not there, and whose places are held for them.
    pub(super) held: BTreeSet<PodIndex>,
    /// Whether a placement can depend on pods of other nodes.
    wide: bool,
}

impl<'a> Room<'a> {
    /// The room with every bound pod in place. `members` are the pods that are going to be placed.
    pub(crate) fn new(cluster: &'a Cluster, nodes: &'a Nodes<'a>, members: &[PodIndex]) -> Self {
        let width = cluster.resource_count();
        let mut free = vec![0; width * nodes.len()];
        for rank in 0..nodes.len() {
            let row = &mut free[rank * width..(rank + 1) * width];
            row[..nodes.at(rank).allocatable.len()].copy_from_slice(&nodes.at(rank).allocatable);
            for (free, used) in row.iter_mut().zip(cluster.used_at(nodes.index(rank))) {
                *free -= used;
            }
        }
        let topology = pod_affinity::topology_keys(cluster, members).into_iter().map(|key| (key, nodes.domains(key)));
        let topology: BTreeMap<_, _> = topology.collect();
        let wide = !topology.is_empty();
        let (occupants, held) = (vec![Vec::new(); nodes.len()], BTreeSet::new());
        let mut room = Self { cluster, nodes, width, free, occupants, topology, held, wide };
        for rank in 0..nodes.len() {
            let pods = cluster.pods_at(nodes.index(rank)).iter().copied();
            room.occupants[rank] = pods.filter(|pod| cluster.pod_at(*pod).is_some_and(|pod| room.notes(pod))).collect();
        }
        room
    }

    fn notes(&self, pod: &Pod) -> bool {
        self.wide || !pod.constraints.ports.is_empty()
    }

    /// Whether a placement can depend on pods of other nodes.
    pub(crate) fn wide(&self) -> bool {
        self.wide
    }

    /// What is free on a node, by resource number.
    pub(crate) fn free(&self, rank: Rank) -> &[i128] {
        &self.free[rank * self.width..(rank + 1) * self.width]
    }

    /// The pods on a node that a filter may ask about.
    pub(super) fn occupants(&self, rank: Rank) -> impl Iterator<Item = &'a Pod> + '_ {
        self.occupants[rank].iter().filter_map(|index| self.cluster.pod_at(*index))
    }

    /// The pods on a node that a filter may ask about, by index.
    pub(super) fn occupant_indexes(&self, rank: Rank) -> &[PodIndex] {
        &self.occupants[rank]
    }

    /// Holds a place for a pod that is not bound (KEP-4832).
    pub(crate) fn hold(&mut self, index: PodIndex, rank: Rank) {
        self.add(index, rank);
        self.held.insert(index);
    }

    /// Puts a pod on a node, without asking whether it fits.
    pub(crate) fn add(&mut self, index: PodIndex, rank: Rank) {
        let Some(pod) = self.cluster.pod_at(index) else { return };
        for (id, amount) in pod.requests.iter() {
            self.free[rank * self.width + usize::from(id)] -= amount;
        }
        if self.notes(pod) {
            self.occupants[rank].push(index);
        }
    }

    /// Takes a pod from a node.
    pub(crate) fn remove(&mut self, index: PodIndex, rank: Rank) {
        let Some(pod) = self.cluster.pod_at(index) else { return };
        for (id, amount) in pod.requests.iter() {
            self.free[rank * self.width + usize::from(id)] += amount;
        }
        if self.notes(pod) {
            self.occupants[rank].retain(|other| *other != index);
        }
    }

    /// The rank of the node that a pod is bound to.
    pub(crate) fn rank_of(&self, index: PodIndex) -> Option<Rank> {
        self.nodes.rank(self.cluster.node_index_of(index)?)
    }

    /// Takes bound pods from their nodes.
    pub(crate) fn take(&mut self, pods: &[PodIndex]) {
        for pod in pods {
            if let Some(rank) = self.rank_of(*pod) {
                self.remove(*pod, rank);
            }
        }
    }

    /// Puts bound pods back on their nodes.
    pub(crate) fn put(&mut self, pods: &[PodIndex]) {
        for pod in pods {
            if let Some(rank) = self.rank_of(*pod) {
                self.add(*pod, rank);
            }
        }
    }

    /// Why a pod does not fit beside what is there; `None` when it fits. Asks only the filters that depend on other pods.
    pub(crate) fn refuse(&self, pod: &Pod, rank: Rank) -> Option<Refusal> {
        if let Some(id) = resources::lacking(&pod.requests, self.free(rank)) {
            return Some(Refusal::Insufficient(id));
        }
        if !pod.constraints.ports.is_empty() && self.occupants(rank).any(|other| ports::conflict(pod, other)) {
            return Some(Refusal::Ports);
        }
        if !self.wide {
            return None;
        }
        let look = |around| spread::refuse(around, pod, rank).or_else(|| pod_affinity::refuse(around, pod, rank));
        look(Around::with_held(self)).or_else(|| look(Around::without_held(self)?))
    }

    /// Every resource of which a node has too little for a pod.
    pub(crate) fn lacks(&self, pod: &Pod, rank: Rank) -> Vec<crate::model::ResourceId> {
        let free = self.free(rank);
        pod.requests.iter().filter(|(id, amount)| free[usize::from(*id)] < *amount).map(|(id, _)| id).collect()
    }

    /// How many pods like this one fit on a node, at most `limit`. Where pods look at each other the answer is 0 or 1:
    /// whether the next one fits.
    pub(crate) fn capacity(&self, pod: &Pod, rank: Rank, limit: usize) -> usize {
        if self.wide || !pod.constraints.ports.is_empty() {
            return usize::from(limit > 0 && self.refuse(pod, rank).is_none());
        }
        resources::how_many(&pod.requests, self.free(rank), limit)
    }

    /// Whether pods that were placed before (and are in this room) still fit, after something changed on the nodes for
    /// which `touched` holds.
    pub(crate) fn holds(&mut self, placed: &[(PodIndex, Rank)], touched: impl Fn(Rank) -> bool) -> bool {
        if self.wide {
            return self.holds_in_order(placed);
        }
        placed.iter().filter(|(_, rank)| touched(*rank)).all(|(index, rank)| {
            let Some(pod) = self.cluster.pod_at(*index) else { return false };
            let free = self.free(*rank);
            pod.requests.iter().all(|(id, _)| free[usize::from(id)] >= 0)
                && (pod.constraints.ports.is_empty()
                    || !self.occupants[*rank].iter().any(|other| {
                        other != index && self.cluster.pod_at(*other).is_some_and(|other| ports::conflict(pod, other))
                    }))
        })
    }

    /// Takes all placed pods out and puts them back one by one, as the scheduler would.
    fn holds_in_order(&mut self, placed: &[(PodIndex, Rank)]) -> bool {
        for (index, rank) in placed {
            self.remove(*index, *rank);
        }
        let mut holds = true;
        for (index, rank) in placed {
            holds = holds && self.cluster.pod_at(*index).is_some_and(|pod| self.refuse(pod, *rank).is_none());
            self.add(*index, *rank);
        }
        holds
    }
}

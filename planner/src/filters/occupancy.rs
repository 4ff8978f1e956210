//! What is free on every node under an assumption: some pods gone, others placed. A room is cheap to copy and to change
//! back, and is never shared between assumptions.

use super::around::Around;
use super::pod_affinity;
use super::ports;
use super::resources;
use super::spread;
use crate::api::Refusal;
use crate::filters::nodes::{Nodes, Rank};
use crate::model::{Cluster, Free, Pod, PodIndex};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is free, and who is there.
#[derive(Clone)]
pub(crate) struct Occupancy<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) nodes: &'a Nodes<'a>,
    free: Free,
    /// By rank: the pods that a filter may ask about.
    occupants: BTreeMap<Rank, Vec<PodIndex>>,
    /// Topology domains by key; empty unless pods look at other nodes.
    pub(super) topology: Arc<BTreeMap<&'a str, BTreeMap<&'a str, Vec<Rank>>>>,
    /// Pods that are not there, and whose places are held for them.
    pub(super) held: BTreeSet<PodIndex>,
    /// Whose pods a filter may ask about.
    interest: Interest<'a>,
}

/// Which pods a filter may ask about when these members are placed.
#[derive(Clone)]
struct Interest<'a> {
    /// Examples of the members, one of each kind; none unless pods look at other nodes.
    looking: Arc<Vec<&'a Pod>>,
    /// Whether a placement can depend on pods of other nodes.
    wide: bool,
    /// Whether a member takes ports of its node.
    ports: bool,
}

impl<'a> Interest<'a> {
    fn new(cluster: &'a Cluster, members: &[PodIndex], wide: bool) -> Self {
        let members = || members.iter().filter_map(|index| cluster.pod_at(*index));
        let ports = members().any(|pod| !pod.constraints.ports.is_empty());
        let mut looking: Vec<&Pod> = if wide { members().collect() } else { Vec::new() };
        let kind = |pod: &&'a Pod| (&pod.constraints, &pod.labels, &pod.key.namespace);
        looking.sort_by(|a, b| kind(a).cmp(&kind(b)));
        looking.dedup_by(|a, b| kind(a) == kind(b));
        Self { looking: Arc::new(looking), wide, ports }
    }

    /// Whether a filter may ask about a pod.
    fn covers(&self, cluster: &Cluster, pod: &Pod) -> bool {
        (self.ports && !pod.constraints.ports.is_empty())
            || (self.wide
                && (!pod.constraints.anti_affinity.is_empty() || self.looking.iter().any(|l| looks(cluster, l, pod))))
    }
}

/// Whether one of a member's constraints is about a pod.
fn looks(cluster: &Cluster, member: &Pod, pod: &Pod) -> bool {
    let constraints = &member.constraints;
    let mut terms = constraints.affinity.iter().chain(&constraints.anti_affinity);
    terms.any(|term| pod_affinity::about(cluster, term, pod))
        || constraints.spread.iter().any(|c| c.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels)))
}

impl<'a> Occupancy<'a> {
    /// The room with every bound pod in place, for members that ask nothing of the pods around.
    pub(crate) fn of_amounts(cluster: &'a Cluster, nodes: &'a Nodes<'a>) -> Self {
        let interest = Interest { looking: Arc::default(), wide: false, ports: false };
        let (free, occupants) = (cluster.free().clone(), BTreeMap::new());
        Self { cluster, nodes, free, occupants, topology: Arc::default(), held: BTreeSet::new(), interest }
    }

    /// The room with every bound pod in place. `members` are the pods that are going to be placed,
    /// `held` those whose places are going to be held.
    pub(crate) fn new(
        cluster: &'a Cluster,
        nodes: &'a Nodes<'a>,
        members: &[PodIndex],
        held: &[(PodIndex, Rank)],
    ) -> Self {
        let topology =
            pod_affinity::topology_keys(cluster, members, held).into_iter().map(|key| (key, nodes.domains(key)));
        let topology: BTreeMap<_, _> = topology.collect();
        let interest = Interest::new(cluster, members, !topology.is_empty());
        let mut occupants: BTreeMap<Rank, Vec<PodIndex>> = BTreeMap::new();
        let mut note = |index: PodIndex, pod: &Pod| {
            if interest.covers(cluster, pod)
                && let Some(rank) = cluster.node_index_of(index).and_then(|node| nodes.rank(node))
            {
                occupants.entry(rank).or_default().push(index);
            }
        };
        if interest.wide {
            cluster.pods_with_nodes().for_each(|(index, pod, _)| note(index, pod));
        } else if interest.ports {
            cluster.with_ports().for_each(|(index, pod)| note(index, pod));
        }
        let free = cluster.free().clone();
        let (topology, held) = (Arc::new(topology), BTreeSet::new());
        Self { cluster, nodes, free, occupants, topology, held, interest }
    }

    fn notes(&self, index: PodIndex) -> bool {
        (self.interest.wide || self.interest.ports)
            && self.cluster.pod_at(index).is_some_and(|pod| self.interest.covers(self.cluster, pod))
    }

    fn count(&mut self, index: PodIndex, rank: Rank, sign: i128) {
        let Some(kind) = self.cluster.class(self.cluster.row(index).class) else { return };
        let row = self.free.row_mut(self.nodes.index(rank));
        for (id, amount) in kind.requests.iter() {
            row[usize::from(id)] += sign * amount;
        }
    }

    /// Whether a placement can depend on pods of other nodes.
    pub(crate) fn wide(&self) -> bool {
        self.interest.wide
    }

    /// Whether only amounts decide where a pod like this fits: it asks nothing of the pods around.
    pub(crate) fn counts_only(&self, pod: &Pod) -> bool {
        !self.interest.wide && pod.constraints.ports.is_empty()
    }

    /// How many pods like this one fit on a node once the pods that run there and for which `gone` holds are gone, at
    /// most `limit`. Only where [`Occupancy::counts_only`].
    pub(crate) fn capacity_without(
        &self,
        pod: &Pod,
        rank: Rank,
        limit: usize,
        gone: impl Fn(PodIndex) -> bool,
    ) -> usize {
        let node = self.nodes.index(rank);
        let mut free: Option<Vec<i128>> = None;
        for index in self.cluster.rows_at(node).map(|(index, _)| index).filter(|index| gone(*index)) {
            let Some(other) = self.cluster.pod_at(index) else { continue };
            let free = free.get_or_insert_with(|| self.free.row(node).to_vec());
            other.requests.iter().for_each(|(id, amount)| free[usize::from(id)] += amount);
        }
        resources::how_many(&pod.requests, free.as_deref().unwrap_or(self.free.row(node)), limit)
    }

    /// The nodes where it can make a difference to a pod that something changed on the nodes of `touched`. Anti-affinity
    /// reaches as far as their topology domains, affinity and spread reach everywhere.
    pub(crate) fn affected(&self, pod: &Pod, touched: &[Rank]) -> Vec<Rank> {
        if !self.interest.wide {
            return touched.to_vec();
        }
        if !pod.constraints.affinity.is_empty() || !pod.constraints.spread.is_empty() {
            return (0..self.nodes.len()).collect();
        }
        let mut affected = touched.to_vec();
        for (key, domains) in self.topology.iter() {
            for rank in touched {
                let value = self.nodes.at(*rank).labels.get(*key);
                affected.extend(value.and_then(|value| domains.get(value.as_str())).into_iter().flatten());
            }
        }
        affected.sort_unstable();
        affected.dedup();
        affected
    }

    /// What is free on a node, by resource number.
    pub(crate) fn free(&self, rank: Rank) -> &[i128] {
        self.free.row(self.nodes.index(rank))
    }

    /// The pods on a node that a filter may ask about.
    pub(super) fn occupants(&self, rank: Rank) -> impl Iterator<Item = &'a Pod> + '_ {
        self.occupants.get(&rank).into_iter().flatten().filter_map(|index| self.cluster.pod_at(*index))
    }

    /// The pods on a node that a filter may ask about, by index.
    pub(super) fn occupant_indexes(&self, rank: Rank) -> &[PodIndex] {
        self.occupants.get(&rank).map_or(&[], Vec::as_slice)
    }

    /// Holds a place for a pod that is not bound (KEP-4832).
    pub(crate) fn hold(&mut self, index: PodIndex, rank: Rank) {
        self.add(index, rank);
        self.held.insert(index);
    }

    /// Puts a pod on a node, without asking whether it fits.
    pub(crate) fn add(&mut self, index: PodIndex, rank: Rank) {
        self.count(index, rank, -1);
        if self.notes(index) {
            self.occupants.entry(rank).or_default().push(index);
        }
    }

    /// Takes a pod from a node.
    pub(crate) fn remove(&mut self, index: PodIndex, rank: Rank) {
        self.count(index, rank, 1);
        if self.notes(index)
            && let Some(occupants) = self.occupants.get_mut(&rank)
        {
            occupants.retain(|other| *other != index);
        }
    }

    /// The rank of the node that a pod is bound to.
    pub(crate) fn rank_of(&self, index: PodIndex) -> Option<Rank> {
        self.nodes.rank(self.cluster.row(index).node?)
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
        if !self.interest.wide {
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
        if self.interest.wide || !pod.constraints.ports.is_empty() {
            return usize::from(limit > 0 && self.refuse(pod, rank).is_none());
        }
        resources::how_many(&pod.requests, self.free(rank), limit)
    }

    /// Whether pods that were placed before (and are in this room) still fit, after something changed on the nodes for
    /// which `touched` holds.
    pub(crate) fn holds(&mut self, placed: &[(PodIndex, Rank)], touched: impl Fn(Rank) -> bool) -> bool {
        if self.interest.wide {
            return self.holds_in_order(placed);
        }
        placed.iter().filter(|(_, rank)| touched(*rank)).all(|(index, rank)| {
            let Some(pod) = self.cluster.pod_at(*index) else { return false };
            let free = self.free(*rank);
            pod.requests.iter().all(|(id, _)| free[usize::from(id)] >= 0)
                && (pod.constraints.ports.is_empty()
                    || !self.occupants.get(rank).into_iter().flatten().any(|other| {
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

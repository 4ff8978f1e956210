//! One question to the planner, with everything that its answer depends on looked up once.

use crate::budgets::Budgets;
use crate::demand::{Demand, Shape};
use crate::domain::{Potential, leaving};
use crate::feasibility::{Nodes, Rank, Room};
use crate::model::{Cluster, Pod, PodIndex};
use crate::plan::Context;
use std::collections::{BTreeMap, BTreeSet};

/// A preemptor, the nodes, and who might have to go.
pub(crate) struct Problem<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) context: &'a Context,
    pub(crate) nodes: &'a Nodes<'a>,
    pub(crate) demand: Demand,
    /// The cluster as it is: every bound pod in place, and the places that others hold against this preemptor.
    pub(crate) now: Room<'a>,
    /// The members, by what they are like; the largest first.
    pub(crate) shapes: Vec<Shape>,
    /// Potential victims.
    pub(crate) potential: Potential,
    /// The budgets of the potential victims.
    pub(crate) budgets: Budgets<'a>,
    /// Pods that leave anyway, by key, with their nodes.
    pub(crate) leaving: Vec<(PodIndex, Rank)>,
    /// By rank: whether a pod leaves the node.
    pub(crate) vacating: Vec<bool>,
}

impl<'a> Problem<'a> {
    /// Looks up what placing the members depends on. Nobody may go yet.
    pub(crate) fn new(cluster: &'a Cluster, nodes: &'a Nodes<'a>, demand: Demand, context: &'a Context) -> Self {
        let now = room_now(cluster, nodes, &demand, context);
        let mut leaves = Vec::new();
        let mut vacating = vec![false; nodes.len()];
        for (rank, vacates) in vacating.iter_mut().enumerate() {
            for index in cluster.pods_at(nodes.index(rank)) {
                if cluster.pod_at(*index).is_some_and(|pod| leaving(pod, context)) {
                    leaves.push((*index, rank));
                    *vacates = true;
                }
            }
        }
        Self {
            cluster,
            context,
            nodes,
            shapes: demand.shapes(cluster, nodes, now.wide()),
            now,
            demand,
            potential: Potential::none(nodes),
            budgets: Budgets::default(),
            leaving: leaves,
            vacating,
        }
    }

    /// Looks up who may go.
    pub(crate) fn consider_victims(&mut self) {
        self.potential = Potential::new(self.cluster, self.nodes, &self.demand, self.context);
        let departing = self.leaving.iter().map(|(pod, _)| *pod);
        let departing = departing.filter(|pod| self.cluster.pod_at(*pod).is_some_and(Pod::live));
        self.budgets = Budgets::new(self.cluster, &self.potential.units, self.demand.priority, departing);
    }

    /// The room once everybody who leaves anyway is gone.
    pub(crate) fn room_then(&self) -> Room<'a> {
        let mut room = self.now.clone();
        for (pod, rank) in &self.leaving {
            room.remove(*pod, *rank);
        }
        room
    }
}

fn room_now<'a>(cluster: &'a Cluster, nodes: &'a Nodes<'a>, demand: &Demand, context: &Context) -> Room<'a> {
    let mut room = Room::new(cluster, nodes, &demand.members);
    let own = demand.members.iter().filter_map(|index| cluster.pod_at(*index));
    let own: BTreeSet<&str> = own.map(|pod| pod.uid.as_str()).collect();
    for (pod, rank) in held_places(cluster, nodes, demand.priority, context, &own) {
        room.hold(pod, rank);
    }
    room
}

/// The places held by preemptors of equal or higher priority (KEP-4832): by decisions in flight, and by nominations.
/// Pods with a UID in `own` hold nothing against themselves.
pub(crate) fn held_places(
    cluster: &Cluster,
    nodes: &Nodes<'_>,
    priority: i32,
    context: &Context,
    own: &BTreeSet<&str>,
) -> Vec<(PodIndex, Rank)> {
    let mut places: BTreeMap<PodIndex, Option<Rank>> = BTreeMap::new();
    let rank = |node: &str| cluster.node_index(node).and_then(|index| nodes.rank(index));
    for reservation in &context.reservations {
        let Some(index) = cluster.pod_index(&reservation.pod) else { continue };
        let Some(pod) = cluster.pod_at(index) else { continue };
        if pod.uid == reservation.uid && pod.live() && !pod.bound() && !own.contains(pod.uid.as_str()) {
            let holds = reservation.priority >= priority;
            places.insert(index, rank(&reservation.node).filter(|_| holds));
        }
    }
    for (index, pod, _) in cluster.pods_with_nodes() {
        let Some(node) = &pod.nominated_node else { continue };
        if pod.live() && !pod.bound() && !own.contains(pod.uid.as_str()) {
            let holds = cluster.effective_priority(pod) >= priority;
            places.entry(index).or_insert_with(|| rank(node).filter(|_| holds));
        }
    }
    places.into_iter().filter_map(|(pod, rank)| Some((pod, rank?))).collect()
}

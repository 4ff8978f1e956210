//! One preemption problem, with all data that its solution depends on.

mod budgets;
mod cost;
mod demand;
mod effort;
mod elsewhere;
pub(crate) mod importance;
mod in_flight;
mod placements;
mod potential_victims;
mod reserved;

pub(crate) use budgets::{Budgets, Tally};
pub(crate) use demand::{Demand, MemberClass};
pub(crate) use effort::Effort;
pub(crate) use elsewhere::Elsewhere;
pub(crate) use in_flight::{Difference, InFlight};
pub(crate) use placements::placements;
pub(crate) use potential_victims::{PotentialVictims, UnitIndex, ranks, weight};
pub(crate) use reserved::Reserved;

use crate::api::{Context, Refusal};
use crate::filters::{Nodes, Occupancy, Rank};
use crate::model::{Cluster, PodIndex};
/// A preemption problem: the preemptor, the nodes, and the potential victims.
pub(crate) struct Problem<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) context: &'a Context,
    pub(crate) nodes: &'a Nodes<'a>,
    pub(crate) demand: &'a Demand,
    pub(crate) in_flight: &'a InFlight,
    /// The cluster as it is: every bound pod, and the reservations of others against this preemptor.
    pub(crate) now: Occupancy<'a>,
    /// The members by equivalence class, the largest class first.
    pub(crate) classes: Vec<MemberClass>,
    /// The potential victims.
    pub(crate) potential: PotentialVictims<'a>,
    /// The budgets of the potential victims.
    pub(crate) budgets: Budgets<'a>,
    /// Pods that are leaving anyway, by key, with their nodes.
    pub(crate) leaving: Vec<(PodIndex, Rank)>,
    /// By rank: whether a pod is leaving the node.
    pub(crate) vacating: Vec<bool>,
    /// The remaining effort of the decision.
    pub(crate) effort: Effort,
    /// Where victims fit instead; without it, costs are compared without what the victims lose.
    pub(crate) elsewhere: Option<&'a Elsewhere<'a>>,
}

impl<'a> Problem<'a> {
    /// Collects everything on which the placement of the members depends, without potential victims. `now` is what is in use on the nodes:
    /// by all bound pods, and by the reservations of other pods.
    pub(crate) fn new(
        cluster: &'a Cluster,
        nodes: &'a Nodes<'a>,
        demand: &'a Demand,
        context: &'a Context,
        in_flight: &'a InFlight,
        now: Occupancy<'a>,
        effort: &Effort,
    ) -> Self {
        let mut vacating = vec![false; nodes.len()];
        let leaving = in_flight.leaving(cluster, nodes);
        leaving.iter().for_each(|(_, rank)| vacating[*rank] = true);
        Self {
            cluster,
            context,
            nodes,
            classes: demand.classes(cluster, nodes, &now, effort),
            now,
            demand,
            in_flight,
            potential: PotentialVictims::none(nodes),
            budgets: Budgets::default(),
            leaving,
            vacating,
            effort: effort.clone(),
            elsewhere: None,
        }
    }

    /// Collects the potential victims and their budgets: the units of eviction with a priority below the preemptor's, and not above
    /// `ceiling`.
    pub(crate) fn consider_victims(&mut self, ceiling: i32) {
        let ceiling = ceiling.min(self.demand.priority.saturating_sub(1));
        self.potential = PotentialVictims::new(self.cluster, self.nodes, self.in_flight, self.demand.priority, ceiling);
        self.budgets = Budgets::new(self.cluster, &self.potential.units, self.demand.priority, self.in_flight);
    }

    /// Returns the pods of a unit of eviction that run on the node with this rank.
    pub(crate) fn pods_on(&self, unit: UnitIndex, rank: Rank) -> Vec<PodIndex> {
        self.potential.pods_on(self.cluster, self.nodes, self.in_flight, unit, rank)
    }

    /// Makes all nodes infeasible for the members except those with these ranks.
    pub(crate) fn restrict_to_nodes(&mut self, ranks: &[Rank]) {
        let mut meant = vec![false; self.nodes.len()];
        ranks.iter().for_each(|rank| meant[*rank] = true);
        for class in &mut self.classes {
            let out = class.unsuitable.iter_mut().zip(&meant).filter(|(_, meant)| !**meant);
            out.for_each(|(refusal, _)| *refusal = Some(Refusal::NodeAffinity));
        }
    }

    /// Returns what is in use on the nodes after all pods that leave anyway have terminated.
    pub(crate) fn occupancy_after_terminations(&self) -> Occupancy<'a> {
        let mut room = self.now.clone();
        for (pod, rank) in &self.leaving {
            room.remove(*pod, *rank);
        }
        room
    }
}

//! One question to the planner, with everything that its answer depends on looked up once.

use crate::budgets::Budgets;
use crate::demand::{Demand, Shape};
use crate::domain::Potential;
use crate::feasibility::{Nodes, Rank, Room};
use crate::model::{Cluster, PodIndex};
use crate::overlay::Overlay;
use crate::plan::Context;

/// A preemptor, the nodes, and who might have to go.
pub(crate) struct Problem<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) context: &'a Context,
    pub(crate) nodes: &'a Nodes<'a>,
    pub(crate) demand: &'a Demand,
    pub(crate) overlay: &'a Overlay,
    /// The cluster as it is: every bound pod in place, and the places that others hold against this preemptor.
    pub(crate) now: Room<'a>,
    /// The members, by what they are like; the largest first.
    pub(crate) shapes: Vec<Shape>,
    /// Potential victims.
    pub(crate) potential: Potential<'a>,
    /// The budgets of the potential victims.
    pub(crate) budgets: Budgets<'a>,
    /// Pods that leave anyway, by key, with their nodes.
    pub(crate) leaving: Vec<(PodIndex, Rank)>,
    /// By rank: whether a pod leaves the node.
    pub(crate) vacating: Vec<bool>,
}

impl<'a> Problem<'a> {
    /// Looks up what placing the members depends on. Nobody may go yet. `now` is the room with every bound
    /// pod in place; of the overlay's places those on `nodes` are held in it.
    pub(crate) fn new(
        cluster: &'a Cluster,
        nodes: &'a Nodes<'a>,
        demand: &'a Demand,
        context: &'a Context,
        overlay: &'a Overlay,
        mut now: Room<'a>,
    ) -> Self {
        for (pod, rank) in &overlay.held {
            if let Some(rank) = nodes.local(*rank) {
                now.hold(*pod, rank);
            }
        }
        let mut vacating = vec![false; nodes.len()];
        let leaving = overlay.leaving(cluster, nodes);
        leaving.iter().for_each(|(_, rank)| vacating[*rank] = true);
        Self {
            cluster,
            context,
            nodes,
            shapes: demand.shapes(cluster, nodes, now.wide()),
            now,
            demand,
            overlay,
            potential: Potential::none(nodes),
            budgets: Budgets::default(),
            leaving,
            vacating,
        }
    }

    /// Looks up who may go, nobody above the priority `ceiling`.
    pub(crate) fn consider_victims(&mut self, ceiling: i32) {
        let ceiling = ceiling.min(self.demand.priority.saturating_sub(1));
        self.potential = Potential::new(self.cluster, self.nodes, self.overlay, self.demand.priority, ceiling);
        self.budgets = Budgets::new(
            self.cluster,
            &self.potential.units,
            self.demand.priority,
            self.overlay.evicting(self.cluster),
        );
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

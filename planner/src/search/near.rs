//! The pods of units that matter for one member on one node: those on the node, and those that inter-pod constraints refer to from other
//! nodes. The pods of a group on thousands of nodes are not read for each of these nodes.

use crate::filters::{Occupancy, Rank};
use crate::model::PodIndex;
use crate::problem::{Problem, UnitIndex};

/// Finds which pods of a unit (a single pod or a whole group) matter for a member on a node: those on the node, and those elsewhere that
/// inter-pod constraints count.
pub(crate) struct RelevantPods<'p, 'a> {
    problem: &'p Problem<'a>,
    /// By index of the unit: its pods that matter for members on other nodes than their own; empty without inter-pod constraints.
    far: Vec<Vec<PodIndex>>,
}

impl<'p, 'a> RelevantPods<'p, 'a> {
    /// Finds the pods of all potential victims that matter for members on other nodes than their own.
    pub(crate) fn new(problem: &'p Problem<'a>, occupancy: &Occupancy<'_>) -> Self {
        if !occupancy.has_inter_pod_constraints() {
            return Self { problem, far: Vec::new() };
        }
        let far =
            |pods: &[PodIndex]| pods.iter().copied().filter(|pod| occupancy.matters_on_other_nodes(*pod)).collect();
        Self { problem, far: problem.potential.units.iter().map(|unit| far(&unit.pods)).collect() }
    }

    /// Returns the pods of a unit (a single pod or a whole group) that matter for a member on the node with this rank (its index in the
    /// list of nodes): those that run there, and those on other nodes that inter-pod constraints count.
    pub(crate) fn pods(&self, unit: UnitIndex, rank: Rank) -> Vec<PodIndex> {
        let mut pods = self.problem.pods_on(unit, rank);
        let node = self.problem.nodes.index(rank);
        let far = self.far.get(unit).into_iter().flatten().copied();
        pods.extend(far.filter(|pod| self.problem.cluster.row(*pod).node != Some(node)));
        pods
    }
}

//! The pods of units that matter for one member on one node: those on the node, and those that inter-pod constraints refer to from other
//! nodes. The pods of a group on thousands of nodes are not read for each of these nodes.

use crate::filters::{Occupancy, Rank};
use crate::model::PodIndex;
use crate::problem::{Problem, UnitIndex};

/// The pods of units that matter for members on other nodes than their own.
pub(crate) struct Near<'p, 'a> {
    problem: &'p Problem<'a>,
    /// By unit; empty without inter-pod constraints.
    far: Vec<Vec<PodIndex>>,
}

impl<'p, 'a> Near<'p, 'a> {
    /// Finds the pods of a problem's potential victims that matter for members on other nodes than their own.
    pub(crate) fn new(problem: &'p Problem<'a>, room: &Occupancy<'_>) -> Self {
        if !room.looks_around() {
            return Self { problem, far: Vec::new() };
        }
        let far = |pods: &[PodIndex]| pods.iter().copied().filter(|pod| room.is_looked_at_from_afar(*pod)).collect();
        Self { problem, far: problem.potential.units.iter().map(|unit| far(&unit.pods)).collect() }
    }

    /// Returns the pods of a unit that matter for a member on the node: those that run there, and those elsewhere to
    /// which inter-pod constraints refer.
    pub(crate) fn pods(&self, unit: UnitIndex, rank: Rank) -> Vec<PodIndex> {
        let mut pods = self.problem.pods_on(unit, rank);
        let node = self.problem.nodes.index(rank);
        let far = self.far.get(unit).into_iter().flatten().copied();
        pods.extend(far.filter(|pod| self.problem.cluster.row(*pod).node != Some(node)));
        pods
    }
}

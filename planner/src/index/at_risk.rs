//! The pods of a node whose eviction would violate a budget: listed for all nodes before the first computation, and found by reading the
//! pods of a node for the few that change later.

use super::violations::{Risk, Violations};
use crate::filters::{Nodes, Rank};
use crate::model::{ClassId, Cluster, NodeIndex, PodIndex, Row, UnitRef};
use crate::problem::InFlight;

/// A pod of a unit of eviction (a single pod or a whole group) whose eviction would violate a budget, as [`Risk`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodAtRisk {
    rank: Rank,
    pub(crate) priority: i32,
    pub(crate) class: ClassId,
    pub(crate) risk: Risk,
}

/// Finds the pods at risk on nodes.
pub(crate) struct AtRisk<'s> {
    cluster: &'s Cluster,
    in_flight: &'s InFlight,
    violations: &'s Violations,
    priority: i32,
    /// By rank and priority: those of all nodes, if they are listed, otherwise those of one node.
    pods: Vec<PodAtRisk>,
    /// If those of all nodes are listed: the first one on the next node.
    next: Option<usize>,
}

impl<'s> AtRisk<'s> {
    /// Creates a list, empty as yet, of the evictable pods whose eviction would violate a budget; `priority` is the preemptor's.
    /// [`Self::on`] reads the pods of one node after the other, unless [`Self::list`] was called.
    pub(crate) fn new(
        cluster: &'s Cluster,
        in_flight: &'s InFlight,
        violations: &'s Violations,
        priority: i32,
    ) -> Self {
        Self { cluster, in_flight, violations, priority, pods: Vec::new(), next: None }
    }

    /// Collects the pods at risk on all nodes at once: evictable pods whose eviction would violate a budget. [`Self::on`] must then be
    /// called in ascending order of ranks.
    pub(crate) fn list(mut self, nodes: &Nodes<'_>) -> Self {
        for (unit, risk) in self.violations.all() {
            let found = match unit {
                UnitRef::Pod(index) => {
                    self.push(index, risk, nodes);
                    continue;
                }
                UnitRef::Group(_) => self.cluster.unit(unit),
            };
            found.iter().flat_map(|unit| &unit.pods).for_each(|pod| self.push(*pod, risk, nodes));
        }
        self.pods.sort_unstable();
        self.next = Some(0);
        self
    }

    /// Adds a pod to the list if the preemptor may evict it and its node is in `nodes`; `risk` is that of its unit of eviction.
    fn push(&mut self, index: PodIndex, risk: Risk, nodes: &Nodes<'_>) {
        let row = self.cluster.row(index);
        if self.available(index, &row).is_some()
            && let Some(rank) = row.node.and_then(|node| nodes.rank(node))
        {
            self.pods.push(PodAtRisk { rank, priority: row.priority, class: row.class, risk });
        }
    }

    /// Returns the unit of eviction of the pod with this summary row; `None` if the preemptor must not evict it.
    fn available(&self, index: PodIndex, row: &Row) -> Option<UnitRef> {
        self.in_flight.unit_of(index, row).filter(|_| row.priority < self.priority)
    }

    /// Returns the pods at risk on a node, sorted by priority: evictable pods whose eviction would violate a budget. `rank` and `node` are
    /// the position and the index of the same node.
    pub(crate) fn on(&mut self, rank: Rank, node: NodeIndex) -> &[PodAtRisk] {
        if let Some(next) = self.next {
            let after = self.pods[next..].iter();
            let from = next + after.take_while(|pod| pod.rank < rank).count();
            let to = from + self.pods[from..].iter().take_while(|pod| pod.rank == rank).count();
            self.next = Some(to);
            return &self.pods[from..to];
        }
        self.pods.clear();
        if self.violations.units() == 0 {
            return &[];
        }
        for (index, row) in self.cluster.rows_at(node) {
            let risk = self.available(index, &row).map_or(Risk::Nothing, |unit| self.violations.risk(unit));
            if risk > Risk::Nothing {
                self.pods.push(PodAtRisk { rank, priority: row.priority, class: row.class, risk });
            }
        }
        self.pods.sort_unstable();
        &self.pods
    }
}

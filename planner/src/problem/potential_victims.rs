//! Domains and the potential victims in them (KEP-5710, preemption algorithm, steps 1 and 2).
//!
//! For a single pod each node is a domain; for a group it is the whole cluster. Members of a unit that run outside the
//! domain are evicted with it: they count for its cost, not for feasibility.

use crate::api::offset_priority;
use crate::filters::{Nodes, Rank};
use crate::limits::SMALL_UNIT;
use crate::model::{Cluster, PodIndex, Unit, UnitPods, UnitRef};
use crate::problem::importance;
use crate::problem::in_flight::InFlight;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Index of a unit in [`PotentialVictims::units`].
pub(crate) type UnitIndex = usize;

/// All units of eviction (single pods and whole groups) that may be evicted for a preemptor.
pub(crate) struct PotentialVictims<'a> {
    /// The units.
    pub(crate) units: Vec<Unit<'a>>,
    /// The same, as the model names them.
    pub(crate) refs: Vec<UnitRef>,
    /// By rank: the units with pods on the node.
    pub(crate) on: Vec<Vec<UnitIndex>>,
    /// The number of every whole group.
    groups: BTreeMap<UnitRef, UnitIndex>,
}

impl<'a> PotentialVictims<'a> {
    /// Creates an empty list of potential victims for these nodes.
    pub(crate) fn none(nodes: &Nodes<'_>) -> Self {
        Self { units: Vec::new(), refs: Vec::new(), on: vec![Vec::new(); nodes.len()], groups: BTreeMap::new() }
    }

    /// Collects the units of eviction with pods on `nodes` whose priority is below `priority` (the preemptor's) and not above `ceiling`.
    /// Mirror pods, pods that leave anyway, units that must not be evicted, and the preemptor's own group are left out.
    pub(crate) fn new(
        cluster: &'a Cluster,
        nodes: &Nodes<'_>,
        in_flight: &InFlight,
        priority: i32,
        ceiling: i32,
    ) -> Self {
        let mut potential = Self::none(nodes);
        for rank in 0..nodes.len() {
            for (index, row) in cluster.rows_at(nodes.index(rank)) {
                if row.priority >= priority || row.priority > ceiling {
                    continue;
                }
                let Some(unit) = in_flight.unit_of(index, &row) else { continue };
                let known = match unit {
                    UnitRef::Pod(_) => None,
                    UnitRef::Group(_) => potential.groups.get(&unit).copied(),
                };
                let Some(number) = known.or_else(|| potential.push(cluster, in_flight, unit)) else { continue };
                // Only a group occurs again, with its next pod.
                if known.is_none() || !potential.on[rank].contains(&number) {
                    potential.on[rank].push(number);
                }
            }
        }
        potential
    }

    /// Adds a unit of eviction to the list, without its pods that leave anyway. Returns its index; `None` if the unit does not exist.
    fn push(&mut self, cluster: &'a Cluster, in_flight: &InFlight, unit: UnitRef) -> Option<UnitIndex> {
        let number = self.units.len();
        let mut found = cluster.unit(unit)?;
        if let UnitRef::Group(_) = unit {
            self.groups.insert(unit, number);
            if in_flight.any_departs() {
                found = without_departing(cluster, in_flight, found);
            }
        }
        self.units.push(found);
        self.refs.push(unit);
        Some(number)
    }

    /// Returns the pods of a unit of eviction that run on the node with this rank in `nodes`. For a large group the pods of the node are
    /// filtered, instead of those of the group.
    pub(crate) fn pods_on(
        &self,
        cluster: &Cluster,
        nodes: &Nodes<'_>,
        in_flight: &InFlight,
        unit: UnitIndex,
        rank: Rank,
    ) -> Vec<PodIndex> {
        let node = nodes.index(rank);
        let pods = &self.units[unit].pods;
        if pods.len() <= SMALL_UNIT {
            return pods.iter().copied().filter(|pod| cluster.node_index_of(*pod) == Some(node)).collect();
        }
        let of_unit = |(index, row): &(PodIndex, _)| in_flight.unit_of(*index, row) == Some(self.refs[unit]);
        cluster.rows_at(node).filter(of_unit).map(|(index, _)| index).collect()
    }

    /// Orders two units of eviction of this list so that the more important one comes first.
    pub(crate) fn compare(&self, a: UnitIndex, b: UnitIndex) -> Ordering {
        importance::compare(&self.units[a], &self.units[b])
    }
}

/// Returns what a unit of eviction adds to the sum of priorities in the cost of a plan
/// ([`Cost::priority_sum`](crate::api::Cost::priority_sum)): its priority, offset so that it is never negative, once for each of its pods.
pub(crate) fn weight(unit: &Unit<'_>) -> u64 {
    offset_priority(unit.priority).saturating_mul(unit.pods.len() as u64)
}

/// Returns a group as unit of eviction without those of its pods that plans in flight evict; start and threshold are those of the other
/// pods.
fn without_departing<'a>(cluster: &'a Cluster, in_flight: &InFlight, mut unit: Unit<'a>) -> Unit<'a> {
    let stays = |index: &PodIndex| in_flight.unit_of(*index, &cluster.row(*index)).is_some();
    let pods: Vec<PodIndex> = unit.pods.iter().copied().filter(stays).collect();
    let all = || pods.iter().filter_map(|index| cluster.pod_at(*index));
    unit.started = all().filter_map(|pod| pod.start_time).min();
    unit.threshold = all().filter_map(|pod| pod.threshold).max();
    unit.pods = UnitPods::Some(pods);
    unit
}

/// Returns, for each pod of a unit of eviction, the rank of its node in `nodes`; pods on other nodes are left out, and a rank can occur
/// more than once.
pub(crate) fn ranks<'u>(cluster: &'u Cluster, nodes: &'u Nodes<'_>, unit: &'u Unit) -> impl Iterator<Item = Rank> + 'u {
    unit.pods.iter().filter_map(|pod| cluster.row(*pod).node).filter_map(|index| nodes.rank(index))
}

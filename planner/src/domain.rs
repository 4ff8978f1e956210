//! Domains and the potential victims in them (KEP-5710, preemption algorithm, steps 1 and 2).
//!
//! For a single pod each node is a domain; for a group it is the whole cluster. Members of a unit that run outside the
//! domain are evicted with it: they count for its cost, not for feasibility.

use crate::demand::Demand;
use crate::feasibility::{Nodes, Rank};
use crate::importance;
use crate::model::{Cluster, GroupIndex, NodeIndex, Pod, PodIndex, Unit};
use crate::plan::{Context, UnitKind};
use giveway_crds::policy::DisruptionMode;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Index of a unit in [`Potential::units`].
pub(crate) type UnitIndex = usize;

/// Everybody who may be evicted for a preemptor.
pub(crate) struct Potential {
    /// The units.
    pub(crate) units: Vec<Unit>,
    /// By rank: the units with pods on the node.
    pub(crate) on: Vec<Vec<UnitIndex>>,
}

impl Potential {
    /// Nobody.
    pub(crate) fn none(nodes: &Nodes<'_>) -> Self {
        Self { units: Vec::new(), on: vec![Vec::new(); nodes.len()] }
    }

    /// The units of strictly lower priority, without mirror pods, pods that leave anyway, what is to be spared, and the
    /// preemptor's own group.
    pub(crate) fn new(cluster: &Cluster, nodes: &Nodes<'_>, demand: &Demand, context: &Context) -> Self {
        let mut potential = Self::none(nodes);
        let own = demand.members.first().and_then(|member| cluster.group_index_of(*member));
        let own = own.filter(|group| cluster.group_at(*group).is_some());
        let mut seen: BTreeSet<GroupIndex> = BTreeSet::new();
        for rank in 0..nodes.len() {
            for index in cluster.pods_at(nodes.index(rank)) {
                let Some(pod) = cluster.pod_at(*index) else { continue };
                let group = cluster.group_index_of(*index);
                if own.is_some() && group == own {
                    continue;
                }
                let whole = group.filter(|group| {
                    cluster.group_at(*group).is_some_and(|group| group.mode == DisruptionMode::PodGroup)
                });
                let unit = match whole {
                    Some(group) if seen.insert(group) => whole_group(cluster, group, context),
                    Some(_) => None,
                    None => single_pod(cluster, *index, pod, context),
                };
                if let Some(unit) = unit.filter(|unit| unit.priority < demand.priority) {
                    potential.push(cluster, nodes, unit);
                }
            }
        }
        potential
    }

    fn push(&mut self, cluster: &Cluster, nodes: &Nodes<'_>, unit: Unit) {
        let number = self.units.len();
        for rank in ranks(cluster, nodes, &unit) {
            if self.on[rank].last() != Some(&number) {
                self.on[rank].push(number);
            }
        }
        self.units.push(unit);
    }

    /// Orders units of this list from the most to the least important.
    pub(crate) fn compare(&self, a: UnitIndex, b: UnitIndex) -> Ordering {
        importance::compare(&self.units[a], &self.units[b])
    }
}

/// The ranks that a unit's pods run on; a rank can come more than once.
pub(crate) fn ranks<'u>(cluster: &'u Cluster, nodes: &'u Nodes<'_>, unit: &'u Unit) -> impl Iterator<Item = Rank> + 'u {
    let node = |pod: &PodIndex| -> Option<NodeIndex> { cluster.node_index_of(*pod) };
    unit.pods.iter().filter_map(node).filter_map(|index| nodes.rank(index))
}

/// Whether a pod leaves its node without a decision of ours: it is terminating, or a decision in flight evicts it.
pub(crate) fn leaving(pod: &Pod, context: &Context) -> bool {
    pod.terminating || (!context.departing.is_empty() && context.departing.contains(&pod.uid))
}

fn untouchable(pod: &Pod, context: &Context) -> bool {
    pod.mirror || (!context.spared.is_empty() && context.spared.contains(&pod.uid))
}

fn single_pod(cluster: &Cluster, index: PodIndex, pod: &Pod, context: &Context) -> Option<Unit> {
    if leaving(pod, context) || untouchable(pod, context) {
        return None;
    }
    Some(Unit {
        kind: UnitKind::Pod,
        key: pod.key.clone(),
        priority: cluster.effective_priority(pod),
        grouped: pod.group.is_some(),
        pods: vec![index],
        started: pod.start_time,
        threshold: pod.threshold,
    })
}

/// A group in mode `PodGroup`: all its bound pods, wherever they run.
fn whole_group(cluster: &Cluster, index: GroupIndex, context: &Context) -> Option<Unit> {
    let group = cluster.group_at(index)?;
    let mut unit = Unit {
        kind: UnitKind::PodGroup,
        key: group.key.clone(),
        priority: i32::MIN,
        grouped: true,
        pods: Vec::new(),
        started: None,
        threshold: None,
    };
    for index in cluster.members_at(index) {
        let Some(pod) = cluster.pod_at(*index) else { continue };
        if !pod.bound() || pod.ended() || leaving(pod, context) {
            continue;
        }
        if untouchable(pod, context) {
            return None;
        }
        unit.pods.push(*index);
        unit.priority = unit.priority.max(cluster.effective_priority(pod));
        unit.threshold = unit.threshold.max(pod.threshold);
        unit.started = [unit.started, pod.start_time].into_iter().flatten().min();
    }
    (!unit.pods.is_empty()).then_some(unit)
}

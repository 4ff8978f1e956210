//! Domains and the potential victims in them (KEP-5710, preemption algorithm, steps 1 and 2).
//!
//! For a single pod each node is a domain; for a group it is the whole cluster. Members of a unit that run outside the
//! domain are evicted with it: they count for its cost, not for feasibility.

use crate::demand::Demand;
use crate::feasibility::{Nodes, Rank};
use crate::importance;
use crate::model::{Cluster, GroupIndex, NodeIndex, Pod, PodIndex, Unit, UnitPods};
use crate::plan::{Context, UnitKind};
use giveway_crds::policy::DisruptionMode;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Index of a unit in [`Potential::units`].
pub(crate) type UnitIndex = usize;

/// Everybody who may be evicted for a preemptor.
pub(crate) struct Potential<'a> {
    /// The units.
    pub(crate) units: Vec<Unit<'a>>,
    /// By rank: the units with pods on the node.
    pub(crate) on: Vec<Vec<UnitIndex>>,
    /// By pod: its unit, if it has one here.
    unit_of: Vec<Option<u32>>,
}

impl<'a> Potential<'a> {
    /// Nobody.
    pub(crate) fn none(nodes: &Nodes<'_>) -> Self {
        Self { units: Vec::new(), on: vec![Vec::new(); nodes.len()], unit_of: Vec::new() }
    }

    /// The units of strictly lower priority, without mirror pods, pods that leave anyway, what is to be spared, and the
    /// preemptor's own group.
    pub(crate) fn new(cluster: &'a Cluster, nodes: &Nodes<'_>, demand: &Demand, context: &Context) -> Self {
        let mut potential = Self::none(nodes);
        let own = demand.members.first().and_then(|member| cluster.group_index_of(*member));
        let own = own.filter(|group| cluster.group_at(*group).is_some());
        potential.unit_of = vec![None; cluster.pod_bound()];
        let mut seen: BTreeSet<GroupIndex> = BTreeSet::new();
        for rank in 0..nodes.len() {
            for index in cluster.pods_at(nodes.index(rank)) {
                let Some(pod) = cluster.pod_at(*index) else { continue };
                let group = cluster.group_index_of(*index);
                if own.is_some() && group == own || cluster.priority_at(*index) >= demand.priority {
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

    fn push(&mut self, cluster: &Cluster, nodes: &Nodes<'_>, unit: Unit<'a>) {
        let number = self.units.len();
        for rank in ranks(cluster, nodes, &unit) {
            if self.on[rank].last() != Some(&number) {
                self.on[rank].push(number);
            }
        }
        for pod in &unit.pods {
            self.unit_of[*pod as usize] = u32::try_from(number).ok();
        }
        self.units.push(unit);
    }

    /// The unit of a pod that may be evicted.
    pub(crate) fn unit_of(&self, pod: PodIndex) -> Option<UnitIndex> {
        self.unit_of.get(pod as usize).copied().flatten().map(|unit| unit as usize)
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

fn single_pod<'a>(cluster: &Cluster, index: PodIndex, pod: &'a Pod, context: &Context) -> Option<Unit<'a>> {
    if leaving(pod, context) || untouchable(pod, context) {
        return None;
    }
    Some(Unit {
        kind: UnitKind::Pod,
        key: &pod.key,
        priority: cluster.priority_at(index),
        grouped: pod.group.is_some(),
        pods: UnitPods::One([index]),
        started: pod.start_time,
        threshold: pod.threshold,
    })
}

/// A group in mode `PodGroup`: all its bound pods, wherever they run.
fn whole_group<'a>(cluster: &'a Cluster, index: GroupIndex, context: &Context) -> Option<Unit<'a>> {
    let group = cluster.group_at(index)?;
    let mut unit = Unit {
        kind: UnitKind::PodGroup,
        key: &group.key,
        priority: i32::MIN,
        grouped: true,
        pods: UnitPods::Many(Vec::new()),
        started: None,
        threshold: None,
    };
    let mut pods = Vec::new();
    for index in cluster.members_at(index) {
        let Some(pod) = cluster.pod_at(*index) else { continue };
        if !pod.bound() || pod.ended() || leaving(pod, context) {
            continue;
        }
        if untouchable(pod, context) {
            return None;
        }
        pods.push(*index);
        unit.priority = unit.priority.max(cluster.priority_at(*index));
        unit.threshold = unit.threshold.max(pod.threshold);
        unit.started = [unit.started, pod.start_time].into_iter().flatten().min();
    }
    unit.pods = UnitPods::Many(pods);
    (!unit.pods.is_empty()).then_some(unit)
}

//! Units that are no potential victims: mirror pods, critical add-ons, pods in protected namespaces, units that this decision must not
//! evict, and the preemptor's own group.

use super::PlanContext;
use crate::api::Context;
use crate::model::{Cluster, GroupIndex, Pod, PodIndex, Role, Unit, UnitKind, UnitRef};
use giveway_crds::policy::DisruptionMode;
use std::collections::BTreeSet;

/// All units on some nodes that must not be evicted.
pub(super) struct Protected<'a> {
    /// Units of a priority below the preemptor's, each with the reason in a sentence, and whether the model counts it as a
    /// unit of preemption.
    pub(super) units: Vec<(Option<UnitRef>, Unit<'a>, String)>,
    /// How many pods there are of units of an equal or higher priority.
    pub(super) above: usize,
}

impl<'a> Protected<'a> {
    /// Collects the units (single pods or whole groups) of lower priority on the nodes of the placement that must not be evicted, each with
    /// the reason, and counts the pods there of at least the preemptor's priority. Pods that are leaving anyway are left out.
    pub(super) fn new(scene: &PlanContext<'_, 'a>) -> Self {
        let (cluster, priority) = (scene.cluster, scene.demand.priority);
        let mut protected = Self { units: Vec::new(), above: 0 };
        let mut seen = BTreeSet::new();
        for (index, row) in scene.on.iter().flat_map(|rank| cluster.rows_at(scene.nodes.index(*rank))) {
            if scene.in_flight.leaves(index, &row) {
                continue;
            }
            if row.priority >= priority {
                protected.above += 1;
                continue;
            }
            if scene.in_flight.unit_of(index, &row).is_some() {
                continue;
            }
            let (counted, reference) = match row.role {
                Role::Evictable(unit) => (Some(unit), unit),
                Role::Stays | Role::Protected | Role::CriticalAddon | Role::Leaves => {
                    (None, unit_evicted_with(cluster, index))
                }
            };
            if seen.insert(reference)
                && let Some(unit) = unit_of(scene, reference)
            {
                let why = match counted {
                    Some(_) => why_excluded(scene, &unit),
                    None => why_protected(cluster, &unit).unwrap_or_else(|| why_never_evicted(cluster, &unit)),
                };
                protected.units.push((counted, unit, why));
            }
        }
        protected
    }
}

/// Returns why a unit (a single pod or a whole group) is not evicted, as a sentence, if the model never evicts it and its namespace is not
/// protected: it is a mirror pod, or has a critical add-on.
fn why_never_evicted(cluster: &Cluster, unit: &Unit<'_>) -> String {
    let critical = |pod: &&Pod| cluster.is_critical_addon(pod);
    match (unit.pods.iter().filter_map(|index| cluster.pod_at(*index)).find(critical), unit.kind) {
        (None, _) => "It is a mirror pod, which cannot be evicted.".to_owned(),
        (Some(_), UnitKind::Pod) => "It is a critical add-on, which is not evicted for other workloads.".to_owned(),
        (Some(pod), UnitKind::PodGroup) => {
            format!("It is disrupted as a whole, and its pod {} is a critical add-on, which is not evicted.", pod.key)
        }
    }
}

/// Returns the unit (a single pod or a whole group) that a pod would be evicted with if eviction were permitted: its group in mode
/// `PodGroup`, otherwise the pod alone.
fn unit_evicted_with(cluster: &Cluster, index: PodIndex) -> UnitRef {
    if cluster.pod_at(index).is_some_and(|pod| pod.mirror) {
        return UnitRef::Pod(index);
    }
    let whole = |group: &GroupIndex| cluster.group_at(*group).is_some_and(|g| g.mode == DisruptionMode::PodGroup);
    cluster.group_index_of(index).filter(whole).map_or(UnitRef::Pod(index), UnitRef::Group)
}

/// Returns the unit (a single pod or a whole group) for a reference, also that of a group that the model does not store as a unit because
/// one of its pods must not be evicted. `None` if it has no pod that stays on its node.
fn unit_of<'a>(scene: &PlanContext<'_, 'a>, reference: UnitRef) -> Option<Unit<'a>> {
    let cluster = scene.cluster;
    let group = match (cluster.unit(reference), reference) {
        (None, UnitRef::Group(group)) => group,
        (unit, _) => return unit,
    };
    let stays = |index: &PodIndex| cluster.row(*index).node.is_some() && !scene.leaves(*index);
    let pods: Vec<PodIndex> = cluster.members_at(group).iter().copied().filter(stays).collect();
    let all = || pods.iter().filter_map(|index| cluster.pod_at(*index));
    Some(Unit {
        kind: UnitKind::PodGroup,
        key: &cluster.group_at(group)?.key,
        priority: pods.iter().map(|index| cluster.row(*index).priority).min()?,
        grouped: true,
        started: all().filter_map(|pod| pod.start_time).min(),
        threshold: all().filter_map(|pod| pod.threshold).max(),
        pods: pods.into_iter().collect(),
    })
}

/// Returns why a unit (a single pod or a whole group) that is a potential victim in general must not be evicted by this decision, as a
/// sentence: several budgets select one of its pods, a pod is excluded, or it belongs to the preemptor's group.
fn why_excluded(scene: &PlanContext<'_, '_>, unit: &Unit<'_>) -> String {
    let Context { exempt, departing, .. } = scene.context;
    let barred = |pod: &PodIndex| scene.cluster.row(*pod).barred_below > scene.demand.priority;
    if unit.pods.iter().any(barred) {
        return why_barred(scene.cluster, unit);
    }
    let meant = |pod: &&Pod| exempt.contains(&*pod.uid) && !departing.contains(&*pod.uid);
    match (unit.pods.iter().filter_map(|index| scene.cluster.pod_at(*index)).find(meant), unit.kind) {
        (None, _) => "It belongs to the preemptor's own group.".to_owned(),
        (Some(_), UnitKind::Pod) => "It is excluded as a victim of this decision.".to_owned(),
        (Some(pod), UnitKind::PodGroup) => {
            format!(
                "All its pods are disrupted together, and its pod {} is excluded as a victim of this decision.",
                pod.key
            )
        }
    }
}

/// Returns why a unit (a single pod or a whole group) is not evicted, as a sentence, if several budgets select one of its pods and its
/// threshold is above the preemptor's priority.
fn why_barred(cluster: &Cluster, unit: &Unit<'_>) -> String {
    let threshold = unit.threshold.unwrap_or_default();
    let in_several_budgets =
        unit.pods.iter().find(|pod| cluster.is_selected_by_several_budgets(**pod)).and_then(|pod| cluster.pod_at(*pod));
    let what = match (unit.kind, in_several_budgets) {
        (UnitKind::PodGroup, Some(pod)) => {
            format!("All its pods are disrupted together, several budgets select its pod {}", pod.key)
        }
        _ => "Several budgets select it".to_owned(),
    };
    format!(
        "{what}, which the Eviction API rejects, and only a preemptor of priority {threshold} or higher may evict it."
    )
}

/// Returns why a unit (a single pod or a whole group) is not evicted, as a sentence, if its namespace is protected; otherwise `None`.
fn why_protected(cluster: &Cluster, unit: &Unit<'_>) -> Option<String> {
    let why = cluster.protection(&unit.key.namespace)?;
    Some(format!("No pod of its namespace is evicted: {why}."))
}

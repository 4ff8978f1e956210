//! Units of eviction: a row for every pod and a unit for every group that is disrupted together, updated when pods and groups change, so
//! that a decision only reads them.

use super::Cluster;
use crate::model::changes::Change;
use crate::model::{CacheSlot, ClassId, EquivalenceClass, Pod, PodIndex, Role, Row, Unit, UnitKind, UnitPods, UnitRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many pods, and how many units of eviction (single pods and whole groups), there are at every priority.
#[derive(Clone, Debug, Default)]
pub(super) struct PriorityCounts {
    /// Bound pods that are not leaving, by the priority of their unit.
    pods: BTreeMap<i32, usize>,
    /// Those of them whose namespace is protected.
    protected: BTreeMap<i32, usize>,
    /// Those of them that are critical add-ons.
    critical: BTreeMap<i32, usize>,
    /// Those that preemptors below a priority may not evict, by the priority of their unit and that priority ([`Row::barred_below`]).
    barred: BTreeMap<(i32, i32), usize>,
    /// Units.
    units: BTreeMap<i32, usize>,
}

/// Counts one more under the key `level` if `more`, otherwise one less; a key that reaches 0 is removed.
fn count<L: Ord + Copy>(levels: &mut BTreeMap<L, usize>, level: L, more: bool) {
    let pods = levels.entry(level).or_default();
    *pods = if more { *pods + 1 } else { pods.saturating_sub(1) };
    if *pods == 0 {
        levels.remove(&level);
    }
}

impl PriorityCounts {
    /// Counts the unit of eviction of a group under the priority `now` instead of `before`; `None` if the group has no such unit now, or
    /// had none before.
    pub(super) fn replace_unit(&mut self, before: Option<i32>, now: Option<i32>) {
        before.into_iter().for_each(|priority| count(&mut self.units, priority, false));
        now.into_iter().for_each(|priority| count(&mut self.units, priority, true));
    }

    /// Adds the pod with this summary row to the numbers by priority if `more`, otherwise subtracts it.
    fn count_row(&mut self, row: &Row, more: bool) {
        if row.node.is_some() && row.role != Role::Leaves {
            count(&mut self.pods, row.priority, more);
        }
        if row.role == Role::Protected {
            count(&mut self.protected, row.priority, more);
        }
        if row.role == Role::CriticalAddon {
            count(&mut self.critical, row.priority, more);
        }
        if matches!(row.role, Role::Evictable(_)) && row.barred_below > row.priority {
            count(&mut self.barred, (row.priority, row.barred_below), more);
        }
        if matches!(row.role, Role::Evictable(UnitRef::Pod(_))) {
            count(&mut self.units, row.priority, more);
        }
    }
}

impl Cluster {
    /// Recomputes the summary row of a pod as that of a single pod, which is not evicted with its group. `class` is the pod's equivalence
    /// class.
    pub(super) fn renew_pod(&mut self, index: PodIndex, class: ClassId) {
        if let Some(row) = self.row_alone(index, class) {
            self.set_row(index, row);
        }
    }

    /// Returns the summary row that a pod has if it is evicted by itself, and not with its group; `None` if the pod is not in the model.
    /// `class` is the pod's equivalence class.
    pub(super) fn row_alone(&self, index: PodIndex, class: ClassId) -> Option<Row> {
        let slot = self.pods.get(index)?;
        let pod = &slot.pod;
        let role = match slot.node {
            None => Role::Stays,
            Some(_) if pod.leaves => Role::Leaves,
            Some(_) if pod.mirror => Role::Stays,
            Some(_) if self.protection(&pod.key.namespace).is_some() => Role::Protected,
            Some(_) if self.is_critical_addon(pod) => Role::CriticalAddon,
            Some(_) => Role::Evictable(UnitRef::Pod(index)),
        };
        Some(Row {
            node: slot.node,
            priority: self.priority_at(index),
            class,
            role,
            budgeted: !slot.budgets.is_empty(),
            unstarted: pod.unstarted(),
            ready: pod.ready,
            rescue_class: pod.rescue_class(),
            barred_below: pod.threshold.filter(|_| slot.is_selected_by_several_budgets()).unwrap_or(i32::MIN),
        })
    }

    /// Replaces the summary row of a pod, and updates everything that is derived from rows: counts by priority, sums by node, and the log
    /// of changes.
    pub(super) fn set_row(&mut self, index: PodIndex, row: Row) {
        let at = index as usize;
        if self.rows.len() <= at {
            self.rows.resize(at + 1, Row::default());
        }
        let old = std::mem::replace(&mut self.rows[at], row);
        if old == row {
            return;
        }
        self.count_repelling(index, &old, &row);
        if let Some(slot) = row.node.and_then(|node| self.nodes.get_mut(node))
            && let Some(known) = slot.rows.iter_mut().find(|(pod, _)| *pod == index)
        {
            known.1 = row;
        }
        if row.node.is_none() && row.priority != old.priority {
            self.note_reservation(index);
        }
        self.priority_counts.count_row(&old, false);
        self.priority_counts.count_row(&row, true);
        self.count_evictable(&old, false);
        self.count_evictable(&row, true);
        for node in [old.node, row.node.filter(|node| Some(*node) != old.node)].into_iter().flatten() {
            self.changes.note(Change::Pods(node));
        }
        self.budgets_changed(index);
    }

    /// Adds the pod with this summary row to the sums over the evictable pods of its node if `more`, otherwise subtracts it.
    fn count_evictable(&mut self, row: &Row, more: bool) {
        if let Some(slot) = row.node.and_then(|node| self.nodes.get_mut(node))
            && let Some(class) = self.kinds.get(row.class)
        {
            slot.evictable.count(row, &class.requests, more);
        }
    }

    /// Logs a change of each budget of a pod, because the pod counts differently for it, for example since it became ready.
    pub(super) fn budgets_changed(&mut self, index: PodIndex) {
        for budget in self.pods.get(index).map_or(&[][..], |slot| &slot.budgets) {
            self.changes.note(Change::Budget(*budget));
        }
    }

    /// Returns true if a plan of a preemptor with this priority may evict a pod, as far as the pod, its group and its namespace say.
    /// Whether budgets allow it depends on the other victims.
    pub fn is_potential_victim(&self, pod: &Pod, priority: i32) -> bool {
        let Some(index) = self.pod_index(&pod.key) else { return false };
        let row = self.row(index);
        matches!(row.role, Role::Evictable(_)) && row.priority < priority && row.barred_below <= priority
    }

    /// Returns the slot in which other modules cache results about this model.
    pub(crate) fn memory(&self) -> &CacheSlot {
        &self.memory
    }

    /// Returns the summary row of a pod; the default row, which has no node, if there is no pod with this index.
    pub(crate) fn row(&self, index: PodIndex) -> Row {
        self.rows.get(index as usize).copied().unwrap_or_default()
    }

    /// Returns the equivalence class of pods with this number; `None` if no pod is of that class.
    pub(crate) fn class(&self, id: ClassId) -> Option<&Arc<EquivalenceClass>> {
        self.kinds.get(id)
    }

    /// Returns one more than the largest number of an equivalence class of pods: the length of a list with an entry for each class number.
    pub(crate) fn class_bound(&self) -> usize {
        self.kinds.bound()
    }

    /// Returns the unit of eviction (a single pod, or all pods of a group that is disrupted together) to which this reference points;
    /// `None` if it does not exist.
    pub(crate) fn unit(&self, unit: UnitRef) -> Option<Unit<'_>> {
        match unit {
            UnitRef::Pod(index) => {
                let pod = self.pod_at(index)?;
                Some(Unit {
                    kind: UnitKind::Pod,
                    key: &pod.key,
                    priority: self.row(index).priority,
                    // A user can name a native group that does not exist.
                    grouped: pod.group.is_some() && (!pod.native() || self.group_of(pod).is_some()),
                    pods: UnitPods::One([index]),
                    started: pod.start_time,
                    threshold: pod.threshold,
                })
            }
            UnitRef::Group(index) => {
                let slot = self.groups.get(index)?;
                let unit = slot.unit.as_ref()?;
                Some(Unit {
                    kind: UnitKind::PodGroup,
                    key: &slot.key,
                    priority: unit.priority,
                    grouped: true,
                    pods: UnitPods::All(&unit.pods),
                    started: unit.started,
                    threshold: unit.threshold,
                })
            }
        }
    }

    /// Returns the number of units of eviction (single pods and whole groups) with a priority below this one.
    pub(crate) fn units_below(&self, priority: i32) -> usize {
        self.priority_counts.units.range(..priority).map(|(_, units)| units).sum()
    }

    /// Returns the number of bound pods with a priority below this one that are not leaving.
    pub(crate) fn pods_below(&self, priority: i32) -> usize {
        self.priority_counts.pods.range(..priority).map(|(_, pods)| pods).sum()
    }

    /// Returns the number of critical add-ons with a priority below this one.
    pub(crate) fn critical_below(&self, priority: i32) -> usize {
        self.priority_counts.critical.range(..priority).map(|(_, pods)| pods).sum()
    }

    /// Returns the number of pods with a priority below this one that a preemptor of this priority may not evict, because their threshold
    /// is higher and several budgets select a pod of their unit of eviction.
    pub(crate) fn barred_below(&self, priority: i32) -> usize {
        let below = self.priority_counts.barred.range(..(priority, i32::MIN));
        below.filter(|((_, barred), _)| *barred > priority).map(|(_, pods)| pods).sum()
    }

    /// Returns the number of pods with a priority below this one that are not evicted because their namespace is protected.
    pub(crate) fn protected_below(&self, priority: i32) -> usize {
        self.priority_counts.protected.range(..priority).map(|(_, pods)| pods).sum()
    }
}

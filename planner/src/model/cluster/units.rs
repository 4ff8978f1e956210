//! Units of eviction: a row for every pod and a unit for every group that is disrupted together, updated when pods and groups change, so
//! that a decision only reads them.

use super::{Cluster, PodSlot};
use crate::model::changes::Change;
use crate::model::unit::GroupUnit;
use crate::model::{
    CacheSlot, ClassId, EquivalenceClass, GroupIndex, ObjectKey, Pod, PodIndex, Role, Row, Unit, UnitKind, UnitPods,
    UnitRef,
};
use giveway_crds::policy::DisruptionMode;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many pods and units there are at every priority.
#[derive(Clone, Debug, Default)]
pub(super) struct Levels {
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

fn count<L: Ord + Copy>(levels: &mut BTreeMap<L, usize>, level: L, more: bool) {
    let pods = levels.entry(level).or_default();
    *pods = if more { *pods + 1 } else { pods.saturating_sub(1) };
    if *pods == 0 {
        levels.remove(&level);
    }
}

impl Levels {
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
        if matches!(row.role, Role::Goes(_)) && row.barred_below > row.priority {
            count(&mut self.barred, (row.priority, row.barred_below), more);
        }
        if matches!(row.role, Role::Goes(UnitRef::Pod(_))) {
            count(&mut self.units, row.priority, more);
        }
    }
}

impl Cluster {
    /// Updates the row of a pod that was added, if its group is not disrupted together.
    pub(super) fn renew_pod(&mut self, index: PodIndex, class: ClassId) {
        if let Some(row) = self.row_alone(index, class) {
            self.set_row(index, row);
        }
    }

    fn row_alone(&self, index: PodIndex, class: ClassId) -> Option<Row> {
        let slot = self.pods.get(index)?;
        let pod = &slot.pod;
        let role = match slot.node {
            None => Role::Stays,
            Some(_) if pod.leaves => Role::Leaves,
            Some(_) if pod.mirror => Role::Stays,
            Some(_) if self.protection(&pod.key.namespace).is_some() => Role::Protected,
            Some(_) if self.is_critical_addon(pod) => Role::CriticalAddon,
            Some(_) => Role::Goes(UnitRef::Pod(index)),
        };
        Some(Row {
            node: slot.node,
            priority: self.priority_at(index),
            class,
            role,
            budgeted: !slot.budgets.is_empty(),
            unstarted: pod.unstarted(),
            ready: pod.ready,
            given: pod.given(),
            barred_below: pod.threshold.filter(|_| slot.is_tangled()).unwrap_or(i32::MIN),
        })
    }

    /// Recomputes the unit of a group, and the rows of its pods.
    pub(super) fn renew_group(&mut self, group: GroupIndex) {
        self.renew_group_for(group, None);
    }

    /// The same; if only one pod of the group changed, the rows of the others are recomputed only if what they share changed.
    pub(super) fn renew_group_for(&mut self, group: GroupIndex, changed: Option<PodIndex>) {
        let Some(slot) = self.groups.get_mut(group) else { return };
        let whole = slot.group.as_ref().is_some_and(|group| group.mode == DisruptionMode::PodGroup);
        let (key, members, old) = (slot.key.clone(), std::mem::take(&mut slot.members), slot.unit.take());
        // A group that is disrupted as a whole is as critical as its most critical pod.
        let critical = whole && self.running(&members).any(|(_, slot)| self.is_critical_addon(&slot.pod));
        let unit = if whole && !critical { self.group_unit(&key, &members) } else { None };
        let shared = |unit: &Option<GroupUnit>| unit.as_ref().map(|unit| (unit.priority, unit.barred_below));
        let all = changed.is_none() || shared(&unit) != shared(&old);
        for index in members.iter().filter(|index| all || Some(**index) == changed) {
            let Some(mut row) = self.row_alone(*index, self.row(*index).class) else { continue };
            match (&unit, row.role) {
                (Some(unit), Role::Goes(_)) => {
                    (row.priority, row.role) = (unit.priority, Role::Goes(UnitRef::Group(group)));
                    row.barred_below = unit.barred_below;
                }
                (None, Role::Goes(_) | Role::CriticalAddon) if critical => row.role = Role::Stays,
                _ => {}
            }
            self.set_row(*index, row);
        }
        if unit != old {
            for (unit, more) in [(&old, false), (&unit, true)] {
                if let Some(unit) = unit {
                    count(&mut self.levels.units, unit.priority, more);
                }
            }
            for index in unit.iter().flat_map(|unit| &unit.pods) {
                self.budgets_changed(*index);
            }
            self.changes.note(Change::Unit(group));
        }
        if let Some(slot) = self.groups.get_mut(group) {
            (slot.members, slot.unit) = (members, unit);
        }
    }

    /// Returns all bound pods of a group, on whatever nodes, except mirror pods: those belong to their node, and what a user writes on one
    /// does not make it a member. `None` if there is none or the namespace is protected from eviction.
    fn group_unit(&self, key: &ObjectKey, members: &[PodIndex]) -> Option<GroupUnit> {
        if self.protection(&key.namespace).is_some() {
            return None;
        }
        let (pods, priority, barred_below) = (Vec::new(), i32::MAX, i32::MIN);
        let mut unit = GroupUnit { pods, priority, started: None, threshold: None, barred_below };
        let mut tangled = false;
        for (index, slot) in self.running(members) {
            unit.pods.push(index);
            unit.priority = unit.priority.min(self.priority_at(index));
            unit.threshold = unit.threshold.max(slot.pod.threshold);
            unit.started = [unit.started, slot.pod.start_time].into_iter().flatten().min();
            tangled |= slot.is_tangled();
        }
        unit.barred_below = unit.threshold.filter(|_| tangled).unwrap_or(i32::MIN);
        (!unit.pods.is_empty()).then_some(unit)
    }

    /// The members that are bound and not leaving, without mirror pods.
    fn running<'c>(&'c self, members: &'c [PodIndex]) -> impl Iterator<Item = (PodIndex, &'c PodSlot)> {
        let runs = |slot: &&PodSlot| slot.node.is_some() && !slot.pod.leaves && !slot.pod.mirror;
        members.iter().filter_map(move |index| Some((*index, self.pods.get(*index).filter(runs)?)))
    }

    /// Replaces a pod's row.
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
        self.levels.count_row(&old, false);
        self.levels.count_row(&row, true);
        for node in [old.node, row.node.filter(|node| Some(*node) != old.node)].into_iter().flatten() {
            self.changes.note(Change::Pods(node));
        }
        self.budgets_changed(index);
    }

    /// Records that a pod counts differently for its budgets.
    pub(super) fn budgets_changed(&mut self, index: PodIndex) {
        for budget in self.pods.get(index).map_or(&[][..], |slot| &slot.budgets) {
            self.changes.note(Change::Budget(*budget));
        }
    }

    /// Returns true if a plan of a preemptor with this priority may evict a pod, as far as the pod, its group and its namespace say. Whether
    /// budgets allow it depends on the other victims.
    pub fn is_potential_victim(&self, pod: &Pod, priority: i32) -> bool {
        let Some(index) = self.pod_index(&pod.key) else { return false };
        let row = self.row(index);
        matches!(row.role, Role::Goes(_)) && row.priority < priority && row.barred_below <= priority
    }

    /// Returns the slot in which other layers cache results about this model.
    pub(crate) fn memory(&self) -> &CacheSlot {
        &self.memory
    }

    /// The row of a pod.
    pub(crate) fn row(&self, index: PodIndex) -> Row {
        self.rows.get(index as usize).copied().unwrap_or_default()
    }

    /// An equivalence class of pods.
    pub(crate) fn class(&self, id: ClassId) -> Option<&Arc<EquivalenceClass>> {
        self.kinds.get(id)
    }

    /// One more than the largest number of an equivalence class.
    pub(crate) fn class_bound(&self) -> usize {
        self.kinds.bound()
    }

    /// Returns a unit of eviction: the pods that are evicted together.
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

    /// How many units have a priority below this one.
    pub(crate) fn units_below(&self, priority: i32) -> usize {
        self.levels.units.range(..priority).map(|(_, units)| units).sum()
    }

    /// How many bound pods that are not leaving have a priority below this one.
    pub(crate) fn pods_below(&self, priority: i32) -> usize {
        self.levels.pods.range(..priority).map(|(_, pods)| pods).sum()
    }

    /// How many of them are critical add-ons.
    pub(crate) fn critical_below(&self, priority: i32) -> usize {
        self.levels.critical.range(..priority).map(|(_, pods)| pods).sum()
    }

    /// How many of them a preemptor of this priority may not evict, because their threshold is higher and several budgets select a pod of
    /// their unit.
    pub(crate) fn barred_below(&self, priority: i32) -> usize {
        let below = self.levels.barred.range(..(priority, i32::MIN));
        below.filter(|((_, barred), _)| *barred > priority).map(|(_, pods)| pods).sum()
    }

    /// How many of them are not evicted because their namespace is protected.
    pub(crate) fn protected_below(&self, priority: i32) -> usize {
        self.levels.protected.range(..priority).map(|(_, pods)| pods).sum()
    }
}

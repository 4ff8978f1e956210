//! Units of groups that are disrupted together, updated with every event of a member: what the members have in common comes from counts
//! over them, so that the event of one member does not read the others.

use super::{Cluster, GroupSlot};
use crate::model::changes::Change;
use crate::model::unit::GroupUnit;
use crate::model::{GroupIndex, ObjectKey, PodIndex, Role, Row, UnitRef};
use giveway_crds::policy::DisruptionMode;
use std::collections::BTreeMap;

/// Counts over the members of a group that is disrupted together: over those that are bound and not leaving. Mirror pods are not counted:
/// they belong to their node, and what a user writes on one does not make it a member.
#[derive(Clone, Debug, Default)]
pub(super) struct Running {
    members: BTreeMap<PodIndex, Member>,
    priorities: BTreeMap<i32, usize>,
    thresholds: BTreeMap<i32, usize>,
    starts: BTreeMap<i64, usize>,
    in_several_budgets: usize,
    critical: usize,
}

/// What one member adds to the counts of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    priority: i32,
    threshold: Option<i32>,
    start: Option<i64>,
    in_several_budgets: bool,
    critical: bool,
}

impl Running {
    /// Replaces what the pod adds to the counts of its group. `member` is `None` for a pod that is not counted (not bound, ended,
    /// terminating within `MAX_GRACEFUL_TERMINATION`, or a mirror pod). Returns true if the counts changed.
    fn set_member(&mut self, pod: PodIndex, member: Option<Member>) -> bool {
        let old = match member {
            Some(member) => self.members.insert(pod, member),
            None => self.members.remove(&pod),
        };
        if old == member {
            return false;
        }
        for (member, more) in [(old, false), (member, true)] {
            let Some(member) = member else { continue };
            count(&mut self.priorities, Some(member.priority), more);
            count(&mut self.thresholds, member.threshold, more);
            count(&mut self.starts, member.start, more);
            for (sum, one) in
                [(&mut self.in_several_budgets, member.in_several_budgets), (&mut self.critical, member.critical)]
            {
                *sum = if more { *sum + usize::from(one) } else { sum.saturating_sub(usize::from(one)) };
            }
        }
        true
    }

    /// Returns the unit of eviction that the counted members form; `pods` must be exactly these members. `None` if no member is counted.
    fn unit(&self, pods: Vec<PodIndex>) -> Option<GroupUnit> {
        let threshold = self.thresholds.keys().next_back().copied();
        Some(GroupUnit {
            pods,
            priority: *self.priorities.keys().next()?,
            started: self.starts.keys().next().copied(),
            threshold,
            barred_below: threshold.filter(|_| self.in_several_budgets > 0).unwrap_or(i32::MIN),
        })
    }
}

/// Counts a value once more if `more`, otherwise once less. `None` is not counted.
fn count<L: Ord>(counts: &mut BTreeMap<L, usize>, value: Option<L>, more: bool) {
    let Some(value) = value else { return };
    if more {
        *counts.entry(value).or_default() += 1;
    } else if let Some(known) = counts.get_mut(&value) {
        *known -= 1;
        if *known == 0 {
            counts.remove(&value);
        }
    }
}

impl GroupSlot {
    /// Returns true if the group exists, and all its pods are disrupted together (mode `PodGroup`).
    fn is_disrupted_together(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.mode == DisruptionMode::PodGroup)
    }
}

impl Cluster {
    /// Returns true if all pods of a group are disrupted together (mode `PodGroup`).
    pub(super) fn is_disrupted_together(&self, group: GroupIndex) -> bool {
        self.groups.get(group).is_some_and(GroupSlot::is_disrupted_together)
    }

    /// Recomputes the unit of eviction of a group from all its members, and the summary rows (`Row`) of the members.
    pub(super) fn renew_group(&mut self, group: GroupIndex) {
        let Some(slot) = self.groups.get(group) else { return };
        let mut running = Running::default();
        if slot.is_disrupted_together() {
            for pod in &slot.members {
                running.set_member(*pod, self.running(*pod));
            }
        }
        let unit = self.unit_of_group(slot, &running);
        let Some(slot) = self.groups.get_mut(group) else { return };
        slot.running = running;
        let old = std::mem::replace(&mut slot.unit, unit);
        self.renew_rows(group, old.as_ref().map(|unit| unit.priority));
    }

    /// Recomputes the unit of eviction of a group after its member `pod`, whose key is `key`, was added, removed or changed. The summary
    /// rows (`Row`) of other members are recomputed only if the unit's priority or `barred_below` changed.
    pub(super) fn renew_group_for(&mut self, group: GroupIndex, pod: PodIndex, key: &ObjectKey) {
        let member = self.running(pod);
        let Some(slot) = self.groups.get_mut(group) else { return };
        let changed = slot.running.set_member(pod, member);
        let old = slot.unit.take();
        let shared = |unit: &Option<GroupUnit>| unit.as_ref().map(|unit| (unit.priority, unit.barred_below));
        let before = shared(&old);
        let Some(slot) = self.groups.get(group) else { return };
        let unit = match old {
            Some(GroupUnit { mut pods, .. }) if slot.running.critical == 0 => {
                let at = pods.partition_point(|other| self.pods.get(*other).is_some_and(|slot| slot.pod.key < *key));
                match (pods.get(at) == Some(&pod), member.is_some()) {
                    (true, false) => drop(pods.remove(at)),
                    (false, true) => pods.insert(at, pod),
                    _ => {}
                }
                slot.running.unit(pods)
            }
            _ => self.unit_of_group(slot, &slot.running),
        };
        let same = shared(&unit) == before;
        if let Some(slot) = self.groups.get_mut(group) {
            slot.unit = unit;
        }
        if !same {
            self.renew_rows(group, before.map(|(priority, _)| priority));
            return;
        }
        self.renew_row(group, pod);
        if changed {
            self.changes.note(Change::Unit(group));
        }
    }

    /// Recomputes the summary rows (`Row`) of all members of a group after its unit of eviction changed, and counts the unit by its new
    /// priority. `before` is the priority of the earlier unit; `None` if there was none.
    fn renew_rows(&mut self, group: GroupIndex, before: Option<i32>) {
        let Some(slot) = self.groups.get_mut(group) else { return };
        let (members, now) = (std::mem::take(&mut slot.members), slot.unit.as_ref().map(|unit| unit.priority));
        members.iter().for_each(|pod| self.renew_row(group, *pod));
        if let Some(slot) = self.groups.get_mut(group) {
            slot.members = members;
        }
        self.priority_counts.replace_unit(before, now);
        if before.is_some() || now.is_some() {
            self.changes.note(Change::Unit(group));
        }
    }

    /// Recomputes the summary row (`Row`) of one member of a group: as for a single pod, and then as a member of the group's unit of
    /// eviction, if it has one.
    fn renew_row(&mut self, group: GroupIndex, pod: PodIndex) {
        let Some(mut row) = self.row_alone(pod, self.row(pod).class) else { return };
        if let Some(slot) = self.groups.get(group) {
            slot.adapt_row(group, &mut row);
        }
        self.set_row(pod, row);
    }

    /// Returns what a pod adds to the counts of its group; `None` if it is not bound, has ended or is leaving, or is a mirror pod.
    fn running(&self, pod: PodIndex) -> Option<Member> {
        let slot = self.pods.get(pod)?;
        let runs = slot.node.is_some() && !slot.pod.leaves && !slot.pod.mirror;
        runs.then(|| Member {
            priority: self.priority_at(pod),
            threshold: slot.pod.threshold,
            start: slot.pod.start_time,
            in_several_budgets: slot.is_selected_by_several_budgets(),
            critical: self.is_critical_addon(&slot.pod),
        })
    }

    /// Returns the unit of eviction of a group: all its members that `running` counts, on whatever nodes. `None` if there is none, if one
    /// of them is a critical add-on (a group that is disrupted together is as critical as its most critical pod), or if the namespace is
    /// protected from eviction.
    fn unit_of_group(&self, slot: &GroupSlot, running: &Running) -> Option<GroupUnit> {
        if running.critical > 0 || self.protection(&slot.key.namespace).is_some() {
            return None;
        }
        running.unit(slot.members.iter().copied().filter(|pod| running.members.contains_key(pod)).collect())
    }
}

impl GroupSlot {
    /// Changes the summary row of a member from that of a single pod to that of a member of the group's unit of eviction, or to that of a
    /// pod that is not evicted if the group contains a critical add-on.
    fn adapt_row(&self, group: GroupIndex, row: &mut Row) {
        match (&self.unit, row.role) {
            (Some(unit), Role::Evictable(_)) => {
                (row.priority, row.role) = (unit.priority, Role::Evictable(UnitRef::Group(group)));
                row.barred_below = unit.barred_below;
            }
            (None, Role::Evictable(_) | Role::CriticalAddon) if self.running.critical > 0 => row.role = Role::Stays,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const SIZE: usize = 12;

    /// A member: not bound, bound, or leaving, by its state.
    fn member(at: usize, state: usize) -> Value {
        let node = (state > 0).then(|| format!("n{}", state % 3));
        let labels = json!({"scheduling.giveway.dev/pod-group": "g", "app": if state % 4 == 1 { "db" } else { "web" }});
        let threshold = json!({"scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal":
            (50 + state).to_string()});
        json!({"metadata": {"namespace": "d", "name": format!("p{at:02}"), "uid": format!("u{at}"), "labels": labels,
                "annotations": if state % 5 == 2 { threshold } else { json!({}) },
                "deletionTimestamp": (state == 6).then_some("2026-01-01T00:00:00Z")},
            "spec": {"containers": [], "nodeName": node, "priority": 10 + state / 3},
            "status": {"phase": "Running", "startTime": format!("2026-01-01T00:00:{:02}Z", state + at)}})
    }

    fn with_group(mode: &str) -> Cluster {
        let mut cluster = Cluster::default();
        for name in ["a", "b"] {
            let budget = json!({"metadata": {"namespace": "d", "name": name}, "spec": {"selector": {"matchLabels": {"app": "db"}}}});
            cluster.upsert_budget(&serde_json::from_value(budget).unwrap()).unwrap();
        }
        let group = json!({"metadata": {"namespace": "d", "name": "g"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": SIZE}}, "disruptionMode": mode, "priority": 12}});
        cluster.upsert_group(&serde_json::from_value(group).unwrap()).unwrap();
        cluster
    }

    /// Returns the unit with its pods by name, and what the rows say of each pod.
    fn seen(cluster: &Cluster) -> String {
        let group = cluster.group_index.values().next().unwrap();
        let unit = cluster.groups.get(*group).unwrap().unit.clone();
        let name = |pod: &PodIndex| cluster.pod_at(*pod).unwrap().key.name.clone();
        let pods: Vec<_> = unit.iter().flat_map(|unit| &unit.pods).map(name).collect();
        let rows: Vec<_> =
            cluster.pod_index.all().map(|pod| (name(&pod), Row { class: 0, ..cluster.row(pod) })).collect();
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, row)| {
                (name, row.priority, row.barred_below, matches!(row.role, Role::Evictable(UnitRef::Group(_))))
            })
            .collect();
        let unit = unit.map(|unit| GroupUnit { pods: Vec::new(), ..unit });
        format!("{unit:?} {pods:?} {rows:?} {}", cluster.units_below(100))
    }

    #[test]
    fn events_of_members_leave_the_unit_of_a_model_that_was_just_built() {
        for mode in ["PodGroup", "Pod"] {
            let (mut live, mut states) = (with_group(mode), [None; SIZE]);
            for step in 0..600usize {
                let (at, state) = (step * 7 % SIZE, (step / 5 + step * step) % 8);
                states[at] = (state < 7).then_some(state);
                match states[at] {
                    Some(state) => drop(live.upsert_pod(&serde_json::from_value(member(at, state)).unwrap()).unwrap()),
                    None => drop(live.remove_pod(&ObjectKey::new("d", format!("p{at:02}")))),
                }
                let mut fresh = with_group(mode);
                for (at, state) in states.iter().enumerate().filter_map(|(at, state)| Some((at, (*state)?))) {
                    fresh.upsert_pod(&serde_json::from_value(member(at, state)).unwrap()).unwrap();
                }
                fresh.renew_group(*fresh.group_index.values().next().unwrap());
                assert_eq!(seen(&live), seen(&fresh), "{mode}, {step}");
            }
        }
    }

    #[test]
    fn an_event_of_a_member_is_one_note_of_the_group_and_none_of_the_other_members() {
        let mut cluster = with_group("PodGroup");
        let upsert = |cluster: &mut Cluster, at: usize, state: usize| {
            cluster.upsert_pod(&serde_json::from_value(member(at, state)).unwrap()).unwrap();
        };
        (0..SIZE).for_each(|at| upsert(&mut cluster, at, if at == 0 { 0 } else { 1 }));
        let before = cluster.mark_changes_read();
        upsert(&mut cluster, 0, 3);
        let notes: Vec<Change> = cluster.changes_since(before).unwrap().collect();
        let groups = notes.iter().filter(|change| matches!(change, Change::Unit(_))).count();
        let budgets = notes.iter().filter(|change| matches!(change, Change::Budget(_))).count();
        assert_eq!((groups, budgets), (1, 0), "{notes:?}");
    }
}

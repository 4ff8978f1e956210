//! The queue: what is pending, in the operator's order.

use super::Snapshot;
use crate::decide::decision_order;
use crate::why::PendingRow;
use crate::world::{World, preemptor_of};
use giveway_crds::plan::StoredPlan;
use giveway_planner::Preemptor;
use serde::Serialize;
use std::collections::BTreeMap;

/// The pending groups and pods in the operator's order, as `top` and the page show them.
#[derive(Debug, Serialize)]
pub(crate) struct QueueView<'s> {
    /// What is pending, in the operator's order.
    pub(crate) rows: Vec<QueueRow<'s>>,
    levels: Vec<QueueLevel>,
    /// The sentence for a list without rows.
    pub(crate) empty: &'static str,
}

/// A pending group or pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueRow<'s> {
    /// Position in the operator's order, from 1.
    pub(crate) position: usize,
    /// The PriorityClass that it names.
    class: Option<&'s str>,
    /// The state of its plan in progress, or else the reason of its condition.
    pub(crate) state: &'s str,
    /// What it waits for, as a sentence: the message of its plan in progress, or else that of its condition.
    pub(crate) waits_for: &'s str,
    /// The group or pod.
    #[serde(flatten)]
    pub(crate) pending: &'s PendingRow,
}

/// What is pending of one priority.
#[derive(Debug, Serialize)]
struct QueueLevel {
    priority: i32,
    /// Number of groups and single pods.
    pending: usize,
    /// Number of their pods.
    pods: usize,
}

/// Returns the queue as `top` and the page show it: the pending groups and pods in the order in which the operator decides for them,
/// with what each waits for.
pub(crate) fn view(snapshot: &Snapshot) -> QueueView<'_> {
    let world = &snapshot.world;
    let mut pending: Vec<(Preemptor, &PendingRow)> =
        snapshot.pending.iter().map(|row| (row.preemptor(), row)).collect();
    pending.sort_by_cached_key(|(preemptor, _)| decision_order(world, preemptor));
    let mut levels: BTreeMap<i32, (usize, usize)> = BTreeMap::new();
    for row in &snapshot.pending {
        let level = levels.entry(row.priority).or_default();
        *level = (level.0 + 1, level.1 + row.total);
    }
    let plans = plans_in_progress(world);
    let rows = pending.iter().enumerate().map(|(index, (preemptor, row))| {
        let (plan, row) = (plans.get(preemptor).copied(), *row);
        QueueRow {
            position: index + 1,
            class: class(world, preemptor),
            state: plan.map_or(row.reason.as_str(), |plan| plan.state.as_str()),
            waits_for: plan.map_or(row.message.as_str(), |plan| plan.message.as_str()),
            pending: row,
        }
    });
    let rows = rows.collect();
    let levels = levels.into_iter().rev().map(|(priority, (pending, pods))| QueueLevel { priority, pending, pods });
    let empty = if world.blind { "Nothing that you may list is pending." } else { "Nothing is pending." };
    QueueView { rows, levels: levels.collect(), empty }
}

/// Returns the name of the preemptor's PriorityClass; `None` if it names none or does not exist.
fn class<'w>(world: &'w World, preemptor: &Preemptor) -> Option<&'w str> {
    match preemptor {
        Preemptor::Group(key) => world.cluster.group(key)?.class_name.as_deref(),
        Preemptor::Pod(key) => world.cluster.pod(key)?.priority_class_name.as_deref(),
    }
}

/// Returns the stored plan in progress of each preemptor that has one; of several, the latest.
fn plans_in_progress(world: &World) -> BTreeMap<Preemptor, &StoredPlan> {
    let plans = world.plans.values().filter(|plan| plan.cause.is_plan() && plan.state.in_flight());
    let mut plans: Vec<&StoredPlan> = plans.collect();
    // Of several plans of a preemptor the last one counts.
    plans.sort_by(|a, b| a.age_order().cmp(&b.age_order()));
    plans.into_iter().map(|plan| (preemptor_of(plan), plan)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn groups_are_listed_in_the_operator_s_order_with_class_state_and_hostile_messages_as_they_are() {
        let snapshot = samples::snapshot();
        let view = serde_json::to_value(view(&snapshot)).unwrap();
        let rows = view["rows"].as_array().unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        // `late` has the same priority as `early`, and was created later; its name is lower.
        assert_eq!(names, ["early", "a-late", "low"]);
        assert_eq!(rows[0]["position"], 1);
        assert_eq!((&rows[0]["class"], &rows[2]["class"]), (&json!("high"), &Value::Null));
        // `early` has a plan in progress: its state counts, and not the condition of the group.
        assert_eq!((&rows[0]["state"], &rows[0]["reason"]), (&json!("Evicting"), &json!("Unschedulable")));
        assert_eq!(rows[1]["state"], "Unschedulable");
        assert_eq!(rows[1]["waitsFor"], samples::HOSTILE);
        assert_eq!(
            view["levels"],
            json!([{"priority": 1000, "pending": 2, "pods": 4}, {"priority": 5, "pending": 1, "pods": 2}])
        );
    }
}

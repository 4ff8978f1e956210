//! The queue: what is pending, in the operator's order.

use super::Snapshot;
use crate::decide::turn;
use crate::why::PendingRow;
use crate::world::World;
use giveway_crds::plan::PlanState;
use giveway_planner::Preemptor;
use serde::Serialize;
use std::collections::BTreeMap;

/// The queue.
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
    /// Its plan in progress.
    plan: Option<QueuePlan<'s>>,
    /// The group or pod.
    #[serde(flatten)]
    pub(crate) pending: &'s PendingRow,
}

impl QueueRow<'_> {
    /// Returns the state of its plan in progress, or else the reason of its condition.
    pub(crate) fn state(&self) -> &str {
        self.plan.as_ref().map_or(self.pending.reason.as_str(), |plan| plan.state.as_str())
    }

    /// Returns what it waits for, as a sentence.
    pub(crate) fn waits_for(&self) -> &str {
        self.plan.as_ref().map_or(self.pending.message.as_str(), |plan| plan.message)
    }
}

/// A plan in progress.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct QueuePlan<'s> {
    id: &'s str,
    state: PlanState,
    message: &'s str,
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

/// Returns the queue.
pub(crate) fn view(snapshot: &Snapshot) -> QueueView<'_> {
    let world = &snapshot.world;
    let mut pending: Vec<(Preemptor, &PendingRow)> =
        snapshot.pending.iter().map(|row| (row.preemptor(), row)).collect();
    pending.sort_by_cached_key(|(preemptor, _)| turn(world, preemptor));
    let mut levels: BTreeMap<i32, (usize, usize)> = BTreeMap::new();
    for row in &snapshot.pending {
        let level = levels.entry(row.priority).or_default();
        *level = (level.0 + 1, level.1 + row.total);
    }
    let rows = pending.iter().enumerate().map(|(index, (preemptor, row))| QueueRow {
        position: index + 1,
        class: class(world, preemptor),
        plan: plan(world, preemptor),
        pending: row,
    });
    let rows = rows.collect();
    let levels = levels.into_iter().rev().map(|(priority, (pending, pods))| QueueLevel { priority, pending, pods });
    let empty = if world.blind { "Nothing that you may list is pending." } else { "Nothing is pending." };
    QueueView { rows, levels: levels.collect(), empty }
}

/// Returns the priority class of a preemptor.
fn class<'w>(world: &'w World, preemptor: &Preemptor) -> Option<&'w str> {
    match preemptor {
        Preemptor::Group(key) => world.cluster.group(key)?.class_name.as_deref(),
        Preemptor::Pod(key) => world.cluster.pod(key)?.priority_class_name.as_deref(),
    }
}

/// Returns the plan in flight of a preemptor.
fn plan<'w>(world: &'w World, preemptor: &Preemptor) -> Option<QueuePlan<'w>> {
    let plan = world.last_plan(preemptor).filter(|plan| plan.state.in_flight())?;
    Some(QueuePlan { id: &plan.id, state: plan.state, message: &plan.message })
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn groups_are_listed_in_the_operator_s_order_with_class_plan_and_hostile_messages_as_they_are() {
        let snapshot = samples::snapshot();
        let view = serde_json::to_value(view(&snapshot)).unwrap();
        let rows = view["rows"].as_array().unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        // `late` has the same priority as `early`, and was created later; its name is lower.
        assert_eq!(names, ["early", "a-late", "low"]);
        assert_eq!(rows[0]["position"], 1);
        assert_eq!((&rows[0]["class"], &rows[2]["class"]), (&json!("high"), &Value::Null));
        assert_eq!(rows[0]["plan"]["state"], "Evicting");
        assert_eq!(rows[1]["plan"], Value::Null);
        assert_eq!(rows[1]["message"], samples::HOSTILE);
        assert_eq!(
            view["levels"],
            json!([{"priority": 1000, "pending": 2, "pods": 4}, {"priority": 5, "pending": 1, "pods": 2}])
        );
    }
}

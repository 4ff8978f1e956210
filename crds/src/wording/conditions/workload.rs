//! The condition `PodGroupsScheduled` of a Workload.

use crate::wording::part_of;

/// Returns subject and verb of a sentence: how many of a Workload's `total` PodGroups are scheduled.
fn scheduled_groups(scheduled: i32, total: i32) -> String {
    part_of(scheduled, total, ("pod group", "pod groups"), ("is scheduled", "are scheduled"))
}

/// Message of `PodGroupsScheduled=True`: all `total` PodGroups of the Workload are scheduled.
pub fn all_scheduled(total: i32) -> String {
    format!("{}.", scheduled_groups(total, total))
}

/// Message of `PodGroupsScheduled=False`: `pending` is the first PodGroup that is not scheduled, and `reason` that of its condition, if it
/// has one.
pub fn group_pending(scheduled: i32, total: i32, pending: &str, reason: Option<&str>) -> String {
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{}. Pod group {pending} is pending{reason}.", scheduled_groups(scheduled, total))
}

/// Message of `PodGroupsScheduled=False`: no pod names a template of the Workload yet.
pub fn no_group() -> &'static str {
    "No pod group exists yet: the first pod of a template creates it."
}

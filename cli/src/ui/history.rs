//! The view *History*: past preemptions, and the owners that were preempted most often.

use crate::history::{History, HistoryRow};
use crate::overview::Snapshot;
use crate::world::World;
use giveway_crds::plan::PlanState;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The view *History* of the page: past preemptions, and the owners that were preempted most often.
#[derive(Debug, Serialize)]
pub(super) struct HistoryView<'s> {
    /// The preemptions, the newest first.
    items: Vec<HistoryRow>,
    /// Victims by owner, the most frequent first.
    owners: Vec<RepeatedVictim>,
    /// The PriorityClasses, to filter by the class of the preemptor.
    classes: Vec<ClassValue<'s>>,
}

/// An owner whose pods were evicted.
#[derive(Debug, PartialEq, Serialize)]
struct RepeatedVictim {
    namespace: String,
    /// As `Job/train`; of pods without an owner the group or pod.
    owner: String,
    /// Number of preemptions.
    times: usize,
    /// Number of evicted pods.
    pods: usize,
    /// The last time.
    last: Option<Time>,
}

/// Name and value of a PriorityClass.
#[derive(Debug, Serialize)]
struct ClassValue<'s> {
    name: &'s str,
    value: i32,
}

/// Returns the page *History*: the stored plans, the latest first, the owners whose pods were evicted, and the PriorityClasses.
pub(super) fn view(snapshot: &Snapshot) -> HistoryView<'_> {
    let mut items = History::of_world(&snapshot.world).items;
    items.reverse();
    HistoryView { owners: owners(&items), items, classes: classes(&snapshot.world) }
}

/// Returns name and value of each PriorityClass, by which the page can filter preemptions.
fn classes(world: &World) -> Vec<ClassValue<'_>> {
    world.cluster.classes().iter().map(|class| ClassValue { name: &class.name, value: class.value }).collect()
}

/// Returns how often and how many pods of each owner were evicted, the most frequent victim first. A plan that was only observed does
/// not count.
fn owners(items: &[HistoryRow]) -> Vec<RepeatedVictim> {
    let mut found: BTreeMap<(&str, String), RepeatedVictim> = BTreeMap::new();
    for item in items.iter().filter(|item| item.state != PlanState::Observed) {
        let mut counted: BTreeSet<(&str, String)> = BTreeSet::new();
        for victim in &item.victims {
            let unit = || format!("{}/{}", victim.kind, victim.name);
            let owner = victim.owner.as_ref().map_or_else(unit, ToString::to_string);
            let key = (victim.namespace.as_str(), owner);
            let entry = found.entry(key.clone()).or_insert_with(|| RepeatedVictim {
                namespace: victim.namespace.clone(),
                owner: key.1.clone(),
                times: 0,
                pods: 0,
                last: None,
            });
            entry.pods += victim.pods.len();
            if counted.insert(key) {
                entry.times += 1;
                entry.last = entry.last.take().max(item.planned_at.clone());
            }
        }
    }
    let mut list: Vec<RepeatedVictim> = found.into_values().collect();
    list.sort_by_key(|one| (Reverse(one.times), Reverse(one.pods)));
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::samples;
    use serde_json::json;

    #[test]
    fn preemptions_are_listed_the_newest_first_and_victims_are_counted_by_owner() {
        let snapshot = samples::snapshot();
        let view = serde_json::to_value(view(&snapshot)).unwrap();
        let names: Vec<&str> =
            view["items"].as_array().unwrap().iter().map(|row| row["preemption"].as_str().unwrap()).collect();
        assert_eq!(names, ["c-3", "a-1", "b-2"]);
        assert_eq!(
            (&view["items"][2]["finishedAt"], &view["items"][2]["state"]),
            (&json!("2026-11-22T10:00:09Z"), &json!("Completed"))
        );
        // The observed plan `c-3` evicted no pod.
        let owner = format!("Job/{}", samples::HOSTILE);
        assert_eq!(
            view["owners"],
            json!([
                {"namespace": "batch", "owner": owner, "times": 2, "pods": 3, "last": "2026-11-22T11:00:00Z"},
                {"namespace": "web", "owner": "Pod/single", "times": 1, "pods": 1, "last": "2026-11-22T10:00:00Z"},
            ])
        );
        assert_eq!(view["classes"], json!([{"name": "high", "value": 1000}]));
    }
}

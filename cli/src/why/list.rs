//! Everything that is pending: groups without all their pods scheduled, and unschedulable single pods.

use super::addon;
use crate::args::ListFormat;
use crate::connect::{Api, GetResult};
use crate::error::CliError;
use crate::output::{self, style, table};
use crate::world::{World, key_of};
use giveway_crds::PodGroup;
use giveway_crds::condition::{self, types};
use giveway_planner::{ObjectKey, Preemptor};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectList;
use serde::{Serialize, Serializer};
use std::cmp::Reverse;

/// A pending group or pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PendingRow {
    #[serde(flatten, serialize_with = "serialize_key")]
    pub(crate) key: ObjectKey,
    pub(crate) kind: &'static str,
    pub(crate) priority: i32,
    /// Number of pods with a node.
    pub(crate) bound: usize,
    /// Number of pods.
    pub(crate) total: usize,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// When the condition of the group last changed; when the pod was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Time>,
}

impl PendingRow {
    /// Returns the pending group or pod of this row.
    pub(crate) fn preemptor(&self) -> Preemptor {
        if self.kind == "pod" { Preemptor::Pod(self.key.clone()) } else { Preemptor::Group(self.key.clone()) }
    }
}

/// Serializes a key as the two fields `namespace` and `name`.
fn serialize_key<S: Serializer>(key: &ObjectKey, serializer: S) -> Result<S::Ok, S::Error> {
    let fields = [("namespace", key.namespace.as_str()), ("name", key.name.as_str())];
    serializer.collect_map(fields)
}

/// Everything that is pending, as `-o json` prints it.
#[derive(Debug, Serialize)]
struct PendingList<'a> {
    items: &'a [PendingRow],
}

/// Returns the list of what is pending in this format. `namespaces` adds the namespace to a table.
pub(super) fn text(waiting: &[PendingRow], format: ListFormat, namespaces: bool) -> Result<String, CliError> {
    let list = PendingList { items: waiting };
    match format {
        ListFormat::Table => Ok(table(waiting, namespaces)),
        ListFormat::Wide => Ok(table(waiting, true)),
        ListFormat::Name => Ok(waiting.iter().map(|one| format!("{}/{}\n", one.kind, one.key.name)).collect()),
        ListFormat::Json => output::json(&list),
        ListFormat::Yaml => output::yaml(&list),
    }
}

/// Returns the pending groups and pods, the highest priority first. `namespace` limits them to one namespace. The PodGroups are read
/// again, with their status.
pub(super) async fn waiting(api: &Api, world: &World, namespace: Option<&str>) -> Result<Vec<PendingRow>, CliError> {
    let path = match namespace {
        Some(namespace) => format!("/apis/scheduling.giveway.dev/v1alpha1/namespaces/{namespace}/podgroups"),
        None => "/apis/scheduling.giveway.dev/v1alpha1/podgroups".to_owned(),
    };
    // The world of a command has groups without their status.
    let groups = match api.get::<ObjectList<PodGroup>>(&path).await? {
        GetResult::Found(groups) => groups.items,
        GetResult::Missing | GetResult::Forbidden(_) => Vec::new(),
    };
    Ok(rows(world, &groups, namespace))
}

/// Returns the pending groups and pods in `world`, whose PodGroups have their status, the highest priority first.
pub(crate) fn pending(world: &World) -> Vec<PendingRow> {
    rows(world, world.groups.values(), None)
}

/// Returns a row for each of these PodGroups that is pending, and for each pending pod without a group in the namespace (`None`: in
/// all), the highest priority first.
fn rows<'g>(world: &World, groups: impl IntoIterator<Item = &'g PodGroup>, namespace: Option<&str>) -> Vec<PendingRow> {
    let mut found: Vec<PendingRow> = groups.into_iter().filter_map(|group| of_group(world, group)).collect();
    for pod in world.cluster.pods().filter(|pod| pod.live() && pod.unschedulable && pod.node.is_none()) {
        if world.cluster.group_of(pod).is_none() && namespace.is_none_or(|namespace| namespace == pod.key.namespace) {
            found.push(PendingRow {
                key: pod.key.clone(),
                kind: "pod",
                priority: pod.priority,
                bound: 0,
                total: 1,
                reason: "Unschedulable".to_owned(),
                message: addon::waiting_reason(world, pod)
                    .unwrap_or_else(|| "kube-scheduler found no feasible node for it.".to_owned()),
                since: pod.created.and_then(|created| Timestamp::from_nanosecond(created.into()).ok()).map(Time),
            });
        }
    }
    found.sort_by(|a, b| (Reverse(a.priority), &a.key).cmp(&(Reverse(b.priority), &b.key)));
    found
}

/// Returns the row of a PodGroup; `None` if it is not pending.
fn of_group(world: &World, group: &PodGroup) -> Option<PendingRow> {
    let key = key_of(&group.metadata);
    let live = || world.cluster.members(&key).filter(|pod| pod.live());
    let (bound, all) = (live().filter(|pod| pod.bound()).count(), live().count());
    let status = group.status.clone().unwrap_or_default();
    let initially = condition::find(&status.conditions, types::INITIALLY_SCHEDULED);
    if bound >= all && (all > 0 || initially.is_none_or(|condition| condition.status == "True")) {
        return None;
    }
    let condition = condition::find(&status.conditions, types::SCHEDULED);
    Some(PendingRow {
        priority: world.cluster.group(&key).map_or(0, |group| group.priority),
        key,
        kind: "podgroup",
        bound,
        total: all,
        reason: condition.map(|condition| condition.reason.clone()).unwrap_or_else(|| "Unknown".to_owned()),
        message: condition.map(|condition| condition.message.clone()).unwrap_or_default(),
        since: condition.map(|condition| condition.last_transition_time.clone()),
    })
}

/// Returns the pending groups and pods as a table; `namespaces` adds a column with their namespace.
fn table(waiting: &[PendingRow], namespaces: bool) -> String {
    if waiting.is_empty() {
        return "No pod is pending.\n".to_owned();
    }
    let with = |namespace: &str, rest: [&str; 5]| {
        let mut row: Vec<String> = rest.iter().map(|text| (*text).to_owned()).collect();
        if namespaces {
            row.insert(0, namespace.to_owned());
        }
        row
    };
    let mut rows = vec![with("NAMESPACE", ["NAME", "PRIORITY", "PODS", "STATE", "MESSAGE"])];
    rows.extend(waiting.iter().map(|one| {
        let (name, priority) = (format!("{}/{}", one.kind, one.key.name), one.priority.to_string());
        let pods = format!("{}/{}", one.bound, one.total);
        with(&one.key.namespace, [&name, &priority, &pods, &one.reason, &one.message])
    }));
    table::table(rows, style::width())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_list_is_printed_as_names_with_namespaces_or_as_json() {
        let row = PendingRow {
            key: ObjectKey::new("ml", "train"),
            kind: "podgroup",
            priority: 1000,
            bound: 1,
            total: 4,
            reason: "Unschedulable".to_owned(),
            message: "4 pods needed, 1 fits now.".to_owned(),
            since: Some(Time("2026-11-22T11:00:00Z".parse().unwrap())),
        };
        let rows = [row];
        let printed = |format| text(&rows, format, false).unwrap();
        assert_eq!(printed(ListFormat::Name), "podgroup/train\n");
        assert!(printed(ListFormat::Wide).starts_with("NAMESPACE"), "{}", printed(ListFormat::Wide));
        assert!(printed(ListFormat::Table).contains("1/4"), "{}", printed(ListFormat::Table));
        let value: Value = serde_json::from_str(&printed(ListFormat::Json)).unwrap();
        let item = json!({"namespace": "ml", "name": "train", "kind": "podgroup", "priority": 1000, "bound": 1, "total": 4,
            "reason": "Unschedulable", "message": "4 pods needed, 1 fits now.", "since": "2026-11-22T11:00:00Z"});
        assert_eq!(value, json!({"items": [item]}));
        assert!(printed(ListFormat::Yaml).starts_with("items:\n- namespace: ml\n"), "{}", printed(ListFormat::Yaml));
    }
}

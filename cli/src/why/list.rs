//! Everything that is pending: groups without all their pods scheduled, and unschedulable single pods.

use super::addon;
use crate::connect::{Api, Got};
use crate::error::CliError;
use crate::output::{style, table};
use crate::world::{World, key_of};
use giveway_crds::PodGroup;
use giveway_crds::condition::{self, types};
use giveway_planner::ObjectKey;
use kube::core::ObjectList;
use std::cmp::Reverse;

/// A pending group or pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PendingRow {
    key: ObjectKey,
    kind: &'static str,
    priority: i32,
    pods: String,
    reason: String,
    message: String,
}

/// Returns pending groups and pods, the highest priority first; `namespace` limits them.
pub(super) async fn waiting(api: &Api, world: &World, namespace: Option<&str>) -> Result<Vec<PendingRow>, CliError> {
    let mut found = Vec::new();
    let path = match namespace {
        Some(namespace) => format!("/apis/scheduling.giveway.dev/v1alpha1/namespaces/{namespace}/podgroups"),
        None => "/apis/scheduling.giveway.dev/v1alpha1/podgroups".to_owned(),
    };
    if let Got::Found(groups) = api.get::<ObjectList<PodGroup>>(&path).await? {
        found.extend(groups.items.iter().filter_map(|group| of_group(world, group)));
    }
    for pod in world.cluster.pods().filter(|pod| pod.live() && pod.unschedulable && pod.node.is_none()) {
        if world.cluster.group_of(pod).is_none() && namespace.is_none_or(|namespace| namespace == pod.key.namespace) {
            found.push(PendingRow {
                key: pod.key.clone(),
                kind: "pod",
                priority: pod.priority,
                pods: "0/1".to_owned(),
                reason: "Unschedulable".to_owned(),
                message: addon::short(world, pod)
                    .unwrap_or_else(|| "kube-scheduler found no feasible node for it.".to_owned()),
            });
        }
    }
    found.sort_by(|a, b| (Reverse(a.priority), &a.key).cmp(&(Reverse(b.priority), &b.key)));
    Ok(found)
}

fn of_group(world: &World, group: &PodGroup) -> Option<PendingRow> {
    let key = key_of(&group.metadata);
    let live = || world.cluster.members(&key).filter(|pod| pod.live());
    let (bound, all) = (live().filter(|pod| pod.bound()).count(), live().count());
    let status = group.status.clone().unwrap_or_default();
    let condition = condition::find(&status.conditions, types::INITIALLY_SCHEDULED);
    if bound >= all && (all > 0 || condition.is_none_or(|condition| condition.status == "True")) {
        return None;
    }
    Some(PendingRow {
        priority: world.cluster.group(&key).map_or(0, |group| group.priority),
        key,
        kind: "podgroup",
        pods: format!("{bound}/{all}"),
        reason: condition.map(|condition| condition.reason.clone()).unwrap_or_else(|| "Unknown".to_owned()),
        message: condition.map(|condition| condition.message.clone()).unwrap_or_default(),
    })
}

/// Returns the table.
pub(super) fn table(waiting: &[PendingRow], namespaces: bool) -> String {
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
        with(&one.key.namespace, [&name, &priority, &one.pods, &one.reason, &one.message])
    }));
    table::table(rows, style::width())
}

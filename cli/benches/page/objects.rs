//! The objects of the cluster.

use serde_json::{Value, json};
use std::collections::BTreeMap;

pub const NODES: usize = 5_000;
pub const PODS: usize = 50_000;
pub const GROUPS: usize = 500;

/// Number of pods of a pending group.
const MEMBERS: usize = 4;

/// Returns the objects by the plural of their kind.
pub fn all() -> BTreeMap<&'static str, Vec<Value>> {
    let members = GROUPS * MEMBERS;
    let mut pods: Vec<Value> = (0..PODS - members).map(|number| running(number, "Running", 1)).collect();
    pods.extend((0..members).map(member));
    BTreeMap::from([
        ("nodes", (0..NODES).map(node).collect()),
        ("pods", pods),
        ("podgroups", (0..GROUPS).map(group).collect()),
        ("priorityclasses", [("high", 1000), ("mid", 100), ("low", 10)].map(class).to_vec()),
    ])
}

fn node(number: usize) -> Value {
    let name = format!("node-{number:04}");
    let labels =
        json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", number % 12)});
    json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "labels": labels, "resourceVersion": "1"},
        "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}}})
}

fn class((name, value): (&str, i32)) -> Value {
    json!({"metadata": {"name": name, "annotations": {"scheduling.giveway.dev/managed": "true",
        "scheduling.giveway.dev/preemption-policy": "PreemptLowerPriority"}}, "value": value, "preemptionPolicy": "Never"})
}

/// Returns a pod that runs on a node, in a phase.
pub fn running(number: usize, phase: &str, version: u64) -> Value {
    let name = format!("pod-{number:05}");
    let (class, priority) = if number.is_multiple_of(2) { ("low", 10) } else { ("mid", 100) };
    json!({"metadata": {"name": name, "namespace": "batch", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "labels": {"app": format!("app-{}", number % 200)}, "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job",
                "name": format!("job-{}", number / 8), "uid": format!("job-{}", number / 8), "controller": true}]},
        "spec": {"nodeName": format!("node-{:04}", number % NODES), "priority": priority, "priorityClassName": class,
            "containers": [{"name": "main", "image": "registry.example.com/image:1",
                "resources": {"requests": {"cpu": "1500m", "memory": "4Gi"}}}]},
        "status": {"phase": phase, "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]}})
}

fn member(number: usize) -> Value {
    let (group, name) = (number / MEMBERS, format!("gang-{:03}-{}", number / MEMBERS, number % MEMBERS));
    json!({"metadata": {"name": name, "namespace": "ml", "uid": format!("uid-{name}"), "resourceVersion": "1",
            "labels": {"scheduling.giveway.dev/pod-group": format!("gang-{group:03}")}},
        "spec": {"priority": 1000, "priorityClassName": "high", "schedulingGates": [{"name": "scheduling.giveway.dev/pod-group"}],
            "containers": [{"name": "main", "image": "registry.example.com/image:1",
                "resources": {"requests": {"cpu": "8", "memory": "16Gi"}}}]},
        "status": {"phase": "Pending"}})
}

fn group(number: usize) -> Value {
    let name = format!("gang-{number:03}");
    let condition = json!({"type": "Scheduled", "status": "False", "reason": "Unschedulable", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "4 pods needed, 0 fit now. Missing 32 cpu. The PodGroup is retried when capacity changes."});
    json!({"metadata": {"name": name, "namespace": "ml", "uid": format!("uid-{name}"), "generation": 1, "resourceVersion": "1",
            "creationTimestamp": format!("2026-01-01T00:{:02}:{:02}Z", number / 60, number % 60)},
        "spec": {"schedulingPolicy": {"gang": {"minCount": MEMBERS}}, "disruptionMode": "PodGroup", "priorityClassName": "high",
            "priority": 1000, "preemptionPolicy": "PreemptLowerPriority"},
        "status": {"conditions": [condition]}})
}

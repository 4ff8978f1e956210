//! Prints a reproducible snapshot of a full cluster: `thousand-nodes > cluster.json`, for `make demo-plan`.
//!
//! A thousand nodes of 8 GPUs in 25 racks. Two thirds of the GPUs belong to groups of 2 to 16 pods that are disrupted
//! together, the others to single pods; a service with a guaranteed budget has a GPU on every tenth node.

use giveway_crds::keys::{ANNOTATION_THRESHOLD, LABEL_POD_GROUP};
use serde_json::{Value, json};

const NODES: usize = 1000;
const GPUS: usize = 8;
/// Sizes of the groups, in turn.
const SIZES: [usize; 5] = [2, 4, 8, 16, 4];

fn main() {
    let mut items: Vec<Value> = (0..NODES).map(node).collect();
    items.extend([("service", 500), ("batch", 100), ("scavenger", 10)].map(class));
    items.push(budget());
    let (mut groups, mut missing) = (0, 0);
    for place in 0..NODES * GPUS {
        // Members of a group lie on different nodes, because every node is filled a GPU at a time.
        let (number, gpu) = (place % NODES, place / NODES);
        if gpu == 0 && number.is_multiple_of(10) {
            items.push(pod(&format!("service-{number:04}"), number, "service", 500, None));
        } else if gpu % 3 == 2 {
            items.push(pod(&format!("single-{place:04}"), number, "scavenger", 10, None));
        } else {
            if missing == 0 {
                missing = SIZES[groups % SIZES.len()];
                groups += 1;
                items.push(group(groups, missing));
            }
            missing -= 1;
            items.push(pod(&format!("batch-{place:04}"), number, "batch", 100, Some(groups)));
        }
    }
    println!("{}", json!({"apiVersion": "v1", "kind": "List", "items": items}));
}

fn node(number: usize) -> Value {
    let name = format!("node-{number:04}");
    let labels = json!({"kubernetes.io/hostname": name, "example.com/rack": format!("rack-{:02}", number / 40)});
    let offers = json!({"cpu": "96", "memory": "768Gi", "nvidia.com/gpu": GPUS.to_string(), "pods": "110"});
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": offers}
    })
}

fn class((name, value): (&str, i32)) -> Value {
    let mut annotations = json!({"scheduling.giveway.dev/managed": "true"});
    if name == "service" {
        annotations[ANNOTATION_THRESHOLD] = json!("2000");
    }
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value, "preemptionPolicy": "Never",
        "metadata": {"name": name, "annotations": annotations}
    })
}

fn budget() -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "service", "namespace": "default", "generation": 1},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "service"}}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 100, "desiredHealthy": 100,
            "expectedPods": 100}
    })
}

fn group(number: usize, size: usize) -> Value {
    json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": format!("batch-{number:03}"), "namespace": "default", "uid": format!("group-{number}")},
        "spec": {"schedulingPolicy": {"gang": {"minCount": size}}, "disruptionMode": "PodGroup", "priority": 100,
            "priorityClassName": "batch"}
    })
}

fn pod(name: &str, node: usize, class: &str, priority: i32, group: Option<usize>) -> Value {
    let mut labels = json!({"app": name.split('-').next()});
    if let Some(number) = group {
        labels[LABEL_POD_GROUP] = json!(format!("batch-{number:03}"));
    }
    let threshold = if class == "service" { json!({ANNOTATION_THRESHOLD: "2000"}) } else { json!({}) };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("pod-{name}"), "labels": labels,
            "annotations": threshold},
        "spec": {"nodeName": format!("node-{node:04}"), "priority": priority, "priorityClassName": class,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "8", "nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]}
    })
}

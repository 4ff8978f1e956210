//! Reviews that the benchmark sends: recorded on a real control plane, and enlarged to the measured size.

use crate::stub::Objects;
use serde_json::{Value, json};

/// Creation of a member.
const CREATE: &str = include_str!("../../tests/data/create-pod-member.json");
/// Update of a group.
const UPDATE: &str = include_str!("../../tests/data/update-podgroup.json");
/// Update of a pod's status, in which a scheduler announces a victim.
const ANNOUNCE: &str = include_str!("../../tests/data/announce-victim.json");

/// One kind of review.
#[derive(Clone, Debug)]
pub struct Row {
    pub name: &'static str,
    pub path: &'static str,
    pub body: Vec<u8>,
}

/// Returns the objects of the cluster that the reviews belong to.
pub fn objects() -> Objects {
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000, "preemptionPolicy": "Never",
        "metadata": {"name": "high", "uid": "c", "resourceVersion": "1", "annotations": {
            "scheduling.giveway.dev/managed": "true", "scheduling.giveway.dev/preemption-policy": "PreemptLowerPriority",
        }},
    });
    let group = json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "default", "uid": "g", "resourceVersion": "1"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "high", "priority": 1000,
            "preemptionPolicy": "PreemptLowerPriority",
        },
    });
    // A pending preemptor, so that the preemption is permitted.
    let waiting = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "vip", "namespace": "default", "uid": "v", "resourceVersion": "1"},
        "spec": {"priority": 9000, "preemptionPolicy": "PreemptLowerPriority", "schedulerName": "default-scheduler"},
        "status": {"phase": "Pending"},
    });
    Objects::from([("priorityclasses", vec![class]), ("podgroups", vec![group]), ("pods", vec![waiting])])
}

/// Returns the rows, in order.
pub fn rows() -> Vec<Row> {
    let mut create: Value = serde_json::from_str(CREATE).unwrap();
    create["request"]["object"]["metadata"]["labels"]["scheduling.giveway.dev/pod-group"] = json!("gang");
    let member = sized(create, 4096, |review, index| {
        let variable = json!({"name": format!("VARIABLE_{index}"), "value": format!("value-{index}")});
        push(&mut review["request"]["object"]["spec"]["containers"][0]["env"], variable);
    });
    let mut update: Value = serde_json::from_str(UPDATE).unwrap();
    for object in ["object", "oldObject"] {
        update["request"][object]["spec"]["priorityClassName"] = json!("high");
    }
    let update = sized(update, 7168, |review, index| {
        let (key, value) = (format!("example.com/note-{index}"), json!(format!("value-{index}")));
        for object in ["object", "oldObject"] {
            review["request"][object]["metadata"]["annotations"][&key] = value.clone();
        }
    });
    vec![
        Row { name: "create of a member", path: "/mutate?timeout=10s", body: member },
        Row { name: "update of a group", path: "/mutate?timeout=10s", body: update.clone() },
        Row { name: "update of a group", path: "/validate?timeout=10s", body: update },
        Row { name: "a scheduler takes a pod", path: "/guard?timeout=30s", body: ANNOUNCE.into() },
    ]
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        _ => *list = json!([item]),
    }
}

/// Returns the recorded review, enlarged by `grow` until it has this size.
fn sized(mut review: Value, bytes: usize, grow: impl Fn(&mut Value, usize)) -> Vec<u8> {
    for index in 0.. {
        let body = serde_json::to_vec(&review).unwrap();
        if body.len() >= bytes {
            return body;
        }
        grow(&mut review, index);
    }
    Vec::new()
}

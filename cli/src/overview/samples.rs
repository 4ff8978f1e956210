//! A small cluster for the tests of what is shown, with hostile names and messages.

use super::{Snapshot, State};
use crate::why::PendingRow;
use giveway_planner::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

/// A text that a browser must not take for markup.
pub(crate) const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&amp;\u{202e}</script>";

/// The time up to which the sample is followed.
pub(crate) const READ_AT: &str = "2026-11-22T12:00:00Z";

/// A value of a label of the same kind.
pub(crate) const HOSTILE_LABEL: &str = "<b>a</b>";

/// Returns a node with 4 CPUs in a zone, for tests. `cordoned` makes it unschedulable.
fn node(name: &str, zone: &str, cordoned: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}}, "spec": {"unschedulable": cordoned},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}})
}

/// Returns a pod of a Job that runs on `node` with priority 10, for tests.
fn victim(name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "batch", "uid": format!("u-{name}"),
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": HOSTILE, "uid": "j", "controller": true}]},
        "spec": {"nodeName": node, "priority": 10, "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
        "status": {"phase": "Running"}})
}

/// Returns a gang PodGroup that was created at `created`, and its two pods without a node, for tests.
fn gang(name: &str, class: Option<&str>, priority: i32, created: &str) -> Vec<Value> {
    let group = json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ml", "uid": format!("u-{name}"), "creationTimestamp": created},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": class, "priority": priority,
            "preemptionPolicy": "PreemptLowerPriority"}});
    let pod = |number: usize| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("{name}-{number}"), "namespace": "ml", "uid": format!("u-{name}-{number}"),
                "labels": {"scheduling.giveway.dev/pod-group": name}},
            "spec": {"priority": priority, "priorityClassName": class,
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Pending"}})
    };
    vec![group, pod(0), pod(1)]
}

/// Returns a Preemption of the PodGroup `preemptor` for tests. `times` are the time of planning and of the end; `state` and `victims`
/// are written as they are.
fn preemption(name: &str, preemptor: &str, times: [Option<&str>; 2], state: &str, victims: &Value) -> Value {
    let placement = |number: usize| json!({"pod": format!("{preemptor}-{number}"), "uid": format!("u-{preemptor}-{number}"), "node": "n1"});
    json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": name},
        "spec": {"strategy": "least-cost", "part": 1, "parts": 1, "placements": [placement(0), placement(1)],
            "preemptor": {"kind": "PodGroup", "namespace": "ml", "name": preemptor, "uid": format!("u-{preemptor}"), "priority": 1000},
            "victims": victims, "cost": {"budgetViolations": 0, "victimPods": 1, "victimGroups": 0}},
        "status": {"state": state, "plannedAt": times[0], "finishedAt": times[1], "message": HOSTILE}})
}

/// Returns the entry of a victim in a Preemption for tests, with the owner and the names of its pods.
fn stored(kind: &str, namespace: &str, name: &str, owner: Option<&Value>, pods: &[&str]) -> Value {
    let pods: Vec<Value> =
        pods.iter().map(|pod| json!({"name": pod, "uid": format!("u-{pod}"), "node": "n1"})).collect();
    json!({"kind": kind, "namespace": namespace, "name": name, "priority": 10, "owner": owner, "pods": pods})
}

/// Returns the row of a pending PodGroup in the list of what is pending, for tests.
fn pending(name: &str, priority: i32) -> PendingRow {
    PendingRow {
        key: ObjectKey::new("ml", name),
        kind: "podgroup",
        priority,
        bound: 0,
        total: 2,
        reason: "Unschedulable".to_owned(),
        message: HOSTILE.to_owned(),
        since: None,
    }
}

/// Returns a state whose first snapshot is [`snapshot`], for tests.
pub(crate) fn state() -> State {
    State::new(snapshot(), Time(READ_AT.parse().unwrap()))
}

/// Returns a small cluster for tests: two full nodes, of which `n2` is cordoned, groups `early` (with a plan in progress), `a-late` and
/// `low`, a pending critical add-on, and three stored plans.
pub(crate) fn snapshot() -> Snapshot {
    let job = json!({"apiGroup": "batch", "kind": "Job", "name": HOSTILE});
    let first = json!([stored("Pod", "batch", "v-0", Some(&job), &["v-0"])]);
    let older = json!([
        stored("PodGroup", "batch", "old", Some(&job), &["old-0", "old-1"]),
        stored("Pod", "web", "single", None, &["single"]),
    ]);
    let observed = json!([stored("Pod", "batch", "v-1", Some(&job), &["v-1"])]);
    let mut items = vec![
        node("n1", HOSTILE_LABEL, false),
        node("n2", "b", true),
        victim("v-0", "n1"),
        victim("v-1", "n1"),
        victim("v-2", "n2"),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000, "preemptionPolicy": "Never",
            "metadata": {"name": "high", "annotations": {"scheduling.giveway.dev/managed": "true",
                "scheduling.giveway.dev/preemption-policy": "PreemptLowerPriority"}}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "dns", "namespace": "kube-system", "uid": "u-dns"},
            "spec": {"priority": 2_000_000_000, "containers": [{"name": "c"}]}, "status": {"phase": "Pending"}}),
        preemption("a-1", "early", [Some("2026-11-22T11:00:00Z"), None], "Evicting", &first),
        preemption("b-2", "former", [Some("2026-11-22T10:00:00Z"), Some("2026-11-22T10:00:09Z")], "Completed", &older),
        preemption("c-3", "other", [Some("2026-11-22T11:30:00Z"), None], "Observed", &observed),
    ];
    items.extend(gang("early", Some("high"), 1000, "2026-11-22T10:30:00Z"));
    items.extend(gang("a-late", Some("high"), 1000, "2026-11-22T10:40:00Z"));
    items.extend(gang("low", None, 5, "2026-11-22T10:20:00Z"));
    Snapshot::of(items, vec![pending("a-late", 1000), pending("early", 1000), pending("low", 5)])
}

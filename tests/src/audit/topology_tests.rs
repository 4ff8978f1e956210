//! The promise about topology domains is broken in each way, in logs written by hand.

use super::super::handwritten::{Log, broken};
use super::super::{OPERATOR, SCHEDULER};
use serde_json::{Value, json};

/// Returns a log with two racks of one node each, a node without a rack, and a gang that needs one rack.
fn start() -> Log {
    let mut log = Log::default();
    log.label("n1", json!({"rack": "r1"}));
    log.label("n2", json!({"rack": "r2"}));
    log.label("n3", json!({}));
    log.gang_of("train", "rack");
    log
}

#[test]
fn a_gang_in_one_rack_breaks_no_promise() {
    let mut log = start();
    for pod in ["train-0", "train-1"] {
        log.pod(pod, "train", "");
        log.bind_to(pod, "n1");
    }
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn a_member_in_another_rack_is_reported() {
    let mut log = start();
    log.pod("train-0", "train", "n1");
    log.pod("train-1", "train", "");
    log.bind_to("train-1", "n2");
    assert_eq!(
        broken(&log),
        [
            "pod train-1 of PodGroup train was bound to node n2 with rack=r2 while pod train-0 was on node n1 with rack=r1"
        ]
    );
}

#[test]
fn a_member_on_a_node_without_the_label_is_reported() {
    let mut log = start();
    log.pod("train-0", "train", "");
    log.bind_to("train-0", "n3");
    assert_eq!(broken(&log), ["pod train-0 of PodGroup train was bound to node n3, which has no label rack"]);
}

#[test]
fn a_recreated_group_may_be_in_another_rack() {
    let mut log = start();
    log.pod("train-0", "train", "n1");
    log.delete("admin", "train-0");
    log.pod("train-1", "train", "");
    log.bind_to("train-1", "n2");
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn the_label_at_the_time_of_the_binding_counts() {
    let mut log = start();
    log.pod("train-0", "train", "n1");
    log.label("n2", json!({"rack": "r1"}));
    log.pod("train-1", "train", "");
    log.bind_to("train-1", "n2");
    log.label("n2", json!({"rack": "r2"}));
    assert_eq!(broken(&log), Vec::<String>::new());
}

impl Log {
    /// Writes a node with these labels.
    fn label(&mut self, node: &str, labels: Value) {
        let object = json!({"kind": "Node", "metadata": {"name": node, "labels": labels}});
        self.line("admin", "patch", json!({"resource": "nodes", "name": node}), (Value::Null, object), 200);
    }

    /// Creates a gang with a topology constraint.
    fn gang_of(&mut self, name: &str, label: &str) {
        let object = json!({
            "kind": "PodGroup", "metadata": {"namespace": "default", "name": name},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}},
                "schedulingConstraints": {"topology": [{"key": label}]}}
        });
        let reference = json!({"apiGroup": "scheduling.giveway.dev", "resource": "podgroups", "namespace": "default", "name": name});
        self.line(OPERATOR, "patch", reference, (Value::Null, object), 200);
    }

    fn bind_to(&mut self, pod: &str, node: &str) {
        let reference = json!({"resource": "pods", "subresource": "binding", "namespace": "default", "name": pod});
        self.line(SCHEDULER, "create", reference, (json!({"target": {"name": node}}), Value::Null), 201);
    }
}

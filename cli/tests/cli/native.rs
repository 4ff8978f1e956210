//! Groups of Kubernetes itself: in snapshots, in manifests, and as `import` prints them.
use crate::common::{data, giveway, giveway_with};
use serde_json::{Value, json};

fn pod(name: &str, priority: i32, group: Option<&str>, node: Option<&str>) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("u-{name}")},
        "spec": {"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"}});
    if let Some(group) = group {
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    }
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

/// A node that is full with native group `old` of mode `all`, and a pending pod.
fn snapshot(waits: Value) -> (tempfile::TempDir, String) {
    let items = json!([
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000},
        {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "old", "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}, "priority": 50}},
        pod("old-0", 10, Some("old"), Some("n1")), pod("old-1", 10, Some("old"), Some("n1")), waits,
    ]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cluster.json");
    std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    let file = file.display().to_string();
    (directory, file)
}

fn planned(waits: Value) -> Value {
    let (_directory, file) = snapshot(waits);
    giveway(&["plan", "--for", "pod/vip", "--snapshot", &file, "-o", "json"]).json()
}

#[test]
fn a_native_group_of_a_snapshot_is_one_unit_with_its_own_priority() {
    let plan = planned(pod("vip", 1000, None, None));
    let victims = plan["decisions"][0]["victims"].as_array().or(plan["victims"].as_array()).unwrap().clone();
    assert_eq!(victims.len(), 1, "{plan:#}");
    assert_eq!(
        (&victims[0]["name"], &victims[0]["priority"]),
        (&json!("scheduling.k8s.io/old"), &json!(50)),
        "{plan:#}"
    );
    let between = planned(pod("vip", 30, None, None));
    assert_eq!(between["schedulable"], json!(false), "{between:#}");
}

#[test]
fn no_pod_is_evicted_for_a_pod_of_a_native_group() {
    let plan = planned(pod("vip", 1000, Some("theirs"), None));
    assert_eq!(plan["schedulable"], json!(false), "{plan:#}");
    let (_directory, file) =
        snapshot(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}));
    let manifest = "{apiVersion: v1, kind: Pod, metadata: {name: new}, spec: {priorityClassName: high, schedulingGroup: \
                    {podGroupName: theirs}, containers: [{name: c, resources: {requests: {cpu: '1'}}}]}}";
    let printed = giveway_with(&["plan", "-f", "-", "--snapshot", &file, "-o", "json"], None, manifest);
    assert_eq!(printed.json()["schedulable"], json!(false), "{}", printed.out);
}

#[test]
fn a_manifest_is_imported_without_a_cluster_and_lost_fields_are_named() {
    let manifest = "
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: train, namespace: research}
spec: {minMember: 4, minResources: {cpu: '4'}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: research}
spec: {template: {metadata: {labels: {scheduling.x-k8s.io/pod-group: train}}, spec: {containers: [{name: c}]}}}
";
    let printed = giveway_with(&["import", "-f", "-"], None, manifest);
    assert_eq!(printed.status, Some(0), "{}", printed.err);
    let expected = "---
apiVersion: scheduling.giveway.dev/v1alpha1
kind: PodGroup
metadata:
  name: train
  namespace: research
spec:
  disruptionMode: Pod
  schedulingPolicy:
    gang:
      minCount: 4
---
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: research
spec:
  template:
    metadata:
      labels:
        scheduling.giveway.dev/pod-group: train
    spec:
      containers:
      - name: c
";
    assert_eq!(printed.out, expected);
    let lost = "note: PodGroup research/train: spec.minResources: has no counterpart: {\"cpu\":\"4\"} is left out\n";
    assert!(printed.err.contains(lost), "{}", printed.err);
    assert!(data().exists());
}

#[test]
fn a_kind_that_is_not_converted_is_rejected_with_the_list_of_supported_kinds() {
    for (args, known) in [
        (["export", "pod/p"], "unknown kind \"pod\": must be podgroup/NAME or workload/NAME"),
        (["export", "podgroup.scheduling.k8s.io/g"], "unknown kind \"podgroup.scheduling.k8s.io\""),
        (["import", "podgroup"], "must be podgroup/NAME, workload/NAME or podgroup.scheduling.x-k8s.io/NAME"),
    ] {
        let printed = giveway(&args);
        assert_eq!(printed.status, Some(2));
        assert!(printed.err.contains(known), "{}", printed.err);
    }
}

//! The model: what changes it, what it refuses, and what it indexes.

use crate::common::*;
use giveway_crds::policy::PreemptionPolicy;
use giveway_planner::{Cluster, ModelError, ObjectKey};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::json;

fn read<T: serde::de::DeserializeOwned>(object: &Built) -> T {
    serde_json::from_value(object.0.clone()).unwrap()
}

fn upsert_pod(cluster: &mut Cluster, object: &Built) -> Result<bool, ModelError> {
    cluster.upsert_pod(&read::<Pod>(object))
}

fn upsert_node(cluster: &mut Cluster, object: &Built) -> Result<bool, ModelError> {
    cluster.upsert_node(&read::<Node>(object))
}

fn class(name: &str, value: i32) -> PriorityClass {
    serde_json::from_value(json!({"metadata": {"name": name}, "value": value})).unwrap()
}

#[test]
fn an_unchanged_object_and_a_field_that_no_decision_reads_are_no_changes() {
    let mut cluster = Cluster::default();
    assert_eq!(upsert_pod(&mut cluster, &pod("p")), Ok(true));
    assert_eq!(upsert_pod(&mut cluster, &pod("p")), Ok(false));
    assert_eq!(upsert_pod(&mut cluster, &pod("p").set("/metadata/resourceVersion", json!("7"))), Ok(false));
    assert_eq!(upsert_pod(&mut cluster, &pod("p").on("a")), Ok(true));
    assert_eq!(upsert_node(&mut cluster, &node("a", 1)), Ok(true));
    let heartbeat = node("a", 1).set("/status/images", json!([]));
    assert_eq!(upsert_node(&mut cluster, &heartbeat), Ok(false));
    assert!(cluster.remove_pod(&key("p")) && !cluster.remove_pod(&key("p")));
    assert!(cluster.remove_node("a") && !cluster.remove_node("a"));
}

#[test]
fn a_running_pod_with_an_unreadable_request_is_named_and_stays() {
    let mut cluster = cluster(&[node("a", 1), pod("p").on("a")]);
    let error = upsert_pod(&mut cluster, &pod("p").on("a").asks("cpu", "one")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Pod default/p: spec.containers[0].resources.requests[cpu]: Invalid value: \"one\": \
         must start with a number, as in 100m or 2Gi"
    );
    assert_eq!(cluster.pods_on("a").count(), 1);
    let error = upsert_pod(&mut cluster, &pod("p").asks("cpu", "one")).unwrap_err();
    assert_eq!(error.field, "spec.containers[0].resources.requests[cpu]");
    assert!(cluster.pod(&key("p")).is_none(), "one that waits is not there");
}

#[test]
fn a_node_with_an_unreadable_amount_is_dropped_and_named() {
    let mut cluster = cluster(&[node("a", 1)]);
    let error = upsert_node(&mut cluster, &node("a", 1).offers("memory", "-1Gi")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Node a: status.allocatable[memory]: Invalid value: \"-1Gi\": must be greater than or equal to 0"
    );
    assert!(cluster.node("a").is_none());
}

#[test]
fn a_group_with_an_unreadable_policy_is_dropped_and_named() {
    let mut cluster = cluster(&[gang("g", 1, 1)]);
    let object = gang("g", 1, 0);
    let error = cluster.upsert_group(&serde_json::from_value(object.0).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "PodGroup default/g: spec.schedulingPolicy.gang.minCount: Invalid value: \"0\": must be greater than or equal to 1"
    );
    assert!(cluster.group(&key("g")).is_none());
}

#[test]
fn members_are_known_before_their_group_and_listed_by_name() {
    let mut cluster = cluster(&[pod("b").group("g"), pod("a").group("g"), pod("c")]);
    let names = |cluster: &Cluster| cluster.members(&key("g")).map(|pod| pod.key.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&cluster), ["a", "b"]);
    assert!(cluster.group_of(cluster.pod(&key("a")).unwrap()).is_none());
    add(&mut cluster, &gang("g", 7, 2));
    assert_eq!(cluster.effective_priority(cluster.pod(&key("a")).unwrap()), 7);
    cluster.remove_group(&key("g"));
    assert_eq!(cluster.effective_priority(cluster.pod(&key("a")).unwrap()), AMPLE);
    assert_eq!(names(&cluster), ["a", "b"]);
    cluster.remove_pod(&key("a"));
    cluster.remove_pod(&key("b"));
    assert_eq!(names(&cluster), Vec::<String>::new());
}

#[test]
fn pods_are_known_before_their_node() {
    let mut cluster = cluster(&[pod("low").priority(9).on("a"), pod("p")]);
    add(&mut cluster, &node("a", 1));
    assert!(shortfall(decide(&cluster, &for_pod("p"))).contains("Missing 1 cpu"));
    cluster.remove_node("a");
    add(&mut cluster, &node("a", 2));
    assert!(matches!(decide(&cluster, &for_pod("p")), giveway_planner::Decision::Fits { .. }));
}

#[test]
fn a_group_without_a_priority_gets_it_from_its_class_when_that_arrives() {
    let unfilled = gang("g", 0, 1).set("/spec/priority", json!(null)).set("/spec/priorityClassName", json!("gold"));
    let mut cluster = cluster(&[unfilled, pod("p").group("g").priority(300)]);
    let group = cluster.group(&key("g")).unwrap();
    assert_eq!(group.class_problem.as_deref(), Some("no PriorityClass with name gold was found"));
    assert_eq!(cluster.effective_priority(cluster.pod(&key("p")).unwrap()), 300);
    assert!(cluster.upsert_class(&class("gold", 70)));
    assert!(!cluster.upsert_class(&class("gold", 70)));
    assert_eq!(cluster.group(&key("g")).unwrap().priority, 70);
    assert_eq!(cluster.effective_priority(cluster.pod(&key("p")).unwrap()), 70);
    assert!(cluster.remove_class("gold"));
    assert!(cluster.group(&key("g")).unwrap().class_problem.is_some());
}

#[test]
fn the_policy_of_a_member_is_its_groups() {
    let cluster = cluster(&[gang("g", 1, 1).never(), pod("p").group("g"), pod("q")]);
    let policy = |name: &str| cluster.effective_policy(cluster.pod(&key(name)).unwrap());
    assert_eq!(policy("p"), PreemptionPolicy::Never);
    assert_eq!(policy("q"), PreemptionPolicy::PreemptLowerPriority);
}

#[test]
fn budgets_are_found_in_the_pods_namespace_only() {
    let elsewhere = budget("other", "db", 0).set("/metadata/namespace", json!("elsewhere"));
    let everything = budget("every", "x", 0).set("/spec/selector", json!({}));
    let nothing = budget("none", "x", 0).set("/spec", json!({}));
    let all = [elsewhere, everything, nothing, budget("db", "db", 0), pod("p").label("app", "db"), pod("q")];
    let cluster = cluster(&all);
    let names = |name: &str| {
        let budgets = cluster.budgets_of(cluster.pod(&key(name)).unwrap());
        budgets.iter().map(|budget| budget.key.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names("p"), ["db", "every"]);
    assert_eq!(names("q"), ["every"]);
}

#[test]
fn what_the_operator_needs_of_a_pod_is_read() {
    let object = pod("p")
        .label("scheduling.giveway.dev/workload", "w")
        .label("scheduling.giveway.dev/pod-group-template", "t")
        .set("/spec/schedulingGates", json!([{"name": "scheduling.giveway.dev/pod-group"}, {"name": "other"}]))
        .set("/status/conditions", json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]))
        .set(
            "/metadata/ownerReferences",
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true}]),
        );
    let cluster = cluster(&[object]);
    let pod = cluster.pod(&ObjectKey::new(NAMESPACE, "p")).unwrap();
    assert!(pod.gated && pod.gated_by_others && pod.unschedulable && pod.live() && !pod.bound());
    assert_eq!(pod.group.as_deref(), Some("w-t"));
    assert_eq!(pod.template, Some(("w".to_owned(), "t".to_owned())));
    assert_eq!(pod.owner.as_ref().map(|owner| owner.name.as_str()), Some("j"));
    assert_eq!(pod.scheduler_name, "default-scheduler");
}

//! Pending pods keep no pod away from a node, whatever their anti-affinity; nominated pods do.

use crate::common::*;
use giveway_planner::{Cluster, Decision, Reservation};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::json;

/// A pod whose anti-affinity excludes all pods of all namespaces.
fn stranger(name: &str) -> Built {
    let term = json!({"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "hostname"});
    pod(name).set("/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution", json!([term]))
}

fn places(decision: Decision) -> Vec<String> {
    match decision {
        Decision::Fits { placements, .. } => placements.iter().map(|p| p.node.to_string()).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_nomination_of_another_scheduler_s_pod_counts_and_its_waiting_does_not() {
    let objects = [node("a", 4), node("b", 4), stranger("s").priority(9), pod("p").priority(5)];
    let cluster = cluster(&objects);
    assert_eq!(places(decide(&cluster, &for_pod("p"))), ["a"]);
    let mut reserved = cluster.clone();
    reserved.reserve("uid-s", "a", Reservation::Started(9));
    assert_eq!(places(decide(&reserved, &for_pod("p"))), ["b"]);
    let mut nominated = cluster.clone();
    add(&mut nominated, &stranger("s").priority(9).nominated("a"));
    assert_eq!(places(decide(&nominated, &for_pod("p"))), ["b"]);
    let mut bound = cluster.clone();
    add(&mut bound, &stranger("s").priority(9).on("a"));
    assert_eq!(places(decide(&bound, &for_pod("p"))), ["b"]);
}

#[test]
fn a_namespace_with_other_labels_makes_members_that_keep_away_look_again() {
    let apart = |name: &str| {
        let term = json!({"labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "red"}},
            "topologyKey": "hostname"});
        pod(name).set("/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution", json!([term]))
    };
    let namespace = |name: &str, team: &str| -> Namespace {
        serde_json::from_value(json!({"metadata": {"name": name, "labels": {"team": team}}})).unwrap()
    };
    let mut cluster: Cluster =
        cluster(&[node("a", 4), pod("other").priority(9).set("/metadata/namespace", json!("far")).on("a")]);
    add(&mut cluster, &apart("p"));
    cluster.upsert_namespace(&namespace("default", "red"));
    cluster.upsert_namespace(&namespace("far", "blue"));
    assert_eq!(places(decide(&cluster, &for_pod("p"))), ["a"]);
    cluster.upsert_namespace(&namespace("far", "red"));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Unschedulable(_)));
    cluster.upsert_namespace(&namespace("far", "blue"));
    assert_eq!(places(decide(&cluster, &for_pod("p"))), ["a"]);
}

/// Each rule is evaluated for each of thousands of nodes, and a user may write thousands of rules.
#[test]
fn no_pod_is_evicted_for_a_pod_with_more_constraints_than_are_evaluated() {
    let term = |n: usize| json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": format!("a{n}")}}});
    let terms = |count: usize| (0..count).map(term).collect::<Vec<_>>();
    let rule = |n: usize| json!({"matchExpressions": [{"key": "k", "operator": "NotIn", "values": [n.to_string()]}]});
    let node_terms: Vec<_> = (0..151).map(rule).collect();
    let anti = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms(17)}});
    let required = json!({"nodeSelectorTerms": node_terms});
    let of_node = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    let enough = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms(16)}});
    let asks = |affinity: serde_json::Value| {
        let all = [node("n", 1), pod("low").on("n"), pod("p").priority(9).set("/spec/affinity", affinity)];
        decide(&cluster(&all), &for_pod("p"))
    };
    for (affinity, why) in [
        (anti, "pod p has 17 terms of pod anti-affinity, more than the 16 that Giveway evaluates"),
        (of_node, "pod p has 302 rules of node affinity, more than the 300 that Giveway evaluates"),
    ] {
        let Decision::Unknown(unknown) = asks(affinity) else { panic!("{why}") };
        assert_eq!(unknown.why, [why]);
    }
    assert_eq!(victims(&planned(asks(enough))), ["low"]);
}

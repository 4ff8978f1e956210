//! Pods that wait keep nobody away, whatever they say; those whose places are held do.

use crate::common::*;
use giveway_planner::{Cluster, Context, Decision, Reservation};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::json;

/// Keeps everybody of all namespaces away.
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
fn a_place_that_is_held_for_it_counts_and_its_waiting_does_not() {
    let objects = [node("a", 4), node("b", 4), stranger("s").priority(9), pod("p").priority(5)];
    let cluster = cluster(&objects);
    assert_eq!(places(decide(&cluster, &for_pod("p"))), ["a"]);
    let held = Reservation { uid: "uid-s".into(), pod: key("s"), node: "a".into(), priority: 9 };
    let context = Context { reservations: vec![held], ..Context::default() };
    assert_eq!(places(plan(&cluster, &for_pod("p"), &context)), ["b"]);
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

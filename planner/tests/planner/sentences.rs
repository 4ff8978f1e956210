//! Explanations of shortfalls: whole sentences, word by word.

use crate::common::*;
use serde_json::json;

const GPU: &str = "nvidia.com/gpu";

#[test]
fn the_example_of_the_design() {
    let mut all = vec![];
    for n in 0..5 {
        all.push(node(&format!("free-{n}"), 64).offers(GPU, "8"));
    }
    all.push(node("high", 64).offers(GPU, "16"));
    all.push(pod("high-a").asks(GPU, "4").priority(2000).on("high"));
    all.push(pod("low").asks(GPU, "12").on("high"));
    all.push(gang("g", 1000, 8));
    all.extend((0..8).map(|i| pod(&format!("g-{i}")).group("g").asks(GPU, "8")));
    assert_eq!(
        shortfall(decide(&cluster(&all), &for_group("g"))),
        "8 pods needed, 5 fit now. Missing 24 nvidia.com/gpu. Evicting every workload below priority 1000 would free 12."
    );
}

#[test]
fn room_that_is_in_pieces_is_said_to_be() {
    let mut all = vec![node("a", 2), node("b", 2), gang("g", 1000, 2)];
    all.extend([pod("low-a").on("a"), pod("low-b").on("b"), pod("high-b").priority(2000).on("b")]);
    all.extend((0..2).map(|i| pod(&format!("g-{i}")).group("g").asks("cpu", "2")));
    all.push(node("c", 2));
    all.extend([
        pod("low-c").asks("cpu", "2").on("c"),
        node("d", 2),
        pod("high-d").priority(2000).on("d"),
        pod("low-d").on("d"),
    ]);
    all.push(pod("high-a").priority(2000).on("a"));
    assert_eq!(
        shortfall(decide(&cluster(&all), &for_group("g"))),
        "2 pods needed, 0 fit now. Missing 4 cpu. Evicting every workload below priority 1000 would free 5, but only 1 would fit then."
    );
}

#[test]
fn several_resources_are_named() {
    let all = [
        node("a", 2).offers("memory", "2Gi"),
        pod("high").priority(99).asks("cpu", "1500m").asks("memory", "1536Mi").on("a"),
        pod("low").asks("cpu", "250m").asks("memory", "256Mi").on("a"),
        pod("p").priority(10).asks("cpu", "1").asks("memory", "1Gi"),
    ];
    assert_eq!(
        shortfall(decide(&cluster(&all), &for_pod("p"))),
        "1 pod needed, 0 fit now. Missing 1 cpu, 1Gi memory. \
         Evicting every workload below priority 10 would free 250m cpu, 256Mi memory."
    );
}

#[test]
fn other_filters_are_counted_like_the_schedulers_the_most_frequent_first() {
    let taints = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    let mut all: Vec<Built> = (0..3).map(|n| node(&format!("t{n}"), 1).set("/spec/taints", taints.clone())).collect();
    all.extend((0..2).map(|n| node(&format!("z{n}"), 1)));
    all.push(node("u", 1).set("/spec/unschedulable", json!(true)));
    all.push(pod("p").priority(10).set("/spec/nodeSelector", json!({"zone": "one"})));
    all.push(pod("low").on("t0"));
    assert_eq!(
        shortfall(decide(&cluster(&all), &for_pod("p"))),
        "1 pod needed, 0 fit now. 3 node(s) had untolerated taint {k: v}, \
         2 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable. \
         Evicting every workload below priority 10 would not help."
    );
}

#[test]
fn a_pod_that_is_larger_than_every_node_is_told_so() {
    let all = [node("a", 2), pod("low").on("a"), pod("p").priority(10).asks("cpu", "3")];
    assert_eq!(
        shortfall(decide(&cluster(&all), &for_pod("p"))),
        "1 pod needed, 0 fit now. Missing 3 cpu. No node offers as much as one pod asks for. \
         Evicting every workload below priority 10 would not help."
    );
}

#[test]
fn a_cluster_without_nodes_is_told_so() {
    assert_eq!(
        shortfall(decide(&cluster(&[pod("p").priority(10)]), &for_pod("p"))),
        "1 pod needed, 0 fit now. There is no node. No workload has a priority below 10."
    );
}

#[test]
fn a_resource_is_missing_only_where_it_exists() {
    let all = [
        node("cpu-only", 1),
        node("gpu", 8).offers(GPU, "1"),
        pod("busy").priority(99).on("cpu-only"),
        pod("training").priority(99).asks(GPU, "1").on("gpu"),
        pod("p").priority(10).asks(GPU, "1"),
    ];
    let sentence = shortfall(decide(&cluster(&all), &for_pod("p")));
    assert!(sentence.starts_with("1 pod needed, 0 fit now. Missing 1 nvidia.com/gpu. No workload"), "{sentence}");
}

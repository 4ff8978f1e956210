//! Explanations of shortfalls: whole sentences, word by word.

use crate::common::*;
use giveway_planner::api::{Cost, GuaranteedBudget, Help, Shortfall};
use giveway_planner::model::ObjectKey;
use giveway_planner::rescue::Nearest;
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
fn fragmented_capacity_is_reported() {
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
fn the_sentence_says_that_a_pod_is_larger_than_every_node() {
    let all = [node("a", 2), pod("low").on("a"), pod("p").priority(10).asks("cpu", "3")];
    assert_eq!(
        shortfall(decide(&cluster(&all), &for_pod("p"))),
        "1 pod needed, 0 fit now. Missing 3 cpu. No node offers as much as one pod asks for. \
         Evicting every workload below priority 10 would not help."
    );
}

#[test]
fn the_sentence_says_that_there_is_no_node() {
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

#[test]
fn a_shortfall_agrees_with_its_numbers() {
    let of = |count: usize| Shortfall {
        needed: count,
        fit_now: count,
        nodes: 3,
        priority: 10,
        help: Help::Protected,
        protected: count,
        critical: count,
        ..Shortfall::default()
    };
    let none = "0 pods needed, 0 fit now.";
    let one = "1 pod needed, 1 fits now. 1 pod below priority 10 is protected: no pod in its namespace is evicted. 1 pod below priority 10 is a critical add-on, which is not evicted.";
    let two = "2 pods needed, 2 fit now. 2 pods below priority 10 are protected: no pod in their namespaces is evicted. 2 pods below priority 10 are critical add-ons, which are not evicted.";
    assert_eq!([0, 1, 2].map(|count| of(count).to_string()), [none, one, two]);
    let of = |count: usize| {
        let budget = GuaranteedBudget { key: ObjectKey::new("d", "b"), allowed: count, threshold: 50 };
        let guaranteed = vec![budget].into();
        let shortfall = Shortfall { needed: count, withheld: 1, guaranteed, too_small: true, nodes: 1, ..of(0) };
        let text = Shortfall { help: Help::NotEnough(0), protected: 0, critical: 0, ..shortfall }.to_string();
        text.split_once("asks for. ").unwrap().1.to_owned()
    };
    let said = |pods: &str, more: &str| {
        format!(
            "1 of {pods} would fit only after evictions of pods of budget d/b, which allows {more} to preemptors below 50."
        )
    };
    let all = [
        said("0 pods", "0 more disruptions"),
        said("1 pod", "1 more disruption"),
        said("2 pods", "2 more disruptions"),
    ];
    assert_eq!([0, 1, 2].map(of), all);
}

#[test]
fn a_cost_and_the_nearest_node_agree_with_their_numbers() {
    let cost = |count: usize| {
        Cost { victim_pods: count, victim_groups: count, budget_violations: count, ..Cost::default() }.to_string()
    };
    let two = "2 pods (2 whole groups), 2 budget violations";
    assert_eq!([0, 1, 2].map(cost), ["0 pods, 0 budget violations", "1 pod (1 whole group), 1 budget violation", two]);
    let nearest = |count: usize| {
        let (lacks, guaranteed) = (vec![("cpu".to_owned(), 1_000)], vec![]);
        let node = "n1".into();
        Nearest { node, evictable: count, stay: count, protected: count, lacks, refusal: None, guaranteed }.to_string()
    };
    let none = "The nearest is n1: without the 0 pods there that may be evicted it still lacks 1 cpu; 0 pods there cannot be evicted.";
    let one = "The nearest is n1: without the 1 pod there that may be evicted it still lacks 1 cpu; 1 pod there cannot be evicted, 1 of them because no pod of a protected namespace is evicted.";
    let two = "The nearest is n1: without the 2 pods there that may be evicted it still lacks 1 cpu; 2 pods there cannot be evicted, 2 of them because no pod of protected namespaces is evicted.";
    assert_eq!([0, 1, 2].map(nearest), [none, one, two]);
}

//! A group lends its members no priority: neither to preempt with, nor as a shield.

use crate::common::*;
use giveway_planner::{Cluster, Decision};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::json;

fn class(name: &str, value: i32) -> PriorityClass {
    serde_json::from_value(json!({"metadata": {"name": name}, "value": value})).unwrap()
}

#[test]
fn a_group_protects_no_pod_of_a_lower_class() {
    let all = [
        node("a", 2),
        gang("mid", 50, 1),
        pod("cheap-pod-of-mid").group("mid").priority(1).on("a"),
        pod("dear-pod-of-mid").group("mid").priority(60).on("a"),
        pod("p").priority(40),
    ];
    let plan = planned(decide(&cluster(&all), &for_pod("p")));
    assert_eq!((victims(&plan), plan.victims[0].priority), (vec!["cheap-pod-of-mid"], 1));
}

#[test]
fn a_group_counts_with_its_own_priority_if_its_pods_have_higher_ones() {
    let dear = pod("dear-pod-of-mid").group("mid").priority(99).on("a");
    let all = [node("a", 1), gang("mid", 50, 1), dear, pod("p").priority(60)];
    let plan = planned(decide(&cluster(&all), &for_pod("p")));
    assert_eq!((victims(&plan), plan.victims[0].priority), (vec!["dear-pod-of-mid"], 50));
}

#[test]
fn a_group_that_is_disrupted_together_counts_as_its_cheapest_running_pod() {
    let mut all = vec![node("a", 3), gang("mid", 50, 1).whole(), pod("p").asks("cpu", "2").priority(40)];
    all.extend(["dear-0", "dear-1"].map(|name| pod(name).group("mid").on("a")));
    let mut cluster = cluster(&all);
    add(&mut cluster, &pod("cheap").group("mid").priority(1).on("a"));
    let plan = planned(decide(&cluster, &for_pod("p")));
    assert_eq!((victims(&plan), plan.victims[0].priority, plan.victims[0].pods.len()), (vec!["mid"], 1, 3));
    for name in ["dear-0", "cheap"] {
        let pod = cluster.pod(&key(name)).unwrap();
        assert_eq!(cluster.effective_priority(pod), 1, "{name}: the class of one member shields no other");
    }
    // Pending and terminating members do not lower the priority of the others.
    add(&mut cluster, &pod("cheap").group("mid").priority(1).on("a").terminating());
    add(&mut cluster, &pod("late").group("mid").priority(1));
    let sentence = shortfall(decide(&cluster, &for_pod("p")));
    assert!(sentence.contains("No workload has a priority below 40."), "{sentence}");
}

#[test]
fn a_member_of_a_lower_class_than_its_group_is_not_planned_for() {
    let mut all = vec![node("a", 2), pod("low").on("a"), pod("other").on("a"), gang("g", 10, 2)];
    all.extend([pod("cheap-0").group("g").priority(9), pod("cheap-1").group("g").priority(-1)]);
    let waits = |live: usize, below| Decision::WaitingForPods { live, min_count: 2, finished: 0, below };
    assert_eq!(decide(&cluster(&all), &for_group("g")), waits(0, 2), "however many there are");
    all.push(pod("dear-0").group("g").priority(10));
    assert_eq!(decide(&cluster(&all), &for_group("g")), waits(1, 2));
    all.push(pod("dear-1").group("g").priority(11));
    let plan = planned(decide(&cluster(&all), &for_group("g")));
    assert_eq!(places(&plan), ["dear-0>a", "dear-1>a"]);
}

#[test]
fn a_basic_group_does_not_raise_the_priority_of_its_pods_either() {
    let basic = gang("g", 10, 1).set("/spec/schedulingPolicy", json!({"basic": {}}));
    let mut all = vec![node("a", 1), pod("low").priority(5).on("a"), basic, pod("cheap").group("g").priority(9)];
    assert_eq!(decide(&cluster(&all), &for_group("g")), Decision::Nothing);
    all.push(pod("dear").group("g").priority(10));
    assert_eq!(places(&planned(decide(&cluster(&all), &for_group("g")))), ["dear>a"]);
}

#[test]
fn running_members_of_a_lower_class_count_for_min_count_and_no_pod_is_evicted_for_them() {
    let mut all = vec![node("a", 3), pod("low").on("a"), gang("g", 10, 3)];
    all.extend(["old-0", "old-1"].map(|name| pod(name).group("g").priority(2).on("a")));
    all.push(pod("old-2").group("g").priority(2));
    assert_eq!(
        decide(&cluster(&all), &for_group("g")),
        Decision::WaitingForPods { live: 2, min_count: 3, finished: 0, below: 1 }
    );
    all.push(pod("new").group("g").priority(10));
    assert_eq!(victims(&planned(decide(&cluster(&all), &for_group("g")))), ["low"]);
}

#[test]
fn while_the_class_of_a_group_is_unknown_its_pods_count_by_themselves() {
    let unfilled = gang("g", 0, 1).set("/spec/priority", json!(null)).set("/spec/priorityClassName", json!("gold"));
    let mut cluster = cluster(&[unfilled, pod("p").group("g").priority(3)]);
    let below = |cluster: &Cluster| cluster.is_below_group(cluster.pod(&key("p")).unwrap());
    assert!(!below(&cluster));
    cluster.upsert_class(&class("gold", 4));
    assert!(below(&cluster), "as soon as the class is there");
    cluster.upsert_class(&class("gold", 3));
    assert!(!below(&cluster));
}

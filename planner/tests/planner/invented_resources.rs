//! Names of resources that no node offers: they cost nothing, fit nowhere, and count once a node offers them.

use crate::common::*;
use giveway_planner::model::ResourceId;
use giveway_planner::{Cluster, Decision};

/// A pod that invents so many names.
fn inventor(names: usize) -> Built {
    (0..names).fold(pod("inventor"), |pod, at| pod.asks(&format!("example.com/invented-{at}"), "3"))
}

/// How many resources have a number.
fn numbered(cluster: &Cluster) -> usize {
    (0..ResourceId::MAX).filter(|id| !cluster.resource_name(*id).is_empty()).count()
}

#[test]
fn ten_thousand_invented_names_get_no_number() {
    let mut cluster = cluster(&[node("a", 4), pod("p")]);
    let before = numbered(&cluster);
    add(&mut cluster, &inventor(10_000));
    assert_eq!((before, numbered(&cluster)), (4, 4));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }));
    cluster.remove_pod(&key("inventor"));
    add(&mut cluster, &node("b", 4).offers("example.com/invented-7", "3"));
    assert_eq!(numbered(&cluster), 5);
}

#[test]
fn a_resource_that_no_node_offers_is_named_as_missing_and_no_pod_is_evicted_for_it() {
    let low = pod("low").priority(-1).asks("example.com/fpga", "2").on("a");
    let objects = [node("a", 4), low, pod("p").asks("example.com/fpga", "1").asks("example.com/tpu", "3")];
    assert_eq!(
        shortfall(decide(&cluster(&objects), &for_pod("p"))),
        "1 pod needed, 0 fit now. Missing 1 example.com/fpga, 3 example.com/tpu. No node offers as much as one pod asks \
         for. Evicting every workload below priority 0 would not help."
    );
}

#[test]
fn a_node_that_offers_the_name_later_makes_the_pod_fit() {
    let gang_of_two = [gang("g", 5, 2), pod("g-0").group("g"), pod("g-1").group("g")];
    let mut cluster = cluster(&[node("a", 4)]);
    for member in gang_of_two {
        let member = if member.0["kind"] == "Pod" { member.asks("example.com/fpga", "1") } else { member };
        add(&mut cluster, &member);
    }
    assert_eq!(
        shortfall(decide(&cluster, &for_group("g"))),
        "2 pods needed, 0 fit now. Missing 2 example.com/fpga. No node offers as much as one pod asks for. \
         No workload has a priority below 5."
    );
    add(&mut cluster, &node("b", 4).offers("example.com/fpga", "1"));
    assert_eq!(
        shortfall(decide(&cluster, &for_group("g"))),
        "2 pods needed, 1 fits now. Missing 1 example.com/fpga. No workload has a priority below 5."
    );
    add(&mut cluster, &node("a", 4).offers("example.com/fpga", "1"));
    assert!(matches!(decide(&cluster, &for_group("g")), Decision::Fits { left: 0, .. }));
    // What runs there counts from now on, though it came before the name was known.
    add(&mut cluster, &pod("other").priority(9).asks("example.com/fpga", "1").on("a"));
    assert!(matches!(decide(&cluster, &for_group("g")), Decision::Unschedulable(_)));
}

#[test]
fn what_was_bound_before_its_resource_was_offered_takes_room_when_it_is() {
    let mut cluster = cluster(&[node("a", 4), pod("early").asks("example.com/fpga", "1").on("a")]);
    add(&mut cluster, &pod("p").asks("example.com/fpga", "1"));
    add(&mut cluster, &node("a", 4).offers("example.com/fpga", "1"));
    assert!(shortfall(decide(&cluster, &for_pod("p"))).contains("Missing 1 example.com/fpga."));
    cluster.remove_pod(&key("early"));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }));
}

//! Full clusters of low-priority groups in mode `PodGroup`, as measured on the in-tree scheduler: how few have to go.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::*;
use giveway_planner::Cluster;
use std::time::Instant;

/// A small generator of our own: the same numbers on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// Nodes of 8 CPUs, full of groups of `size` pods of 1 CPU: packed one after the other, or shuffled over all places.
fn full(nodes: usize, size: usize, shuffled: bool) -> Cluster {
    let mut places: Vec<usize> = (0..nodes * 8).map(|place| place / 8).collect();
    if shuffled {
        let mut numbers = Numbers(42);
        for last in (1..places.len()).rev() {
            places.swap(last, numbers.below(last + 1));
        }
    }
    let mut all: Vec<Built> = (0..nodes).map(|n| node(&format!("node-{n:04}"), 8)).collect();
    all.extend((0..places.len() / size).map(|g| gang(&format!("low-{g:04}"), 10, size).whole()));
    all.extend(places.iter().enumerate().map(|(p, n)| {
        let name = format!("low-{:04}-{}", p / size, p % size);
        pod(&name).group(&format!("low-{:04}", p / size)).priority(10).on(&format!("node-{n:04}"))
    }));
    cluster(&all)
}

/// Plans for a gang and returns how many pods go, after checking that no group is torn.
fn evicted(mut cluster: Cluster, members: usize, cpus: &str) -> usize {
    for object in waiting_gang("high", 1000, members) {
        let object = if object.0["kind"] == "Pod" { object.asks("cpu", cpus) } else { object };
        add(&mut cluster, &object);
    }
    let start = Instant::now();
    let plan = planned(decide(&cluster, &for_group("high")));
    println!("{members} x {cpus} CPU: {} pods evicted, planned in {:?}", plan.cost.victim_pods, start.elapsed());
    assert_eq!(plan.placements.len(), members);
    for victim in &plan.victims {
        assert_eq!(victim.pods.len(), cluster.members(&victim.key).count(), "{} is torn", victim.key);
    }
    plan.cost.victim_pods
}

#[test]
fn groups_packed_on_nodes_give_way_one_to_one() {
    assert_eq!(evicted(full(100, 4, false), 32, "1"), 32);
    assert_eq!(evicted(full(200, 8, false), 64, "1"), 64);
}

#[test]
fn groups_spread_over_nodes_give_way_one_to_one() {
    assert_eq!(evicted(full(200, 8, true), 64, "1"), 64);
}

#[test]
fn single_pods_give_way_one_to_one() {
    assert_eq!(evicted(full(50, 1, false), 32, "1"), 32);
}

#[test]
fn large_members_among_spread_groups_cost_no_more_than_the_best_scheduler_measured() {
    assert!(evicted(full(100, 8, true), 16, "4") <= 232);
    assert!(evicted(full(100, 4, true), 8, "8") <= 216);
}

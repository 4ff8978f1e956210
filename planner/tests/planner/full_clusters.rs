//! Full clusters of low-priority groups in mode `PodGroup`, as measured on the in-tree scheduler: the number of victims is small.

use crate::common::numbers::Numbers;
use crate::common::*;
use giveway_planner::Cluster;
use std::time::Instant;

/// Nodes of 8 CPUs, full of groups of `size` pods of 1 CPU: packed one after the other, or shuffled over all nodes with a seed.
fn full(nodes: usize, size: usize, seed: Option<u64>) -> Cluster {
    let mut places: Vec<usize> = (0..nodes * 8).map(|place| place / 8).collect();
    if let Some(seed) = seed {
        Numbers(seed).shuffle(&mut places);
    }
    let mut all: Vec<Built> = (0..nodes).map(|n| node(&format!("node-{n:04}"), 8)).collect();
    all.extend((0..places.len() / size).map(|g| gang(&format!("low-{g:04}"), 10, size).whole()));
    all.extend(places.iter().enumerate().map(|(p, n)| {
        let name = format!("low-{:04}-{}", p / size, p % size);
        pod(&name).group(&format!("low-{:04}", p / size)).priority(10).on(&format!("node-{n:04}"))
    }));
    cluster(&all)
}

/// Plans for a gang and returns the number of victims, after checking that no group is partially disrupted.
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
        assert_eq!(
            victim.pods.len(),
            cluster.members(&victim.key).count(),
            "{} is only partially disrupted",
            victim.key
        );
    }
    plan.cost.victim_pods
}

/// The rows of "in-tree workload-aware preemption" as measured: there it evicts up to 2048.
#[test]
fn groups_packed_on_nodes_are_evicted_one_to_one() {
    assert_eq!(evicted(full(100, 4, None), 32, "1"), 32);
    assert_eq!(evicted(full(200, 8, None), 64, "1"), 64);
    assert_eq!(evicted(full(1000, 8, None), 256, "1"), 256);
}

#[test]
fn groups_spread_over_nodes_are_evicted_one_to_one() {
    assert_eq!(evicted(full(200, 8, Some(42)), 64, "1"), 64);
    assert_eq!(evicted(full(500, 8, Some(42)), 128, "1"), 128);
}

#[test]
fn single_pods_are_evicted_one_to_one() {
    assert_eq!(evicted(full(50, 1, None), 32, "1"), 32);
}

/// In-tree evicts 288 and 216 pods, the best other scheduler 232 and 584, and a solver 128 and 160 after 200 s.
#[test]
fn large_members_among_spread_groups_cost_hardly_more_than_a_solver_needs() {
    for seed in [42, 1, 2, 3, 4] {
        let halves = evicted(full(100, 8, Some(seed)), 16, "4");
        assert!(halves <= 140, "seed {seed}: {halves} for 16 x 4 CPU");
        let wholes = evicted(full(100, 4, Some(seed)), 8, "8");
        assert!(wholes <= 176, "seed {seed}: {wholes} for 8 x 8 CPU");
    }
}

/// Groups with a pod on every node: each victim set of each node frees capacity on all of them.
#[test]
fn groups_that_run_on_every_node_are_evicted_together_and_as_few_as_needed() {
    let mut all: Vec<Built> = (0..3000).map(|n| node(&format!("node-{n:04}"), 8)).collect();
    for group in 0..8 {
        all.push(gang(&format!("low-{group}"), 10, 3000).whole());
        let member = |n: usize| pod(&format!("low-{group}-{n}")).group(&format!("low-{group}")).priority(10);
        all.extend((0..3000).map(|n| member(n).on(&format!("node-{n:04}"))));
    }
    assert_eq!(evicted(cluster(&all), 64, "1"), 3000);
    assert_eq!(evicted(cluster(&all), 64, "3"), 9000);
}

/// Members of two sizes, or with a host port: no decision looks at every pod of such a group for every node.
#[test]
fn groups_that_run_on_every_node_are_evicted_together_for_members_that_differ() {
    let mut all: Vec<Built> = (0..2000).map(|n| node(&format!("node-{n:04}"), 8)).collect();
    for group in 0..8 {
        all.push(gang(&format!("low-{group}"), group, 2000).whole());
        let member = |n: usize| pod(&format!("low-{group}-{n}")).group(&format!("low-{group}")).priority(group);
        all.extend((0..2000).map(|n| member(n).on(&format!("node-{n:04}"))));
    }
    let low = cluster(&all);
    let ports = serde_json::json!([{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]);
    for (kind, pods) in [("sizes", 4000), ("ports", 2000)] {
        let mut cluster = low.clone();
        for (number, object) in waiting_gang("high", 1000, 300).into_iter().enumerate() {
            let object = match (&object.0["kind"], kind) {
                (kind, _) if kind != "Pod" => object,
                (_, "sizes") => object.asks("cpu", if number % 2 == 0 { "1" } else { "2" }),
                _ => object.set("/spec/containers", ports.clone()).asks("cpu", "1"),
            };
            add(&mut cluster, &object);
        }
        let plan = planned(decide(&cluster, &for_group("high")));
        assert_eq!((plan.placements.len(), plan.cost.victim_pods), (300, pods), "{kind}");
        assert_eq!(check_plan(&cluster, &for_group("high"), &plan), Ok(()), "{kind}");
    }
}

/// 80 nodes of one CPU in racks of 10, full of pods of priorities 10 and 40, rack by rack; one budget selects all of them and allows 10
/// evictions. Counted from the most important pod on, those of priority 40 use it up.
fn under_one_budget(rack: usize) -> Cluster {
    let place = |number: usize| node(&format!("node-{number:02}"), 1).label("rack", &format!("r{}", number / rack));
    let mut all: Vec<Built> = (0..80).map(place).collect();
    let low = |number: usize| pod(&format!("low-{number:02}")).priority([40, 10][number / 10 % 2]);
    all.extend((0..80).map(|number| low(number).label("app", "web").on(&format!("node-{number:02}"))));
    all.push(budget("web", "web", 10));
    cluster(&all)
}

/// What a budget allows is not used up by pods that stay.
#[test]
fn the_pods_of_lowest_priority_are_evicted_whatever_else_their_budget_selects() {
    for (rack, domain, members) in [(80, false, 10), (80, false, 1), (10, true, 10), (20, true, 10), (80, true, 4)] {
        let mut cluster = under_one_budget(rack);
        for object in waiting_gang("g", 50, members) {
            let topology = serde_json::json!({"topology": [{"key": "rack"}]});
            let constrained = domain && object.0["kind"] == "PodGroup";
            add(&mut cluster, &if constrained { object.set("/spec/schedulingConstraints", topology) } else { object });
        }
        let plan = planned(decide(&cluster, &for_group("g")));
        let cost = (plan.cost.budget_violations, plan.cost.highest_priority, plan.cost.victim_pods);
        assert_eq!(cost, (0, Some(10), members), "racks of {rack}: {:?}", plan.trace);
        assert_eq!(plan.trace.last().map(String::as_str), Some("Nothing cheaper exists."), "{:?}", plan.trace);
    }
}

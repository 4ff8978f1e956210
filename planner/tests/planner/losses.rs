//! What victims of one priority lose decides between them (step 9): those that fit on another node are evicted first, then those that lose
//! least work.

use crate::common::world::*;
use crate::common::*;
use giveway_planner::{Context, Plan, Preemptor, Strategy};
use proptest::prelude::{Strategy as _, prop_assert, prop_assert_eq};
use serde_json::json;

/// 2026-01-01T01:00:00Z in ns.
const NOW: i64 = 1_767_229_200_000_000_000;

fn started(built: Built, minutes_ago: usize) -> Built {
    built.set("/status/startTime", json!(format!("2026-01-01T00:{:02}:00Z", 60 - minutes_ago)))
}

/// A pod that only its own node admits, as that of a DaemonSet.
fn pinned(built: Built, node: &str) -> Built {
    built.set("/spec/nodeSelector", json!({"hostname": node}))
}

fn planned_by(strategy: Strategy, objects: &[Built], preemptor: &Preemptor) -> Plan {
    let cluster = cluster(objects);
    let plan = planned(plan(&cluster, preemptor, &Context { strategy, now: Some(NOW), ..Context::default() }));
    assert_eq!(check_plan(&cluster, preemptor, &plan), Ok(()));
    plan
}

/// Two full nodes and one with a free CPU, which is too small for the preemptor. On the full ones run a pod that fits nowhere else and one that does.
fn with_a_daemon(daemon_started: usize, other_started: usize) -> Vec<Built> {
    vec![
        node("a", 2),
        node("z", 1),
        started(pinned(pod("daemon").on("a"), "a"), daemon_started),
        started(pod("web").on("a"), other_started),
        pod("p").priority(10).set("/spec/nodeSelector", json!({"hostname": "a"})),
    ]
}

#[test]
fn a_pod_that_fits_on_another_node_is_evicted_instead_of_one_that_does_not() {
    for (daemon, web) in [(1, 50), (50, 1), (5, 5)] {
        let plan = planned_by(Strategy::LeastCost, &with_a_daemon(daemon, web), &for_pod("p"));
        assert_eq!((victims(&plan), plan.cost.stranded_pods), (vec!["web"], 0), "{daemon} {web}");
    }
    // The same for a gang.
    let mut all = with_a_daemon(1, 50);
    all.pop();
    all.extend([gang("g", 10, 1), pod("g-0").group("g").set("/spec/nodeSelector", json!({"hostname": "a"}))]);
    assert_eq!(victims(&planned_by(Strategy::LeastCost, &all, &for_group("g"))), ["web"]);
}

#[test]
fn on_capacity_that_the_plan_uses_itself_no_victim_fits() {
    // The members use the free CPU of the other node, so that no victim fits there.
    let mut all = with_a_daemon(1, 50);
    all.pop();
    all.extend(waiting_gang("g", 10, 2));
    let plan = planned_by(Strategy::LeastCost, &all, &for_group("g"));
    assert_eq!((victims(&plan), plan.cost.stranded_pods), (vec!["daemon"], 1), "it has lost less work");
}

#[test]
fn nodes_are_compared_by_it_as_well_in_clusters_of_any_size() {
    for nodes in [4, 70] {
        let name = |n: usize| format!("n{n:02}");
        let mut all: Vec<Built> = (0..nodes).map(|n| node(&name(n), 1)).collect();
        all.push(node("z", 1));
        all.push(pod("high").asks("cpu", "500m").priority(90).on("z"));
        // All run since one time, and only the small one fits beside `high`.
        all.extend((0..nodes).map(|n| {
            let pod = started(pod(&format!("low-{n:02}")).on(&name(n)), 30);
            if n == 2 { pod.asks("cpu", "500m") } else { pod }
        }));
        all.push(pod("p").priority(10));
        for strategy in Strategy::ALL {
            assert_eq!(victims(&planned_by(strategy, &all, &for_pod("p"))), ["low-02"], "{nodes} {strategy:?}");
        }
    }
}

#[test]
fn of_pods_that_fit_nowhere_else_the_one_that_loses_least_work_is_evicted() {
    // Two GPUs for 20 minutes are more than one for 30; without GPUs cores count.
    let gpus = |name: &str, gpus: &str, minutes| started(pod(name).asks("nvidia.com/gpu", gpus).on("a"), minutes);
    let all = vec![
        node("a", 8).offers("nvidia.com/gpu", "3"),
        gpus("two", "2", 20),
        gpus("one", "1", 30),
        pod("p").priority(10).asks("nvidia.com/gpu", "1"),
    ];
    let plan = planned_by(Strategy::LeastCost, &all, &for_pod("p"));
    assert_eq!((victims(&plan), plan.cost.lost_work.gpu_seconds), (vec!["one"], 30 * 60));
    let cores = |name: &str, cores: &str, minutes| started(pod(name).asks("cpu", cores).on("a"), minutes);
    let all = vec![node("a", 3), cores("two", "2", 20), cores("one", "1", 30), pod("p").priority(10)];
    let plan = planned_by(Strategy::LeastCost, &all, &for_pod("p"));
    assert_eq!((victims(&plan), plan.cost.lost_work.millicore_seconds), (vec!["one"], 30 * 60 * 1000));
    let without = planned(decide(&cluster(&all), &for_pod("p")));
    assert_eq!(victims(&without), ["two"], "without a time the latest start decides");
}

#[test]
fn many_members_spare_the_pods_of_daemons_on_every_node() {
    let mut all = vec![node("z", 30)];
    for n in 0..20 {
        let name = format!("n{n:02}");
        all.push(node(&name, 2).label("kind", "full"));
        all.push(started(pinned(pod(&format!("daemon-{n:02}")).on(&name), &name), 1));
        all.push(started(pod(&format!("web-{n:02}")).on(&name), 40));
    }
    all.push(gang("g", 10, 20));
    all.extend(
        (0..20).map(|m| pod(&format!("g-{m:02}")).group("g").set("/spec/nodeSelector", json!({"kind": "full"}))),
    );
    let plan = planned_by(Strategy::LeastCost, &all, &for_group("g"));
    assert!(victims(&plan).iter().all(|name| name.starts_with("web")), "{:?}", victims(&plan));
    assert_eq!(plan.cost.stranded_pods, 0);
}

/// On random clusters, compared with an exhaustive search.
#[test]
fn of_a_single_pod_no_plan_costs_less_in_the_whole_order() {
    let single = worlds(TINY).prop_map(|world| {
        let members = world.members[..1].to_vec();
        World { single: true, apart: false, members, need: 1, ..world }
    });
    let plans = for_all(3000, 71, single, |world| {
        if world.fits(&[], 1) {
            return Ok(false);
        }
        let cluster = cluster(&world.objects());
        let context = Context { now: Some(world.now()), ..Context::default() };
        let giveway_planner::Decision::Preempt(plan) = plan(&cluster, &world.preemptor(), &context) else {
            return Ok(false);
        };
        let Some(least) = world.least_losses_of_one() else { return Ok(false) };
        let said = &plan.cost;
        let main = (said.budget_violations, said.highest_priority, said.priority_sum);
        let cost = (main, said.stranded_pods, said.lost_work.millicore_seconds, said.victim_pods);
        let victims = world.chosen(&victim_uids(&plan));
        let node = plan.placements[0].node.trim_start_matches("node-").parse().unwrap();
        prop_assert_eq!(cost, world.losses(&victims, node), "the plan says what it costs");
        prop_assert!(cost <= least, "{:?} instead of {:?}", cost, least);
        Ok(!victims.is_empty())
    });
    assert!(plans > 300, "{plans}");
}

//! The three steps in which the rescheduler's design chooses a node, in order. In each step another node would suit a later step.

use super::{addon, after, create_with_grace, taints, victims, wait_plan, wait_untainted};
use crate::MINUTE;
use giveway_crds::plan::PlanState;
use giveway_tests::audit::{How, OPERATOR};
use giveway_tests::cluster::{Kit, Shaped, wait_for_event};
use giveway_tests::runner::Test;
use giveway_tests::tests;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            the_three_steps_are_tried_in_order,
            add_ons_respect_allowances_whole_groups_and_guaranteed_budgets;
    ]
}

async fn the_three_steps_are_tried_in_order() {
    let world = after("2s").start().await;
    world.nodes(1).cpus(2).prefix("gentle").create().await;
    world.nodes(1).cpus(2).prefix("slow").create().await;
    world.nodes(1).cpus(2).prefix("guarded").create().await;
    world.pod("a").on("gentle-000").grace_seconds(0).create().await;
    world.pod("b").on("gentle-000").grace_seconds(10).label("app", "b").create().await;
    let slow = create_with_grace(world.pod("slow").cpu(2).on("slow-000"), 3600).await;
    let web = world.pod("web").cpu(2).on("guarded-000").label("app", "web").grace_seconds(0).create().await;
    world.budget("web").matching("app", "web").min_available(1).create_allowing(0).await;

    // Two evictions within budget and grace period come before one with a shortened grace period or a violated budget.
    let first = addon(&world, "dns-1").cpu(2).create().await;
    assert_eq!(first.wait_bound(MINUTE).await, "gentle-000");
    let plan = wait_plan(&world, &first, PlanState::Completed).await;
    assert_eq!((plan.critical_addon.map(|addon| addon.step), victims(&plan)), (Some(1), vec!["a", "b"]));
    assert_eq!((plan.strategy.as_str(), plan.critical_addon.map(|addon| addon.taint)), ("critical-addon", Some(true)));
    assert_eq!(
        plan.reason,
        "2 pods are evicted to free node gentle-000 for pod kube-system/dns-1, a critical add-on with priority 0: no PodDisruptionBudget is violated, and no grace period is longer than 10 s."
    );

    let second = addon(&world, "dns-2").cpu(2).create().await;
    assert_eq!(second.wait_bound(MINUTE).await, "slow-000");
    let plan = wait_plan(&world, &second, PlanState::Completed).await;
    assert_eq!((plan.critical_addon.map(|addon| addon.step), victims(&plan)), (Some(2), vec!["slow"]));
    let event = slow.wait_event("Preempted", MINUTE).await;
    let elsewhere = format!("Preempted by a pod of another namespace (UID {})", second.uid);
    let words =
        " of priority 0, a critical add-on that needs its capacity. Its grace period of 3600 s is shortened to 10 s.";
    assert_eq!(event, format!("{elsewhere}{words}"));

    let third = addon(&world, "dns-3").cpu(2).create().await;
    assert_eq!(third.wait_bound(MINUTE).await, "guarded-000");
    let plan = wait_plan(&world, &third, PlanState::Completed).await;
    assert_eq!((plan.critical_addon.map(|addon| addon.step), victims(&plan)), (Some(3), vec!["web"]));
    assert_eq!(plan.cost.budget_violations, 1);
    let event = third.wait_event("Completed", MINUTE).await;
    assert_eq!(event, "The critical add-on was bound to node guarded-000; 1 of 1 pod was evicted.");

    // The requests in the audit log.
    let history = world.audit().await;
    let requests: Vec<(How, bool, Option<i32>)> = (history.removals.iter())
        .filter(|removal| removal.uid == web.uid && removal.user == OPERATOR && !removal.dry_run)
        .map(|removal| (removal.how, removal.accepted, removal.grace))
        .collect();
    assert_eq!(requests, [(How::Evict, false, None), (How::Delete, true, None)], "the Eviction API first, then DELETE");
    let graces: Vec<Option<i32>> =
        (history.evicted().iter()).filter(|r| r.uid == slow.uid).map(|removal| removal.grace).collect();
    assert_eq!(graces, [Some(10)]);

    // Events on the node.
    wait_untainted(&world).await;
    let nodes = Kit { namespace: "default".to_owned(), ..world.kit() };
    let kept = wait_for_event(&nodes, "Node", "slow-000", "ReservedForCriticalAddon", MINUTE).await;
    let taint = format!("The taint CriticalAddonsOnly={}:NoSchedule", second.uid);
    let preemptor = format!("a pod of another namespace (UID {}), a critical add-on,", second.uid);
    assert_eq!(kept, format!("{taint} keeps the node for {preemptor} until it is bound, for ten minutes at most."));
    let removed = wait_for_event(&nodes, "Node", "slow-000", "ReservationEnded", MINUTE).await;
    assert_eq!(removed, format!("{taint} for {preemptor} was removed."));
    let metrics = world.operator_metrics().await;
    for step in 1..=3 {
        let line = format!("giveway_operator_rescues_total{{step=\"{step}\"}} 1");
        assert!(metrics.contains(&line), "{metrics}");
    }
    assert!(metrics.contains("giveway_operator_rescue_seconds_count 3"), "{metrics}");

    // All nodes are now full of critical pods.
    let fourth = addon(&world, "dns-4").create().await;
    let event = fourth.wait_event("CriticalAddonUnschedulable", MINUTE).await;
    assert_eq!(
        event,
        "No node can be freed for it, so no pod is evicted. The nearest is gentle-000: without the 0 pods there that may be evicted it still lacks 1 cpu; 1 pod there cannot be evicted."
    );
    assert_eq!(world.audit().await.evicted().len(), 4);
    assert!(taints(&world).await.is_empty());
    world.check_promises().await;
}

async fn add_ons_respect_allowances_whole_groups_and_guaranteed_budgets() {
    let world = after("2s").start().await;
    world.class("batch", 10).managed().create().await;
    world.class("guaranteed", 100).threshold(1_000_000_000).create().await;
    let nodes = world.nodes(1).cpus(3).create().await;
    for name in ["w-1", "w-2", "w-3"] {
        world.pod(name).on(&nodes[0]).grace_seconds(0).label("app", "web").create().await;
    }
    world.budget("web").matching("app", "web").min_available(2).create_allowing(1).await;
    // The budget allows one of the three pods to be evicted; a second eviction violates it.
    let first = addon(&world, "dns-1").create().await;
    let plan = wait_plan(&world, &first, PlanState::Completed).await;
    assert_eq!((plan.critical_addon.map(|addon| addon.step), victims(&plan)), (Some(1), vec!["w-1"]));
    let second = addon(&world, "dns-2").create().await;
    let plan = wait_plan(&world, &second, PlanState::Completed).await;
    assert_eq!((plan.critical_addon.map(|addon| addon.step), victims(&plan)), (Some(3), vec!["w-2"]));

    // A group in mode `PodGroup` on two nodes is evicted completely, although the add-on needs the capacity of one pod.
    let pair = world.nodes(2).cpus(1).prefix("pair").create().await;
    let group = world.fill(&pair).priority("batch").grace_seconds(0).whole().groups_of(2).await;
    let third = addon(&world, "dns-3").node_selector("kubernetes.io/hostname", &pair[0]).create().await;
    assert_eq!(third.wait_bound(MINUTE).await, pair[0]);
    let plan = wait_plan(&world, &third, PlanState::Completed).await;
    assert_eq!((plan.critical_addon.map(|addon| addon.step), plan.cost.victim_pods), (Some(1), 2));
    group[0].wait_removed(MINUTE).await;

    // A guaranteed budget holds against an add-on of ordinary priority, in the third step too.
    let fourth = addon(&world, "dns-4").create().await;
    assert_eq!(fourth.wait_bound(MINUTE).await, pair[1], "the capacity of the group's other pod");
    let last = world.nodes(1).cpus(1).prefix("last").create().await;
    let db = world.pod("db").priority("guaranteed").on(&last[0]).label("app", "db").grace_seconds(0).create().await;
    world.budget("db").matching("app", "db").min_available(1).create_allowing(0).await;
    let picky = addon(&world, "dns-5").node_selector("kubernetes.io/hostname", &last[0]).create().await;
    let event = picky.wait_event("CriticalAddonUnschedulable", MINUTE).await;
    assert_eq!(
        event,
        "No node can be freed for it, so no pod is evicted. The nearest is last-000: without the 1 pod there that may be evicted it would fit, but too many of them belong to a budget of another namespace, which allows 0 more disruptions to preemptors below 1000000000; 0 pods there cannot be evicted. 3 node(s) didn't match Pod's node affinity/selector."
    );
    assert!(db.get().await.is_some());
    world.check_promises().await;
}

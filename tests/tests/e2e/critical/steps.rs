//! The three steps of the rescheduler's design in order, each with a decoy that the next one would take.

use super::{addon, after, taints, victims, wait_plan, wait_untainted, with_grace};
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
            gentle_evictions_then_shorter_graces_then_violated_budgets_then_the_numbers,
            a_budget_is_spent_once_a_group_goes_whole_and_a_guarantee_holds;
    ]
}

async fn gentle_evictions_then_shorter_graces_then_violated_budgets_then_the_numbers() {
    let world = after("2s").start().await;
    world.nodes(1).cpus(2).prefix("gentle").create().await;
    world.nodes(1).cpus(2).prefix("slow").create().await;
    world.nodes(1).cpus(2).prefix("guarded").create().await;
    world.pod("a").on("gentle-000").grace_seconds(0).create().await;
    world.pod("b").on("gentle-000").grace_seconds(10).label("app", "b").create().await;
    let slow = with_grace(world.pod("slow").cpu(2).on("slow-000"), 3600).await;
    let web = world.pod("web").cpu(2).on("guarded-000").label("app", "web").grace_seconds(0).create().await;
    world.budget("web").matching("app", "web").min_available(1).create_allowing(0).await;

    // Two pods that lose nothing weigh less than one whose grace is shortened, and than one whose budget is violated.
    let first = addon(&world, "dns-1").cpu(2).create().await;
    assert_eq!(first.wait_bound(MINUTE).await, "gentle-000");
    let plan = wait_plan(&world, &first, PlanState::Completed).await;
    assert_eq!((plan.critical_addon.map(|addon| addon.step), victims(&plan)), (Some(1), vec!["a", "b"]));
    assert_eq!((plan.strategy.as_str(), plan.critical_addon.map(|addon| addon.taint)), ("critical-addon", Some(true)));
    assert_eq!(
        plan.reason,
        "2 pods give way to critical add-on pod kube-system/dns-1 with priority 0 on node gentle-000 (step 1): their budgets hold, and none has a longer grace than 10 s."
    );

    let second = addon(&world, "dns-2").cpu(2).create().await;
    assert_eq!(second.wait_bound(MINUTE).await, "slow-000");
    let plan = wait_plan(&world, &second, PlanState::Completed).await;
    assert_eq!((plan.critical_addon.map(|addon| addon.step), victims(&plan)), (Some(2), vec!["slow"]));
    let told = slow.wait_event("Preempted", MINUTE).await;
    let elsewhere = format!("Preempted by a pod of another namespace (UID {})", second.uid);
    let words = " of priority 0, a critical add-on, to make room for it. Its grace of 3600 s is shortened to 10 s.";
    assert_eq!(told, format!("{elsewhere}{words}"));

    let third = addon(&world, "dns-3").cpu(2).create().await;
    assert_eq!(third.wait_bound(MINUTE).await, "guarded-000");
    let plan = wait_plan(&world, &third, PlanState::Completed).await;
    assert_eq!((plan.critical_addon.map(|addon| addon.step), victims(&plan)), (Some(3), vec!["web"]));
    assert_eq!(plan.cost.budget_violations, 1);
    let told = third.wait_event("Completed", MINUTE).await;
    assert_eq!(told, "It was bound to node guarded-000; 1 of 1 pod gave way.");

    // What happened, as the audit log has it.
    let history = world.audit().await;
    let asked: Vec<(How, bool, Option<i32>)> = (history.removals.iter())
        .filter(|removal| removal.uid == web.uid && removal.user == OPERATOR)
        .map(|removal| (removal.how, removal.accepted, removal.grace))
        .collect();
    assert_eq!(asked, [(How::Evict, false, None), (How::Delete, true, None)], "the eviction API first, then DELETE");
    let graces: Vec<Option<i32>> =
        (history.evicted().iter()).filter(|r| r.uid == slow.uid).map(|removal| removal.grace).collect();
    assert_eq!(graces, [Some(10)]);

    // Events on the node, and the history.
    wait_untainted(&world).await;
    let nodes = Kit { namespace: "default".to_owned(), ..world.kit() };
    let kept = wait_for_event(&nodes, "Node", "slow-000", "KeptForCriticalAddon", MINUTE).await;
    let taint = format!("The taint CriticalAddonsOnly={}:NoSchedule", second.uid);
    let who = format!("critical add-on a pod of another namespace (UID {})", second.uid);
    assert_eq!(kept, format!("{taint} keeps the node for {who} until it is bound, for ten minutes at most."));
    let removed = wait_for_event(&nodes, "Node", "slow-000", "NotKeptAnyMore", MINUTE).await;
    assert_eq!(removed, format!("{taint} for {who} was removed."));
    let metrics = world.operator_metrics().await;
    for step in 1..=3 {
        let line = format!("giveway_operator_rescues_total{{step=\"{step}\"}} 1");
        assert!(metrics.contains(&line), "{metrics}");
    }
    assert!(metrics.contains("giveway_operator_rescue_seconds_count 3"), "{metrics}");

    // Every node is full of critical pods now.
    let fourth = addon(&world, "dns-4").create().await;
    let told = fourth.wait_event("CriticalAddonUnschedulable", MINUTE).await;
    assert_eq!(
        told,
        "No node can be freed for it, so nobody is evicted. The nearest is gentle-000: without the 0 pods there that may go it still lacks 1 cpu; 1 pod there stays."
    );
    assert_eq!(world.audit().await.evicted().len(), 4);
    assert!(taints(&world).await.is_empty());
    world.check_promises().await;
}

async fn a_budget_is_spent_once_a_group_goes_whole_and_a_guarantee_holds() {
    let world = after("2s").start().await;
    world.class("batch", 10).managed().create().await;
    world.class("guaranteed", 100).threshold(1_000_000_000).create().await;
    let nodes = world.nodes(1).cpus(3).create().await;
    for name in ["w-1", "w-2", "w-3"] {
        world.pod(name).on(&nodes[0]).grace_seconds(0).label("app", "web").create().await;
    }
    world.budget("web").matching("app", "web").min_available(2).create_allowing(1).await;
    // One of three may go without violating the budget, the second one not.
    let first = addon(&world, "dns-1").create().await;
    let plan = wait_plan(&world, &first, PlanState::Completed).await;
    assert_eq!((plan.critical_addon.map(|addon| addon.step), victims(&plan)), (Some(1), vec!["w-1"]));
    let second = addon(&world, "dns-2").create().await;
    let plan = wait_plan(&world, &second, PlanState::Completed).await;
    assert_eq!((plan.critical_addon.map(|addon| addon.step), victims(&plan)), (Some(3), vec!["w-2"]));

    // A group of two on two nodes goes whole, although one place would do.
    let pair = world.nodes(2).cpus(1).prefix("pair").create().await;
    let group = world.fill(&pair).priority("batch").grace_seconds(0).whole().groups_of(2).await;
    let third = addon(&world, "dns-3").node_selector("kubernetes.io/hostname", &pair[0]).create().await;
    assert_eq!(third.wait_bound(MINUTE).await, pair[0]);
    let plan = wait_plan(&world, &third, PlanState::Completed).await;
    assert_eq!((plan.critical_addon.map(|addon| addon.step), plan.cost.victim_pods), (Some(1), 2));
    group[0].wait_gone(MINUTE).await;

    // A guaranteed budget holds against an add-on of ordinary priority, in the third step too.
    let fourth = addon(&world, "dns-4").create().await;
    assert_eq!(fourth.wait_bound(MINUTE).await, pair[1], "the other place of the group");
    let last = world.nodes(1).cpus(1).prefix("last").create().await;
    let db = world.pod("db").priority("guaranteed").on(&last[0]).label("app", "db").grace_seconds(0).create().await;
    world.budget("db").matching("app", "db").min_available(1).create_allowing(0).await;
    let picky = addon(&world, "dns-5").node_selector("kubernetes.io/hostname", &last[0]).create().await;
    let told = picky.wait_event("CriticalAddonUnschedulable", MINUTE).await;
    assert_eq!(
        told,
        "No node can be freed for it, so nobody is evicted. The nearest is last-000: without the 1 pod there that may go it would have room, but too many of them are of a budget of another namespace, which allows 0 more disruptions to preemptors below 1000000000; 0 pods there stay. 3 node(s) didn't match Pod's node affinity/selector."
    );
    assert!(db.get().await.is_some());
    world.check_promises().await;
}

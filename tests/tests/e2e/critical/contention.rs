//! Others who want the place: while the taint is on, and after.

use super::{addon, after, wait_plan, wait_tainted, wait_untainted};
use crate::MINUTE;
use giveway_crds::plan::PlanState;
use giveway_crds::{Preemption, keys};
use giveway_tests::cluster::Shaped;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use kube::Api;
use kube::api::ListParams;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            the_place_is_the_addons_while_its_victims_leave_and_afterwards,
            who_tolerates_the_taint_gets_nothing_by_it,
            two_addons_are_helped_one_after_the_other_the_more_important_one_first;
    ]
}

async fn the_place_is_the_addons_while_its_victims_leave_and_afterwards() {
    let world = after("2s").start().await;
    world.class("high", 1000).never().create().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    // One place is free in a moment, the other one only after 5 seconds.
    let quick = world.pod("quick").on(&nodes[0]).grace_seconds(0).create().await;
    let slow = world.pod("slow").on(&nodes[0]).grace_seconds(5).create().await;
    let thief = world.pod("thief").priority("high").create().await;
    thief.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    let dns = addon(&world, "dns").cpu(2).create().await;
    assert_eq!(wait_tainted(&world, &dns).await, nodes[0]);
    quick.wait_gone(MINUTE).await;
    // kube-scheduler looks at the place and leaves it alone, however important the other pod is.
    let why = thief.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    // Nor does it help to ask no scheduler.
    let direct = world.pod("direct").on(&nodes[0]).try_create().await.err().map(|error| error.to_string());
    let words = format!(
        "node {} is kept for a critical add-on (pod with UID {}) until that is bound, for ten minutes at most",
        nodes[0], dns.uid
    );
    assert!(direct.as_ref().is_some_and(|refusal| refusal.contains(&words)), "{direct:?}");
    assert!(slow.get().await.is_some(), "the taint is on still");
    let bound = dns.wait_bound(MINUTE).await;
    assert_eq!(bound, nodes[0], "{why}");
    wait_plan(&world, &dns, PlanState::Completed).await;
    wait_untainted(&world).await;
    let plans = Api::<Preemption>::all(world.client());
    wait_for("no plan says that it keeps a node", MINUTE, async || {
        let kept = plans.list(&ListParams::default().labels(keys::LABEL_KEEPS_NODE)).await;
        let kept = kept.map_err(|error| error.to_string())?.items;
        if kept.is_empty() { Ok(()) } else { Err(format!("{} do", kept.len())) }
    })
    .await;
    thief.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    let bindings = world.audit().await.bindings;
    assert!(bindings.iter().all(|binding| binding.pod.1 != "thief"), "{bindings:?}");
    world.check_promises().await;
}

async fn who_tolerates_the_taint_gets_nothing_by_it() {
    let world = after("3s").start().await;
    let nodes = world.nodes(1).cpus(3).create().await;
    world.fill(&nodes).grace_seconds(0).singles().await;
    // A tenant's pods wait already, look at the node first, and tolerate everything.
    let thief = |name: &str| world.pod(name).tolerate(keys::TAINT_CRITICAL);
    let thieves = [thief("thief-0").create().await, thief("thief-1").create().await, thief("thief-2").create().await];
    for thief in &thieves {
        thief.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    }
    let dns = addon(&world, "dns").cpu(2).create().await;
    assert_eq!(dns.wait_bound(MINUTE).await, nodes[0]);
    wait_plan(&world, &dns, PlanState::Completed).await;
    let history = world.audit().await;
    assert_eq!(history.evicted().len(), 2, "nobody else went");
    assert!(history.bindings.iter().all(|binding| !binding.pod.1.starts_with("thief")), "{:?}", history.bindings);
    world.check_promises().await;
}

async fn two_addons_are_helped_one_after_the_other_the_more_important_one_first() {
    let mut world = after("3s").start().await;
    world.class("better", 1000).never().create().await;
    let nodes = world.nodes(2).cpus(1).create().await;
    world.fill(&nodes).grace_seconds(3).singles().await;
    // Both have waited for equally long in the eyes of an operator that starts when they wait already.
    world.operator().kill();
    let plain = addon(&world, "a-plain").create().await;
    let better = addon(&world, "b-better").priority("better").create().await;
    for addon in [&plain, &better] {
        addon.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    }
    world.operator().start().await;
    better.wait_bound(MINUTE).await;
    plain.wait_bound(MINUTE).await;
    let (first, second) =
        (wait_plan(&world, &better, PlanState::Completed).await, wait_plan(&world, &plain, PlanState::Completed).await);
    assert!(first.planned_at < second.planned_at, "{:?} {:?}", first.planned_at, second.planned_at);
    wait_untainted(&world).await;
    // The oracle has seen that never two nodes were tainted.
    world.check_promises().await;
}

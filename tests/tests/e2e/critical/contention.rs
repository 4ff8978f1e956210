//! Other pods that fit on the node of an add-on, while the node has the taint and afterwards.

use super::{addon, after, system, wait_plan, wait_tainted, wait_untainted};
use crate::MINUTE;
use crate::forbidden::deny_bindings;
use giveway_crds::plan::PlanState;
use giveway_crds::{Preemption, keys};
use giveway_tests::audit::Promises;
use giveway_tests::cluster::{PodBuilder, Shaped};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            no_other_pod_is_bound_to_the_node_while_victims_terminate_and_afterwards,
            pods_that_tolerate_the_taint_are_not_bound_before_the_add_on,
            two_add_ons_are_placed_one_at_a_time_in_order_of_priority;
        release:
            an_add_on_that_is_never_bound_gives_its_turn_to_the_next_one;
    ]
}

async fn no_other_pod_is_bound_to_the_node_while_victims_terminate_and_afterwards() {
    let world = after("2s").start().await;
    world.class("high", 1000).never().create().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    // One victim terminates immediately, the other one after 5 s.
    let quick = world.pod("quick").on(&nodes[0]).grace_seconds(0).create().await;
    let slow = world.pod("slow").on(&nodes[0]).grace_seconds(5).create().await;
    let rival = world.pod("rival").priority("high").create().await;
    rival.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    let dns = addon(&world, "dns").cpu(2).create().await;
    assert_eq!(wait_tainted(&world, &dns).await, nodes[0]);
    quick.wait_removed(MINUTE).await;
    // kube-scheduler does not use the free capacity, although the rival has a higher priority.
    let why = rival.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    // A pod with `spec.nodeName` set by its creator is rejected too.
    let direct = world.pod("direct").on(&nodes[0]).try_create().await.err().map(|error| error.to_string());
    let words = format!(
        "node {} is kept for a critical add-on (pod with UID {}) until the add-on is bound, for at most ten minutes",
        nodes[0], dns.uid
    );
    assert!(direct.as_ref().is_some_and(|refusal| refusal.contains(&words)), "{direct:?}");
    // A pod of kube-system, such as an agent of the node's network, is not.
    let agent = PodBuilder::new(system(&world), "agent").on(&nodes[0]).build();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    system(&world).api::<Pod>().create(&dry, &agent).await.unwrap();
    assert!(slow.get().await.is_some(), "the second victim has not terminated, so the node still has the taint");
    let bound = dns.wait_bound(MINUTE).await;
    assert_eq!(bound, nodes[0], "{why}");
    wait_plan(&world, &dns, PlanState::Completed).await;
    wait_untainted(&world).await;
    let plans = Api::<Preemption>::all(world.client());
    wait_for("no plan has the label of a kept node", MINUTE, async || {
        let kept = plans.list(&ListParams::default().labels(keys::LABEL_KEEPS_NODE)).await;
        let kept = kept.map_err(|error| error.to_string())?.items;
        if kept.is_empty() { Ok(()) } else { Err(format!("{} plans have it", kept.len())) }
    })
    .await;
    rival.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    let bindings = world.audit().await.bindings;
    assert!(bindings.iter().all(|binding| binding.pod.1 != "rival"), "{bindings:?}");
    world.check_promises().await;
}

async fn pods_that_tolerate_the_taint_are_not_bound_before_the_add_on() {
    let world = after("3s").start().await;
    let nodes = world.nodes(1).cpus(3).create().await;
    world.fill(&nodes).grace_seconds(0).singles().await;
    // Pods of a tenant that tolerate the taint are pending before the add-on, so kube-scheduler tries them first.
    let rival = |name: &str| world.pod(name).tolerate(keys::TAINT_CRITICAL);
    let rivals = [rival("rival-0").create().await, rival("rival-1").create().await, rival("rival-2").create().await];
    for rival in &rivals {
        rival.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    }
    let dns = addon(&world, "dns").cpu(2).create().await;
    assert_eq!(dns.wait_bound(MINUTE).await, nodes[0]);
    wait_plan(&world, &dns, PlanState::Completed).await;
    let history = world.audit().await;
    assert_eq!(history.evicted().len(), 2, "only two pods are evicted");
    assert!(history.bindings.iter().all(|binding| !binding.pod.1.starts_with("rival")), "{:?}", history.bindings);
    world.check_promises().await;
}

async fn two_add_ons_are_placed_one_at_a_time_in_order_of_priority() {
    let mut world = after("3s").start().await;
    world.class("better", 1000).never().create().await;
    let nodes = world.nodes(2).cpus(1).create().await;
    world.fill(&nodes).grace_seconds(3).singles().await;
    // The operator starts when both add-ons are already pending, so for the operator both have waited equally long.
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
    // The oracle checks that never two nodes had a taint at once.
    world.check_promises().await;
}

async fn an_add_on_that_is_never_bound_gives_its_turn_to_the_next_one() {
    let world = after("2s").start().await;
    let nodes = world.nodes(2).cpus(1).create().await;
    world.fill(&nodes).grace_seconds(0).singles().await;
    deny_bindings(&world, "stuck", &nodes[0]).await;
    let on = |name: &str, node: &str| addon(&world, name).node_selector("kubernetes.io/hostname", node);
    let stuck = on("stuck", &nodes[0]).create().await;
    assert_eq!(wait_tainted(&world, &stuck).await, nodes[0]);
    let dns = on("dns", &nodes[1]).create().await;
    assert_eq!(dns.wait_bound(3 * MINUTE).await, nodes[1], "after a minute");
    let plan = wait_plan(&world, &stuck, PlanState::Failed).await;
    assert!(plan.message.contains("stuck pods are not bound"), "{}", plan.message);
    let stored = Api::<Preemption>::all(world.client()).get(&plan.id).await.unwrap();
    let bans = stored.status.unwrap_or_default().bans;
    assert_eq!(bans.iter().map(|ban| ban.node.as_deref()).collect::<Vec<_>>(), [Some(nodes[0].as_str())]);
    wait_untainted(&world).await;
    world.check(&Promises::new().excuse_unbound("stuck", 1)).await;
}

//! The cluster changes while a plan is carried out.

use crate::{MINUTE, SCHEDULED, told};
use futures::future::join_all;
use giveway_crds::plan::PlanState;
use giveway_tests::audit::Promises;
use giveway_tests::cluster::{GRACE_SECONDS, Group, Shaped};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_pod_that_its_owner_gave_years_to_end_keeps_no_room;
        release_shared:
            a_victim_that_never_goes_is_not_waited_for_and_the_group_says_which_one_it_is;
        own:
            two_nodes_of_a_plan_are_cordoned_after_its_first_eviction,
            a_gang_that_the_scheduler_binds_slowly_is_not_withdrawn_half_way;
        release:
            a_gang_of_two_thousand_is_bound_at_the_rate_of_the_scheduler,
            members_made_anew_while_their_group_is_evicted_wait_for_a_whole_gang,
            an_urgent_plan_has_its_turn_before_the_rest_of_a_large_one,
            the_api_server_is_killed_while_victims_are_evicted_and_comes_back,
            a_plan_whose_nodes_a_more_important_one_takes_gives_way_at_once;
    ]
}

/// Waits until so many pods were evicted at least, and says which nodes they had.
async fn evicted(world: &World, at_least: usize) -> BTreeSet<String> {
    wait_for("victims are evicted", MINUTE, async || {
        let history = world.audit().await;
        let nodes: BTreeSet<String> = history
            .evicted()
            .iter()
            .filter_map(|removal| Some(history.pods.get(&removal.uid)?.bound.as_ref()?.1.clone()))
            .collect();
        if nodes.len() >= at_least { Ok(nodes) } else { Err(format!("{nodes:?}")) }
    })
    .await
}

async fn two_nodes_of_a_plan_are_cordoned_after_its_first_eviction() {
    let world = World::builder().operator_flag("--evictions-per-second=1").start().await;
    world.class("low", 10).managed().create().await;
    world.class("middle", 20).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(6).cpus(1).prefix("first").create().await;
    world.fill(&nodes).prefix("low").priority("low").singles().await;
    let others = world.nodes(2).cpus(1).prefix("second").create().await;
    world.fill(&others).prefix("middle").priority("middle").singles().await;
    let gang = world.gang("train", 6).priority("high").create().await;
    let begun = evicted(&world, 1).await;
    // Those whose turn comes last, and at once: kubectl takes as long as an eviction.
    let left = nodes.iter().rev().filter(|node| !begun.contains(*node)).take(2);
    let (api, cordon) = (Api::<Node>::all(world.client()), Patch::Merge(json!({"spec": {"unschedulable": true}})));
    let params = PatchParams::default();
    join_all(left.map(|node| api.patch(node, &params, &cordon))).await.into_iter().for_each(|node| drop(node.unwrap()));
    gang.wait_bound(MINUTE).await;
    let message = gang.wait_event("Cancelled", MINUTE).await;
    assert!(
        message.starts_with("The plan does not fit any more; nobody else is evicted: Pod default/train-"),
        "{message}"
    );
    assert!(message.ends_with(" any more: the node is unschedulable."), "{message}");
    let history = world.audit().await;
    let names = history.evicted_names();
    let middle = names.iter().filter(|name| name.contains("middle")).count();
    // One eviction may have been under way while the node was cordoned.
    assert!(middle == 2 && (6..=7).contains(&names.len()), "{names:?}");
    world.check_promises().await;
}

async fn members_made_anew_while_their_group_is_evicted_wait_for_a_whole_gang() {
    let world = World::builder().operator_flag("--evictions-per-second=1").start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let taken = world.nodes(1).cpus(4).prefix("taken").label("pool", "taken").create().await;
    // Room for those that are made anew: only the barrier keeps them from starting.
    world.nodes(1).cpus(3).prefix("free").create().await;
    let batch = world.gang("batch", 4).whole().priority("low").on(&taken).create().await;
    let gang = world.gang("train", 4).priority("high").node_selector("pool", "taken").create().await;
    evicted(&world, 1).await;
    // As a controller does: other names, no node.
    let mut again = world.gang("batch", 4).priority("low").without_group();
    again.pods.clone_from(&batch.pods);
    again.add_pods(3).await;
    gang.wait_bound(MINUTE).await;
    batch.wait_gone(MINUTE).await;
    let words = "Was scheduled; now waits again. 4 pods needed, 3 exist. None starts before all 4 have a place.";
    told(&batch, SCHEDULED, "True WaitingForPods", words).await;
    let history = world.audit().await;
    let alone = |name: &str| history.bindings.iter().any(|binding| binding.pod.1 == name);
    assert!(!["batch-4", "batch-5", "batch-6"].into_iter().any(alone), "members started beside those that were going");
    world.nodes(1).cpus(1).prefix("late").create().await;
    again.add_pods(1).await;
    again.pods.drain(..4);
    again.wait_bound(MINUTE).await;
    world.check_promises().await;
}

async fn an_urgent_plan_has_its_turn_before_the_rest_of_a_large_one() {
    let world = World::builder().operator_flag("--evictions-per-second=1").start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    world.class("urgent", 2000).managed().create().await;
    let nodes = world.nodes(1).cpus(30).label("pool", "large").create().await;
    world.fill(&nodes).prefix("many").priority("low").singles().await;
    let small = world.nodes(1).cpus(1).label("pool", "small").prefix("small").create().await;
    world.fill(&small).prefix("one").priority("low").singles().await;
    let large = world.gang("large", 30).priority("high").node_selector("pool", "large").create().await;
    evicted(&world, 1).await;
    let urgent = world.gang("urgent", 1).priority("urgent").node_selector("pool", "small").create().await;
    urgent.wait_bound(MINUTE).await;
    let names = world.audit().await.evicted_names();
    assert!(names.iter().any(|name| name.contains("one")), "{names:?}");
    assert!(names.len() < 20, "{} were evicted before: it waited for the others", names.len());
    // Thirty seconds of evictions are no use here: what was not asked for yet stays.
    large.delete().await;
    world.check(&Promises::new().excuse_unbound("large", 20)).await;
}

async fn a_gang_that_the_scheduler_binds_slowly_is_not_withdrawn_half_way() {
    let world = World::builder().operator_flag("--release-timeout-seconds=1").start().await;
    world.class("high", 1000).managed().create().await;
    world.nodes(10).cpus(32).create().await;
    let gang = world.gang("train", 300).priority("high").create().await;
    bound_in_one_go(&gang, 2 * MINUTE).await;
    world.check_promises().await;
}

async fn a_gang_of_two_thousand_is_bound_at_the_rate_of_the_scheduler() {
    let world = World::start().await;
    world.class("high", 1000).managed().create().await;
    world.nodes(20).cpus(100).create().await;
    // Binding takes 40 seconds at 50 a second: longer than the time-out of 30 seconds, which progress extends.
    let gang = world.gang("train", 2_000).priority("high").create().await;
    bound_in_one_go(&gang, 5 * MINUTE).await;
    world.check_promises().await;
}

/// The gang is bound, and its plan was neither given up nor withdrawn on the way.
async fn bound_in_one_go(gang: &Group, limit: Duration) {
    gang.wait_bound(limit).await;
    let events: Vec<String> = gang.events().await.into_iter().map(|event| event.reason).collect();
    assert!(!events.iter().any(|reason| reason == "Failed" || reason == "Cancelled"), "{events:?}");
}

async fn the_api_server_is_killed_while_victims_are_evicted_and_comes_back() {
    // As long as the lease lives the operator waits for the API server, which takes its time to start on a busy machine.
    let flags = ["--evictions-per-second=2", "--lease-duration-seconds=60"];
    let mut world = flags.iter().fold(World::builder(), |world, flag| world.operator_flag(flag)).start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(4).create().await;
    world.fill(&nodes).priority("low").whole().groups_of(8).await;
    let gang = world.gang("train", 8).priority("high").create().await;
    wait_for("the first pod is evicted", MINUTE, async || {
        let evicted = world.audit().await.evicted().len();
        if evicted > 0 { Ok(()) } else { Err("none is".to_owned()) }
    })
    .await;
    let plane = world.plane();
    plane.restart("kube-apiserver").unwrap();
    // kube-scheduler ends when it cannot renew its lease for ten seconds: a kubelet starts it again.
    let kubelet = async {
        loop {
            if plane.process("kube-scheduler").is_none_or(|process| process.exited().is_some()) {
                plane.restart("kube-scheduler").unwrap();
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::select! {
        _ = gang.wait_bound(3 * MINUTE) => {}
        () = kubelet => {}
    }
    gang.wait_plan(PlanState::Completed, MINUTE).await;
    let history = world.audit().await;
    let uids: BTreeSet<&str> = history.evicted().iter().map(|removal| removal.uid.as_str()).collect();
    assert_eq!((history.evicted().len(), uids.len()), (8, 8), "each victim once");
    world.check_promises().await;
}

async fn a_pod_that_its_owner_gave_years_to_end_keeps_no_room(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(1).create().await;
    world.pod("slow").cpu(1).priority("low").on(&nodes[0]).grace_seconds(86_400).create().await;
    world.kubectl(&["wait", "pod", "slow", "--for=condition=Ready", "--timeout=60s"]).await.unwrap();
    world.kubectl(&["delete", "pod", "slow", "--grace-period=864000", "--wait=false"]).await.unwrap();
    let gang = world.gang("train", 1).priority("high").create().await;
    let pods = world.kit().api::<Pod>();
    let slow = wait_for("it is told to go within an hour", MINUTE, async || {
        let slow = pods.get("slow").await.map_err(|error| error.to_string())?;
        let given = slow.metadata.deletion_grace_period_seconds;
        if given == Some(3600) { Ok(slow) } else { Err(format!("{given:?}")) }
    })
    .await;
    let conditions = slow.status.and_then(|status| status.conditions).unwrap_or_default();
    let message = conditions.iter().find(|c| c.type_ == "DisruptionTarget").and_then(|c| c.message.clone());
    assert!(message.is_some(), "it is told why: {conditions:?}");
    pods.delete("slow", &DeleteParams::default().grace_period(0)).await.unwrap();
    gang.wait_bound(MINUTE).await;
    world.check_promises().await;
}

async fn a_plan_whose_nodes_a_more_important_one_takes_gives_way_at_once() {
    let world = World::builder().operator_flag("--evictions-per-second=1").start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    world.class("urgent", 2000).managed().create().await;
    let nodes = world.nodes(8).cpus(1).create().await;
    world.fill(&nodes).priority("low").singles().await;
    let gang = world.gang("train", 8).priority("high").create().await;
    evicted(&world, 1).await;
    let urgent = world.gang("urgent", 8).priority("urgent").create().await;
    urgent.wait_bound(2 * MINUTE).await;
    let message = gang.wait_event("Cancelled", MINUTE).await;
    assert!(message.starts_with("The plan does not fit any more; nobody else is evicted: "), "{message}");
    told(
        &gang,
        SCHEDULED,
        "False Unschedulable",
        "8 pods needed, 0 fit now. Missing 8 cpu. No workload has a priority below 1000.",
    )
    .await;
    let history = world.audit().await;
    let uids: BTreeSet<&str> = history.evicted().iter().map(|removal| removal.uid.as_str()).collect();
    assert_eq!((history.evicted().len(), uids.len()), (8, 8), "each victim once");
    let plan_of = |removal| history.plan_of(removal).map(|record| record.plan.preemptor.name.clone());
    let mine = history.evicted().iter().filter(|removal| plan_of(removal).as_deref() == Some("train")).count();
    // Before the urgent one was there: one a second, and its pods take a moment to create.
    assert!((1..8).contains(&mine), "{mine} went for the first gang");
    gang.delete().await;
    world.check(&Promises::new().excuse_unbound("train", mine)).await;
}

async fn a_victim_that_never_goes_is_not_waited_for_and_the_group_says_which_one_it_is(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("middle", 20).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(1).create().await;
    // Its node says nothing of it any more.
    let stuck = world.pod("stuck").cpu(1).priority("low").grace_seconds(1).annotation(GRACE_SECONDS, "86400");
    let stuck = stuck.on(&nodes[0]).create().await;
    world.pod("other").cpu(1).priority("middle").on(&nodes[1]).grace_seconds(1).create().await;
    let gang = world.gang("train", 1).priority("high").create().await;
    gang.wait_bound(2 * MINUTE).await;
    let message = gang.wait_event("Cancelled", MINUTE).await;
    let words = "Pod default/stuck should have been gone by now and nobody waits for it any more: ";
    assert!(message.starts_with(words), "{message}");
    assert_eq!(world.audit().await.evicted_names(), ["other", "stuck"]);
    world.kit().api::<Pod>().delete("stuck", &DeleteParams::default().grace_period(0)).await.unwrap();
    stuck.wait_gone(MINUTE).await;
    world.check(&Promises::new().allow_in_vain(1)).await;
}

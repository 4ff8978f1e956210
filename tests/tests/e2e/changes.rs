//! Changes of the cluster between a plan and its completion.

use crate::{INITIALLY_SCHEDULED, MINUTE, expect_condition};
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
            a_plan_is_not_cancelled_while_one_of_its_nodes_is_not_ready_for_some_seconds,
            a_terminating_pod_with_a_long_grace_period_gets_at_most_an_hour;
        release_shared:
            a_victim_that_does_not_terminate_cancels_the_plan_and_is_named_in_an_event;
        own:
            a_plan_is_replaced_if_two_of_its_nodes_are_cordoned_after_the_first_eviction,
            a_slowly_bound_gang_is_not_withdrawn,
            plans_are_kept_while_a_slow_scheduler_binds_other_gangs;
        release:
            a_gang_of_2000_pods_is_bound_at_the_rate_of_the_scheduler,
            replacement_pods_stay_gated_until_their_gang_is_complete,
            evictions_of_an_urgent_plan_precede_the_rest_of_a_large_plan,
            a_plan_is_completed_after_the_api_server_restarts_during_evictions,
            a_plan_is_cancelled_if_a_plan_of_higher_priority_uses_its_nodes;
    ]
}

/// Waits until pods on at least `at_least` nodes were evicted, and returns the names of these nodes.
async fn wait_evicted_nodes(world: &World, at_least: usize) -> BTreeSet<String> {
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

async fn a_plan_is_replaced_if_two_of_its_nodes_are_cordoned_after_the_first_eviction() {
    let world = World::builder().operator_flag("--evictions-per-second=1").start().await;
    world.class("low", 10).managed().create().await;
    world.class("middle", 20).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(6).cpus(1).prefix("first").create().await;
    world.fill(&nodes).prefix("low").priority("low").singles().await;
    let others = world.nodes(2).cpus(1).prefix("second").create().await;
    world.fill(&others).prefix("middle").priority("middle").singles().await;
    let gang = world.gang("train", 6).priority("high").create().await;
    let emptied = wait_evicted_nodes(&world, 1).await;
    // Cordons the two nodes whose pods are evicted last, both at once and through the API: kubectl takes as long as an eviction.
    let left = nodes.iter().rev().filter(|node| !emptied.contains(*node)).take(2);
    let (api, cordon) = (Api::<Node>::all(world.client()), Patch::Merge(json!({"spec": {"unschedulable": true}})));
    let params = PatchParams::default();
    join_all(left.map(|node| api.patch(node, &params, &cordon))).await.into_iter().for_each(|node| drop(node.unwrap()));
    gang.wait_bound(MINUTE).await;
    let message = gang.wait_event("Cancelled", MINUTE).await;
    assert!(
        message.starts_with("The plan does not fit any more; no other pod is evicted: Pod default/train-"),
        "{message}"
    );
    assert!(message.ends_with(" any more: the node is unschedulable."), "{message}");
    let history = world.audit().await;
    let names = history.evicted_names();
    let middle = names.iter().filter(|name| name.contains("middle")).count();
    // One eviction may have been in progress while the node was cordoned.
    assert!(middle == 2 && (6..=7).contains(&names.len()), "{names:?}");
    world.check_promises().await;
}

/// Makes a fake node not ready, as if its kubelet reported that, and waits for the taint of the node controller.
async fn set_not_ready(nodes: &Api<Node>, name: &str) {
    let unmanaged = Patch::Merge(json!({"metadata": {"annotations": {"kwok.x-k8s.io/node": null}}}));
    nodes.patch(name, &PatchParams::default(), &unmanaged).await.unwrap();
    let now = jiff::Timestamp::now().to_string();
    let condition = json!({"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "a test says so",
        "lastHeartbeatTime": now, "lastTransitionTime": now});
    let status = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    nodes.patch_status(name, &PatchParams::default(), &status).await.unwrap();
    wait_for("the node has the taint not-ready", MINUTE, async || {
        let taints = nodes.get(name).await.map_err(|error| error.to_string())?.spec.and_then(|spec| spec.taints);
        let tainted = taints.iter().flatten().any(|taint| taint.key == "node.kubernetes.io/not-ready");
        if tainted { Ok(()) } else { Err(format!("{taints:?}")) }
    })
    .await;
}

async fn a_plan_is_not_cancelled_while_one_of_its_nodes_is_not_ready_for_some_seconds(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("middle", 20).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(2).prefix("first").create().await;
    world.fill(&nodes).prefix("low").priority("low").grace_seconds(5).singles().await;
    // Another plan would evict these.
    let others = world.nodes(2).cpus(2).prefix("second").create().await;
    world.fill(&others).prefix("middle").priority("middle").singles().await;
    let gang = world.gang("train", 4).priority("high").create().await;
    let plan = gang.wait_plan(PlanState::WaitingForVictims, MINUTE).await;
    let api = Api::<Node>::all(world.client());
    set_not_ready(&api, &nodes[1]).await;
    // The operator has decided again after that when it has looked at this gang.
    let probe = world.gang("probe", 9).priority("low").create().await;
    probe.wait_condition(INITIALLY_SCHEDULED, "False", "Unschedulable", MINUTE).await;
    let managed = Patch::Merge(json!({"metadata": {"annotations": {"kwok.x-k8s.io/node": "fake"}}}));
    api.patch(&nodes[1], &PatchParams::default(), &managed).await.unwrap();
    gang.wait_bound(MINUTE).await;
    assert_eq!(gang.wait_plan(PlanState::Completed, MINUTE).await.id, plan.id, "the same plan");
    let evicted = world.audit().await.evicted_names();
    assert!(evicted.len() == 4 && evicted.iter().all(|name| name.starts_with("low")), "{evicted:?}");
    world.check_promises().await;
}

async fn replacement_pods_stay_gated_until_their_gang_is_complete() {
    let world = World::builder().operator_flag("--evictions-per-second=1").start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let taken = world.nodes(1).cpus(4).prefix("taken").label("pool", "taken").create().await;
    // The replacement pods fit on this node, so only their scheduling gate keeps them pending.
    world.nodes(1).cpus(3).prefix("free").create().await;
    let batch = world.gang("batch", 4).whole().priority("low").on(&taken).create().await;
    let gang = world.gang("train", 4).priority("high").node_selector("pool", "taken").create().await;
    wait_evicted_nodes(&world, 1).await;
    // Creates replacement pods as a controller does: with new names and without a node.
    let mut again = world.gang("batch", 4).priority("low").without_group();
    again.pods.clone_from(&batch.pods);
    again.add_pods(3).await;
    gang.wait_bound(MINUTE).await;
    batch.wait_removed(MINUTE).await;
    let words =
        "The PodGroup was scheduled and is pending again. 4 pods needed, 3 exist. None starts before all 4 fit.";
    expect_condition(&batch, INITIALLY_SCHEDULED, "True Scheduled", words).await;
    expect_condition(&batch, "Scheduled", "False WaitingForPods", "4 pods needed, 3 exist.").await;
    let history = world.audit().await;
    let alone = |name: &str| history.bindings.iter().any(|binding| binding.pod.1 == name);
    assert!(
        !["batch-4", "batch-5", "batch-6"].into_iter().any(alone),
        "replacement pods were bound while pods of the old run were terminating"
    );
    world.nodes(1).cpus(1).prefix("late").create().await;
    again.add_pods(1).await;
    again.pods.drain(..4);
    again.wait_bound(MINUTE).await;
    world.check_promises().await;
}

async fn evictions_of_an_urgent_plan_precede_the_rest_of_a_large_plan() {
    let world = World::builder().operator_flag("--evictions-per-second=1").start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    world.class("urgent", 2000).managed().create().await;
    let nodes = world.nodes(1).cpus(30).label("pool", "large").create().await;
    world.fill(&nodes).prefix("many").priority("low").singles().await;
    let small = world.nodes(1).cpus(1).label("pool", "small").prefix("small").create().await;
    world.fill(&small).prefix("one").priority("low").singles().await;
    let large = world.gang("large", 30).priority("high").node_selector("pool", "large").create().await;
    wait_evicted_nodes(&world, 1).await;
    let urgent = world.gang("urgent", 1).priority("urgent").node_selector("pool", "small").create().await;
    urgent.wait_bound(MINUTE).await;
    let names = world.audit().await.evicted_names();
    assert!(names.iter().any(|name| name.contains("one")), "{names:?}");
    assert!(names.len() < 20, "{} pods were evicted first, so the urgent plan waited for the large one", names.len());
    // Deleting the preemptor cancels the remaining evictions of the large plan, which would take 30 s.
    large.delete().await;
    world.check(&Promises::new().excuse_unbound("large", 20)).await;
}

async fn a_slowly_bound_gang_is_not_withdrawn() {
    let world = World::builder().operator_flag("--binding-timeout-seconds=1").start().await;
    world.class("high", 1000).managed().create().await;
    world.nodes(10).cpus(32).create().await;
    let gang = world.gang("train", 300).priority("high").create().await;
    wait_bound_by_one_plan(&gang, 2 * MINUTE).await;
    world.check_promises().await;
}

async fn plans_are_kept_while_a_slow_scheduler_binds_other_gangs() {
    let world = World::builder().operator_flag("--binding-timeout-seconds=1").scheduler_rate(4, 4).start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    // One node for each gang: on a common node kube-scheduler would also wait for the other plans' victims.
    let nodes = world.nodes(16).cpus(1).create().await;
    world.fill(&nodes).priority("low").grace_seconds(0).singles().await;
    let mut gangs = Vec::new();
    for number in 0..16 {
        gangs.push(world.gang(&format!("train-{number}"), 1).priority("high").create().await);
    }
    for gang in &gangs {
        gang.wait_bound(2 * MINUTE).await;
        let events = gang.events().await;
        let failed: Vec<_> = events.into_iter().filter(|event| event.reason == "Failed").collect();
        assert!(failed.is_empty(), "each waits until the others are bound: {failed:?}");
    }
    assert_eq!(world.audit().await.evicted().len(), 16);
    world.check_promises().await;
}

async fn a_gang_of_2000_pods_is_bound_at_the_rate_of_the_scheduler() {
    let world = World::start().await;
    world.class("high", 1000).managed().create().await;
    world.nodes(20).cpus(100).create().await;
    // Binding takes 40 s at 50 pods per second. That exceeds the timeout of 30 s, which each binding extends.
    let gang = world.gang("train", 2_000).priority("high").create().await;
    wait_bound_by_one_plan(&gang, 5 * MINUTE).await;
    world.check_promises().await;
}

/// Waits until the gang is bound and checks that its plan neither failed nor was cancelled.
async fn wait_bound_by_one_plan(gang: &Group, limit: Duration) {
    gang.wait_bound(limit).await;
    let events: Vec<String> = gang.events().await.into_iter().map(|event| event.reason).collect();
    assert!(!events.iter().any(|reason| reason == "Failed" || reason == "Cancelled"), "{events:?}");
}

async fn a_plan_is_completed_after_the_api_server_restarts_during_evictions() {
    // The operator waits for the API server until its lease expires; on a busy machine the API server starts slowly.
    let flags = ["--evictions-per-second=2", "--lease-duration-seconds=60"];
    let mut world = flags.iter().fold(World::builder(), |world, flag| world.operator_flag(flag)).start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(4).create().await;
    world.fill(&nodes).priority("low").whole().groups_of(8).await;
    let gang = world.gang("train", 8).priority("high").create().await;
    wait_for("the first pod is evicted", MINUTE, async || {
        let evicted = world.audit().await.evicted().len();
        if evicted > 0 { Ok(()) } else { Err("no pod is evicted".to_owned()) }
    })
    .await;
    let plane = world.plane();
    plane.restart("kube-apiserver").unwrap();
    // kube-scheduler exits when it cannot renew its lease for 10 s; this task restarts it as a kubelet would.
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
    assert_eq!((history.evicted().len(), uids.len()), (8, 8), "each victim is evicted once");
    world.check_promises().await;
}

async fn a_terminating_pod_with_a_long_grace_period_gets_at_most_an_hour(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(1).create().await;
    world.pod("slow").cpu(1).priority("low").on(&nodes[0]).grace_seconds(86_400).create().await;
    world.kubectl(&["wait", "pod", "slow", "--for=condition=Ready", "--timeout=60s"]).await.unwrap();
    world.kubectl(&["delete", "pod", "slow", "--grace-period=864000", "--wait=false"]).await.unwrap();
    let gang = world.gang("train", 1).priority("high").create().await;
    let pods = world.kit().api::<Pod>();
    let slow = wait_for("the deletion grace period of pod slow is one hour", MINUTE, async || {
        let slow = pods.get("slow").await.map_err(|error| error.to_string())?;
        let given = slow.metadata.deletion_grace_period_seconds;
        if given == Some(3600) { Ok(slow) } else { Err(format!("{given:?}")) }
    })
    .await;
    let conditions = slow.status.and_then(|status| status.conditions).unwrap_or_default();
    let message = conditions.iter().find(|c| c.type_ == "DisruptionTarget").and_then(|c| c.message.clone());
    assert!(message.is_some(), "the condition DisruptionTarget has no message: {conditions:?}");
    pods.delete("slow", &DeleteParams::default().grace_period(0)).await.unwrap();
    gang.wait_bound(MINUTE).await;
    world.check_promises().await;
}

async fn a_plan_is_cancelled_if_a_plan_of_higher_priority_uses_its_nodes() {
    let world = World::builder().operator_flag("--evictions-per-second=1").start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    world.class("urgent", 2000).managed().create().await;
    let nodes = world.nodes(8).cpus(1).create().await;
    world.fill(&nodes).priority("low").singles().await;
    let gang = world.gang("train", 8).priority("high").create().await;
    wait_evicted_nodes(&world, 1).await;
    let urgent = world.gang("urgent", 8).priority("urgent").create().await;
    urgent.wait_bound(2 * MINUTE).await;
    let message = gang.wait_event("Cancelled", MINUTE).await;
    assert!(message.starts_with("The plan does not fit any more; no other pod is evicted: "), "{message}");
    expect_condition(
        &gang,
        INITIALLY_SCHEDULED,
        "False Unschedulable",
        "8 pods needed, 0 fit now. Missing 8 cpu. No workload has a priority below 1000.",
    )
    .await;
    let history = world.audit().await;
    let uids: BTreeSet<&str> = history.evicted().iter().map(|removal| removal.uid.as_str()).collect();
    assert_eq!((history.evicted().len(), uids.len()), (8, 8), "each victim is evicted once");
    let plan_of = |removal| history.plan_of(removal).map(|record| record.plan.preemptor.name.clone());
    let mine = history.evicted().iter().filter(|removal| plan_of(removal).as_deref() == Some("train")).count();
    // Evictions for the first gang before the urgent gang existed. There is one eviction per second.
    assert!((1..8).contains(&mine), "{mine} pods were evicted for the first gang");
    gang.delete().await;
    world.check(&Promises::new().excuse_unbound("train", mine)).await;
}

async fn a_victim_that_does_not_terminate_cancels_the_plan_and_is_named_in_an_event(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("middle", 20).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(1).create().await;
    // The fake kubelet does not complete the termination of this pod.
    let stuck = world.pod("stuck").cpu(1).priority("low").grace_seconds(1).annotation(GRACE_SECONDS, "86400");
    let stuck = stuck.on(&nodes[0]).create().await;
    world.pod("other").cpu(1).priority("middle").on(&nodes[1]).grace_seconds(1).create().await;
    let gang = world.gang("train", 1).priority("high").create().await;
    gang.wait_bound(2 * MINUTE).await;
    let message = gang.wait_event("Cancelled", MINUTE).await;
    let words = "Pod default/stuck has not terminated in time, and the plan does not wait for it any more: ";
    assert!(message.starts_with(words), "{message}");
    assert_eq!(world.audit().await.evicted_names(), ["other", "stuck"]);
    world.kit().api::<Pod>().delete("stuck", &DeleteParams::default().grace_period(0)).await.unwrap();
    stuck.wait_removed(MINUTE).await;
    world.check(&Promises::new().allow_evictions_for_unbound(1)).await;
}

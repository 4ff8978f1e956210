//! Cases without evictions: the group's condition says why and counts the missing resources.

use crate::{INITIALLY_SCHEDULED, MINUTE, PREEMPTING, expect_condition};
use giveway_crds::PodGroup;
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::{Shaped, stored_plans};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::json;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_gang_that_does_not_fit_with_preemption_evicts_no_pod_and_names_the_missing_resources,
            equal_priority_evicts_no_pod,
            a_class_with_policy_never_evicts_no_pod,
            capacity_that_becomes_free_before_the_first_eviction_cancels_the_plan,
            a_new_plan_has_fewer_victims_and_the_old_delay_if_some_capacity_becomes_free,
            a_member_deleted_before_the_first_eviction_cancels_the_plan;
        own:
            a_plan_cancelled_after_an_eviction_completes_the_group_and_withdraws_nominations;
    ]
}

async fn expect_no_eviction(world: &World) {
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}

async fn a_gang_that_does_not_fit_with_preemption_evicts_no_pod_and_names_the_missing_resources(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).gpus(4).cpus(16).create().await;
    world.fill(&nodes).priority("low").gpu(1).whole().groups_of(4).await;
    let gang = world.gang("train", 9).priority("high").gpu(1).create().await;
    expect_condition(
        &gang,
        INITIALLY_SCHEDULED,
        "False Unschedulable",
        "9 pods needed, 0 fit now. Missing 9 nvidia.com/gpu. Evicting every workload below priority 1000 would free 8.",
    )
    .await;
    expect_no_eviction(world).await;
    // With one more node the gang fits after a preemption.
    world.nodes(1).gpus(4).cpus(16).prefix("late").create().await;
    gang.wait_bound(MINUTE).await;
    world.check_promises().await;
}

async fn equal_priority_evicts_no_pod(world: &World) {
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    world.fill(&nodes).priority("high").whole().groups_of(4).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    let words = "2 pods needed, 0 fit now. Missing 2 cpu. No workload has a priority below 1000.";
    expect_condition(&gang, INITIALLY_SCHEDULED, "False Unschedulable", words).await;
    expect_no_eviction(world).await;
}

async fn a_class_with_policy_never_evicts_no_pod(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("patient", 1000).managed().never().create().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    let low = world.fill(&nodes).priority("low").singles().await;
    let gang = world.gang("train", 2).priority("patient").create().await;
    expect_condition(
        &gang,
        INITIALLY_SCHEDULED,
        "False Unschedulable",
        "Its preemptionPolicy is Never, so no pod is evicted for it.",
    )
    .await;
    let pod = world.pod("single").priority("patient").create().await;
    pod.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    expect_no_eviction(world).await;
    // The gang and the pod are bound when other pods are deleted.
    low[0].delete().await;
    low[1].delete().await;
    low[2].delete().await;
    gang.wait_bound(MINUTE).await;
    pod.wait_bound(MINUTE).await;
    expect_no_eviction(world).await;
}

async fn capacity_that_becomes_free_before_the_first_eviction_cancels_the_plan(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    world.fill(&nodes).priority("low").whole().groups_of(4).await;
    let gang =
        world.gang("train", 4).priority("high").spec(|spec| spec.preemption_delay_seconds = Some(600)).create().await;
    let plan = gang.wait_plan(PlanState::Planned, MINUTE).await;
    assert_eq!(plan.cost.victim_pods, 4);
    gang.wait_condition(PREEMPTING, "True", "Planned", MINUTE).await;
    world.nodes(1).cpus(4).prefix("late").create().await;
    gang.wait_bound(MINUTE).await;
    let message = gang.wait_condition(PREEMPTING, "False", "Cancelled", MINUTE).await;
    assert_eq!(message, "Capacity became free; no pod was evicted.");
    expect_no_eviction(world).await;
}

async fn a_new_plan_has_fewer_victims_and_the_old_delay_if_some_capacity_becomes_free(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    world.fill(&nodes).priority("low").singles().await;
    let gang =
        world.gang("train", 4).priority("high").spec(|spec| spec.preemption_delay_seconds = Some(600)).create().await;
    let delayed = gang.wait_plan(PlanState::Planned, MINUTE).await;
    assert_eq!(delayed.cost.victim_pods, 4);
    world.nodes(1).cpus(3).prefix("late").create().await;
    // The delay now ends in 10 s, so the operator observes the new node before that.
    let waited = Timestamp::now().as_second() - delayed.planned_at.as_ref().unwrap().0.as_second();
    let shorter = Patch::Merge(json!({"spec": {"preemptionDelaySeconds": waited + 10}}));
    world.kit().api::<PodGroup>().patch("train", &PatchParams::default(), &shorter).await.unwrap();
    gang.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names().len(), 1);
    let message = gang.wait_event("Cancelled", MINUTE).await;
    assert_eq!(message, "Capacity became free for some of the pods: a new plan evicts fewer pods.");
    let plan = gang.wait_plan(PlanState::Completed, MINUTE).await;
    // The first plan is read again, because before its first status it reported the creation time of its object.
    let plans = stored_plans(&world.client()).await.unwrap();
    let first = plans.into_iter().find(|first| first.id == delayed.id).unwrap();
    assert_eq!(
        (plan.cost.victim_pods, &plan.planned_at),
        (1, &first.planned_at),
        "the delay is counted from the first plan"
    );
    world.check_promises().await;
}

async fn a_member_deleted_before_the_first_eviction_cancels_the_plan(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    world.fill(&nodes).priority("low").whole().groups_of(4).await;
    let gang =
        world.gang("train", 4).priority("high").spec(|spec| spec.preemption_delay_seconds = Some(600)).create().await;
    gang.wait_plan(PlanState::Planned, MINUTE).await;
    gang.pods[0].delete().await;
    let message = gang.wait_condition(PREEMPTING, "False", "Cancelled", MINUTE).await;
    assert_eq!(message, "Only 3 of the 4 needed pods still fit.");
    expect_condition(
        &gang,
        INITIALLY_SCHEDULED,
        "False WaitingForPods",
        "4 pods needed, 3 exist. None starts before all 4 fit.",
    )
    .await;
    expect_no_eviction(world).await;
}

async fn a_plan_cancelled_after_an_eviction_completes_the_group_and_withdraws_nominations() {
    let world = World::builder().operator_flag("--evictions-per-second=1").start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    let low = world.fill(&nodes).priority("low").whole().groups_of(4).await;
    let gang = world.gang("train", 4).priority("high").create().await;
    giveway_tests::wait::wait_for("the first pod is evicted", MINUTE, async || {
        let evicted = world.audit().await.evicted().len();
        if evicted > 0 { Ok(()) } else { Err("no pod is evicted".to_owned()) }
    })
    .await;
    gang.pods[3].delete().await;
    expect_condition(&gang, PREEMPTING, "False Cancelled", "Only 3 of the 4 needed pods still fit.").await;
    low[0].wait_removed(MINUTE).await;
    giveway_tests::wait::wait_for("no member has a nomination", MINUTE, async || {
        let members = gang.members().await.map_err(|error| error.to_string())?;
        let nominated: Vec<String> =
            members.into_iter().filter_map(|pod| pod.status?.nominated_node_name).filter(|n| !n.is_empty()).collect();
        if nominated.is_empty() { Ok(()) } else { Err(format!("nominated to {nominated:?}")) }
    })
    .await;
    // The free capacity suffices for the gang when it is complete again.
    let mut again = world.gang("train", 4).priority("high").without_group();
    again.pods.extend(gang.pods[..3].iter().cloned());
    again.add_pods(1).await;
    again.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 4);
    world.check_promises().await;
}

//! The gang barrier: members stay gated until the whole gang fits, then all of them are ungated.

use crate::{INITIALLY_SCHEDULED, MINUTE, expect_condition};
use giveway_crds::keys;
use giveway_tests::cluster::{Group, Shaped, scheduling_gates};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_gang_that_fits_is_bound_without_evictions,
            a_gang_stays_gated_until_all_members_exist_and_its_condition_counts_them,
            members_beyond_min_count_are_ungated_only_if_capacity_is_free,
            a_pod_of_a_missing_group_stays_gated_with_an_event_until_the_group_is_created,
            gated_members_are_ungated_when_their_basic_group_is_created;
    ]
}

/// Waits until the status of the group counts `scheduled` bound and `gated` gated pods.
async fn wait_counts(group: &Group, scheduled: i32, gated: i32) {
    wait_for(&format!("{scheduled} pods are bound and {gated} are gated"), MINUTE, async || {
        let counts = group.get().await.status.and_then(|status| status.pods).unwrap_or_default();
        if (counts.scheduled, counts.gated) == (scheduled, gated) { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
}

async fn a_gang_that_fits_is_bound_without_evictions(world: &World) {
    world.nodes(2).cpus(4).create().await;
    world.class("high", 1000).managed().create().await;
    let gang = world.gang("train", 8).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    expect_condition(&gang, INITIALLY_SCHEDULED, "True Scheduled", "8 pods have a node, 8 needed.").await;
    let status = gang.get().await.status.unwrap();
    let counts = status.pods.unwrap();
    assert_eq!((counts.total, counts.scheduled, counts.gated), (8, 8, 0));
    assert_eq!(status.preemption, None, "no plan was made");
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}

async fn a_gang_stays_gated_until_all_members_exist_and_its_condition_counts_them(world: &World) {
    world.nodes(1).cpus(8).create().await;
    world.class("high", 1000).managed().create().await;
    let mut gang = world.gang("train", 4).priority("high").create_group().await;
    gang.add_pods(3).await;
    expect_condition(
        &gang,
        INITIALLY_SCHEDULED,
        "False WaitingForPods",
        "4 pods needed, 3 exist. None starts before all 4 fit.",
    )
    .await;
    for pod in &gang.pods {
        assert_eq!(scheduling_gates(&pod.get().await.unwrap()), [keys::GATE]);
    }
    gang.add_pods(1).await;
    gang.wait_bound(MINUTE).await;
    gang.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    world.check_promises().await;
}

async fn members_beyond_min_count_are_ungated_only_if_capacity_is_free(world: &World) {
    world.nodes(1).cpus(3).create().await;
    world.class("high", 1000).managed().create().await;
    let mut gang = world.gang("train", 2).min_count(2).priority("high").create_group().await;
    gang.add_pods(4).await;
    let message = gang.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    assert!(message.contains("have a node, 2 needed"), "{message}");
    wait_counts(&gang, 3, 1).await;
    world.nodes(1).cpus(1).prefix("late").create().await;
    gang.wait_bound(MINUTE).await;
    world.check_promises().await;
}

async fn a_pod_of_a_missing_group_stays_gated_with_an_event_until_the_group_is_created(world: &World) {
    world.nodes(1).cpus(2).create().await;
    world.class("high", 1000).managed().create().await;
    let builder = world.gang("later", 2).priority("high");
    let mut gang = builder.without_group();
    gang.add_pods(2).await;
    let message = gang.pods[0].wait_event("PodGroupNotFound", MINUTE).await;
    assert_eq!(
        message,
        "Pod group later does not exist in namespace default. The pod waits until that pod group is created."
    );
    assert_eq!(scheduling_gates(&gang.pods[1].get().await.unwrap()), [keys::GATE]);
    builder.create_group().await;
    gang.wait_bound(MINUTE).await;
    world.check_promises().await;
}

async fn gated_members_are_ungated_when_their_basic_group_is_created(world: &World) {
    world.nodes(1).cpus(2).create().await;
    world.class("high", 1000).managed().create().await;
    let builder = world.gang("later", 3).priority("high").basic();
    let mut group = builder.without_group();
    group.add_pods(3).await;
    for pod in &group.pods {
        pod.wait_event("PodGroupNotFound", MINUTE).await;
    }
    builder.create_group().await;
    // Two of three pods fit and are bound without the third.
    wait_counts(&group, 2, 1).await;
    world.nodes(1).cpus(1).prefix("late").create().await;
    group.wait_bound(MINUTE).await;
    world.check_promises().await;
}

//! The gang barrier: members are held until the whole gang has a place, then start together.

use crate::{MINUTE, SCHEDULED, told};
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
            a_gang_that_fits_is_bound_and_evicts_nobody,
            a_gang_waits_for_its_members_and_says_how_many_are_missing,
            members_beyond_min_count_start_when_there_is_room_and_wait_otherwise,
            a_pod_whose_group_does_not_exist_is_held_told_so_and_picked_up_when_the_group_appears,
            members_that_were_there_before_their_basic_group_start_as_soon_as_it_is_there;
    ]
}

/// Waits until so many pods of a group are bound, and so many are held.
async fn wait_counts(group: &Group, scheduled: i32, held: i32) {
    wait_for(&format!("{scheduled} pods are bound and {held} are held"), MINUTE, async || {
        let counts = group.get().await.status.and_then(|status| status.pods).unwrap_or_default();
        if (counts.scheduled, counts.held) == (scheduled, held) { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
}

async fn a_gang_that_fits_is_bound_and_evicts_nobody(world: &World) {
    world.nodes(2).cpus(4).create().await;
    world.class("high", 1000).managed().create().await;
    let gang = world.gang("train", 8).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    told(&gang, SCHEDULED, "True Scheduled", "8 pods have a node, 8 needed.").await;
    let status = gang.get().await.status.unwrap();
    assert_eq!(status.scheduled.as_deref(), Some("8/8"));
    assert_eq!(status.pods.unwrap().held, 0);
    assert_eq!(status.preemption, None, "nothing was planned");
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}

async fn a_gang_waits_for_its_members_and_says_how_many_are_missing(world: &World) {
    world.nodes(1).cpus(8).create().await;
    world.class("high", 1000).managed().create().await;
    let mut gang = world.gang("train", 4).priority("high").create_group().await;
    gang.add_pods(3).await;
    told(&gang, SCHEDULED, "False WaitingForPods", "4 pods needed, 3 exist. None starts before all 4 have a place.")
        .await;
    for pod in &gang.pods {
        assert_eq!(scheduling_gates(&pod.get().await.unwrap()), [keys::GATE]);
    }
    gang.add_pods(1).await;
    gang.wait_bound(MINUTE).await;
    gang.wait_condition(SCHEDULED, "True", "Scheduled", MINUTE).await;
    world.check_promises().await;
}

async fn members_beyond_min_count_start_when_there_is_room_and_wait_otherwise(world: &World) {
    world.nodes(1).cpus(3).create().await;
    world.class("high", 1000).managed().create().await;
    let mut gang = world.gang("train", 2).min_count(2).priority("high").create_group().await;
    gang.add_pods(4).await;
    let message = gang.wait_condition(SCHEDULED, "True", "Scheduled", MINUTE).await;
    assert!(message.contains("have a node, 2 needed"), "{message}");
    wait_counts(&gang, 3, 1).await;
    world.nodes(1).cpus(1).prefix("late").create().await;
    gang.wait_bound(MINUTE).await;
    world.check_promises().await;
}

async fn a_pod_whose_group_does_not_exist_is_held_told_so_and_picked_up_when_the_group_appears(world: &World) {
    world.nodes(1).cpus(2).create().await;
    world.class("high", 1000).managed().create().await;
    let builder = world.gang("later", 2).priority("high");
    let mut gang = builder.without_group();
    gang.add_pods(2).await;
    let message = gang.pods[0].wait_event("PodGroupNotFound", MINUTE).await;
    assert_eq!(message, "Pod group later does not exist in namespace default. The pod waits until it is created.");
    assert_eq!(scheduling_gates(&gang.pods[1].get().await.unwrap()), [keys::GATE]);
    builder.create_group().await;
    gang.wait_bound(MINUTE).await;
    world.check_promises().await;
}

async fn members_that_were_there_before_their_basic_group_start_as_soon_as_it_is_there(world: &World) {
    world.nodes(1).cpus(2).create().await;
    world.class("high", 1000).managed().create().await;
    let builder = world.gang("later", 3).priority("high").basic();
    let mut group = builder.without_group();
    group.add_pods(3).await;
    for pod in &group.pods {
        pod.wait_event("PodGroupNotFound", MINUTE).await;
    }
    builder.create_group().await;
    // There is room for two of them, and nobody waits for the third.
    wait_counts(&group, 2, 1).await;
    world.nodes(1).cpus(1).prefix("late").create().await;
    group.wait_bound(MINUTE).await;
    world.check_promises().await;
}

//! Several want the same room: reservations hold, and nobody who is more important waits.

use crate::constraints::SOON;
use crate::{MINUTE, SCHEDULED, told};
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::Shaped;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            of_two_gangs_of_one_priority_one_gets_the_room_and_the_other_says_why_not,
            a_lower_pod_cannot_steal_the_reserved_places,
            a_gang_that_cannot_be_helped_does_not_stand_in_the_way_of_others,
            a_preempted_group_that_is_created_anew_waits_as_a_gang_again,
            a_delayed_plan_reserves_no_capacity_and_its_delay_counts_from_the_first_plan,
            a_gang_that_races_with_pods_that_are_being_scheduled_gets_its_room_all_the_same;
    ]
}

async fn of_two_gangs_of_one_priority_one_gets_the_room_and_the_other_says_why_not(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    world.fill(&nodes).priority("low").whole().grace_seconds(3).groups_of(4).await;
    let (one, two) =
        tokio::join!(world.gang("one", 4).priority("high").create(), world.gang("two", 4).priority("high").create());
    let (winner, loser) = giveway_tests::wait::wait_for("one of the two is bound", MINUTE, async || {
        for (a, b) in [(&one, &two), (&two, &one)] {
            if a.get().await.status.is_some_and(|s| s.scheduled.as_deref() == Some("4/4")) {
                return Ok((a, b));
            }
        }
        Err("none is".to_owned())
    })
    .await;
    winner.wait_bound(MINUTE).await;
    told(loser, SCHEDULED, "False Unschedulable", "4 pods needed, 0 fit now.").await;
    assert_eq!(world.audit().await.evicted().len(), 4, "the room was made once");
    world.check_promises().await;
}

async fn a_lower_pod_cannot_steal_the_reserved_places(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("mid", 500).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(2).create().await;
    // Two groups with different grace: places become free one after the other, and stand empty for a while.
    world.fill(&nodes[..1]).priority("low").prefix("quick").whole().groups_of(2).await;
    world.fill(&nodes[1..]).priority("low").prefix("slow").whole().grace_seconds(6).groups_of(2).await;
    let gang = world.gang("train", 4).priority("high").create().await;
    gang.wait_plan(PlanState::WaitingForVictims, MINUTE).await;
    let thief = world.pod("thief").priority("mid").create().await;
    thief.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    gang.wait_bound(MINUTE).await;
    let history = world.audit().await;
    assert!(history.bindings.iter().all(|b| b.pod.1 != "thief"), "the thief was bound");
    assert_eq!(history.evicted().len(), 4);
    world.check_promises().await;
}

/// A delay may be a day long, and any user can set it.
async fn a_delayed_plan_reserves_no_capacity_and_its_delay_counts_from_the_first_plan(world: &World) {
    for (name, priority) in [("low", 10), ("mid", 500), ("high", 1000)] {
        world.class(name, priority).managed().create().await;
    }
    let nodes = world.nodes(1).cpus(4).create().await;
    world.pod("low").priority("low").on(&nodes[0]).grace_seconds(0).create().await;
    let delayed = world.gang("train", 4).priority("high").spec(|spec| spec.preemption_delay_seconds = Some(20));
    let delayed = delayed.create().await;
    let first = delayed.wait_plan(PlanState::Planned, MINUTE).await;
    assert_eq!(first.cost.victim_pods, 1, "{first:?}");
    world.gang("small", 3).priority("mid").create().await.wait_bound(SOON).await;
    delayed.wait_bound(MINUTE).await;
    let last = delayed.wait_plan(PlanState::Completed, MINUTE).await;
    assert_eq!(last.cost.victim_pods, 4, "{last:?}");
    assert_eq!((last.planned_at == first.planned_at, last.id == first.id), (true, false), "{first:?} {last:?}");
    world.check_promises().await;
}

async fn a_gang_that_cannot_be_helped_does_not_stand_in_the_way_of_others(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("mid", 500).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    world.fill(&nodes).priority("low").whole().groups_of(2).await;
    let huge = world.gang("huge", 100).priority("high").create().await;
    huge.wait_condition(SCHEDULED, "False", "Unschedulable", MINUTE).await;
    let small = world.gang("small", 2).priority("mid").create().await;
    small.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 2);
    world.check_promises().await;
}

async fn a_preempted_group_that_is_created_anew_waits_as_a_gang_again(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    let mut low = world.gang("batch", 2).whole().priority("low").on(&nodes).create().await;
    low.wait_condition(SCHEDULED, "True", "Scheduled", MINUTE).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    low.wait_gone(MINUTE).await;
    // What a controller does: the same group, new pods, no node.
    let mut again = world.gang("batch", 2).priority("low").without_group();
    again.add_pods(2).await;
    low.pods.clone_from(&again.pods);
    giveway_tests::wait::wait_for("the group tells that it waits again", MINUTE, async || {
        let conditions = low.get().await.status.unwrap_or_default().conditions;
        let message =
            giveway_crds::condition::find(&conditions, SCHEDULED).map(|c| c.message.clone()).unwrap_or_default();
        if message.starts_with("Was scheduled; now waits again. 2 pods needed, 0 fit now.") {
            Ok(())
        } else {
            Err(message)
        }
    })
    .await;
    world.nodes(1).cpus(2).prefix("late").create().await;
    low.wait_bound(MINUTE).await;
    low.wait_condition("DisruptionTarget", "False", "Scheduled", MINUTE).await;
    world.check_promises().await;
}

async fn a_gang_that_races_with_pods_that_are_being_scheduled_gets_its_room_all_the_same(world: &World) {
    world.nodes(20).cpus(8).create().await;
    // A deployment that fills the cluster, and a gang: places that were free when it was planned may be taken a
    // moment later, before the scheduler knows of the nominations.
    let [background, gang] = ["1-background.yaml", "2-gang.yaml"].map(giveway_tests::example::path);
    world.kubectl(&["apply", "-f", &background, "-f", &gang]).await.unwrap();
    giveway_tests::wait::wait_for("the group of the Job is made", MINUTE, async || {
        world.kubectl(&["get", "podgroup.scheduling.giveway.dev", "train"]).await
    })
    .await;
    let gang = world.gang("train", 16).without_group();
    told(&gang, SCHEDULED, "True Scheduled", "16 pods have a node, 16 needed.").await;
    world.check_promises().await;
}

//! Several preemptors compete for the same capacity: reservations hold, and higher priority is placed first.

use crate::constraints::SOON;
use crate::{INITIALLY_SCHEDULED, MINUTE, expect_condition};
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::Shaped;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            one_of_two_gangs_of_equal_priority_is_bound_and_the_other_is_unschedulable,
            a_pod_of_lower_priority_cannot_use_reserved_capacity,
            an_unschedulable_gang_does_not_block_other_gangs,
            replacement_pods_of_a_preempted_group_wait_as_a_gang,
            a_delayed_plan_reserves_no_capacity_and_its_delay_counts_from_the_first_plan,
            a_gang_is_scheduled_while_other_pods_are_being_bound;
    ]
}

async fn one_of_two_gangs_of_equal_priority_is_bound_and_the_other_is_unschedulable(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    world.fill(&nodes).priority("low").whole().grace_seconds(3).groups_of(4).await;
    let (one, two) =
        tokio::join!(world.gang("one", 4).priority("high").create(), world.gang("two", 4).priority("high").create());
    let (winner, loser) = giveway_tests::wait::wait_for("one of the two is bound", MINUTE, async || {
        for (a, b) in [(&one, &two), (&two, &one)] {
            if a.get().await.status.is_some_and(|s| s.pods.is_some_and(|pods| pods.scheduled == 4)) {
                return Ok((a, b));
            }
        }
        Err("neither is bound".to_owned())
    })
    .await;
    winner.wait_bound(MINUTE).await;
    expect_condition(loser, INITIALLY_SCHEDULED, "False Unschedulable", "4 pods needed, 0 fit now.").await;
    assert_eq!(world.audit().await.evicted().len(), 4, "victims are evicted for one gang only");
    world.check_promises().await;
}

async fn a_pod_of_lower_priority_cannot_use_reserved_capacity(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("mid", 500).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(2).create().await;
    // The groups have different grace periods, so some nominated capacity is free while the gang waits for the rest.
    world.fill(&nodes[..1]).priority("low").prefix("quick").whole().groups_of(2).await;
    world.fill(&nodes[1..]).priority("low").prefix("slow").whole().grace_seconds(6).groups_of(2).await;
    let gang = world.gang("train", 4).priority("high").create().await;
    gang.wait_plan(PlanState::WaitingForVictims, MINUTE).await;
    let rival = world.pod("rival").priority("mid").create().await;
    rival.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    gang.wait_bound(MINUTE).await;
    let history = world.audit().await;
    assert!(history.bindings.iter().all(|b| b.pod.1 != "rival"), "the rival was bound");
    assert_eq!(history.evicted().len(), 4);
    world.check_promises().await;
}

/// A delayed plan must not reserve capacity, because any user can set a delay of up to a day.
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

async fn an_unschedulable_gang_does_not_block_other_gangs(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("mid", 500).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    world.fill(&nodes).priority("low").whole().groups_of(2).await;
    let huge = world.gang("huge", 100).priority("high").create().await;
    huge.wait_condition(INITIALLY_SCHEDULED, "False", "Unschedulable", MINUTE).await;
    let small = world.gang("small", 2).priority("mid").create().await;
    small.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 2);
    world.check_promises().await;
}

async fn replacement_pods_of_a_preempted_group_wait_as_a_gang(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    let mut low = world.gang("batch", 2).whole().priority("low").on(&nodes).create().await;
    low.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    low.wait_removed(MINUTE).await;
    // Creates replacement pods as a controller does: in the same group, with new names and without a node.
    let mut again = world.gang("batch", 2).priority("low").without_group();
    again.add_pods(2).await;
    low.pods.clone_from(&again.pods);
    giveway_tests::wait::wait_for("the condition says that the group waits again", MINUTE, async || {
        let conditions = low.get().await.status.unwrap_or_default().conditions;
        let message = giveway_crds::condition::find(&conditions, INITIALLY_SCHEDULED)
            .map(|c| c.message.clone())
            .unwrap_or_default();
        if message.starts_with("The PodGroup was scheduled and is pending again. 2 pods needed, 0 fit now.") {
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

async fn a_gang_is_scheduled_while_other_pods_are_being_bound(world: &World) {
    world.nodes(20).cpus(8).create().await;
    // The pods of a Deployment fill the cluster while a gang is planned. Capacity that was free for the plan may be used by other
    // pods before kube-scheduler observes the nominations.
    let [background, gang] = ["1-background.yaml", "2-gang.yaml"].map(giveway_tests::example::path);
    world.kubectl(&["apply", "-f", &background, "-f", &gang]).await.unwrap();
    giveway_tests::wait::wait_for("the PodGroup of the Job is created", MINUTE, async || {
        world.kubectl(&["get", "podgroup.scheduling.giveway.dev", "train"]).await
    })
    .await;
    let gang = world.gang("train", 16).without_group();
    expect_condition(&gang, INITIALLY_SCHEDULED, "True Scheduled", "16 pods have a node, 16 needed.").await;
    world.check_promises().await;
}

//! Limits of evictions per minute, per namespace and cluster: which plans wait, what they report, and that a new leader keeps the
//! count.

use crate::{INITIALLY_SCHEDULED, MINUTE, PREEMPTING, expect_condition};
use giveway_crds::condition;
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::{FillBuilder, Group, Shaped, stored_plans};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::jiff::Timestamp;
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            with_limit_zero_no_plan_is_made_and_gangs_that_fit_are_bound,
            gangs_wait_while_as_many_plans_are_in_flight_as_max_plans_allows;
        release:
            each_namespace_has_its_own_limit_and_a_new_leader_keeps_the_count,
            a_plan_above_the_cluster_limit_is_carried_out_unit_by_unit_across_leaders;
    ]
}

/// Deadline for a plan that waits for the limit of the next minute.
const NEXT_MINUTE: Duration = Duration::from_secs(150);

async fn world(flag: &str) -> World {
    let world = World::builder().operator_flag(flag).start().await;
    world.class("low", 10).managed().create().await;
    world.class("mid", 20).managed().create().await;
    world.class("high", 1000).managed().create().await;
    world
}

async fn gangs_wait_while_as_many_plans_are_in_flight_as_max_plans_allows() {
    let world = world("--max-plans=1").await;
    let nodes = world.nodes(4).cpus(2).create().await;
    world.fill(&nodes).priority("low").whole().grace_seconds(20).groups_of(2).await;
    let first = world.gang("first", 2).priority("mid").create().await;
    first.wait_plan(PlanState::WaitingForVictims, MINUTE).await;
    let second = world.gang("second", 2).priority("mid").create().await;
    let text = "1 plan is in flight for preemptors of priority 20 or higher, and --max-plans is 1. No pod is evicted for this \
                preemptor until one of them has ended.";
    expect_condition(&second, INITIALLY_SCHEDULED, "False EvictionsLimited", text).await;
    assert_eq!(world.audit().await.evicted().len(), 2, "for the first gang");
    // Plans for preemptors of lower priority do not count. It uses the capacity for which the first gang waits, and more.
    let urgent = world.gang("urgent", 4).priority("high").create().await;
    urgent.wait_plan(PlanState::WaitingForVictims, MINUTE).await;
    for gang in [&first, &second, &urgent] {
        gang.wait_bound(2 * MINUTE).await;
    }
    world.check_promises().await;
}

/// Waits until the limit delays the plan of a group. Returns the time after which further evictions are permitted, as reported.
async fn wait_limited(group: &Group, text: &str) -> Timestamp {
    expect_condition(group, INITIALLY_SCHEDULED, "False EvictionsLimited", text).await;
    expect_condition(group, PREEMPTING, "True Planned", text).await;
    permitted_after(group).await
}

/// Returns the time in the condition of a group after which further evictions are permitted.
async fn permitted_after(group: &Group) -> Timestamp {
    let conditions = group.get().await.status.unwrap_or_default().conditions;
    let found = condition::find(&conditions, INITIALLY_SCHEDULED).unwrap();
    let (_, time) = found.message.split_once("more are allowed at ").unwrap_or_else(|| panic!("{}", found.message));
    time.trim_end_matches('.').parse().unwrap()
}

/// Returns the sorted times of the evictions in a namespace.
async fn evicted_in(world: &World, namespace: &str) -> Vec<Timestamp> {
    let history = world.audit().await;
    let mut times: Vec<Timestamp> =
        history.evicted().iter().filter(|removal| removal.pod.0 == namespace).map(|removal| removal.at).collect();
    times.sort();
    times
}

/// Panics if more than `most` evictions happened within a minute.
fn assert_rate(times: &[Timestamp], most: usize) {
    for pair in times.windows(most + 1) {
        let apart = pair[most].duration_since(pair[0]);
        assert!(apart.as_secs() >= 59, "more than {most} within {apart:?}: {times:?}");
    }
}

async fn each_namespace_has_its_own_limit_and_a_new_leader_keeps_the_count() {
    let mut world = world("--evictions-per-minute-per-namespace=4").await;
    let nodes = world.nodes(3).cpus(4).create().await;
    world.fill(&nodes[..2]).priority("low").whole().groups_of(4).await;
    let other = world.namespace("other").await;
    FillBuilder::new(other, &nodes[2..]).priority("mid").whole().groups_of(4).await;
    let first = world.gang("first", 4).priority("high").create().await;
    first.wait_bound(MINUTE).await;
    let second = world.gang("second", 4).priority("high").create().await;
    let room = wait_limited(&second, "Evictions in namespace default are limited to 4 a minute").await;
    let plan = second.wait_plan(PlanState::Planned, MINUTE).await;
    assert!(plan.message.contains("more are allowed at"), "{}", plan.message);
    second.wait_event("EvictionsLimited", MINUTE).await;
    let metrics = world.operator_metrics().await;
    assert!(metrics.contains("giveway_operator_plans_held_back 1"), "{metrics}");
    // The next leader counts past evictions from the stored plans.
    world.operator().kill();
    world.operator().start().await;
    let third = world.gang("third", 4).priority("high").create().await;
    third.wait_bound(MINUTE).await;
    assert_eq!(evicted_in(&world, "default").await.len(), 4, "the other namespace has a limit of its own");
    let same = permitted_after(&second).await;
    assert!(same.duration_since(room).as_secs().abs() < 15, "{same} and {room}");
    assert_eq!(second.wait_plan(PlanState::Planned, MINUTE).await.id, plan.id, "the same plan still waits");
    second.wait_bound(NEXT_MINUTE).await;
    let times = evicted_in(&world, "default").await;
    assert_eq!((times.len(), evicted_in(&world, "other").await.len()), (8, 4));
    assert_rate(&times, 4);
    let late = times[7].duration_since(same).as_secs();
    assert!((-1..15).contains(&late), "{late} s after the reported time");
    let done = second.wait_plan(PlanState::Completed, MINUTE).await;
    assert!(!done.message.contains("more are allowed"), "{}", done.message);
    world.check_promises().await;
}

async fn a_plan_above_the_cluster_limit_is_carried_out_unit_by_unit_across_leaders() {
    let mut world = world("--evictions-per-minute-per-cluster=2").await;
    let nodes = world.nodes(3).cpus(1).create().await;
    world.fill(&nodes[..1]).priority("low").singles().await;
    let other = world.namespace("other").await;
    FillBuilder::new(other, &nodes[1..]).priority("low").singles().await;
    let gang = world.gang("train", 3).priority("high").create().await;
    expect_condition(
        &gang,
        INITIALLY_SCHEDULED,
        "False EvictionsLimited",
        "Evictions in the cluster are limited to 2 a minute",
    )
    .await;
    wait_for("two victims are evicted", MINUTE, async || {
        let evicted = world.audit().await.evicted().len();
        if evicted == 2 { Ok(()) } else { Err(format!("{evicted} are evicted")) }
    })
    .await;
    world.operator().kill();
    world.operator().start().await;
    expect_condition(&gang, INITIALLY_SCHEDULED, "False EvictionsLimited", "2 of 3 victims have terminated").await;
    gang.wait_bound(NEXT_MINUTE).await;
    let history = world.audit().await;
    let mut times: Vec<Timestamp> = history.evicted().iter().map(|removal| removal.at).collect();
    times.sort();
    assert_eq!(times.len(), 3);
    assert_rate(&times, 2);
    world.check_promises().await;
}

async fn with_limit_zero_no_plan_is_made_and_gangs_that_fit_are_bound() {
    let mut world = world("--evictions-per-minute-per-cluster=0").await;
    let nodes = world.nodes(1).cpus(4).create().await;
    world.fill(&nodes).priority("low").whole().groups_of(4).await;
    let gang = world.gang("train", 4).priority("high").create().await;
    let words =
        "Evictions are switched off by victims.evictionsPerMinute.perCluster, which is 0: it would evict 4 pods";
    expect_condition(&gang, INITIALLY_SCHEDULED, "False EvictionsLimited", words).await;
    world.nodes(1).cpus(1).prefix("more").create().await;
    world.gang("fits", 1).priority("low").create().await.wait_bound(MINUTE).await;
    assert_eq!(stored_plans(&world.client()).await.unwrap().len(), 0);
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    // A restart with a higher limit lets the gang preempt.
    world.operator().kill();
    world.operator().flag("--evictions-per-minute-per-cluster=4");
    world.operator().start().await;
    gang.wait_bound(MINUTE).await;
    world.check_promises().await;
}

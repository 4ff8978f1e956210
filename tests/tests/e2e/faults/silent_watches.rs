//! The watch of groups lags behind the watch of pods.

use super::stage;
use crate::MINUTE;
use giveway_tests::World;
use giveway_tests::cluster::Shaped;
use giveway_tests::proxy::{Call, Fault, calm};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            a_group_goes_whole_also_when_its_pods_are_heard_of_before_it,
            a_watch_whose_connection_has_died_without_a_word_begins_anew,
            a_watch_that_is_never_answered_is_broken_and_begins_anew;
    ]
}

/// Whether a call reads groups of ours.
fn reads_groups(call: &Call) -> bool {
    call.method == "GET" && call.path.starts_with("/apis/scheduling.giveway.dev/") && call.path.ends_with("/podgroups")
}

/// The operator leads and has heard of everything, and from its next attempt on this happens to what reads groups.
async fn without_groups(world: &mut World, fault: Fault) {
    // Watches end by themselves now and then.
    let cut = Fault::CutAfter(Duration::from_millis(100));
    world.proxy().play(Box::new(move |call| if reads_groups(call) { cut } else { Fault::None }));
    world.operator().kill();
    world.operator().start().await;
    wait_for("the operator leads and has heard of everything", MINUTE, async || {
        let leads = world.operator_metrics().await.contains("\ngiveway_operator_leader 1");
        let (status, words) = world.operator_says("/readyz").await;
        if leads && status == 200 { Ok(()) } else { Err(words) }
    })
    .await;
    world.proxy().play(Box::new(move |call| if reads_groups(call) { fault } else { Fault::None }));
}

async fn wait_broken(world: &World) {
    wait_for("the operator says that it decides nothing", MINUTE, async || {
        let (status, words) = world.operator_says("/readyz").await;
        let broken = status == 503 && words.contains("the watch of kind PodGroup has been broken for ");
        if broken { Ok(()) } else { Err(format!("{status} {words}")) }
    })
    .await;
}

async fn a_group_goes_whole_also_when_its_pods_are_heard_of_before_it() {
    let mut world = stage().await;
    // Before: pods are young for 20 seconds only.
    let nodes = world.nodes(2).cpus(2).create().await;
    without_groups(&mut world, Fault::Answer(503)).await;
    world.fill(&nodes).priority("low").whole().groups_of(2).await;
    let pod = world.pod("vip").priority("high").create().await;
    let told = pod.wait_event("Unschedulable", MINUTE).await;
    let words = "Young pods whose group or namespace was not heard of yet are spared, for 20 seconds at most.";
    assert!(told.ends_with(words), "{told}");
    wait_broken(&world).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.proxy().play(calm());
    pod.wait_bound(MINUTE).await;
    let planned = pod.wait_event("Planned", MINUTE).await;
    assert!(planned.starts_with("2 pods, among them 1 whole pod group, "), "{planned}");
    assert_eq!(world.audit().await.evicted().len(), 2, "one group, whole");
    world.check_promises().await;
}

async fn a_watch_whose_connection_has_died_without_a_word_begins_anew() {
    let mut world = stage().await;
    without_groups(&mut world, Fault::Silence).await;
    let silent = || world.proxy().tally().get("silent watch").copied().unwrap_or_default();
    wait_for(
        "a watch of groups is silent",
        MINUTE,
        async || if silent() > 0 { Ok(()) } else { Err("none is".to_owned()) },
    )
    .await;
    world.proxy().play(calm());
    world.nodes(2).cpus(1).create().await;
    let gang = world.gang("train", 2).create().await;
    gang.wait_bound(MINUTE).await;
    world.check_promises().await;
}

async fn a_watch_that_is_never_answered_is_broken_and_begins_anew() {
    let mut world = stage().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    without_groups(&mut world, Fault::Hang).await;
    wait_broken(&world).await;
    world.fill(&nodes).priority("low").whole().groups_of(2).await;
    let pod = world.pod("vip").priority("high").create().await;
    pod.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.proxy().play(calm());
    pod.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 2, "one group, whole");
    world.check_promises().await;
}

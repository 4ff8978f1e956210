//! The watch of PodGroups lags behind the watch of pods or is broken.

use super::stage;
use crate::MINUTE;
use giveway_tests::World;
use giveway_tests::cluster::{PodHandle, Shaped};
use giveway_tests::proxy::{Call, Fault, no_faults};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            no_pod_is_evicted_while_the_list_of_groups_is_answered_404;
        release:
            a_group_is_disrupted_whole_if_its_pods_are_observed_before_the_group,
            a_watch_on_a_silently_broken_connection_is_restarted,
            watches_are_restarted_if_their_packets_are_dropped,
            a_watch_that_is_never_answered_is_reported_as_broken_and_restarted;
    ]
}

/// Returns true if a call reads Giveway's PodGroups.
fn reads_groups(call: &Call) -> bool {
    call.method == "GET" && call.path.starts_with("/apis/scheduling.giveway.dev/") && call.path.ends_with("/podgroups")
}

/// Restarts the operator, waits until it leads and has listed all kinds, and then injects faults into all calls that read
/// PodGroups.
async fn break_watch_of_groups(world: &mut World, fault: impl Fn(&Call) -> Fault + Send + 'static) {
    // Watches are cut every 100 ms, so that the next attempt meets the fault soon.
    let cut = Fault::CutAfter(Duration::from_millis(100));
    world.proxy().play(Box::new(move |call| if reads_groups(call) { cut } else { Fault::None }));
    world.operator().kill();
    world.operator().start().await;
    wait_for("the operator leads and is ready", MINUTE, async || {
        let leads = world.operator_metrics().await.contains("\ngiveway_operator_leader 1");
        let (status, words) = world.operator_http("/readyz").await;
        if leads && status == 200 { Ok(()) } else { Err(words) }
    })
    .await;
    world.proxy().play(Box::new(move |call| if reads_groups(call) { fault(call) } else { Fault::None }));
}

/// Waits until the operator reports that its watch of PodGroups is broken and that it makes no decisions.
async fn wait_broken(world: &World) {
    wait_for("readyz reports the watch of PodGroups as broken", MINUTE, async || {
        let (status, words) = world.operator_http("/readyz").await;
        let broken = status == 503 && words.contains("the watch of kind PodGroup has been broken for ");
        if broken { Ok(()) } else { Err(format!("{status} {words}")) }
    })
    .await;
}

/// Ends the faults: the operator observes the PodGroups again and evicts both pods of one of them for this pod.
async fn preempts_a_whole_group_without_faults(world: &World, pod: &PodHandle) {
    world.proxy().play(no_faults());
    pod.wait_bound(MINUTE).await;
    let planned = pod.wait_event("Planned", MINUTE).await;
    assert!(planned.starts_with("2 pods, among them 1 whole pod group, "), "{planned}");
    assert_eq!(world.audit().await.evicted().len(), 2, "both pods of one group");
    world.check_promises().await;
}

async fn a_group_is_disrupted_whole_if_its_pods_are_observed_before_the_group() {
    let mut world = stage().await;
    // The nodes are created first, because pods count as young for 20 s only.
    let nodes = world.nodes(2).cpus(2).create().await;
    break_watch_of_groups(&mut world, |_| Fault::Answer(503)).await;
    world.fill(&nodes).priority("low").whole().groups_of(2).await;
    let pod = world.pod("vip").priority("high").create().await;
    let event = pod.wait_event("Unschedulable", MINUTE).await;
    let words = "New pods whose PodGroup or namespace is not known yet are not evicted, for at most 20 seconds.";
    assert!(event.ends_with(words), "{event}");
    wait_broken(&world).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    preempts_a_whole_group_without_faults(&world, &pod).await;
}

/// The operator has listed the PodGroups. Then their watch ends, so that they must be listed again, and their API is not
/// served for a while. A pod of an unknown PodGroup would be evicted as a single pod.
async fn no_pod_is_evicted_while_the_list_of_groups_is_answered_404() {
    let mut world = stage().await;
    let nodes = world.nodes(2).cpus(2).create().await;
    world.fill(&nodes).priority("low").whole().groups_of(2).await;
    break_watch_of_groups(&mut world, |call| Fault::Answer(if call.watch { 410 } else { 404 })).await;
    wait_broken(&world).await;
    let pod = world.pod("vip").priority("high").create().await;
    pod.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    wait_broken(&world).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    let (status, words) = world.operator_http("/healthz").await;
    assert_eq!((status, words.as_str()), (200, "ok"), "a broken watch is no reason to restart the operator");
    preempts_a_whole_group_without_faults(&world, &pod).await;
}

async fn a_watch_on_a_silently_broken_connection_is_restarted() {
    let mut world = stage().await;
    break_watch_of_groups(&mut world, |_| Fault::Silence).await;
    let silent = || world.proxy().tally().get("silent watch").copied().unwrap_or_default();
    wait_for("a watch of groups is silent", MINUTE, async || {
        if silent() > 0 { Ok(()) } else { Err("no watch is silent".to_owned()) }
    })
    .await;
    world.proxy().play(no_faults());
    world.nodes(2).cpus(1).create().await;
    let gang = world.gang("train", 2).create().await;
    gang.wait_bound(MINUTE).await;
    world.check_promises().await;
}

async fn watches_are_restarted_if_their_packets_are_dropped() {
    let mut world = stage().await;
    world.nodes(2).cpus(1).create().await;
    wait_for("the operator leads and is ready", MINUTE, async || {
        let leads = world.operator_metrics().await.contains("\ngiveway_operator_leader 1");
        let (status, words) = world.operator_http("/readyz").await;
        if leads && status == 200 { Ok(()) } else { Err(words) }
    })
    .await;
    let log = world.operator().log();
    let earlier = std::fs::read_to_string(&log).unwrap().len();
    world.proxy().lose_watches();
    let failure = wait_for("the watch of PodGroups has failed", MINUTE, async || {
        let text = std::fs::read_to_string(&log).unwrap();
        let is_failure = |line: &&str| line.contains("watch interrupted") && line.contains("kind=PodGroup ");
        text[earlier..].lines().find(is_failure).map(str::to_owned).ok_or_else(|| "it has not".to_owned())
    })
    .await;
    // The kernel ends the connection. The operator itself would end the watch only after the time for which it may last.
    assert!(!failure.contains("did not end it"), "{failure}");
    let gang = world.gang("train", 2).create().await;
    gang.wait_bound(MINUTE).await;
    world.check_promises().await;
}

async fn a_watch_that_is_never_answered_is_reported_as_broken_and_restarted() {
    let mut world = stage().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    break_watch_of_groups(&mut world, |_| Fault::Hang).await;
    wait_broken(&world).await;
    world.fill(&nodes).priority("low").whole().groups_of(2).await;
    let pod = world.pod("vip").priority("high").create().await;
    pod.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    preempts_a_whole_group_without_faults(&world, &pod).await;
}

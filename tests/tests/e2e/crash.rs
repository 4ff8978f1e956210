//! The operator is killed between two steps of a plan: the next leader completes the plan, and no pod is evicted twice.

use crate::{INITIALLY_SCHEDULED, MINUTE};
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::Shaped;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use std::collections::BTreeSet;
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            a_plan_is_completed_if_the_operator_is_killed_before_and_between_its_evictions,
            sigterm_ends_the_operator_and_releases_the_lease_first;
        release:
            losing_the_lease_ends_the_process;
    ]
}

/// Returns the holder of the operator's Lease; empty if it has none.
pub(crate) async fn holder(world: &World) -> String {
    let args = ["get", "lease", "giveway-operator", "-n", "giveway-system", "-o", "jsonpath={.spec.holderIdentity}"];
    world.kubectl(&args).await.unwrap()
}

async fn a_plan_is_completed_if_the_operator_is_killed_before_and_between_its_evictions() {
    // With one eviction per second the operator can be killed between two evictions.
    let mut world = World::builder().operator_flag("--evictions-per-second=1").start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(3).create().await;
    world.fill(&nodes).priority("low").whole().groups_of(6).await;
    let gang =
        world.gang("train", 6).priority("high").spec(|spec| spec.preemption_delay_seconds = Some(5)).create().await;
    let first = gang.wait_plan(PlanState::Planned, MINUTE).await;
    world.operator().kill();
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new(), "killed before the first eviction");
    world.operator().start().await;
    wait_for("some but not all victims are evicted", MINUTE, async || {
        let evicted = world.audit().await.evicted().len();
        if (1..6).contains(&evicted) { Ok(()) } else { Err(format!("{evicted} of 6 are evicted")) }
    })
    .await;
    world.operator().kill();
    let between = world.audit().await.evicted().len();
    assert!(between < 6, "killed between two evictions, after {between}");
    world.operator().start().await;
    gang.wait_bound(MINUTE).await;
    let last = gang.wait_plan(PlanState::Completed, MINUTE).await;
    assert_eq!(last.id, first.id, "the stored plan was completed, and no second plan was made");
    assert_ne!(last.term, first.term, "by another leader");
    let history = world.audit().await;
    let uids: BTreeSet<&str> = history.evicted().iter().map(|r| r.uid.as_str()).collect();
    assert_eq!((history.evicted().len(), uids.len()), (6, 6), "each victim is evicted once");
    world.check_promises().await;
}

async fn sigterm_ends_the_operator_and_releases_the_lease_first() {
    let mut world = World::start().await;
    world.nodes(1).cpus(2).create().await;
    world.class("high", 1000).managed().create().await;
    world.gang("train", 2).priority("high").create().await.wait_bound(MINUTE).await;
    let (status, _) = world.operator().terminate().await;
    assert!(status.success(), "{status}");
    assert_eq!(holder(&world).await, "", "the lease was released");
    world.operator().start().await;
    world.nodes(1).cpus(2).prefix("more").create().await;
    let gang = world.gang("second", 2).priority("high").create().await;
    gang.wait_bound(Duration::from_secs(10)).await;
    gang.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    world.check_promises().await;
}

async fn losing_the_lease_ends_the_process() {
    let mut world = World::start().await;
    let patch = r#"{"spec":{"holderIdentity":"another-instance","leaseDurationSeconds":3600,"renewTime":"2100-01-01T00:00:00.000000Z"}}"#;
    wait_for("the operator holds the lease", MINUTE, async || {
        if holder(&world).await.is_empty() { Err("the lease has no holder".to_owned()) } else { Ok(()) }
    })
    .await;
    let args = ["patch", "lease", "giveway-operator", "-n", "giveway-system", "--type=merge", "-p", patch];
    world.kubectl(&args).await.unwrap();
    let status = world.operator().wait_exit(Duration::from_secs(10)).await;
    assert!(!status.success(), "{status}");
    let log = std::fs::read_to_string(world.operator().log()).unwrap();
    assert!(log.contains("the lease giveway-operator was lost: another instance holds it"), "{log}");
    world.check_promises().await;
}

//! Operators whose clock is an hour ahead or behind. The times in objects come from the API server.

use super::PATIENCE;
use crate::MINUTE;
use crate::crash::holder;
use giveway_crds::plan::PlanState;
use giveway_tests::World;
use giveway_tests::cluster::Shaped;
use giveway_tests::giveway::NAMESPACE;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            a_new_leader_with_a_wrong_clock_waits_for_victims,
            a_renewed_lease_of_a_holder_with_a_wrong_clock_is_respected;
    ]
}

/// Fills two nodes with pods that terminate slowly; the pods on the second node have a higher priority.
async fn fill_nodes(world: &World, name: &str) {
    let cheap = world.nodes(1).cpus(2).prefix(&format!("{name}-cheap")).create().await;
    let dear = world.nodes(1).cpus(2).prefix(&format!("{name}-dear")).create().await;
    world.fill(&cheap).priority("low").prefix(&format!("{name}-slow")).grace_seconds(40).singles().await;
    world.fill(&dear).priority("middle").prefix(&format!("{name}-stays")).grace_seconds(40).singles().await;
}

async fn a_new_leader_with_a_wrong_clock_waits_for_victims() {
    let mut world = World::start().await;
    world.class("low", 10).managed().create().await;
    world.class("middle", 100).managed().create().await;
    world.class("high", 1000).managed().create().await;
    for (name, ahead) in [("ahead", 3_600), ("behind", -3_600)] {
        fill_nodes(&world, name).await;
        let gang = world.gang(name, 2).priority("high").create().await;
        gang.wait_plan(PlanState::WaitingForVictims, MINUTE).await;
        world.operator().kill();
        world.operator().clock_ahead(ahead);
        world.operator().start().await;
        gang.wait_bound(PATIENCE).await;
        gang.wait_plan(PlanState::Completed, MINUTE).await;
        let log = std::fs::read_to_string(world.operator().log()).unwrap();
        let words = "the API server's clock is ahead of this machine's; its time counts";
        assert!(log.lines().any(|line| line.contains(words)), "the operator's log does not mention the clock");
        let evicted = world.audit().await.evicted_names();
        assert!(evicted.iter().all(|pod| pod.contains("-slow")), "{evicted:?}");
    }
    assert_eq!(world.audit().await.evicted().len(), 4);
    world.check_promises().await;
}

async fn a_renewed_lease_of_a_holder_with_a_wrong_clock_is_respected() {
    let mut world = World::start().await;
    holder(&world).await;
    world.operator().kill();
    let leases = kube::Api::<k8s_openapi::api::coordination::v1::Lease>::namespaced(world.client(), NAMESPACE);
    let renew = async |hours: i64| {
        let time = Timestamp::now() + SignedDuration::from_hours(hours);
        let lease = json!({"spec": {"holderIdentity": "elsewhere-00000001", "leaseDurationSeconds": 4,
            "renewTime": format!("{time:.6}")}});
        leases.patch("giveway-operator", &PatchParams::default(), &Patch::Merge(&lease)).await.unwrap();
    };
    renew(-1).await;
    world.operator().spawn().unwrap();
    // The lease is renewed for three times its duration, alternately with a time in the past and in the future.
    for round in 0..24 {
        renew(if round % 2 == 0 { -1 } else { 1 }).await;
        assert_eq!(holder(&world).await, "elsewhere-00000001");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    wait_for("the operator leads after the lease is no longer renewed", MINUTE, async || {
        let now = holder(&world).await;
        if now.starts_with("elsewhere") { Err(now) } else { Ok(()) }
    })
    .await;
    world.operator().wait_ready(MINUTE).await.unwrap();
    world.check_promises().await;
}

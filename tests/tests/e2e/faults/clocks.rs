//! Operators whose machine has a wrong clock: an hour ahead, an hour behind. Times in objects are the API server's.

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
            the_next_leader_waits_for_victims_also_when_its_clock_is_an_hour_off,
            nobody_takes_a_lease_from_a_holder_whose_clock_is_an_hour_off;
    ]
}

/// A full node whose pods take their time to end, and another one whose pods cost more.
async fn full(world: &World, name: &str) {
    let cheap = world.nodes(1).cpus(2).prefix(&format!("{name}-cheap")).create().await;
    let dear = world.nodes(1).cpus(2).prefix(&format!("{name}-dear")).create().await;
    world.fill(&cheap).priority("low").prefix(&format!("{name}-slow")).grace_seconds(40).singles().await;
    world.fill(&dear).priority("middle").prefix(&format!("{name}-stays")).grace_seconds(40).singles().await;
}

async fn the_next_leader_waits_for_victims_also_when_its_clock_is_an_hour_off() {
    let mut world = World::start().await;
    world.class("low", 10).managed().create().await;
    world.class("middle", 100).managed().create().await;
    world.class("high", 1000).managed().create().await;
    for (name, ahead) in [("ahead", 3_600), ("behind", -3_600)] {
        full(&world, name).await;
        let gang = world.gang(name, 2).priority("high").create().await;
        gang.wait_plan(PlanState::WaitingForVictims, MINUTE).await;
        world.operator().kill();
        world.operator().clock_ahead(ahead);
        world.operator().start().await;
        gang.wait_bound(PATIENCE).await;
        gang.wait_plan(PlanState::Completed, MINUTE).await;
        let log = std::fs::read_to_string(world.operator().log()).unwrap();
        let words = "the API server's clock is ahead of this machine's; its time counts";
        assert!(log.lines().any(|line| line.contains(words)), "the clock was off");
        let evicted = world.audit().await.evicted_names();
        assert!(evicted.iter().all(|pod| pod.contains("-slow")), "{evicted:?}");
    }
    assert_eq!(world.audit().await.evicted().len(), 4);
    world.check_promises().await;
}

async fn nobody_takes_a_lease_from_a_holder_whose_clock_is_an_hour_off() {
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
    // Three times as long as the lease lives it is renewed, by one clock and by the other.
    for round in 0..24 {
        renew(if round % 2 == 0 { -1 } else { 1 }).await;
        assert_eq!(holder(&world).await, "elsewhere-00000001");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    wait_for("the operator leads when nobody renews any more", MINUTE, async || {
        let now = holder(&world).await;
        if now.starts_with("elsewhere") { Err(now) } else { Ok(()) }
    })
    .await;
    world.operator().wait_ready(MINUTE).await.unwrap();
    world.check_promises().await;
}

//! Two operators: the former leader wakes up, loses its connection to the API server, or loses the lease. It writes nothing
//! afterwards.

use super::scenes::{Scenario, Scene};
use super::{PATIENCE, stage, wait_writes};
use crate::crash::holder;
use giveway_tests::World;
use giveway_tests::proxy::Fault;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use jiff::Timestamp;
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            a_leader_frozen_until_its_lease_expired_writes_nothing_afterwards;
        release:
            a_leader_without_connection_exits_and_the_next_leader_completes_its_plan,
            a_leader_renews_its_lease_after_conflicts,
            on_sigterm_the_operator_awaits_the_answers_to_its_evictions_before_it_releases_the_lease;
    ]
}

/// Waits until an operator other than `first` holds the lease.
async fn wait_another_leader(world: &World, first: &str) {
    wait_for("another operator leads", PATIENCE, async || {
        let now = holder(world).await;
        if now.is_empty() || now == first { Err(now) } else { Ok(()) }
    })
    .await;
}

async fn a_leader_frozen_until_its_lease_expired_writes_nothing_afterwards() {
    let mut world = stage().await;
    let scene = Scene::set(&world.kit(), "asleep", Scenario::Preemption).await;
    let mut other = world.another_operator(&["--lease-duration-seconds=8"]).await;
    let first = holder(&world).await;
    other.spawn().unwrap();
    // The operator is frozen during its third write, so this write is in transit when the operator continues.
    let third = world.proxy();
    third.play(Box::new(|call| if call.write >= 3 { Fault::Delay(Duration::from_secs(8)) } else { Fault::None }));
    let play = scene.play();
    let sleep = async {
        wait_writes(&world, 3).await;
        world.freeze_operator(true);
        wait_another_leader(&world, &first).await;
        world.freeze_operator(false);
    };
    tokio::join!(play, sleep);
    let status = world.operator().wait_exit(Duration::from_secs(20)).await;
    assert!(!status.success(), "{status}");
    other.wait_ready(PATIENCE).await.unwrap();
    scene.rest(&world.audit().await).await;
    world.check_promises().await;
}

async fn a_leader_without_connection_exits_and_the_next_leader_completes_its_plan() {
    let mut world = stage().await;
    let scene = Scene::set(&world.kit(), "alone", Scenario::Preemption).await;
    let mut other = world.another_operator(&["--lease-duration-seconds=8"]).await;
    let first = holder(&world).await;
    other.spawn().unwrap();
    // After the fifth write no call is answered, renewals of the lease included.
    let mut writes = 0;
    world.proxy().play(Box::new(move |call| {
        writes = writes.max(call.write);
        if writes > 5 { Fault::Hang } else { Fault::None }
    }));
    tokio::join!(scene.play(), wait_another_leader(&world, &first));
    let status = world.operator().wait_exit(Duration::from_secs(20)).await;
    assert!(!status.success(), "{status}");
    scene.rest(&world.audit().await).await;
    world.check_promises().await;
}

async fn a_leader_renews_its_lease_after_conflicts() {
    let mut world = stage().await;
    let first = holder(&world).await;
    let mut refused = 0;
    world.proxy().play(Box::new(move |call| {
        refused += u32::from(call.lease() && call.method == "PUT");
        if call.lease() && call.method == "PUT" && refused % 2 == 1 { Fault::Answer(409) } else { Fault::None }
    }));
    wait_for("three renewals had conflicts", PATIENCE, async || {
        let conflicts = world.proxy().tally().get("409").copied().unwrap_or(0);
        if conflicts >= 3 { Ok(()) } else { Err(format!("{conflicts} conflicts")) }
    })
    .await;
    assert!(world.operator().exited().is_none(), "the operator must not exit after a conflict");
    assert_eq!(holder(&world).await, first);
    world.check_promises().await;
}

async fn on_sigterm_the_operator_awaits_the_answers_to_its_evictions_before_it_releases_the_lease() {
    let mut world = stage().await;
    let scene = Scene::set(&world.kit(), "ending", Scenario::Preemption).await;
    let mut other = world.another_operator(&["--lease-duration-seconds=8"]).await;
    other.spawn().unwrap();
    let late = Fault::LateAnswer(Duration::from_millis(1200));
    let (sender, mut evictions) = tokio::sync::mpsc::unbounded_channel();
    world.proxy().play(Box::new(move |call| {
        if !call.path.ends_with("/eviction") {
            return Fault::None;
        }
        sender.send(()).ok();
        late
    }));
    let end = async {
        evictions.recv().await.expect("an eviction is in transit");
        world.operator().terminate().await
    };
    let ((), (status, _)) = tokio::join!(scene.play(), end);
    assert!(status.success(), "{status}");
    let history = world.audit().await;
    let released = history.leaders.iter().find(|(_, holder)| holder.is_empty()).map(|(at, _)| *at);
    let released = released.expect("the lease was released");
    let log = std::fs::read_to_string(world.operator().log()).unwrap();
    let lines = log.lines().filter(|line| line.contains("eviction pod=ending/"));
    let answered: Vec<Timestamp> = lines.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    assert!(
        !answered.is_empty() && answered.iter().all(|at| *at <= released),
        "the lease was released at {released}: {log}"
    );
    scene.rest(&world.audit().await).await;
    world.check_promises().await;
}

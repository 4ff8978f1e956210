//! Two operators: the one that was the leader comes back, or cannot reach the API server, or loses the lease. What it still wants
//! to write is not written.

use super::scenes::{Scenario, Scene};
use super::{PATIENCE, stage, written};
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
            a_leader_that_was_stopped_beyond_its_lease_writes_nothing_when_it_wakes;
        release:
            a_leader_that_reaches_nobody_ends_and_the_next_one_finishes_its_plan,
            a_lease_that_somebody_else_writes_to_is_renewed_all_the_same,
            an_operator_that_is_told_to_end_hears_the_answers_of_its_evictions_before_it_gives_up_the_lease;
    ]
}

async fn another_leads(world: &World, first: &str) {
    wait_for("another operator leads", PATIENCE, async || {
        let now = holder(world).await;
        if now.is_empty() || now == first { Err(now) } else { Ok(()) }
    })
    .await;
}

async fn a_leader_that_was_stopped_beyond_its_lease_writes_nothing_when_it_wakes() {
    let mut world = stage().await;
    let scene = Scene::set(&world.kit(), "asleep", Scenario::Preemption).await;
    let mut other = world.another_operator(&["--lease-duration-seconds=8"]).await;
    let first = holder(&world).await;
    other.spawn().unwrap();
    // It falls asleep when it is about to write for the third time: the write is on its way when it wakes.
    let third = world.proxy();
    third.play(Box::new(|call| if call.write >= 3 { Fault::Delay(Duration::from_secs(8)) } else { Fault::None }));
    let play = scene.play();
    let sleep = async {
        written(&world, 3).await;
        world.frozen_operator(true);
        another_leads(&world, &first).await;
        world.frozen_operator(false);
    };
    tokio::join!(play, sleep);
    let status = world.operator().wait_exit(Duration::from_secs(20)).await;
    assert!(!status.success(), "{status}");
    other.wait_ready(PATIENCE).await.unwrap();
    scene.rest(&world.audit().await).await;
    world.check_promises().await;
}

async fn a_leader_that_reaches_nobody_ends_and_the_next_one_finishes_its_plan() {
    let mut world = stage().await;
    let scene = Scene::set(&world.kit(), "alone", Scenario::Preemption).await;
    let mut other = world.another_operator(&["--lease-duration-seconds=8"]).await;
    let first = holder(&world).await;
    other.spawn().unwrap();
    // After its fifth write nothing comes through any more, not even the lease.
    let mut writes = 0;
    world.proxy().play(Box::new(move |call| {
        writes = writes.max(call.write);
        if writes > 5 { Fault::Hang } else { Fault::None }
    }));
    tokio::join!(scene.play(), another_leads(&world, &first));
    let status = world.operator().wait_exit(Duration::from_secs(20)).await;
    assert!(!status.success(), "{status}");
    scene.rest(&world.audit().await).await;
    world.check_promises().await;
}

async fn a_lease_that_somebody_else_writes_to_is_renewed_all_the_same() {
    let mut world = stage().await;
    let first = holder(&world).await;
    let mut refused = 0;
    world.proxy().play(Box::new(move |call| {
        refused += u32::from(call.lease() && call.method == "PUT");
        if call.lease() && call.method == "PUT" && refused % 2 == 1 { Fault::Answer(409) } else { Fault::None }
    }));
    wait_for("some renewals were refused", PATIENCE, async || {
        let conflicts = world.proxy().tally().get("409").copied().unwrap_or(0);
        if conflicts >= 3 { Ok(()) } else { Err(format!("{conflicts} were")) }
    })
    .await;
    assert!(world.operator().exited().is_none(), "a conflict is no other holder");
    assert_eq!(holder(&world).await, first);
    world.check_promises().await;
}

async fn an_operator_that_is_told_to_end_hears_the_answers_of_its_evictions_before_it_gives_up_the_lease() {
    let mut world = stage().await;
    let scene = Scene::set(&world.kit(), "ending", Scenario::Preemption).await;
    let mut other = world.another_operator(&["--lease-duration-seconds=8"]).await;
    other.spawn().unwrap();
    let late = Fault::LateAnswer(Duration::from_millis(1200));
    let (told, mut hears) = tokio::sync::mpsc::unbounded_channel();
    world.proxy().play(Box::new(move |call| {
        if !call.path.ends_with("/eviction") {
            return Fault::None;
        }
        told.send(()).ok();
        late
    }));
    let end = async {
        hears.recv().await.expect("an eviction is on its way");
        world.operator().terminate().await
    };
    let ((), (status, _)) = tokio::join!(scene.play(), end);
    assert!(status.success(), "{status}");
    let history = world.audit().await;
    let released = history.leaders.iter().find(|(_, holder)| holder.is_empty()).map(|(at, _)| *at);
    let released = released.expect("the lease was given up");
    let log = std::fs::read_to_string(world.operator().log()).unwrap();
    let lines = log.lines().filter(|line| line.contains("eviction pod=ending/"));
    let heard: Vec<Timestamp> = lines.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    assert!(!heard.is_empty() && heard.iter().all(|at| *at <= released), "the lease was given up at {released}: {log}");
    scene.rest(&world.audit().await).await;
    world.check_promises().await;
}

//! The operator is killed (SIGKILL) immediately before and after each of its writes, and restarted.

use super::scenes::{Scenario, Scene};
use super::{keep_alive, kill_and_start, seed, stage};
use giveway_tests::World;
use giveway_tests::proxy::{Fault, no_faults};
use giveway_tests::random::Random;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use kube::Client;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            a_whole_group_disruption_survives_a_crash_at_every_write,
            an_adoption_survives_a_crash_at_every_write,
            a_guaranteed_budget_survives_a_crash_at_every_write,
            a_preemption_survives_a_crash_at_every_write;
    ]
}

/// Unless all writes are tried, one of this number is.
const STRIDE: u64 = 4;

async fn a_preemption_survives_a_crash_at_every_write() {
    survives(Scenario::Preemption).await;
}

async fn a_whole_group_disruption_survives_a_crash_at_every_write() {
    survives(Scenario::Departure(4)).await;
}

async fn an_adoption_survives_a_crash_at_every_write() {
    survives(Scenario::Adoption).await;
}

async fn a_guaranteed_budget_survives_a_crash_at_every_write() {
    survives(Scenario::Budget).await;
}

/// Plays the scenario once per write and fault, and checks the promises.
async fn survives(scenario: Scenario) {
    let mut world = stage().await;
    let scene = Scene::set(&world.kit(), "calm", scenario).await;
    world.proxy().play(no_faults());
    scene.play().await;
    scene.rest(&world.audit().await).await;
    let writes = world.proxy().writes();
    scene.clear().await;
    let every = std::env::var("GIVEWAY_CRASHES").is_ok_and(|which| which == "all");
    let stride = if every { 1 } else { STRIDE };
    let first = if every { 1 } else { 1 + Random::new(seed(), 0, 0).below(STRIDE as usize) as u64 };
    let mut killed = 0;
    for write in (first..=writes).step_by(stride as usize) {
        for fault in [Fault::KillBefore, Fault::KillAfter] {
            killed += u64::from(crash(&mut world, scenario, write, fault).await);
        }
    }
    println!("{scenario:?}: {writes} writes, the operator was killed {killed} times (seed {})", seed());
    assert!(killed > 0, "the operator was never killed");
    world.check_promises().await;
}

/// Plays the scenario and kills the operator at this write. Returns true if the operator was killed.
async fn crash(world: &mut World, scenario: Scenario, write: u64, fault: Fault) -> bool {
    let when = if fault == Fault::KillBefore { "before" } else { "after" };
    let scene = Scene::set(&world.kit(), &format!("{when}-{write}"), scenario).await;
    world.proxy().play(Box::new(move |call| if call.write == write { fault } else { Fault::None }));
    let client = world.client();
    let mut killed = false;
    tokio::select! {
        () = scene.play() => {}
        () = keep_alive(world.operator(), &client, &mut killed) => {}
    }
    let history = world.audit().await;
    tokio::select! {
        () = scene.rest(&history) => {}
        () = keep_alive(world.operator(), &client, &mut killed) => {}
    }
    // Writes during the clean-up of the scene are not counted.
    world.proxy().play(no_faults());
    killed |= revive(world, &client).await;
    scene.clear().await;
    // The proxy may have killed the operator so late that it is seen as exited only after the clean-up.
    killed | revive(world, &client).await
}

/// Starts the operator again if it was killed. Returns true if it was.
async fn revive(world: &mut World, client: &Client) -> bool {
    let is_killed = world.operator().exited().is_some();
    if is_killed {
        kill_and_start(world.operator(), client).await;
    }
    is_killed
}

//! Parts of the control plane are killed and come back in the middle of a preemption, or cannot be reached for a while.

use super::scenes::{Scenario, Scene};
use super::{PATIENCE, stage_in, written};
use giveway_tests::World;
use giveway_tests::proxy::{Call, Fault, calm};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            etcd_api_server_and_scheduler_are_killed_in_the_middle_of_a_preemption,
            the_api_server_is_away_for_ten_seconds_in_the_middle_of_evicting_and_of_releasing;
    ]
}

/// How long the API server cannot be reached.
const AWAY: Duration = Duration::from_secs(10);

async fn etcd_api_server_and_scheduler_are_killed_in_the_middle_of_a_preemption() {
    // As long as the lease lives the operator waits for the API server, which takes its time to start on a busy machine.
    let mut world = stage_in(World::builder().operator_flag("--lease-duration-seconds=60")).await;
    for process in ["kube-scheduler", "etcd", "kube-apiserver"] {
        let scene = Scene::set(&world.kit(), &format!("without-{process}"), Scenario::Preemption).await;
        world.proxy().play(calm());
        let (gang, ()) = tokio::join!(scene.gang(), written(&world, 6));
        world.plane().restart(process).unwrap();
        gang.wait_bound(PATIENCE).await;
        scene.rest(&world.audit().await).await;
        scene.clear().await;
    }
    world.check_promises().await;
}

async fn the_api_server_is_away_for_ten_seconds_in_the_middle_of_evicting_and_of_releasing() {
    let world = stage_in(World::builder().operator_flag("--lease-duration-seconds=60")).await;
    let evicts = |call: &Call| call.path.ends_with("/eviction");
    let releases = |call: &Call| call.method == "PATCH" && call.path.contains("/pods/train-") && !subresource(call);
    away(&world, "evicting", 2, evicts).await;
    away(&world, "releasing", 2, releases).await;
    let tally = world.proxy().tally();
    println!("{tally:?}");
    assert!(tally["broken connection"] >= 10, "{tally:?}");
    world.check_promises().await;
}

fn subresource(call: &Call) -> bool {
    call.path.ends_with("/status") || call.path.ends_with("/eviction")
}

/// Plays the preemption with an API server that goes away with the `last` of these calls.
async fn away(world: &World, name: &str, last: usize, which: impl Fn(&Call) -> bool + Send + 'static) {
    let scene = Scene::set(&world.kit(), name, Scenario::Preemption).await;
    let gone = Arc::new(AtomicBool::new(false));
    let (seen, mut calls) = (Arc::clone(&gone), 0);
    world.proxy().play(Box::new(move |call| {
        calls += usize::from(which(call));
        if calls < last {
            return Fault::None;
        }
        seen.store(true, Ordering::Relaxed);
        Fault::Break
    }));
    let went =
        wait_for(
            "it is away",
            PATIENCE,
            async || {
                if gone.load(Ordering::Relaxed) { Ok(()) } else { Err("not yet".to_owned()) }
            },
        );
    let (gang, ()) = tokio::join!(scene.gang(), went);
    // The watches that run break off as well.
    let since = Instant::now();
    world.proxy().play(Box::new(move |_| if since.elapsed() < AWAY { Fault::Break } else { Fault::None }));
    gang.wait_bound(PATIENCE).await;
    scene.rest(&world.audit().await).await;
    scene.clear().await;
}

//! Parts of the control plane are killed and restarted during a preemption, or are unreachable for a time.

use super::scenes::{Scenario, Scene};
use super::{PATIENCE, stage_in, wait_writes};
use giveway_tests::World;
use giveway_tests::proxy::{Call, Fault, no_faults};
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
            a_preemption_completes_after_etcd_the_api_server_or_the_scheduler_is_killed,
            a_preemption_completes_after_an_outage_of_the_api_server_while_evicting_or_ungating;
    ]
}

/// Duration of an outage of the API server.
const OUTAGE: Duration = Duration::from_secs(10);

async fn a_preemption_completes_after_etcd_the_api_server_or_the_scheduler_is_killed() {
    // The operator waits for the API server until its lease expires; on a busy machine the API server starts slowly.
    let mut world = stage_in(World::builder().operator_flag("--lease-duration-seconds=60")).await;
    for process in ["kube-scheduler", "etcd", "kube-apiserver"] {
        let scene = Scene::set(&world.kit(), &format!("without-{process}"), Scenario::Preemption).await;
        world.proxy().play(no_faults());
        let (gang, ()) = tokio::join!(scene.gang(), wait_writes(&world, 6));
        world.plane().restart(process).unwrap();
        gang.wait_bound(PATIENCE).await;
        scene.rest(&world.audit().await).await;
        scene.clear().await;
    }
    world.check_promises().await;
}

async fn a_preemption_completes_after_an_outage_of_the_api_server_while_evicting_or_ungating() {
    let world = stage_in(World::builder().operator_flag("--lease-duration-seconds=60")).await;
    let evicts = |call: &Call| call.path.ends_with("/eviction");
    let releases = |call: &Call| call.method == "PATCH" && call.path.contains("/pods/train-") && !subresource(call);
    outage(&world, "evicting", 2, evicts).await;
    outage(&world, "releasing", 2, releases).await;
    let tally = world.proxy().tally();
    println!("{tally:?}");
    assert!(tally["broken connection"] >= 10, "{tally:?}");
    world.check_promises().await;
}

fn subresource(call: &Call) -> bool {
    call.path.ends_with("/status") || call.path.ends_with("/eviction")
}

/// Plays the preemption with an outage of the API server that begins with the `last`-th of the calls that `which` selects.
async fn outage(world: &World, name: &str, last: usize, which: impl Fn(&Call) -> bool + Send + 'static) {
    let scene = Scene::set(&world.kit(), name, Scenario::Preemption).await;
    let began = Arc::new(AtomicBool::new(false));
    let (seen, mut calls) = (Arc::clone(&began), 0);
    world.proxy().play(Box::new(move |call| {
        calls += usize::from(which(call));
        if calls < last {
            return Fault::None;
        }
        seen.store(true, Ordering::Relaxed);
        Fault::Break
    }));
    let wait = wait_for("the outage has started", PATIENCE, async || {
        if began.load(Ordering::Relaxed) { Ok(()) } else { Err("not yet".to_owned()) }
    });
    let (gang, ()) = tokio::join!(scene.gang(), wait);
    // The running watches are cut too.
    let since = Instant::now();
    world.proxy().play(Box::new(move |_| if since.elapsed() < OUTAGE { Fault::Break } else { Fault::None }));
    gang.wait_bound(PATIENCE).await;
    scene.rest(&world.audit().await).await;
    scene.clear().await;
}

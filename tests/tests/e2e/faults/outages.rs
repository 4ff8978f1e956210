//! Parts of the control plane are killed and come back in the middle of a preemption.

use super::scenes::{Scenario, Scene};
use super::{PATIENCE, stage_in, written};
use giveway_tests::World;
use giveway_tests::proxy::calm;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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

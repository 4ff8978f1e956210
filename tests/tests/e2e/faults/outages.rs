//! Parts of the control plane are killed and come back in the middle of a preemption.

use super::scenes::{Scenario, Scene};
use super::{PATIENCE, stage};
use giveway_tests::proxy::calm;
use giveway_tests::wait::wait_for;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_api_server_and_scheduler_are_killed_in_the_middle_of_a_preemption() {
    let mut world = stage().await;
    for process in ["kube-scheduler", "etcd", "kube-apiserver"] {
        let scene = Scene::set(&world.kit(), &format!("without-{process}"), Scenario::Preemption).await;
        world.proxy().play(calm());
        let middle = async {
            let proxy = world.proxy();
            wait_for("the preemption is under way", PATIENCE, async || {
                let writes = proxy.writes();
                if writes >= 6 { Ok(()) } else { Err(format!("{writes} writes")) }
            })
            .await;
        };
        let (gang, ()) = tokio::join!(scene.gang(), middle);
        world.plane().restart(process).unwrap();
        gang.wait_bound(PATIENCE).await;
        scene.rest(&world.audit().await).await;
        scene.clear().await;
    }
    world.check_promises().await;
}

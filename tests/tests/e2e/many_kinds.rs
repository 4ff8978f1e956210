//! A gang of pods that are all different, on thousands of nodes: the planner's effort is equivalence classes times nodes, and before it was
//! bounded by what the members can use, such a gang never started, also in an empty cluster.

use crate::MINUTE;
use futures::future::join_all;
use giveway_crds::keys;
use giveway_tests::cluster::Shaped;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            a_gang_of_80_different_pods_is_bound_on_4096_empty_nodes;
    ]
}

async fn a_gang_of_80_different_pods_is_bound_on_4096_empty_nodes() {
    let world = World::start().await;
    world.class("high", 1000).managed().create().await;
    world.nodes(4096).create().await;
    let gang = world.gang("train", 80).without_pods().min_count(80).priority("high").create().await;
    let members = join_all((0..80).map(|number| {
        let pod = world.pod(&format!("train-{number}")).label(keys::LABEL_POD_GROUP, "train").priority("high");
        pod.resource("memory", &format!("{}Mi", 100 + number)).create()
    }));
    for member in members.await {
        member.wait_bound(3 * MINUTE).await;
    }
    gang.wait_condition("Scheduled", "True", "Scheduled", MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 0);
    world.check_promises().await;
}

//! The binding of a pod is rejected, which only kube-scheduler finds out, after the evictions: no pod is evicted again for this placement.

use super::{WORDS, create_classes};
use crate::MINUTE;
use giveway_crds::condition::types::PREEMPTING;
use giveway_tests::cluster::Shaped as _;
use giveway_tests::denials::Rule;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            a_gang_is_bound_to_another_node_if_bindings_to_one_are_denied;
    ]
}

/// A policy may depend on the node. Before, the pods that took the capacity on this node were evicted again each time.
async fn a_gang_is_bound_to_another_node_if_bindings_to_one_are_denied() {
    let world = World::builder().operator_flag("--binding-timeout-seconds=3").start().await;
    create_classes(&world).await;
    let nodes = world.nodes(2).cpus(1).create().await;
    world.pod("low").priority("low").on(&nodes[0]).create().await;
    world.pod("middle").priority("middle").on(&nodes[1]).create().await;
    let denial = world.deny(Rule::bindings().named("train").to_node(&nodes[0]).saying(403, WORDS)).await;
    let gang = world.gang("train", 1).priority("high").create().await;
    denial.wait_denied(MINUTE).await;
    gang.wait_condition(PREEMPTING, "False", "Failed", MINUTE).await;
    assert_eq!(world.audit().await.evicted_names(), ["low"]);
    // The victim is recreated, as a controller would do, and takes the capacity again.
    world.pod("again").priority("low").on(&nodes[0]).create().await;
    assert_eq!(gang.wait_bound(2 * MINUTE).await, [nodes[1].clone()]);
    assert_eq!(world.audit().await.evicted_names(), ["low", "middle"]);
    world.check_promises().await;
}

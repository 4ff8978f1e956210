//! The taint of a critical add-on's node is rejected: no pod is evicted for the add-on.

use super::{addon, after, expect_no_eviction};
use crate::MINUTE;
use giveway_tests::cluster::Shaped as _;
use giveway_tests::denials::Rule;
use giveway_tests::runner::Test;
use giveway_tests::tests;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            no_pod_is_evicted_for_an_add_on_if_its_node_cannot_be_tainted;
    ]
}

async fn no_pod_is_evicted_for_an_add_on_if_its_node_cannot_be_tainted() {
    let world = after("1s").start().await;
    let nodes = world.nodes(1).cpus(1).create().await;
    world.fill(&nodes).grace_seconds(0).singles().await;
    let denial = world.deny(Rule::node_updates().saying(403, "the nodes stay as they are")).await;
    let dns = addon(&world, "dns").create().await;
    denial.wait_denied(MINUTE).await;
    expect_no_eviction(&world).await;
    assert!(dns.get().await.is_some_and(|pod| pod.spec.is_some_and(|spec| spec.node_name.is_none())));
}

//! The configuration of kube-scheduler: what Giveway reads of it means the same as to kube-scheduler itself.

use crate::{INITIALLY_SCHEDULED, MINUTE};
use giveway_tests::cluster::{Shaped, scheduling_gates};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own: pods_are_evicted_where_kube_scheduler_adds_affinity_and_never_for_a_resource_that_it_ignores;
    ]
}

async fn pods_are_evicted_where_kube_scheduler_adds_affinity_and_never_for_a_resource_that_it_ignores() {
    let rule = json!({"key": "pool", "operator": "In", "values": ["open"]});
    let added = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}});
    let plugins = json!([
        {"name": "NodeAffinity", "args": {"addedAffinity": added}},
        {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/fpga"]}},
    ]);
    let config = json!({"profiles": [{"schedulerName": "default-scheduler", "pluginConfig": plugins}]});
    let world = World::builder().scheduler_config(config).start().await;
    world.class("lowest", 5).managed().create().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let closed = world.nodes(1).prefix("closed").cpus(1).create().await;
    let open = world.nodes(2).prefix("open").cpus(1).label("pool", "open").create().await;
    world.fill(&closed).priority("lowest").prefix("lowest").singles().await;
    let low = world.fill(&open).priority("low").singles().await;

    // The cheapest victim is on a node that the added affinity excludes.
    let single = world.pod("single").priority("high").create().await;
    let taken = single.wait_bound(MINUTE).await;
    assert!(open.contains(&taken), "{taken}");
    assert_eq!(world.audit().await.evicted().len(), 1);

    // No node offers the resource, so kube-scheduler binds the member where it finds cpu.
    let gang = world.gang("train", 1).priority("high").cpu(1).resource("example.com/fpga", "1").create().await;
    assert_eq!(
        gang.wait_condition(INITIALLY_SCHEDULED, "False", "Unschedulable", MINUTE).await,
        "Where it can run depends on what Giveway does not know: resource example.com/fpga, which the configuration of \
         default-scheduler ignores. No pod is evicted for it; kube-scheduler places it."
    );
    wait_for("the gang is ungated", MINUTE, async || {
        let members: Vec<Pod> = gang.members().await.map_err(|error| error.to_string())?;
        let gated = members.iter().filter(|pod| !scheduling_gates(pod).is_empty()).count();
        if gated == 0 { Ok(()) } else { Err(format!("{gated} are gated")) }
    })
    .await;
    for pod in &low {
        if pod.get().await.is_some() {
            pod.delete().await;
        }
    }
    let free = open.iter().find(|node| **node != taken).unwrap();
    assert_eq!(gang.wait_bound(MINUTE).await, std::slice::from_ref(free));
    assert_eq!(world.audit().await.evicted().len(), 1);
    world.check_promises().await;
}

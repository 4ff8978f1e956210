//! A pod that can run on one node only, behind pods of its own priority that could run anywhere.

use super::{after, nobody_was_evicted, system, victims, wait_plan};
use crate::MINUTE;
use giveway_crds::keys;
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::{Kit, PodHandle, Shaped};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use serde_json::json;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            equal_priority_evicts_nobody_unless_the_stranded_may_displace_who_has_a_place_elsewhere;
    ]
}

const CLASS: &str = "system-cluster-critical";

/// A DaemonSet of the real controller with a pod for every node that has the label `agent`.
async fn daemon_set(kit: &Kit) {
    let container =
        json!({"name": "main", "image": "registry.example/fake:1", "resources": {"requests": {"cpu": "1"}}});
    let set = json!({
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {
                    "containers": [container], "nodeSelector": {"agent": "yes"}, "priorityClassName": CLASS,
                    "automountServiceAccountToken": false,
                    "tolerations": [{"key": keys::TAINT_CRITICAL, "operator": "Exists"}]
                }
            }
        }
    });
    let set: DaemonSet = serde_json::from_value(set).unwrap();
    kit.api::<DaemonSet>().create(&PostParams::default(), &set).await.unwrap();
}

async fn agent(kit: &Kit) -> PodHandle {
    wait_for("the DaemonSet has made its pod", MINUTE, async || {
        let pods = kit.api::<Pod>().list(&ListParams::default().labels("app=agent")).await;
        let pods = pods.map_err(|error| error.to_string())?;
        pods.items.first().map(|pod| PodHandle::new(kit.clone(), pod)).ok_or_else(|| "none".to_owned())
    })
    .await
}

/// Node `one` is full of critical pods: `pinned`, which can run nowhere else, and `movable`; node `two` has room for one.
async fn behind_equals(world: &World) -> PodHandle {
    world.nodes(1).cpus(2).prefix("one").label("agent", "yes").create().await;
    world.nodes(1).cpus(1).prefix("two").create().await;
    let critical = |name: &str| world.pod(name).on("one-000").priority(CLASS).grace_seconds(0);
    critical("pinned").node_selector("agent", "yes").create().await;
    critical("movable").create().await;
    let kit = system(world);
    daemon_set(&kit).await;
    agent(&kit).await
}

async fn equal_priority_evicts_nobody_unless_the_stranded_may_displace_who_has_a_place_elsewhere() {
    let mut world = after("2s").start().await;
    let agent = behind_equals(&world).await;
    let told = agent.wait_event("CriticalAddonUnschedulable", MINUTE).await;
    assert!(
        told.starts_with("No node can be freed for it, so nobody is evicted. The nearest is one-000: without the 0 pods there that may go it still lacks 1 cpu; 2 pods there stay."),
        "{told}"
    );
    nobody_was_evicted(&world).await;
    world.operator().kill();
    world.operator().flag("--critical-addons-stranded");
    world.operator().start().await;
    assert_eq!(agent.wait_bound(MINUTE).await, "one-000");
    let plan = wait_plan(&world, &agent, PlanState::Completed).await;
    assert_eq!((victims(&plan), plan.critical_addon.map(|addon| addon.step)), (vec!["movable"], Some(1)));
    assert_eq!(world.audit().await.evicted_names(), ["movable"]);
    world.check_promises().await;
}

//! A stranded add-on: it fits on one node only, which is full of pods of the same priority that could run elsewhere.

use super::{after, expect_no_eviction, system, victims, wait_plan};
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
            a_stranded_add_on_displaces_a_movable_pod_of_equal_priority_only_if_enabled;
    ]
}

const CLASS: &str = "system-cluster-critical";

/// Creates a DaemonSet, whose controller creates a pod for every node with the label `agent`.
async fn create_daemon_set(kit: &Kit) {
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

/// Waits for the pod of the DaemonSet and returns it.
async fn wait_agent(kit: &Kit) -> PodHandle {
    wait_for("the pod of the DaemonSet is created", MINUTE, async || {
        let pods = kit.api::<Pod>().list(&ListParams::default().labels("app=agent")).await;
        let pods = pods.map_err(|error| error.to_string())?;
        pods.items
            .first()
            .map(|pod| PodHandle::new(kit.clone(), pod))
            .ok_or_else(|| "no pod has label app=agent".to_owned())
    })
    .await
}

/// Fills node `one` with two critical pods: `pinned` fits on no other node, `movable` also fits on node `two`. Creates the
/// DaemonSet and returns its pod, which fits on node `one` only.
async fn create_stranded(world: &World) -> PodHandle {
    world.nodes(1).cpus(2).prefix("one").label("agent", "yes").create().await;
    world.nodes(1).cpus(1).prefix("two").create().await;
    let critical = |name: &str| world.pod(name).on("one-000").priority(CLASS).grace_seconds(0);
    critical("pinned").node_selector("agent", "yes").create().await;
    critical("movable").create().await;
    let kit = system(world);
    create_daemon_set(&kit).await;
    wait_agent(&kit).await
}

async fn a_stranded_add_on_displaces_a_movable_pod_of_equal_priority_only_if_enabled() {
    let mut world = after("2s").start().await;
    let agent = create_stranded(&world).await;
    let event = agent.wait_event("CriticalAddonUnschedulable", MINUTE).await;
    assert!(
        event.starts_with("No node can be freed for it, so no pod is evicted. The nearest is one-000: without the 0 pods there that may be evicted it still lacks 1 cpu; 2 pods there cannot be evicted."),
        "{event}"
    );
    expect_no_eviction(&world).await;
    world.operator().kill();
    world.operator().flag("--critical-addons-stranded");
    world.operator().start().await;
    assert_eq!(agent.wait_bound(MINUTE).await, "one-000");
    let plan = wait_plan(&world, &agent, PlanState::Completed).await;
    assert_eq!((victims(&plan), plan.critical_addon.map(|addon| addon.step)), (vec!["movable"], Some(1)));
    assert_eq!(world.audit().await.evicted_names(), ["movable"]);
    world.check_promises().await;
}

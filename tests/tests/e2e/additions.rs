//! Another mutating admission plugin that adds a label and an annotation to each write of the operator: no policy of the chart denies the
//! write because of it.

use crate::MINUTE;
use giveway_crds::plan::PlanState;
use giveway_crds::{PodGroup, critical, keys};
use giveway_tests::attack::Call;
use giveway_tests::audit::OPERATOR;
use giveway_tests::cluster::{Addition, Kit, PodBuilder, Shaped, stored_plans};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _};
use serde_json::json;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_gang_preempts_and_its_group_is_deleted_although_a_plugin_adds_to_each_write;
        own:
            a_node_is_tainted_and_untainted_for_an_add_on_although_a_plugin_adds_to_each_write;
    ]
}

/// Key of the label and of the annotation.
const INJECTED: &str = "mesh.example/injected";

/// Creates the plugin, and waits until it changes requests of the operator about each kind of object. `pod` is a pod in `default`.
async fn enforce_additions(world: &World, node: &str, pod: &str) {
    let of: [(&str, &[&str]); 2] = [
        ("", &["pods", "pods/status", "nodes", "nodes/status"]),
        (keys::GROUP, &["podgroups", "podgroups/status", "workloads", "workloads/status", "preemptions"]),
    ];
    let addition = Addition { name: "mesh", user: OPERATOR, key: INJECTED, of: &of };
    world.apply(&addition.manifest()).await.unwrap();
    let probe = world.gang("probe", 1).create_group().await;
    let operator = world.client_of(OPERATOR).await;
    let group = format!("/apis/scheduling.giveway.dev/v1alpha1/namespaces/default/podgroups/{}", probe.name);
    let paths = [format!("/api/v1/nodes/{node}"), format!("/api/v1/namespaces/default/pods/{pod}"), group];
    for path in paths {
        // The patch itself changes nothing.
        let unchanged = Call::merge(&path, &json!({})).dry();
        wait_for(&format!("the plugin adds its label to {path}"), MINUTE, async || {
            let answer = unchanged.make(&operator).await?;
            let added = answer["metadata"]["labels"][INJECTED] == "true";
            if added { Ok(()) } else { Err(answer["metadata"]["labels"].to_string()) }
        })
        .await;
    }
    probe.delete().await;
}

async fn a_gang_preempts_and_its_group_is_deleted_although_a_plugin_adds_to_each_write(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(2).create().await;
    let low = world.fill(&nodes).priority("low").singles().await;
    enforce_additions(world, &nodes[0], &low[0].name).await;

    // Nominations and the removal of the gates.
    let gang = world.gang("train", 4).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    let plan = gang.wait_plan(PlanState::Completed, MINUTE).await;
    assert_eq!(plan.cost.victim_pods, 4);
    for pod in &gang.pods {
        let found = pod.get().await.unwrap();
        assert_eq!(
            found.labels().get(INJECTED).map(String::as_str),
            Some("true"),
            "the write of {} was changed",
            pod.name
        );
        assert!(found.annotations().contains_key(INJECTED), "{:?}", found.annotations());
    }
    assert_eq!(world.audit().await.evicted().len(), 4, "no pod was evicted for a plan that failed");

    // The finalizer is added while the group has pods, and removed after the last one.
    wait_for("the group has its finalizer", MINUTE, async || {
        let group = gang.get().await;
        let finalizers = group.finalizers();
        let written = group.labels().get(INJECTED).is_some_and(|value| value == "true");
        if written && finalizers == [keys::FINALIZER_PROTECTION] {
            Ok(())
        } else {
            Err(format!("{:?}", group.metadata))
        }
    })
    .await;
    gang.delete().await;
    assert!(gang.get().await.metadata.deletion_timestamp.is_some(), "the group stays while it has pods");
    for pod in &gang.pods {
        pod.delete().await;
    }
    wait_for("the group is removed with its last pod", MINUTE, async || {
        match world.kit().api::<PodGroup>().get_opt(&gang.name).await.map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(group) => Err(format!("{:?}", group.metadata)),
        }
    })
    .await;
    world.check_promises().await;
}

async fn a_node_is_tainted_and_untainted_for_an_add_on_although_a_plugin_adds_to_each_write() {
    let world = World::builder().operator_flag("--critical-addons-after=1s").start().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    let low = world.fill(&nodes).grace_seconds(0).singles().await;
    enforce_additions(&world, &nodes[0], &low[0].name).await;

    let system = Kit { namespace: "kube-system".to_owned(), ..world.kit() };
    let addon = PodBuilder::new(system, "dns").annotation(keys::ANNOTATION_CRITICAL, "true");
    let addon = addon.tolerate(keys::TAINT_CRITICAL).cpu(2).create().await;
    assert_eq!(addon.wait_bound(MINUTE).await, nodes[0]);
    let api: Api<Node> = Api::all(world.client());
    let node = wait_for("the node has no taint of Giveway", MINUTE, async || {
        let node = api.get(&nodes[0]).await.map_err(|error| error.to_string())?;
        let taints = node.spec.clone().and_then(|spec| spec.taints).unwrap_or_default();
        if taints.contains(&critical::taint(&addon.uid)) { Err(format!("{taints:?}")) } else { Ok(node) }
    })
    .await;
    assert_eq!(node.labels().get(INJECTED).map(String::as_str), Some("true"), "the operator has written to the node");
    let plans = stored_plans(&world.client()).await.unwrap();
    assert_eq!(plans.last().and_then(|plan| plan.critical_addon).map(|addon| addon.taint), Some(true));
    assert_eq!(world.audit().await.evicted().len(), 2, "no pod was evicted for a plan that failed");
    world.check_promises().await;
}

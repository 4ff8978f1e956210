//! Native groups of Kubernetes (`scheduling.k8s.io`, feature gate `GenericWorkload`): how they are evicted, that Giveway does not
//! preempt for their pods, and the output of `export` and `import`.

use crate::cli::giveway;
use crate::{INITIALLY_SCHEDULED, MINUTE, expect_condition};
use giveway_crds::plan::PlanState;
use giveway_tests::audit::{Removal, SCHEDULER};
use giveway_tests::cluster::{PodHandle, Shaped};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            a_native_group_of_mode_all_is_one_victim_with_the_priority_of_the_group,
            a_pod_of_a_native_group_is_neither_gated_nor_a_preemptor,
            giveway_and_kube_scheduler_preempt_only_whole_groups_side_by_side,
            the_api_server_accepts_the_output_of_export_and_import;
    ]
}

/// Time after which the tests conclude that no eviction follows.
const NO_EVICTION: Duration = Duration::from_secs(8);
/// Milliseconds after which all components have observed a deletion, also on a busy machine.
const OBSERVED_AFTER: i128 = 2000;

fn dynamic(world: &World, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    Api::namespaced_with(world.client(), "default", &resource)
}

/// Creates a native group with this `minCount`; `mode` is `single` or `all`.
async fn create_group(world: &World, name: &str, size: usize, mode: &str, class: &str) {
    let object = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": size}}, "disruptionMode": {mode: {}}, "priorityClassName": class}
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let api = dynamic(world, "scheduling.k8s.io/v1beta1", "PodGroup", "podgroups");
    let stored = api.create(&PostParams::default(), &object).await.unwrap();
    assert!(stored.data["spec"]["priority"].is_i64(), "the API server resolves the class: {:#}", stored.data);
}

/// Returns a pod of a native group that requests 1 CPU. It is bound if a node is given.
fn pod(world: &World, name: &str, group: &str, class: &str, node: Option<&str>) -> Value {
    let builder = world.pod(name).priority(class);
    let builder = if let Some(node) = node { builder.on(node) } else { builder };
    let mut pod = serde_json::to_value(builder.build()).unwrap();
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    pod
}

async fn try_create(world: &World, pod: Value) -> Result<PodHandle, String> {
    let object: DynamicObject = serde_json::from_value(pod).unwrap();
    let stored = dynamic(world, "v1", "Pod", "pods").create(&PostParams::default(), &object).await;
    let stored = serde_json::to_value(stored.map_err(|error| error.to_string())?).unwrap();
    assert!(stored["spec"]["schedulingGroup"]["podGroupName"].is_string(), "the API server keeps the field");
    Ok(PodHandle::new(world.kit(), &serde_json::from_value::<Pod>(stored).unwrap()))
}

/// Creates members `NAME-0` and so on, bound to these nodes, and waits until they run.
async fn create_members(world: &World, group: &str, class: &str, nodes: &[String]) -> Vec<PodHandle> {
    let mut pods = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let pod = pod(world, &format!("{group}-{index}"), group, class, Some(node));
        pods.push(try_create(world, pod).await.unwrap());
    }
    for pod in &pods {
        pod.wait_running(MINUTE).await;
    }
    pods
}

/// Returns a list with each node this many times.
fn each(nodes: &[String], times: usize) -> Vec<String> {
    nodes.iter().flat_map(|node| std::iter::repeat_n(node.clone(), times)).collect()
}

async fn a_native_group_of_mode_all_is_one_victim_with_the_priority_of_the_group() {
    let world = World::builder().native_groups().start().await;
    for (name, value) in [("low", 10), ("mid", 50), ("upper", 500)] {
        world.class(name, value).create().await;
    }
    world.class("between", 30).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(4).create().await;
    create_group(&world, "old", 4, "all", "mid").await;
    let old = create_members(&world, "old", "low", &each(&nodes, 2)).await;
    world.fill(&nodes).priority("upper").prefix("upper").singles().await;

    // Its priority is above that of the pods of the native group and below that of the group.
    let between = world.gang("between", 1).priority("between").create().await;
    expect_condition(&between, INITIALLY_SCHEDULED, "False Unschedulable", "").await;
    tokio::time::sleep(NO_EVICTION).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());

    let gang = world.gang("train", 1).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    let plan = gang.wait_plan(PlanState::Completed, MINUTE).await;
    let victims: Vec<_> = plan.victims.iter().map(|v| (v.kind.as_str(), v.name.as_str(), v.priority)).collect();
    assert_eq!(victims, [("PodGroup", "scheduling.k8s.io/old", 50)]);
    for pod in &old {
        pod.wait_removed(MINUTE).await;
    }
    assert_eq!(world.audit().await.evicted_names(), ["old-0", "old-1", "old-2", "old-3"]);
    between.wait_bound(MINUTE).await;
    world.check_promises().await;
}

async fn a_pod_of_a_native_group_is_neither_gated_nor_a_preemptor() {
    let world = World::builder().native_groups().start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    world.fill(&nodes).priority("low").singles().await;
    create_group(&world, "native", 1, "single", "high").await;
    for name in ["native", "nowhere"] {
        let waits = try_create(&world, pod(&world, &format!("of-{name}"), name, "high", None)).await.unwrap();
        let spec = waits.get().await.unwrap().spec.unwrap();
        assert_eq!(spec.scheduling_gates, None, "{name}");
    }
    let mut both = pod(&world, "both", "native", "high", None);
    both["metadata"]["labels"]["scheduling.giveway.dev/pod-group"] = json!("ours");
    let rejection = try_create(&world, both).await.err().unwrap();
    let words =
        "the pod belongs to the native pod group \"native\" (spec.schedulingGroup), and a pod belongs to one group";
    assert!(rejection.contains(words), "{rejection}");
    tokio::time::sleep(NO_EVICTION).await;
    let history = world.audit().await;
    assert_eq!(history.evicted_names(), Vec::<String>::new());
    assert!(history.plans.is_empty(), "no plan is made for them");
    world.check_promises().await;
}

async fn giveway_and_kube_scheduler_preempt_only_whole_groups_side_by_side() {
    let world = World::builder().native_groups().start().await;
    world.class("low", 10).create().await;
    world.class("stock", 900).create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(4).cpus(4).create().await;
    for (index, node) in nodes.iter().enumerate() {
        let name = format!("low-{index}");
        create_group(&world, &name, 4, "all", "low").await;
        create_members(&world, &name, "low", &each(std::slice::from_ref(node), 4)).await;
    }
    create_group(&world, "theirs", 4, "all", "stock").await;
    let mut theirs = Vec::new();
    for index in 0..4 {
        let pod = pod(&world, &format!("theirs-{index}"), "theirs", "stock", None);
        theirs.push(try_create(&world, pod).await.unwrap());
    }
    let ours = world.gang("ours", 4).priority("high").create().await;
    ours.wait_bound(MINUTE).await;
    for pod in &theirs {
        pod.wait_bound(MINUTE).await;
    }
    wait_for("no pod was removed for 4 s", MINUTE, async || {
        let before = world.audit().await.removals.len();
        tokio::time::sleep(NO_EVICTION / 2).await;
        if world.audit().await.removals.len() == before { Ok(()) } else { Err("a pod was removed".to_owned()) }
    })
    .await;
    let history = world.audit().await;
    assert!(history.evicted().len() <= 4, "no more than one group for ours: {:?}", history.evicted_names());
    let preempted = history.removed_by(SCHEDULER);
    assert!(!preempted.is_empty(), "the cluster was full, so kube-scheduler had to preempt for its group");
    // Both may delete the same pod at the same time, which does no harm. Neither deletes a pod whose deletion it has observed.
    let evicted = history.evicted();
    let after = |removal: &&&Removal| {
        evicted.iter().any(|e| e.uid == removal.uid && e.at.duration_since(removal.at).as_millis() > OBSERVED_AFTER)
    };
    let twice: Vec<_> = preempted.iter().filter(after).collect();
    assert!(twice.is_empty(), "Giveway evicted pods that kube-scheduler had deleted: {twice:?}");
    world.check_promises().await;
}

async fn the_api_server_accepts_the_output_of_export_and_import() {
    let mut world = World::builder().native_groups().start().await;
    world.class("low", 10).create().await;
    world
        .class("tolerant", 20)
        .annotation("preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority", "99")
        .create()
        .await;
    world.gang("train", 2).whole().priority("low").create_group().await;
    let workload = "
apiVersion: scheduling.giveway.dev/v1alpha1
kind: Workload
metadata: {name: serve, namespace: default}
spec:
  podGroupTemplates:
  - {name: worker, schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: PodGroup, priorityClassName: low}
";
    world.apply(workload).await.unwrap();
    create_group(&world, "native", 3, "all", "low").await;
    let directory = tempfile::tempdir().unwrap();
    let manifest = directory.path().join("cosched.yaml");
    let coscheduling = "
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: cosched, namespace: default}
spec: {minMember: 3, scheduleTimeoutSeconds: 10}
---
apiVersion: v1
kind: Pod
metadata: {name: member, namespace: default, labels: {scheduling.x-k8s.io/pod-group: cosched}}
spec: {containers: [{name: main, image: i}]}
";
    std::fs::write(&manifest, coscheduling).unwrap();
    let manifest = manifest.display().to_string();
    let file = directory.path().join("out.yaml");
    for (args, accepted, note) in [
        (
            vec!["export", "podgroup/train"],
            "podgroup.scheduling.k8s.io/train",
            "spec.schedulingGroup.podGroupName: train",
        ),
        (vec!["export", "workload/serve"], "workload.scheduling.k8s.io/serve", "creates no groups from templates"),
        (
            vec!["import", "podgroup/native"],
            "podgroup.scheduling.giveway.dev/native",
            "scheduling.giveway.dev/pod-group",
        ),
        (vec!["import", "-f", &manifest], "podgroup.scheduling.giveway.dev/cosched", "spec.scheduleTimeoutSeconds"),
    ] {
        let printed = giveway(&mut world, &args).await;
        printed.ok();
        assert!(printed.err.contains(note), "{args:?}: {}", printed.err);
        std::fs::write(&file, &printed.out).unwrap();
        let applied = world.kubectl(&["apply", "--dry-run=server", "-f", &file.display().to_string()]).await;
        let applied = applied.unwrap_or_else(|error| panic!("{args:?}: {error}\n{}", printed.out));
        assert!(applied.contains(&format!("{accepted} created (server dry run)")), "{args:?}: {applied}");
    }
    let unknown = giveway(&mut world, &["import", "podgroup/nothing"]).await;
    assert_eq!(unknown.status, Some(2), "{}", unknown.err);
    let checked = giveway(&mut world, &["check"]).await;
    assert!(checked.out.contains("minimum-preemptable-priority 99"), "{}", checked.out);
    let before = giveway(&mut world, &["check", "--pre"]).await;
    assert!(before.out.contains("the gate GenericWorkload may be on"), "{}", before.out);
    world.check_promises().await;
}

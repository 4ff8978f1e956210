//! Objects that tenants make as large as they may: a start of the programs, which lists all of them, needs little more memory.

use crate::MINUTE;
use futures::StreamExt;
use giveway_tests::giveway::Daemon;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            a_start_needs_little_more_memory_if_tenants_have_stored_large_objects;
    ]
}

/// Number of objects of one kind.
const OBJECTS: usize = 100;
/// Size of an annotation in bytes: the API server permits 256 KiB.
const ANNOTATION: usize = 250_000;
/// How much higher the peak of the resident memory may be, in MiB. All objects of a kind together have 24 MiB of annotations.
const MORE: f64 = 12.0;

/// Returns an object of each kind that tenants write and Giveway reads.
fn kinds() -> [Value; 5] {
    let pod = json!({"containers": [{"name": "c", "image": "i"}], "schedulerName": "none"});
    let group = json!({"schedulingPolicy": {"basic": {}}});
    let template = json!({"name": "t", "schedulingPolicy": {"basic": {}}});
    let budget = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "none"}}});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"});
    [
        json!({"apiVersion": "v1", "kind": "Pod", "spec": pod}),
        json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup", "spec": group}),
        json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Workload", "spec": {"podGroupTemplates": [template]}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": budget}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": claim}),
    ]
}

/// Starts a program again, and returns its peak until it is ready.
async fn start(daemon: &mut Daemon) -> f64 {
    daemon.kill();
    daemon.start().await;
    daemon.wait_ready(MINUTE).await.unwrap();
    daemon.memory("VmHWM")
}

async fn a_start_needs_little_more_memory_if_tenants_have_stored_large_objects() {
    let mut world = World::start().await;
    let before = (start(world.operator()).await, start(world.webhook()).await);
    println!("peaks without large objects: operator {:.0} MiB, webhook {:.0} MiB", before.0, before.1);
    for object in kinds() {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let (group, version) = object["apiVersion"].as_str().unwrap().rsplit_once('/').unwrap_or(("", "v1"));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        let api: Api<DynamicObject> = Api::namespaced_with(world.client(), "default", &resource);
        let create = |number: usize| {
            let (api, mut object) = (api.clone(), object.clone());
            object["metadata"] =
                json!({"name": format!("large-{number}"), "annotations": {"a": "x".repeat(ANNOTATION)}});
            async move { api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap() }
        };
        let created: Vec<_> = futures::stream::iter((0..OBJECTS).map(create)).buffer_unordered(8).collect().await;
        assert_eq!(created.len(), OBJECTS);
        let after = (start(world.operator()).await, start(world.webhook()).await);
        println!("{kind}: operator {:.0} MiB, webhook {:.0} MiB", after.0, after.1);
        for (program, before, after) in [("operator", before.0, after.0), ("webhook", before.1, after.1)] {
            let more = after - before;
            assert!(more < MORE, "the {program} needs {more:.1} MiB more for {OBJECTS} large objects of kind {kind}");
        }
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        api.delete_collection(&now, &ListParams::default()).await.unwrap();
    }
    world.check_promises().await;
}

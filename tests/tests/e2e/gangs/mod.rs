//! Gangs that Giveway creates for owners with the gang label: with the real controllers of Kubernetes, and with objects as
//! third-party controllers write them.

pub mod jobs;
pub mod others;
pub mod sets;
pub mod succession;
pub mod survival;

pub(crate) use giveway_tests::example::{wait_bound, wait_group};
use giveway_tests::world::World;
use serde_json::{Value, json};

/// Creates the classes `low` (10) and `high` (1000) and nodes of four CPUs.
pub(crate) async fn cluster(world: &World, nodes: usize) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    world.nodes(nodes).cpus(4).create().await;
}

/// Returns a template of pods that request 1 CPU.
pub(crate) fn template(class: &str, labels: &Value) -> Value {
    let container =
        json!({"name": "main", "image": "registry.example/train:1", "resources": {"requests": {"cpu": "1"}}});
    json!({
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never", "priorityClassName": class, "terminationGracePeriodSeconds": 1, "containers": [container]},
    })
}

/// Returns a Job with the gang label.
pub(crate) fn job(name: &str, size: usize, class: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "labels": {giveway_crds::keys::LABEL_GANG: "true"}},
        "spec": {"parallelism": size, "backoffLimit": 100, "template": template(class, &json!({}))},
    })
}

/// Applies an object.
pub(crate) async fn apply(world: &World, object: &Value) {
    world.apply(&object.to_string()).await.unwrap();
}

/// Returns one field of an object.
pub(crate) async fn field(world: &World, object: &str, path: &str) -> String {
    world.kubectl(&["get", object, "-o", &format!("jsonpath={{{path}}}")]).await.unwrap()
}

/// Patches an object.
pub(crate) async fn patch(world: &World, object: &str, patch: &Value) {
    world.kubectl(&["patch", object, "--type=merge", "-p", &patch.to_string()]).await.unwrap();
}

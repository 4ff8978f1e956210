//! Gangs by one label on their owner: the real controllers of Kubernetes, and objects as those of others write them.

mod jobs;
mod others;
mod sets;
mod survival;

use crate::MINUTE;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use serde_json::{Value, json};

/// Classes `low` (10) and `high` (1000), and nodes of four CPUs.
pub(crate) async fn cluster(world: &World, nodes: usize) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    world.nodes(nodes).cpus(4).create().await;
}

/// A pod template with pods of 1 CPU.
pub(crate) fn template(class: &str, labels: &Value) -> Value {
    let container =
        json!({"name": "main", "image": "registry.example/train:1", "resources": {"requests": {"cpu": "1"}}});
    json!({
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never", "priorityClassName": class, "terminationGracePeriodSeconds": 1, "containers": [container]},
    })
}

/// A Job with the one label.
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

/// Waits until exactly so many live pods with this label have a node. A Job takes its time after pods that failed.
pub(crate) async fn wait_bound(world: &World, selector: &str, count: usize) {
    wait_for(&format!("{count} pods with {selector} are bound"), 2 * MINUTE, async || {
        let path =
            "jsonpath={range .items[*]}{.metadata.name}={.spec.nodeName} {.metadata.deletionTimestamp}{\"\\n\"}{end}";
        let text = world.kubectl(&["get", "pods", "-l", selector, "-o", path]).await?;
        let live: Vec<&str> = text.lines().filter(|line| line.ends_with(' ')).collect();
        let bound = live.iter().filter(|line| !line.contains("= ")).count();
        if (bound, live.len()) == (count, count) { Ok(()) } else { Err(text) }
    })
    .await;
}

/// Waits until a group has this `minCount` and this owner, as `KIND/NAME`.
pub(crate) async fn wait_group(world: &World, name: &str, min_count: usize, owner: &str) {
    let wanted = format!("{min_count} {owner}");
    wait_for(&format!("group {name} is {wanted}"), MINUTE, async || {
        let reference = "{.metadata.ownerReferences[0]";
        let path = format!("jsonpath={{.spec.schedulingPolicy.gang.minCount}} {reference}.kind}}/{reference}.name}}");
        let text = world.kubectl(&["get", "gpg", name, "-o", &path]).await?;
        if text == wanted { Ok(()) } else { Err(text) }
    })
    .await;
}

/// One field of an object.
pub(crate) async fn field(world: &World, object: &str, path: &str) -> String {
    world.kubectl(&["get", object, "-o", &format!("jsonpath={{{path}}}")]).await.unwrap()
}

/// Changes an object.
pub(crate) async fn patch(world: &World, object: &str, patch: &Value) {
    world.kubectl(&["patch", object, "--type=merge", "-p", &patch.to_string()]).await.unwrap();
}

//! StatefulSets.

use super::{apply, cluster, patch, template, wait_bound, wait_group};
use giveway_tests::world::World;
use serde_json::{Value, json};

fn set(policy: &str) -> Value {
    let mut template = template("high", &json!({"app": "db"}));
    template["spec"]["restartPolicy"] = json!("Always");
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "db", "labels": {giveway_crds::keys::LABEL_GANG: "true"}},
        "spec": {
            "replicas": 3, "serviceName": "db", "podManagementPolicy": policy, "selector": {"matchLabels": {"app": "db"}},
            "template": template,
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stateful_set_starts_as_a_gang_and_one_that_could_never_start_is_refused() {
    let world = World::start().await;
    cluster(&world, 1).await;
    let refused = world.apply(&set("OrderedReady").to_string()).await.unwrap_err();
    let words = "spec.podManagementPolicy: Invalid value: \"OrderedReady\": each pod would wait until the one before it is ready";
    assert!(refused.contains(words), "{refused}");
    apply(&world, &set("Parallel")).await;
    wait_bound(&world, "app=db", 3).await;
    wait_group(&world, "db", 3, "StatefulSet/db").await;
    patch(&world, "statefulset/db", &json!({"spec": {"replicas": 4}})).await;
    wait_bound(&world, "app=db", 4).await;
    wait_group(&world, "db", 4, "StatefulSet/db").await;
    patch(&world, "statefulset/db", &json!({"spec": {"replicas": 2}})).await;
    wait_group(&world, "db", 2, "StatefulSet/db").await;
    world.check_promises().await;
}

//! Gangs of StatefulSets with the gang label.

use super::{apply, cluster, field, job, patch, template, wait_bound, wait_group};
use crate::MINUTE;
use giveway_tests::cluster::events_about;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use serde_json::{Value, json};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_parallel_stateful_set_is_a_gang_and_an_ordered_one_is_rejected,
            a_stateful_set_resized_without_pods_starts_with_its_new_size,
            a_stateful_set_recreated_around_its_pods_gets_their_group_back,
            a_group_reports_that_the_class_of_its_stateful_set_was_lowered_and_can_be_repaired;
    ]
}

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

async fn a_parallel_stateful_set_is_a_gang_and_an_ordered_one_is_rejected(world: &World) {
    cluster(world, 1).await;
    let rejection = world.apply(&set("OrderedReady").to_string()).await.unwrap_err();
    let words = "spec.podManagementPolicy: Invalid value: \"OrderedReady\": each pod would wait until the one before it is ready";
    assert!(rejection.contains(words), "{rejection}");
    let mut in_template = set("OrderedReady");
    in_template["metadata"]["labels"] = json!({});
    in_template["spec"]["template"]["metadata"]["labels"][giveway_crds::keys::LABEL_GANG] = json!("true");
    let rejection = world.apply(&in_template.to_string()).await.unwrap_err();
    assert!(rejection.contains(words), "with the label in the pod template alone: {rejection}");
    apply(world, &set("Parallel")).await;
    wait_bound(world, "app=db", 3).await;
    wait_group(world, "db", 3, "StatefulSet/db").await;
    patch(world, "statefulset/db", &json!({"spec": {"replicas": 4}})).await;
    wait_bound(world, "app=db", 4).await;
    wait_group(world, "db", 4, "StatefulSet/db").await;
    patch(world, "statefulset/db", &json!({"spec": {"replicas": 2}})).await;
    wait_group(world, "db", 2, "StatefulSet/db").await;
    world.check_promises().await;
}

async fn a_stateful_set_resized_without_pods_starts_with_its_new_size(world: &World) {
    cluster(world, 1).await;
    let mut small = set("Parallel");
    small["spec"]["replicas"] = json!(1);
    apply(world, &small).await;
    wait_bound(world, "app=db", 1).await;
    wait_group(world, "db", 1, "StatefulSet/db").await;
    patch(world, "statefulset/db", &json!({"spec": {"replicas": 0}})).await;
    wait_bound(world, "app=db", 0).await;
    // Two of four pods fit.
    apply(world, &job("others", 2, "high")).await;
    wait_bound(world, "batch.kubernetes.io/job-name=others", 2).await;
    patch(world, "statefulset/db", &json!({"spec": {"replicas": 4}})).await;
    wait_for("the group is unschedulable with its new size", MINUTE, async || {
        let path = "jsonpath={.spec.schedulingPolicy.gang.minCount} \
                    {.status.conditions[?(@.type==\"Scheduled\")].reason}";
        let text = world.kubectl(&["get", "gpg", "db", "-o", path]).await?;
        if text == "4 Unschedulable" { Ok(()) } else { Err(text) }
    })
    .await;
    let nodes =
        world.kubectl(&["get", "pods", "-l", "app=db", "-o", "jsonpath={.items[*].spec.nodeName}"]).await.unwrap();
    assert_eq!(nodes, "", "no pod may start with the old size");
    world.kubectl(&["delete", "job/others"]).await.unwrap();
    wait_bound(world, "app=db", 4).await;
    assert_eq!(field(world, "gpg/db", ".spec.schedulingPolicy.gang.minCount").await, "4");
    world.check_promises().await;
}

async fn a_stateful_set_recreated_around_its_pods_gets_their_group_back(world: &World) {
    cluster(world, 1).await;
    apply(world, &set("Parallel")).await;
    wait_bound(world, "app=db", 3).await;
    wait_group(world, "db", 3, "StatefulSet/db").await;
    let group = field(world, "gpg/db", ".metadata.uid").await;
    world.kubectl(&["delete", "statefulset/db", "--cascade=orphan", "--wait=true"]).await.unwrap();
    wait_for("the group has no owner", MINUTE, async || {
        let owners = field(world, "gpg/db", ".metadata.ownerReferences").await;
        if matches!(owners.as_str(), "" | "[]") { Ok(()) } else { Err(owners) }
    })
    .await;
    let mut larger = set("Parallel");
    larger["spec"]["replicas"] = json!(4);
    apply(world, &larger).await;
    wait_bound(world, "app=db", 4).await;
    wait_group(world, "db", 4, "StatefulSet/db").await;
    assert_eq!(field(world, "gpg/db", ".metadata.uid").await, group);
    let owner = field(world, "statefulset/db", ".metadata.uid").await;
    assert_eq!(field(world, "gpg/db", ".metadata.ownerReferences[*].uid").await, owner);
    world.kubectl(&["delete", "statefulset/db", "--wait=true"]).await.unwrap();
    wait_for("the group is deleted with its owner", MINUTE, async || {
        match world.kubectl(&["get", "gpg", "db"]).await {
            Err(text) if text.contains("NotFound") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    world.check_promises().await;
}

async fn a_group_reports_that_the_class_of_its_stateful_set_was_lowered_and_can_be_repaired(world: &mut World) {
    cluster(world, 1).await;
    apply(world, &set("Parallel")).await;
    wait_bound(world, "app=db", 3).await;
    wait_group(world, "db", 3, "StatefulSet/db").await;
    patch(world, "statefulset/db", &json!({"spec": {"template": {"spec": {"priorityClassName": "low"}}}})).await;
    wait_for("the group tells why a pod is missing", MINUTE, async || {
        let path = "jsonpath={.status.conditions[?(@.type==\"Scheduled\")].message}";
        let text = world.kubectl(&["get", "gpg", "db", "-o", path]).await?;
        let is_reported = text.contains("StatefulSet db could not create a pod: ")
            && text.contains("priority class low gives the pod 10, below the priority of pod group db, 1000");
        if is_reported { Ok(()) } else { Err(text) }
    })
    .await;
    wait_for("an event tells it, too", MINUTE, async || {
        let events = events_about(&world.kit(), "PodGroup", "db").await.map_err(|error| error.to_string())?;
        let reported = events.iter().any(|event| event.message.contains("StatefulSet db could not create a pod: "));
        if reported { Ok(()) } else { Err(format!("{events:?}")) }
    })
    .await;
    let page = crate::cli::giveway(world, &["why", "statefulset/db"]).await;
    assert!(page.ok().contains("Last failure: FailedCreate of StatefulSet db"), "{}", page.out);
    patch(world, "statefulset/db", &json!({"spec": {"replicas": 0}})).await;
    wait_bound(world, "app=db", 0).await;
    world.kubectl(&["delete", "gpg", "db"]).await.unwrap();
    patch(world, "statefulset/db", &json!({"spec": {"replicas": 3}})).await;
    wait_bound(world, "app=db", 3).await;
    assert_eq!(field(world, "gpg/db", ".spec.priorityClassName").await, "low");
    world.check_promises().await;
}

//! Successors of gangs whose owner is deleted by its controller, as a CronJob does with `concurrencyPolicy: Replace`.

use super::{apply, cluster, field, job, wait_bound, wait_group};
use crate::MINUTE;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use serde_json::{Value, json};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            the_node_of_a_deleted_gang_is_reserved_for_its_successor,
            a_successor_evicts_no_pods_while_those_of_its_predecessor_are_deleted;
    ]
}

/// Creates a CronJob that the controller leaves alone. Returns a function that makes a Job of it.
async fn cron_job(world: &World) -> impl Fn(&str) -> Value {
    let template = job("unused", 4, "high");
    let cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": {"spec": template["spec"]}},
    });
    apply(world, &cron).await;
    let uid = field(world, "cronjob/nightly", ".metadata.uid").await;
    move |name| {
        let mut job = job(name, 4, "high");
        job["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": uid, "controller": true}
        ]);
        job
    }
}

fn pods(job: &str) -> String {
    format!("batch.kubernetes.io/job-name={job}")
}

async fn the_node_of_a_deleted_gang_is_reserved_for_its_successor(world: &World) {
    cluster(world, 1).await;
    let of_cron_job = cron_job(world).await;
    apply(world, &of_cron_job("first")).await;
    wait_bound(world, &pods("first"), 4).await;
    apply(world, &job("other", 4, "low")).await;
    wait_group(world, "other", 4, "Job/other").await;
    world.kubectl(&["delete", "job/first", "--cascade=background"]).await.unwrap();
    let node = field(world, "nodes", ".items[0].metadata.name").await;
    let expected = format!("Its pods fit on node {node}, which is reserved until ");
    wait_for("the other gang waits for the successor", MINUTE, async || {
        let path = "jsonpath={.status.conditions[?(@.type==\"PodGroupInitiallyScheduled\")].message}";
        let message = world.kubectl(&["get", "gpg", "other", "-o", path]).await?;
        let is_reserved = message.starts_with(&expected)
            && message.ends_with(" for the successor of PodGroup default/first, whose pods were deleted.");
        if is_reserved { Ok(()) } else { Err(message) }
    })
    .await;
    apply(world, &of_cron_job("second")).await;
    wait_bound(world, &pods("second"), 4).await;
    let bound = ["get", "pods", "-l", &pods("other"), "-o", "jsonpath={.items[*].spec.nodeName}"];
    assert_eq!(world.kubectl(&bound).await.unwrap(), "", "the other gang waits");
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}

async fn a_successor_evicts_no_pods_while_those_of_its_predecessor_are_deleted(world: &World) {
    cluster(world, 2).await;
    let of_cron_job = cron_job(world).await;
    apply(world, &of_cron_job("first")).await;
    wait_bound(world, &pods("first"), 4).await;
    apply(world, &job("other", 4, "low")).await;
    wait_bound(world, &pods("other"), 4).await;
    world.kubectl(&["delete", "job/first", "--cascade=background", "--wait=false"]).await.unwrap();
    apply(world, &of_cron_job("second")).await;
    wait_bound(world, &pods("second"), 4).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}

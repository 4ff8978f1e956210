//! Successors of gangs whose owner is deleted by its controller, as a CronJob does with `concurrencyPolicy: Replace`.

use super::{apply, cluster, field, job, wait_bound, wait_group};
use crate::MINUTE;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use serde_json::{Value, json};
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            the_node_of_a_deleted_gang_is_reserved_for_its_successor,
            a_successor_evicts_no_pods_while_those_of_its_predecessor_are_deleted;
        release:
            a_cron_job_that_replaces_its_jobs_evicts_pods_once;
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
    let expected = format!("The pods fit on node {node}, but capacity there is reserved until ");
    wait_for("the other gang waits for the successor", MINUTE, async || {
        let path = "jsonpath={.status.conditions[?(@.type==\"PodGroupInitiallyScheduled\")].message}";
        let message = world.kubectl(&["get", "gpg", "other", "-o", path]).await?;
        let is_reserved = message.starts_with(&expected)
            && message.ends_with(" for the PodGroup that replaces PodGroup default/first, whose pods were deleted.");
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

async fn a_cron_job_that_replaces_its_jobs_evicts_pods_once() {
    const MINUTES: Duration = Duration::from_secs(200);
    let world = World::start().await;
    cluster(&world, 2).await;
    for name in ["other-1", "other-2"] {
        apply(&world, &job(name, 4, "low")).await;
        wait_bound(&world, &pods(name), 4).await;
    }
    let mut template = job("unused", 4, "high");
    template["spec"]["template"]["metadata"]["labels"] = json!({"cron": "yes"});
    let cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "often"},
        "spec": {"schedule": "* * * * *", "concurrencyPolicy": "Replace", "jobTemplate": {
            "metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"],
        }},
    });
    apply(&world, &cron).await;
    let mut jobs: Vec<String> = Vec::new();
    while jobs.len() < 3 {
        let next = wait_for("the pods of another Job are bound", MINUTES, async || {
            let path = "jsonpath={range .items[*]}{.metadata.labels.job-name} {.spec.nodeName}{\"\\n\"}{end}";
            let text = world.kubectl(&["get", "pods", "-l", "cron=yes", "-o", path]).await?;
            let bound = text.lines().filter_map(|line| line.trim().split_once(' ')).map(|(job, _)| job);
            let new: Vec<&str> = bound.filter(|job| !jobs.iter().any(|known| known == job)).collect();
            if new.len() == 4 { Ok(new[0].to_owned()) } else { Err(text) }
        })
        .await;
        jobs.push(next);
    }
    let evicted = world.audit().await.evicted_names();
    assert_eq!(evicted.len(), 4, "for the first of the Jobs {jobs:?}: {evicted:?}");
    world.check_promises().await;
}

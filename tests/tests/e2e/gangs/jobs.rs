//! Gangs of Jobs with the gang label.

use super::{apply, cluster, field, job, patch, wait_bound, wait_group};
use crate::MINUTE;
use giveway_tests::cluster::{Shaped, wait_for_event};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use serde_json::json;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            the_gang_label_on_jobs_makes_gangs_that_preempt_whole_groups,
            a_group_follows_its_job_through_scaling_suspension_deletion_and_recreation,
            pods_of_a_recreated_job_wait_for_a_new_group,
            a_user_s_group_overrides_the_gang_label_and_a_late_label_gets_a_warning,
            a_group_and_why_name_the_quota_that_prevents_a_job_from_creating_its_pods;
    ]
}

const OLD: &str = "batch.kubernetes.io/job-name=old";
const TRAIN: &str = "batch.kubernetes.io/job-name=train";

async fn the_gang_label_on_jobs_makes_gangs_that_preempt_whole_groups(world: &mut World) {
    cluster(world, 2).await;
    apply(world, &job("old", 8, "low")).await;
    wait_bound(world, OLD, 8).await;
    wait_group(world, "old", 8, "Job/old").await;
    apply(world, &job("train", 4, "high")).await;
    wait_bound(world, TRAIN, 4).await;
    wait_group(world, "train", 4, "Job/train").await;
    assert_eq!(field(world, "gpg/train", ".spec.priorityClassName").await, "high");
    let page = crate::cli::giveway(world, &["why", "job/train"]).await;
    assert!(page.ok().contains("podgroup/default/train\n"), "{}", page.out);
    let evicted = world.audit().await.evicted_names();
    assert_eq!(
        evicted.iter().filter(|name| name.starts_with("old-")).count(),
        8,
        "the whole group is evicted: {evicted:?}"
    );
    world.check_promises().await;
}

async fn a_group_follows_its_job_through_scaling_suspension_deletion_and_recreation(world: &World) {
    cluster(world, 1).await;
    let spec = |fields: serde_json::Value| json!({ "spec": fields });
    apply(world, &job("train", 2, "high")).await;
    wait_bound(world, TRAIN, 2).await;
    wait_group(world, "train", 2, "Job/train").await;
    patch(world, "job/train", &spec(json!({"parallelism": 3}))).await;
    wait_bound(world, TRAIN, 3).await;
    wait_group(world, "train", 3, "Job/train").await;
    patch(world, "job/train", &spec(json!({"parallelism": 1}))).await;
    wait_group(world, "train", 1, "Job/train").await;
    patch(world, "job/train", &spec(json!({"suspend": true, "parallelism": 2}))).await;
    wait_bound(world, TRAIN, 0).await;
    patch(world, "job/train", &spec(json!({"suspend": false}))).await;
    wait_bound(world, TRAIN, 2).await;
    wait_group(world, "train", 2, "Job/train").await;
    let first = field(world, "gpg/train", ".metadata.uid").await;
    world.kubectl(&["delete", "job/train", "--wait=true"]).await.unwrap();
    apply(world, &job("train", 4, "high")).await;
    let uid = field(world, "job/train", ".metadata.uid").await;
    wait_bound(world, TRAIN, 4).await;
    wait_for("the group belongs to the new Job", MINUTE, async || {
        let path = "jsonpath={.metadata.ownerReferences[0].uid} {.spec.schedulingPolicy.gang.minCount} {.metadata.uid}";
        let text = world.kubectl(&["get", "gpg", "train", "-o", path]).await?;
        let is_new = text.starts_with(&format!("{uid} 4 ")) && !text.ends_with(&first);
        if is_new { Ok(()) } else { Err(text) }
    })
    .await;
    world.kubectl(&["delete", "job/train", "--wait=true"]).await.unwrap();
    wait_for("the group is deleted with its Job", MINUTE, async || {
        match world.kubectl(&["get", "gpg", "train"]).await {
            Err(text) if text.contains("NotFound") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    world.check_promises().await;
}

async fn pods_of_a_recreated_job_wait_for_a_new_group(world: &World) {
    cluster(world, 1).await;
    let mut first = job("train", 2, "high");
    // The pods of the first Job take 10 minutes to terminate.
    first["spec"]["template"]["metadata"]["annotations"] = json!({"kwok.giveway.dev/grace-seconds": "600"});
    apply(world, &first).await;
    wait_bound(world, TRAIN, 2).await;
    wait_group(world, "train", 2, "Job/train").await;
    let old = field(world, "gpg/train", ".metadata.uid").await;
    let pods = world.kubectl(&["get", "pods", "-l", TRAIN, "-o", "name"]).await.unwrap();
    // The garbage collector must not remove the group before the pods of the second Job exist.
    wait_for("the group has the finalizer of the operator", MINUTE, async || {
        match field(world, "gpg/train", ".metadata.finalizers").await.contains("pod-group-protection") {
            true => Ok(()),
            false => Err("it has not".to_owned()),
        }
    })
    .await;
    let keep = r#"[{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/keep"}]"#;
    world.kubectl(&["patch", "gpg", "train", "--type=json", "-p", keep]).await.unwrap();
    world.kubectl(&["delete", "job/train", "--wait=true", "--cascade=background"]).await.unwrap();
    wait_for("the pods of the first Job terminate", MINUTE, async || {
        let path = "jsonpath={.items[*].metadata.deletionTimestamp}";
        let text = world.kubectl(&["get", "pods", "-l", TRAIN, "-o", path]).await?;
        if text.split_whitespace().count() == 2 { Ok(()) } else { Err(text) }
    })
    .await;
    // Two of the four pods of the second Job fit.
    apply(world, &job("train", 4, "high")).await;
    wait_for("the condition says that the pods belong to another Job", MINUTE, async || {
        let path = "jsonpath={.metadata.uid} {.status.conditions[?(@.type==\"PodGroupInitiallyScheduled\")].message}";
        let text = world.kubectl(&["get", "gpg", "train", "-o", path]).await?;
        let reported = text.starts_with(&old) && text.contains("The pods belong to a newer Job than this PodGroup.");
        if reported { Ok(()) } else { Err(text) }
    })
    .await;
    let nodes = || async {
        let path = "jsonpath={range .items[*]}{.metadata.deletionTimestamp}/{.spec.nodeName} {end}";
        let text = world.kubectl(&["get", "pods", "-l", TRAIN, "-o", path]).await.unwrap();
        text.split_whitespace().filter(|pod| pod.starts_with('/') && pod.len() > 1).count()
    };
    assert_eq!(nodes().await, 0, "no pod may start with the size of the first Job's group");
    for pod in pods.lines() {
        world.kubectl(&["delete", pod, "--force", "--grace-period=0"]).await.unwrap();
    }
    wait_for("the first group has only the finalizer of the test", MINUTE, async || {
        let left = field(world, "gpg/train", ".metadata.finalizers").await;
        if left == r#"["example.com/keep"]"# { Ok(()) } else { Err(left) }
    })
    .await;
    world
        .kubectl(&["patch", "gpg", "train", "--type=merge", "-p", r#"{"metadata": {"finalizers": null}}"#])
        .await
        .unwrap();
    wait_for("all pods of the second Job are bound", MINUTE, async || match nodes().await {
        4 => Ok(()),
        n => Err(n.to_string()),
    })
    .await;
    wait_group(world, "train", 4, "Job/train").await;
    assert_ne!(field(world, "gpg/train", ".metadata.uid").await, old);
    world.check_promises().await;
}

async fn a_user_s_group_overrides_the_gang_label_and_a_late_label_gets_a_warning(world: &World) {
    cluster(world, 1).await;
    let own = world.gang("train", 3).priority("high").without_pods().create().await;
    apply(world, &job("train", 3, "high")).await;
    wait_bound(world, TRAIN, 3).await;
    assert_eq!(own.get().await.metadata.owner_references, None, "the group was created by the user");
    let mut plain = job("plain", 1, "high");
    plain["metadata"]["labels"] = json!({});
    apply(world, &plain).await;
    wait_bound(world, "batch.kubernetes.io/job-name=plain", 1).await;
    let label = "scheduling.giveway.dev/gang=true";
    let said = world.kubectl(&["label", "--warnings-as-errors", "job/plain", label]).await.unwrap_err();
    assert!(said.contains("the existing pods of this Job are no gang"), "{said}");
    let event = wait_for_event(&world.kit(), "Job", "plain", "GangLabelTooLate", MINUTE).await;
    let words = "The label scheduling.giveway.dev/gang came too late: the existing pods of this Job are no gang, and it creates further \
                 pods without Giveway's scheduling gate: delete the Job and create it again.";
    assert_eq!(event, words);
    let refused = world.kubectl(&["label", "job/plain", "--overwrite", "scheduling.giveway.dev/gang=yes"]).await;
    assert!(refused.unwrap_err().contains("Invalid value: \"yes\": must be \"true\" or \"false\""));
    world.check_promises().await;
}

async fn a_group_and_why_name_the_quota_that_prevents_a_job_from_creating_its_pods(world: &mut World) {
    cluster(world, 1).await;
    apply(world, &json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "two"}, "spec": {"hard": {"pods": "2"}}})).await;
    wait_for("the quota is computed", MINUTE, async || {
        let used = field(world, "resourcequota/two", ".status.used.pods").await;
        if used == "0" { Ok(()) } else { Err(used) }
    })
    .await;
    apply(world, &job("train", 4, "high")).await;
    wait_for("the group tells why pods are missing", MINUTE, async || {
        let path = "jsonpath={.status.conditions[?(@.type==\"PodGroupInitiallyScheduled\")].message}";
        let text = world.kubectl(&["get", "gpg", "train", "-o", path]).await?;
        let is_reported = text.starts_with("4 pods needed, 2 exist.")
            && text.contains(" Job train could not create a pod: ")
            && text.contains("exceeded quota: two");
        if is_reported { Ok(()) } else { Err(text) }
    })
    .await;
    apply(world, &job("other", 2, "high")).await;
    wait_for_event(&world.kit(), "Job", "other", "FailedCreate", MINUTE).await;
    let page = crate::cli::giveway(world, &["why", "job/other"]).await;
    for words in ["The PodGroup does not exist.", "Last failure: FailedCreate of Job other", "exceeded quota: two"] {
        assert!(page.ok().contains(words), "{words} is not in:\n{}", page.out);
    }
    world.check_promises().await;
}

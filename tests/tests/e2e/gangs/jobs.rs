//! Jobs.

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
            one_label_on_a_job_starts_a_gang_and_a_full_cluster_ends_with_whole_groups_evicted,
            a_group_follows_its_job_when_it_is_scaled_suspended_deleted_and_made_anew,
            pods_of_a_job_that_is_created_anew_wait_for_a_group_of_their_own,
            a_user_s_own_group_and_labels_win_over_the_label_and_a_late_label_is_answered;
    ]
}

const OLD: &str = "batch.kubernetes.io/job-name=old";
const TRAIN: &str = "batch.kubernetes.io/job-name=train";

async fn one_label_on_a_job_starts_a_gang_and_a_full_cluster_ends_with_whole_groups_evicted(world: &mut World) {
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
    assert_eq!(evicted.iter().filter(|name| name.starts_with("old-")).count(), 8, "all of it went: {evicted:?}");
    world.check_promises().await;
}

async fn a_group_follows_its_job_when_it_is_scaled_suspended_deleted_and_made_anew(world: &World) {
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
    wait_for("the group is that of the new Job", MINUTE, async || {
        let path = "jsonpath={.metadata.ownerReferences[0].uid} {.spec.schedulingPolicy.gang.minCount} {.metadata.uid}";
        let text = world.kubectl(&["get", "gpg", "train", "-o", path]).await?;
        let is_new = text.starts_with(&format!("{uid} 4 ")) && !text.ends_with(&first);
        if is_new { Ok(()) } else { Err(text) }
    })
    .await;
    world.kubectl(&["delete", "job/train", "--wait=true"]).await.unwrap();
    wait_for("the group goes with its Job", MINUTE, async || match world.kubectl(&["get", "gpg", "train"]).await {
        Err(text) if text.contains("NotFound") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    world.check_promises().await;
}

async fn pods_of_a_job_that_is_created_anew_wait_for_a_group_of_their_own(world: &World) {
    cluster(world, 1).await;
    let mut first = job("train", 2, "high");
    // Its pods go on for long when they are told to end.
    first["spec"]["template"]["metadata"]["annotations"] = json!({"kwok.giveway.dev/grace-seconds": "600"});
    apply(world, &first).await;
    wait_bound(world, TRAIN, 2).await;
    wait_group(world, "train", 2, "Job/train").await;
    let old = field(world, "gpg/train", ".metadata.uid").await;
    let pods = world.kubectl(&["get", "pods", "-l", TRAIN, "-o", "name"]).await.unwrap();
    world.kubectl(&["delete", "job/train", "--wait=true", "--cascade=background"]).await.unwrap();
    wait_for("the pods of the first Job terminate", MINUTE, async || {
        let path = "jsonpath={.items[*].metadata.deletionTimestamp}";
        let text = world.kubectl(&["get", "pods", "-l", TRAIN, "-o", path]).await?;
        if text.split_whitespace().count() == 2 { Ok(()) } else { Err(text) }
    })
    .await;
    // There is room for some of the second one's pods.
    apply(world, &job("train", 4, "high")).await;
    wait_for("the group says whose its pods are", MINUTE, async || {
        let path = "jsonpath={.metadata.uid} {.status.conditions[?(@.type==\"PodGroupInitiallyScheduled\")].message}";
        let text = world.kubectl(&["get", "gpg", "train", "-o", path]).await?;
        let told = text.starts_with(&old) && text.contains("Its pods belong to another Job than the group;");
        if told { Ok(()) } else { Err(text) }
    })
    .await;
    let nodes = || async {
        let path = "jsonpath={range .items[*]}{.metadata.deletionTimestamp}/{.spec.nodeName} {end}";
        let text = world.kubectl(&["get", "pods", "-l", TRAIN, "-o", path]).await.unwrap();
        text.split_whitespace().filter(|pod| pod.starts_with('/') && pod.len() > 1).count()
    };
    assert_eq!(nodes().await, 0, "nobody starts by the group of the first Job");
    for pod in pods.lines() {
        world.kubectl(&["delete", pod, "--force", "--grace-period=0"]).await.unwrap();
    }
    wait_for("all pods of the second Job are bound", MINUTE, async || match nodes().await {
        4 => Ok(()),
        n => Err(n.to_string()),
    })
    .await;
    wait_group(world, "train", 4, "Job/train").await;
    assert_ne!(field(world, "gpg/train", ".metadata.uid").await, old);
    world.check_promises().await;
}

async fn a_user_s_own_group_and_labels_win_over_the_label_and_a_late_label_is_answered(world: &World) {
    cluster(world, 1).await;
    let own = world.gang("train", 3).priority("high").without_pods().create().await;
    apply(world, &job("train", 3, "high")).await;
    wait_bound(world, TRAIN, 3).await;
    assert_eq!(own.get().await.metadata.owner_references, None, "it is the user's");
    let mut plain = job("plain", 1, "high");
    plain["metadata"]["labels"] = json!({});
    apply(world, &plain).await;
    wait_bound(world, "batch.kubernetes.io/job-name=plain", 1).await;
    let label = "scheduling.giveway.dev/gang=true";
    let said = world.kubectl(&["label", "--warnings-as-errors", "job/plain", label]).await.unwrap_err();
    assert!(said.contains("the pods that this Job has are no gang"), "{said}");
    let told = wait_for_event(&world.kit(), "Job", "plain", "GangLabelTooLate", MINUTE).await;
    let words = "The label scheduling.giveway.dev/gang came too late: the pods that this Job has are no gang, and it makes others like \
                 them: delete it and create it anew.";
    assert_eq!(told, words);
    let refused = world.kubectl(&["label", "job/plain", "--overwrite", "scheduling.giveway.dev/gang=yes"]).await;
    assert!(refused.unwrap_err().contains("Invalid value: \"yes\": must be \"true\" or \"false\""));
    world.check_promises().await;
}

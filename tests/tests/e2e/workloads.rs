//! Groups that the operator creates from a Workload's templates.

use crate::{INITIALLY_SCHEDULED, MINUTE, expect_condition};
use giveway_crds::keys;
use giveway_tests::cluster::Shaped;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            the_first_pod_of_a_replica_creates_its_group_and_the_workload_counts_it,
            a_group_is_not_removed_while_it_has_members;
        own:
            an_unused_group_from_a_template_is_deleted;
    ]
}

const WORKLOAD: &str = "
apiVersion: scheduling.giveway.dev/v1alpha1
kind: Workload
metadata: {name: serve}
spec:
  podGroupTemplates:
  - name: worker
    schedulingPolicy: {gang: {minCount: 2}}
    disruptionMode: PodGroup
    priorityClassName: high
";

async fn the_first_pod_of_a_replica_creates_its_group_and_the_workload_counts_it(world: &World) {
    world.class("high", 1000).managed().create().await;
    world.nodes(1).cpus(4).create().await;
    world.apply(WORKLOAD).await.unwrap();
    let pod = |name: &str, replica: &str| {
        world
            .pod(name)
            .label(keys::LABEL_WORKLOAD, "serve")
            .label(keys::LABEL_TEMPLATE, "worker")
            .label(keys::LABEL_REPLICA, replica)
    };
    let first = pod("a-0", "0").create().await;
    let group = world.gang("serve-worker-0", 2).without_group();
    wait_for("the group is created", MINUTE, async || world.kubectl(&["get", "gpg", "serve-worker-0"]).await).await;
    expect_condition(
        &group,
        INITIALLY_SCHEDULED,
        "False WaitingForPods",
        "2 pods needed, 1 exists. None starts before all 2 fit.",
    )
    .await;
    let made = group.get().await;
    assert_eq!(made.spec.priority, Some(1000));
    assert_eq!(first.get().await.unwrap().spec.unwrap().priority, Some(1000), "the pod gets the class of its group");
    let second = pod("a-1", "0").create().await;
    first.wait_bound(MINUTE).await;
    second.wait_bound(MINUTE).await;
    wait_for("the workload counts its group", MINUTE, async || {
        let counts = world.kubectl(&["get", "gwl", "serve", "-o", "jsonpath={.status.groups}"]).await?;
        if counts == r#"{"pending":0,"preempting":0,"scheduled":1,"total":1}"# { Ok(()) } else { Err(counts) }
    })
    .await;
    world.check_promises().await;
}

async fn an_unused_group_from_a_template_is_deleted() {
    let world = World::builder().operator_flag("--unused-group-timeout=2s").start().await;
    world.class("high", 1000).managed().create().await;
    world.nodes(1).cpus(4).create().await;
    world.apply(WORKLOAD).await.unwrap();
    let mine = "
apiVersion: scheduling.giveway.dev/v1alpha1
kind: PodGroup
metadata: {name: serve-worker-7}
spec:
  podGroupTemplateRef: {workload: {workloadName: serve, podGroupTemplateName: worker}}
  schedulingPolicy: {gang: {minCount: 2}}
  disruptionMode: PodGroup
  priorityClassName: high
";
    world.apply(mine).await.unwrap();
    let pod = |name: &str, replica: &str| {
        let pod = world.pod(name).label(keys::LABEL_WORKLOAD, "serve").label(keys::LABEL_TEMPLATE, "worker");
        pod.label(keys::LABEL_REPLICA, replica)
    };
    let (deleted, waiting) = (pod("a-0", "0").create().await, pod("b-0", "1").create().await);
    for group in ["serve-worker-0", "serve-worker-1"] {
        wait_for("the group is created", MINUTE, async || world.kubectl(&["get", "gpg", group]).await).await;
    }
    deleted.delete().await;
    wait_for("the unused group is deleted", MINUTE, async || {
        let left = world.kubectl(&["get", "gpg", "-o", "jsonpath={.items[*].metadata.name}"]).await?;
        if left == "serve-worker-1 serve-worker-7" { Ok(()) } else { Err(left) }
    })
    .await;
    // The next pod that names the group causes its recreation.
    let (first, second) = (pod("a-1", "0").create().await, pod("a-2", "0").create().await);
    first.wait_bound(MINUTE).await;
    second.wait_bound(MINUTE).await;
    assert_eq!(
        waiting.get().await.unwrap().spec.unwrap().node_name,
        None,
        "the pod stays gated until its gang is complete"
    );
    world.check_promises().await;
}

async fn a_group_is_not_removed_while_it_has_members(world: &World) {
    world.class("high", 1000).managed().create().await;
    world.nodes(1).cpus(2).create().await;
    let gang = world.gang("train", 2).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    wait_for("the group has its finalizer", MINUTE, async || {
        let finalizers = gang.get().await.metadata.finalizers.unwrap_or_default();
        if finalizers == [keys::FINALIZER_PROTECTION] { Ok(()) } else { Err(format!("{finalizers:?}")) }
    })
    .await;
    gang.delete().await;
    assert!(gang.get().await.metadata.deletion_timestamp.is_some(), "the group stays while it has pods");
    for pod in &gang.pods {
        pod.delete().await;
    }
    wait_for("the group is removed with its last pod", MINUTE, async || {
        match world.kubectl(&["get", "gpg", "train"]).await {
            Err(text) if text.contains("NotFound") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    world.check_promises().await;
}

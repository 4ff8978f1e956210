//! Partially scheduled gangs: kube-scheduler binds only some members, for a reason that Giveway cannot predict.

use crate::{INITIALLY_SCHEDULED, MINUTE, expect_condition};
use giveway_tests::audit::Promises;
use giveway_tests::cluster::{Denial, GRACE_SECONDS, Group};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Binding, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            a_partially_scheduled_gang_is_evicted_and_retried_after_other_gangs,
            a_gang_is_evicted_if_its_last_member_cannot_be_ungated;
        release:
            a_partially_scheduled_gang_without_a_controller_is_not_evicted;
    ]
}

/// Creates a policy that denies bindings of pods whose names begin with `train-1`, and waits until it is in force.
async fn deny_binding_of_second_pod(world: &World, node: &str) {
    let unless = "!request.name.startsWith('train-1')";
    let denial = Denial {
        name: "no-second",
        operation: "CREATE",
        of: ("", "pods/binding"),
        unless,
        message: "second pods are not bound",
    };
    world.apply(&denial.manifest()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    let binding = json!({"metadata": {"name": "train-1"}, "target": {"kind": "Node", "name": node}});
    let binding: Binding = serde_json::from_value(binding).unwrap();
    wait_for("the policy is in force", MINUTE, async || {
        match pods.create_subresource::<_, Status>("binding", "train-1", &PostParams::default(), &binding).await {
            Err(kube::Error::Api(status)) if status.message.contains("second pods are not bound") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// Creates the Job `train` of two pods and its group.
async fn train(world: &World) -> Group {
    let group = world.gang("train", 2).without_pods().create().await;
    let job: Job = serde_json::from_value(json!({
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {
            "completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 20,
            "template": {
                // The pods terminate slowly, so their replacements exist while they are still terminating.
                "metadata": {
                    "labels": {giveway_crds::keys::LABEL_POD_GROUP: "train"},
                    "annotations": {GRACE_SECONDS: "4"}
                },
                "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 4,
                    "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}]}
            }
        }
    }))
    .unwrap();
    Api::default_namespaced(world.client()).create(&PostParams::default(), &job).await.unwrap();
    group
}

/// Returns the pods of the Job that are not terminating.
async fn pods(world: &World) -> Vec<Pod> {
    let list = Api::<Pod>::default_namespaced(world.client());
    let all = list.list(&ListParams::default().labels("job-name=train")).await.unwrap().items;
    all.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect()
}

fn uids(pods: &[Pod]) -> Vec<String> {
    pods.iter().filter_map(|pod| pod.metadata.uid.clone()).collect()
}

async fn a_partially_scheduled_gang_is_evicted_and_retried_after_other_gangs() {
    let world = World::builder()
        .operator_flag("--binding-timeout-seconds=3")
        .operator_flag("--partially-scheduled-timeout=8s")
        .start()
        .await;
    let nodes = world.nodes(1).cpus(2).create().await;
    deny_binding_of_second_pod(&world, &nodes[0]).await;
    let train = train(&world).await;
    let first = wait_for("one of two pods is bound", MINUTE, async || {
        let pods = pods(&world).await;
        let bound = pods.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())).count();
        if (pods.len(), bound) == (2, 1) { Ok(pods) } else { Err(format!("{bound} of {}", pods.len())) }
    })
    .await;
    // This gang is younger and does not fit while the first one uses half of the node.
    let other = world.gang("other", 2).create().await;
    let condition = train.wait_condition("DisruptionTarget", "True", "PartiallyScheduled", MINUTE).await;
    let words = "The gang has been partially scheduled for 8 s: 1 of 2 needed pods is bound. All its ungated pods are evicted, so \
                 that the pods that replace them start together.";
    assert!(condition.starts_with(words) && condition.contains("second pods are not bound"), "{condition}");
    let words = train.wait_condition(INITIALLY_SCHEDULED, "False", "PartiallyScheduled", MINUTE).await;
    let start = "The gang was only partially scheduled, so its bound pods were evicted. Scheduling is retried after ";
    assert!(words.starts_with(start), "{words}");
    other.wait_bound(MINUTE).await;
    let again = wait_for("both pods are recreated and gated", MINUTE, async || {
        let pods = pods(&world).await;
        let gated = pods.iter().filter(|pod| !giveway_tests::cluster::scheduling_gates(pod).is_empty()).count();
        if (pods.len(), gated) == (2, 2) { Ok(pods) } else { Err(format!("{gated} of {} are gated", pods.len())) }
    })
    .await;
    assert!(uids(&again).iter().all(|uid| !uids(&first).contains(uid)), "both pods were replaced");
    train.wait_condition("DisruptionTarget", "False", "WaitingForPods", MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 2, "each pod is evicted once");
    world.check(&Promises::new().excuse_partially_scheduled("train", 2)).await;
}

/// Creates a policy that denies the removal of scheduling gates of pods whose names begin with `train-1`, and waits until it is
/// in force.
async fn deny_ungating_of_second_pod(world: &World) {
    let unless = "!object.metadata.name.startsWith('train-1') || has(object.spec.schedulingGates)";
    let denial =
        Denial { name: "no-second", operation: "UPDATE", of: ("", "pods"), unless, message: "second pods stay gated" };
    world.apply(&denial.manifest()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    let probe = json!({
        "metadata": {"name": "train-1-probe"},
        "spec": {"schedulingGates": [{"name": "example.com/probe"}], "containers": [{"name": "c", "image": "none"}]}
    });
    pods.create(&PostParams::default(), &serde_json::from_value(probe).unwrap()).await.unwrap();
    let ungate = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
    let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
    wait_for("the policy is in force", MINUTE, async || match pods.patch("train-1-probe", &dry_run, &ungate).await {
        Err(kube::Error::Api(status)) if status.message.contains("second pods stay gated") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    pods.delete("train-1-probe", &DeleteParams::default()).await.unwrap();
}

async fn a_gang_is_evicted_if_its_last_member_cannot_be_ungated() {
    let world = World::builder()
        .operator_flag("--binding-timeout-seconds=3")
        .operator_flag("--partially-scheduled-timeout=12s")
        .start()
        .await;
    world.nodes(1).cpus(2).create().await;
    deny_ungating_of_second_pod(&world).await;
    let train = train(&world).await;
    expect_condition(&train, INITIALLY_SCHEDULED, "False Rejected", "The removal of the scheduling gate of pod ").await;
    let words = train.wait_condition("DisruptionTarget", "True", "PartiallyScheduled", MINUTE).await;
    assert!(
        words.starts_with("The gang has been partially scheduled for 12 s: 1 of 2 needed pods is bound."),
        "{words}"
    );
    let words = train.wait_condition(INITIALLY_SCHEDULED, "False", "PartiallyScheduled", MINUTE).await;
    assert!(words.starts_with("The gang was only partially scheduled, so its bound pods were evicted."), "{words}");
    wait_for("both pods are gated", MINUTE, async || {
        let pods = pods(&world).await;
        let gated = pods.iter().filter(|pod| !giveway_tests::cluster::scheduling_gates(pod).is_empty()).count();
        if (pods.len(), gated) == (2, 2) { Ok(()) } else { Err(format!("{gated} of {} are gated", pods.len())) }
    })
    .await;
    assert_eq!(world.audit().await.evicted().len(), 1, "the gated pod is kept");
    world.check(&Promises::new().excuse_partially_scheduled("train", 1)).await;
}

async fn a_partially_scheduled_gang_without_a_controller_is_not_evicted() {
    let world = World::builder()
        .operator_flag("--binding-timeout-seconds=3")
        .operator_flag("--partially-scheduled-timeout=5s")
        .start()
        .await;
    let nodes = world.nodes(1).cpus(2).create().await;
    deny_binding_of_second_pod(&world, &nodes[0]).await;
    let train = world.gang("train", 2).create().await;
    let words = train.wait_event("PartiallyScheduled", MINUTE).await;
    assert!(words.contains("The bound pods are not evicted, because pod train-"), "{words}");
    assert!(words.contains("has no controller that would replace it: delete the pods yourself."), "{words}");
    assert_eq!(world.audit().await.evicted().len(), 0);
    train.delete().await;
    world.check_promises().await;
}

//! Another project's mutating webhook that runs after Giveway's: what it writes on a pod gives the pod no guarantee, and lets no member of
//! a gang start without its gang.

use crate::MINUTE;
use giveway_crds::keys::{ANNOTATION_PREEMPTION_POLICY, ANNOTATION_THRESHOLD, GATE, LABEL_POD_GROUP};
use giveway_tests::cluster::{PodBuilder, Shaped, scheduling_gates};
use giveway_tests::later_plugin::WRITES;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::{Value, json};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_pod_without_a_class_gets_no_annotation_of_one,
            a_pod_that_gets_its_group_from_a_later_plugin_does_not_start_alone;
        own:
            without_the_webhook_a_pod_gets_no_other_annotation_than_its_class_gives;
    ]
}

/// The highest threshold: no preemptor that a tenant can create reaches it.
const HIGHEST: &str = "2000000000";

/// Lets the later webhook apply this merge patch to the pod.
fn changed(pod: PodBuilder, patch: &Value) -> PodBuilder {
    pod.annotation(WRITES, &patch.to_string())
}

fn annotation(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

fn group(name: &str) -> Value {
    json!({"metadata": {"labels": {LABEL_POD_GROUP: name}}})
}

/// Expects that the pod is rejected with a message that contains `words`.
async fn expect_rejection(pod: PodBuilder, words: &str) {
    match pod.try_create().await {
        Ok(pod) => panic!("{} is admitted, but a rejection was expected: {words}", pod.name),
        Err(error) => {
            let said = error.to_string();
            assert!(said.contains(words), "rejected with another message:\n{said}\nexpected: {words}");
        }
    }
}

/// Returns the names of the pods in the namespace of the world.
async fn pods(world: &World) -> Vec<String> {
    let pods = world.kit().api::<Pod>().list(&ListParams::default()).await.unwrap();
    pods.items.into_iter().filter_map(|pod| pod.metadata.name).collect()
}

async fn a_pod_without_a_class_gets_no_annotation_of_one(world: &World) {
    let _plugin = world.later_plugin().await;
    for (key, value) in [(ANNOTATION_THRESHOLD, HIGHEST), (ANNOTATION_PREEMPTION_POLICY, "PreemptLowerPriority")] {
        let words = format!(
            "'giveway-classless-pods' denied request: metadata.annotations[{key}]: Forbidden: only a priority class gives this annotation, and the pod names none: remove it"
        );
        expect_rejection(changed(world.pod("forged"), &annotation(key, value)), &words).await;
    }
    assert_eq!(pods(world).await, Vec::<String>::new());
    changed(world.pod("other"), &annotation("note", "mine")).create().await;
    assert_eq!(pods(world).await, ["other"], "other annotations are not Giveway's business");
    world.check_promises().await;
}

async fn without_the_webhook_a_pod_gets_no_other_annotation_than_its_class_gives() {
    let mut world = World::start().await;
    world.class("plain", 10).create().await;
    world.class("guarded", 10).threshold(5000).create().await;
    world.class("managed", 10).managed().create().await;
    let _plugin = world.later_plugin().await;
    // Pods with a class are admitted without the webhook, and the operator adds what they lack.
    world.webhook().kill();
    let (threshold, policy) = (ANNOTATION_THRESHOLD, ANNOTATION_PREEMPTION_POLICY);
    for (class, key, type_, value, given) in [
        ("plain", threshold, "integer", HIGHEST, "no value"),
        ("guarded", threshold, "integer", HIGHEST, "5000"),
        ("managed", threshold, "integer", "5000", "no value"),
        ("plain", policy, "string", "PreemptLowerPriority", "no value"),
        ("managed", policy, "string", "Never", "PreemptLowerPriority"),
    ] {
        let words = format!(
            "'giveway-class-annotations' denied request: metadata.annotations[{key}]: the {type_} value of {key} ({value}) must not be provided in pod annotations; priority class {class} gives {given}. If the class was changed a moment ago, create the pod again."
        );
        expect_rejection(changed(world.pod("forged").priority(class), &annotation(key, value)), &words).await;
    }
    assert_eq!(pods(&world).await, Vec::<String>::new());
    for (class, key, value) in [("guarded", threshold, "5000"), ("managed", policy, "PreemptLowerPriority")] {
        changed(world.pod(class).priority(class), &annotation(key, value)).create().await;
    }
    assert_eq!(pods(&world).await, ["guarded", "managed"]);
    world.check_promises().await;
}

async fn a_pod_that_gets_its_group_from_a_later_plugin_does_not_start_alone(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(8).create().await;
    world.gang("train", 2).priority("high").create_group().await;
    world.gang("loose", 1).basic().priority("high").create_group().await;
    let _plugin = world.later_plugin().await;

    let entry = "admission webhook \"members.pods.giveway.dev\" denied the request: ";
    let gate =
        format!("{entry}spec.schedulingGates: Required value: {GATE}: Giveway gives it to the pods of this group");
    let ungated = json!({"spec": {"schedulingGates": null}});
    for pod in [
        changed(world.pod("classless"), &group("train")),
        changed(world.pod("high"), &group("train")).priority("high"),
        // The group may be created later.
        changed(world.pod("early"), &group("unknown")),
        changed(world.pod("ungated"), &ungated).label(LABEL_POD_GROUP, "train"),
    ] {
        expect_rejection(pod, &gate).await;
    }
    for group_name in ["train", "loose"] {
        let words = format!(
            "{entry}spec.priorityClassName: Invalid value: \"low\": priority class low gives the pod 10, below the priority of pod group {group_name}, 1000"
        );
        expect_rejection(changed(world.pod("low"), &group(group_name)).priority("low"), &words).await;
    }
    assert_eq!(pods(world).await, Vec::<String>::new());

    // What Giveway's webhook made of a member is stored, also if another webhook changes the pod otherwise.
    let member = changed(world.pod("train-0"), &annotation("note", "mine")).label(LABEL_POD_GROUP, "train");
    let member = member.create().await;
    assert_eq!(scheduling_gates(&member.get().await.unwrap()), [GATE]);
    let single = changed(world.pod("loose-0"), &annotation("note", "mine")).label(LABEL_POD_GROUP, "loose");
    let single = single.create().await;
    assert_eq!(single.wait_bound(MINUTE).await, nodes[0]);
    world.check_promises().await;
}

//! Admission through the real API server: rejections that the CEL rules of the CRDs cannot express, and the fields that
//! admission fills in.

use crate::MINUTE;
use giveway_crds::keys;
use giveway_tests::cluster::{Shaped, scheduling_gates};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            groups_get_the_priority_of_their_class_or_are_rejected,
            managed_classes_get_policy_never_and_their_annotations_are_immutable,
            members_get_the_gate_and_class_of_their_group_and_their_labels_are_immutable,
            incomplete_group_labels_are_rejected_and_members_of_basic_groups_are_not_gated;
        own:
            pods_in_kube_system_and_giveway_system_are_admitted_unchanged_without_the_webhook;
    ]
}

fn group(name: &str, rest: &str) -> String {
    format!(
        "apiVersion: scheduling.giveway.dev/v1alpha1\nkind: PodGroup\nmetadata: {{name: {name}}}\nspec:\n  schedulingPolicy: {{gang: {{minCount: 2}}}}\n{rest}"
    )
}

fn class(name: &str, rest: &str) -> String {
    format!("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata:\n  name: {name}\n{rest}")
}

/// Applies a manifest and expects a rejection whose message contains `text`.
async fn expect_rejection(world: &World, manifest: &str, text: &str) {
    match world.apply(manifest).await {
        Ok(done) => panic!("accepted ({done}), but a rejection with {text:?} was expected:\n{manifest}"),
        Err(said) => assert!(said.contains(text), "the rejection has another message:\n{said}\nexpected: {text}"),
    }
}

async fn groups_get_the_priority_of_their_class_or_are_rejected(world: &World) {
    world.class("high", 1000).managed().create().await;
    world.class("plain", 5).create().await;
    world.apply(&group("good", "  priorityClassName: high\n")).await.unwrap();
    let spec = world
        .kubectl(&[
            "get",
            "gpg",
            "good",
            "-o",
            "jsonpath={.spec.priority} {.spec.preemptionPolicy} {.spec.disruptionMode}",
        ])
        .await;
    assert_eq!(spec.unwrap(), "1000 PreemptLowerPriority Pod");
    world.apply(&group("same", "  priorityClassName: high\n  priority: 1000\n")).await.unwrap();
    world.apply(&group("none", "")).await.unwrap();
    let spec =
        world.kubectl(&["get", "gpg", "none", "-o", "jsonpath={.spec.priorityClassName}|{.spec.priority}"]).await;
    assert_eq!(spec.unwrap(), "|0");

    let unknown = "spec.priorityClassName: no PriorityClass with name missing was found";
    expect_rejection(world, &group("bad", "  priorityClassName: missing\n"), unknown).await;
    let differs = "spec.priority: the integer value of priority (7) must not be provided in the spec of a PodGroup; its priority by PriorityClass high is 1000: leave the field out";
    expect_rejection(world, &group("bad", "  priorityClassName: high\n  priority: 7\n"), differs).await;
    let template = "apiVersion: scheduling.giveway.dev/v1alpha1\nkind: Workload\nmetadata: {name: bad}\nspec:\n  podGroupTemplates:\n  - name: a\n    schedulingPolicy: {basic: {}}\n  - name: b\n    schedulingPolicy: {basic: {}}\n    priorityClassName: missing\n";
    let unknown = "spec.podGroupTemplates[1].priorityClassName: no PriorityClass with name missing was found";
    expect_rejection(world, template, unknown).await;
    expect_rejection(world, &group("good", "  priorityClassName: plain\n"), "priorityClassName: field is immutable")
        .await;
    let said = world.warnings_of("default", &group("warned", "  priorityClassName: plain\n")).await;
    let expected = "Warning: priority class plain is not managed by Giveway: kube-scheduler may preempt for single pods of this group; `kubectl giveway adopt plain` makes the class managed";
    assert_eq!(said, expected);
    world.check_promises().await;
}

async fn managed_classes_get_policy_never_and_their_annotations_are_immutable(world: &World) {
    let managed = "  annotations: {scheduling.giveway.dev/managed: \"true\"}\nvalue: 7\n";
    world.apply(&class("m", managed)).await.unwrap();
    let path = "jsonpath={.preemptionPolicy} {.metadata.annotations.scheduling\\.giveway\\.dev/preemption-policy}";
    assert_eq!(world.kubectl(&["get", "priorityclass", "m", "-o", path]).await.unwrap(), "Never PreemptLowerPriority");
    world.apply(&class("plain", "value: 7\n")).await.unwrap();
    let policy = world.kubectl(&["get", "priorityclass", "plain", "-o", "jsonpath={.preemptionPolicy}"]).await.unwrap();
    assert_eq!(policy, "PreemptLowerPriority", "a class without annotations keeps its preemptionPolicy");
    let change = ["annotate", "--overwrite", "priorityclass", "m", "scheduling.giveway.dev/managed=false"];
    let said = world.kubectl(&change).await.unwrap_err();
    assert!(
        said.contains(
            "metadata.annotations[scheduling.giveway.dev/managed]: Invalid value: \"false\": field is immutable"
        ),
        "{said}"
    );
    let odd = "  annotations: {scheduling.giveway.dev/managed: \"yes\"}\nvalue: 7\n";
    expect_rejection(
        world,
        &class("odd", odd),
        "metadata.annotations[scheduling.giveway.dev/managed]: Invalid value: \"yes\": must be \"true\" or \"false\"",
    )
    .await;
    let pod = world.pod("p").priority("m").create().await.get().await.unwrap();
    assert_eq!(pod.metadata.annotations.unwrap()[keys::ANNOTATION_PREEMPTION_POLICY], "PreemptLowerPriority");
    assert_eq!(pod.spec.unwrap().preemption_policy.as_deref(), Some("Never"));
    let forged =
        world.pod("forged").priority("plain").annotation(keys::ANNOTATION_PREEMPTION_POLICY, "PreemptLowerPriority");
    let said = forged.try_create().await.err().unwrap().to_string();
    assert!(
        said.contains(
            "must not be provided in pod annotations; admission computed no value from the given PriorityClass name"
        ),
        "{said}"
    );
    world.check_promises().await;
}

async fn members_get_the_gate_and_class_of_their_group_and_their_labels_are_immutable(world: &World) {
    world.class("high", 1000).managed().create().await;
    world.class("usual", 3).global_default().create().await;
    world.gang("train", 2).priority("high").create_group().await;
    let member = world.pod("m").label(keys::LABEL_POD_GROUP, "train").create().await;
    let pod = member.get().await.unwrap();
    assert_eq!(scheduling_gates(&pod), [keys::GATE]);
    let spec = pod.spec.unwrap();
    assert_eq!((spec.priority, spec.priority_class_name.as_deref()), (Some(1000), Some("high")));
    assert_eq!(spec.preemption_policy.as_deref(), Some("Never"));

    let immutable = |key: &str| format!("metadata.labels[{key}]: Invalid value: \"other\": field is immutable");
    let said = world
        .kubectl(&["label", "--overwrite", "pod", "m", "scheduling.giveway.dev/pod-group=other"])
        .await
        .unwrap_err();
    assert!(said.contains(&immutable(keys::LABEL_POD_GROUP)), "{said}");
    let said = world
        .kubectl(&["annotate", "--overwrite", "pod", "m", "scheduling.giveway.dev/preemption-policy=Never"])
        .await
        .unwrap_err();
    assert!(said.contains("metadata.annotations[scheduling.giveway.dev/preemption-policy]: Invalid value: \"Never\": field is immutable"), "{said}");
    world.kubectl(&["label", "pod", "m", "unrelated=yes"]).await.unwrap();
    // A pod without a group is not changed.
    let single = world.pod("single").create().await.get().await.unwrap();
    assert_eq!(scheduling_gates(&single), Vec::<String>::new());
    assert_eq!(single.spec.unwrap().priority, Some(3));
    world.check_promises().await;
}

async fn incomplete_group_labels_are_rejected_and_members_of_basic_groups_are_not_gated(world: &World) {
    world.nodes(1).cpus(2).create().await;
    let half = world.pod("half").label(keys::LABEL_WORKLOAD, "w").try_create().await.err().unwrap().to_string();
    assert!(half.contains("metadata.labels[scheduling.giveway.dev/pod-group-template]: Required value: must be set together with scheduling.giveway.dev/workload"), "{half}");
    world.gang("loose", 2).basic().create_group().await;
    let pod = world.pod("free").label(keys::LABEL_POD_GROUP, "loose").create().await;
    assert_eq!(scheduling_gates(&pod.get().await.unwrap()), Vec::<String>::new());
    pod.wait_bound(MINUTE).await;
    world.check_promises().await;
}

async fn pods_in_kube_system_and_giveway_system_are_admitted_unchanged_without_the_webhook() {
    let mut world = World::start().await;
    world.nodes(1).cpus(4).create().await;
    world.webhook().kill();
    for namespace in ["kube-system", "giveway-system"] {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: critical\n  namespace: {namespace}\n  labels: {{scheduling.giveway.dev/pod-group: g}}\nspec:\n  automountServiceAccountToken: false\n  containers: [{{name: c, image: registry.example/fake:1}}]\n"
        );
        wait_for("the pod is accepted", MINUTE, async || world.apply(&manifest).await).await;
        let gates =
            world.kubectl(&["get", "pod", "critical", "-n", namespace, "-o", "jsonpath={.spec.schedulingGates}"]).await;
        assert_eq!(gates.unwrap(), "", "{namespace}");
    }
    // The webhook entry for members fails closed, because an ungated member could start without its gang. Other pods are
    // admitted.
    let member = world.pod("member").label(keys::LABEL_POD_GROUP, "g").try_create().await.err().unwrap().to_string();
    assert!(member.contains("failed calling webhook"), "{member}");
    world.pod("other").create().await.wait_bound(MINUTE).await;
    world.check_promises().await;
}

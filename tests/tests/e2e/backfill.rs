//! The threshold annotation of pods: admission copies it from the class, the operator back-fills it on pods that were created
//! while the webhook was down and replaces another value, and users cannot forge it.

use crate::MINUTE;
use giveway_crds::keys::{ANNOTATION_PREEMPTION_POLICY, ANNOTATION_THRESHOLD};
use giveway_tests::cluster::{Kit, PodBuilder, PodHandle, Shaped};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::jiff::Timestamp;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_namespaced_user_cannot_set_change_or_remove_a_threshold,
            an_invented_threshold_that_admission_does_not_see_is_replaced_or_removed;
        own:
            pods_created_without_the_webhook_are_back_filled_and_older_pods_are_unchanged;
    ]
}

async fn annotation(pod: &PodHandle, key: &str) -> Option<String> {
    pod.get().await.unwrap().metadata.annotations.unwrap_or_default().get(key).cloned()
}

async fn wait_annotation(pod: &PodHandle, key: &str, value: &str) {
    wait_for(&format!("pod {} has {key}={value}", pod.name), MINUTE, async || {
        let found = annotation(pod, key).await;
        if found.as_deref() == Some(value) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

/// Waits until the clock shows a later second than the creation of the pod, because times in the API are whole seconds.
pub(crate) async fn wait_next_second(pod: &PodHandle) {
    let created = pod.get().await.unwrap().metadata.creation_timestamp.unwrap().0;
    wait_for("a second later than the pod's creation", MINUTE, async || {
        let now = Timestamp::now();
        if now.as_second() > created.as_second() { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
}

async fn pods_created_without_the_webhook_are_back_filled_and_older_pods_are_unchanged() {
    let mut world = World::start().await;
    world.class("service", 10).create().await;
    world.class("job", 5).managed().create().await;
    let before = world.pod("before").priority("service").create().await;
    wait_next_second(&before).await;
    let set = |value: &str| format!("{ANNOTATION_THRESHOLD}={value}");
    world.kubectl(&["annotate", "priorityclass", "service", &set("5000")]).await.unwrap();
    // Admission copies the threshold once it has observed the change of the class; the operator back-fills the pods created
    // before that.
    // Until webhook and API server have both observed it, the pod may be rejected.
    let seen = wait_for("a pod of the changed class is created", MINUTE, async || {
        world.pod("seen").priority("service").try_create().await.map_err(|error| error.to_string())
    })
    .await;
    wait_annotation(&seen, ANNOTATION_THRESHOLD, "5000").await;

    world.webhook().kill();
    let missed = world.pod("missed").priority("service").create().await;
    let job = world.pod("job").priority("job").create().await;
    world.webhook().start().await;
    wait_annotation(&missed, ANNOTATION_THRESHOLD, "5000").await;
    assert_eq!(
        missed.wait_event("BackFilled", MINUTE).await,
        "Added scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal=5000 from priority class service: Giveway's webhook did not see the pod when it was created."
    );
    wait_annotation(&job, ANNOTATION_PREEMPTION_POLICY, "PreemptLowerPriority").await;
    assert_eq!(annotation(&before, ANNOTATION_THRESHOLD).await, None, "its class had no threshold when it was created");

    // The webhook does not receive pods in kube-system, so the operator back-fills them.
    let system = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"system","namespace":"kube-system"},
        "spec":{"priorityClassName":"job","containers":[{"name":"c","image":"none"}]}}"#;
    world.apply(system).await.unwrap();
    wait_for("the pod in kube-system has the policy of its class", MINUTE, async || {
        let found = world
            .kubectl(&["get", "pod", "system", "-n", "kube-system", "-o", "jsonpath={.metadata.annotations}"])
            .await?;
        if found.contains("PreemptLowerPriority") { Ok(()) } else { Err(found) }
    })
    .await;

    // Existing pods keep their threshold when the class changes, back-filled pods included.
    wait_next_second(&job).await;
    world.kubectl(&["annotate", "--overwrite", "priorityclass", "service", &set("7000")]).await.unwrap();
    world.webhook().kill();
    let late = world.pod("late").priority("service").create().await;
    wait_annotation(&late, ANNOTATION_THRESHOLD, "7000").await;
    assert_eq!(annotation(&missed, ANNOTATION_THRESHOLD).await.as_deref(), Some("5000"));
    assert_eq!(annotation(&before, ANNOTATION_THRESHOLD).await, None);
    world.check_promises().await;
}

/// Neither the webhook nor the policies look at pods in kube-system.
async fn an_invented_threshold_that_admission_does_not_see_is_replaced_or_removed(world: &World) {
    world.class("guarded", 10).threshold(5000).create().await;
    let system = Kit { namespace: "kube-system".to_owned(), ..world.kit() };
    let pod = |name: &str| PodBuilder::new(system.clone(), name);
    // Its pods are certainly younger than the class only from the next second on.
    let first = pod("first").priority("guarded").create().await;
    wait_next_second(&first).await;
    let forged = pod("forged").priority("guarded").annotation(ANNOTATION_THRESHOLD, "2000000000").create().await;
    let classless = pod("classless").annotation(ANNOTATION_THRESHOLD, "2000000000").create().await;
    wait_annotation(&forged, ANNOTATION_THRESHOLD, "5000").await;
    assert_eq!(
        forged.wait_event("BackFilled", MINUTE).await,
        "Set scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal=5000: the pod had a value that priority class guarded does not give."
    );
    wait_for("the pod without a class has no threshold", MINUTE, async || {
        annotation(&classless, ANNOTATION_THRESHOLD).await.map_or(Ok(()), Err)
    })
    .await;
    assert_eq!(
        classless.wait_event("BackFilled", MINUTE).await,
        "Removed scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal: the pod has no priority class, and only a class gives these annotations."
    );
    world.check_promises().await;
}

const ROLE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: pods, namespace: default}
rules: [{apiGroups: [''], resources: [pods], verbs: [create, get, patch, update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pods, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: pods}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
";

/// Creates a pod as user `jane`, who has all rights on pods in her namespace.
async fn janes_pod(world: &World, name: &str, class: &str, threshold: Option<&str>) -> Result<String, String> {
    let annotations = threshold.map(|value| serde_json::json!({ ANNOTATION_THRESHOLD: value }));
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"priorityClassName": class, "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "registry.example/fake:1"}]}
    });
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    std::fs::write(file.path(), pod.to_string()).unwrap();
    world.kubectl(&["--as", "jane", "create", "-f", &file.path().display().to_string()]).await
}

async fn a_namespaced_user_cannot_set_change_or_remove_a_threshold(world: &World) {
    world.apply(ROLE).await.unwrap();
    world.class("guarded", 10).annotation(ANNOTATION_THRESHOLD, "5000").create().await;
    world.class("plain", 10).create().await;
    wait_for("user jane may create pods", MINUTE, async || janes_pod(world, "mine", "guarded", None).await).await;
    wait_for("the pod of class plain is created", MINUTE, async || janes_pod(world, "plain", "plain", None).await)
        .await;

    let provided = |given: &str, computed: &str| {
        format!(
            "metadata.annotations[{ANNOTATION_THRESHOLD}]: the integer value of {ANNOTATION_THRESHOLD} ({given}) must not be provided in pod annotations; admission computed {computed} from the given PriorityClass name"
        )
    };
    for (class, given, computed) in [
        ("guarded", "6000", "5000"),
        ("plain", "100", "no value"),
        // The threshold of another class, on a pod whose class has none.
        ("plain", "5000", "no value"),
    ] {
        let said = janes_pod(world, "forged", class, Some(given)).await.unwrap_err();
        assert!(said.contains(&provided(given, computed)), "class {class}: {said}");
    }
    janes_pod(world, "same", "guarded", Some("5000")).await.unwrap();

    for (pod, change, given) in [
        ("mine", format!("{ANNOTATION_THRESHOLD}=6000"), "6000"),
        ("mine", format!("{ANNOTATION_THRESHOLD}-"), ""),
        ("plain", format!("{ANNOTATION_THRESHOLD}=5000"), "5000"),
    ] {
        let said = world.kubectl(&["--as", "jane", "annotate", "--overwrite", "pod", pod, &change]).await.unwrap_err();
        let words =
            format!("metadata.annotations[{ANNOTATION_THRESHOLD}]: Invalid value: \"{given}\": field is immutable");
        assert!(said.contains(&words), "{pod} {change}: {said}");
    }
    world.kubectl(&["--as", "jane", "annotate", "pod", "mine", "note=allowed"]).await.unwrap();
    world.check_promises().await;
}

//! The rights of the daemons' ServiceAccounts against the real API server: what an attacker with a stolen token could do.

use giveway_crds::keys::{self, ANNOTATION_THRESHOLD, GATE};
use giveway_tests::attack::Call;
use giveway_tests::cluster::Shaped;
use giveway_tests::control_plane::kubeconfig;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::{Pod, PodSchedulingGate};
use kube::Client;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            the_operator_may_change_only_the_fields_of_a_pod_that_preemption_needs,
            the_operator_may_only_add_its_finalizer_and_labels_to_a_group,
            the_webhook_may_only_lower_allowances_of_budgets_and_add_marks_of_preempted_pods,
            the_daemons_have_no_rights_that_they_do_not_use;
    ]
}

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Returns a client with the token of a daemon.
pub(crate) async fn client_with_token_of(world: &mut World, daemon: &str) -> Client {
    let file = world.plane().directory().join(format!("{daemon}.kubeconfig"));
    kubeconfig::impatient_client(Kubeconfig::read_from(file).unwrap()).await.unwrap()
}

/// Creates pod `gated`, which has Giveway's scheduling gate and another one, and pod `free` without gates.
async fn create_two_pods(world: &World) {
    let gate = |name: &str| PodSchedulingGate { name: name.to_owned() };
    let group = world.gang("train", 2).create_group().await;
    let mut pod: Pod = world.pod("gated").label(keys::LABEL_POD_GROUP, &group.name).label("app", "a").build();
    pod.metadata.annotations.get_or_insert_default().insert("note".to_owned(), "a".to_owned());
    pod.spec.as_mut().unwrap().scheduling_gates = Some(vec![gate("example.com/other")]);
    world.kit().api().create(&PostParams::default(), &pod).await.unwrap();
    world.pod("free").label("app", "a").create().await;
}

fn ungate(gate: &str) -> Value {
    json!({"spec": {"schedulingGates": [{"$patch": "delete", "name": gate}]}})
}

fn condition(type_: &str, status: &str) -> Value {
    json!({"status": {"conditions": [{"type": type_, "status": status, "reason": "PreemptionByScheduler", "message": "m"}]}})
}

/// Returns a patch of one label; `null` removes it.
pub(crate) fn label(key: &str, value: &Value) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

/// Returns a patch of one annotation; `null` removes it.
fn annotation(key: &str, value: &Value) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

/// Returns the first patch with the fields of the second one. A field that the second one removes stays `null`.
fn with(mut patch: Value, more: &Value) -> Value {
    for (part, fields) in more.as_object().unwrap() {
        for (field, value) in fields.as_object().unwrap() {
            patch[part][field] = value.clone();
        }
    }
    patch
}

/// A label and an annotation of another admission plugin.
pub(crate) const FOREIGN: &str = "mesh.example/injected";
/// A label and an annotation with Giveway's prefix, which no object has.
pub(crate) const OURS: &str = "scheduling.giveway.dev/forged";

async fn the_operator_may_change_only_the_fields_of_a_pod_that_preemption_needs(world: &mut World) {
    create_two_pods(world).await;
    let operator = client_with_token_of(world, "giveway-operator").await;
    let (gated, free) = (format!("{PODS}/gated"), format!("{PODS}/free"));
    let status = |pod: &str| format!("{pod}/status");

    let nomination = json!({"status": {"nominatedNodeName": "n"}});
    let permitted = [
        ("its gate", Call::patch(&gated, &ungate(GATE))),
        ("a node selector of a gated pod", Call::patch(&gated, &json!({"spec": {"nodeSelector": {"zone": "a"}}}))),
        ("its annotation", Call::patch(&free, &annotation(ANNOTATION_THRESHOLD, &json!("5")))),
        ("its label", Call::patch(&free, &label(keys::LABEL_REPLICA, &json!("5")))),
        ("a nomination", Call::merge(&status(&gated), &nomination)),
        ("a condition of a victim", Call::patch(&status(&free), &condition("DisruptionTarget", "True"))),
        // What another admission plugin may add to its requests.
        ("its gate, with a label", Call::patch(&gated, &with(ungate(GATE), &label(FOREIGN, &json!("true"))))),
        (
            "a nomination, with a label",
            Call::merge(&status(&gated), &with(nomination.clone(), &label(FOREIGN, &json!("true")))),
        ),
        ("an annotation", Call::patch(&free, &annotation(FOREIGN, &json!("1")))),
        ("an annotation, changed", Call::patch(&gated, &annotation("note", &json!("b")))),
        (
            "an annotation, removed",
            Call::merge(&status(&gated), &with(nomination.clone(), &annotation("note", &Value::Null))),
        ),
    ];
    for (what, call) in permitted {
        call.dry().allowed(&operator, what).await;
    }

    let spec = "spec: Giveway's operator changes only schedulingGates, and nodeSelector of pods that it holds";
    let gates = "spec.schedulingGates: Giveway's operator removes only scheduling.giveway.dev/pod-group";
    let metadata = "metadata: Giveway's operator may change only labels and annotations";
    let labels =
        "metadata.labels: Giveway's operator may change or remove only labels that start with scheduling.giveway.dev/";
    let state = "status: Giveway's operator changes only nominatedNodeName and the condition DisruptionTarget";
    let conditions = "status.conditions: Giveway's operator writes only DisruptionTarget";
    let image = json!({"spec": {"containers": [{"name": "main", "image": "registry.example/evil:1"}]}});
    let both = json!({"spec": {
        "schedulingGates": [{"$patch": "delete", "name": GATE}],
        "containers": [{"name": "main", "image": "registry.example/evil:1"}]
    }});
    let elsewhere = json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]
    }}}}});
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]);
    let denied_calls = [
        ("an image", Call::patch(&free, &image), spec),
        ("an image, together with its gate", Call::patch(&gated, &both), spec),
        ("a deadline", Call::patch(&free, &json!({"spec": {"activeDeadlineSeconds": 1}})), spec),
        ("an affinity", Call::patch(&gated, &elsewhere), spec),
        ("a foreign gate", Call::patch(&gated, &ungate("example.com/other")), gates),
        ("all gates", Call::merge(&gated, &json!({"spec": {"schedulingGates": null}})), gates),
        ("a finalizer", Call::merge(&free, &json!({"metadata": {"finalizers": ["example.com/f"]}})), metadata),
        ("an owner", Call::merge(&free, &json!({"metadata": {"ownerReferences": owner}})), metadata),
        ("a label", Call::patch(&free, &label("app", &json!("b"))), labels),
        ("a label, removed", Call::patch(&gated, &label("app", &Value::Null)), labels),
        (
            "a label, together with its gate",
            Call::patch(&gated, &with(ungate(GATE), &label("app", &json!("b")))),
            labels,
        ),
        ("a label by the status", Call::patch(&status(&free), &label("app", &json!("b"))), labels),
        (
            "a label, removed by the status with a nomination",
            Call::merge(&status(&gated), &with(nomination.clone(), &label("app", &Value::Null))),
            labels,
        ),
        (
            "a finalizer by the status",
            Call::merge(&status(&free), &json!({"metadata": {"finalizers": ["example.com/f"]}})),
            metadata,
        ),
        ("a pod that has failed", Call::patch(&status(&free), &json!({"status": {"phase": "Failed"}})), state),
        ("an address", Call::patch(&status(&free), &json!({"status": {"podIPs": [{"ip": "10.0.0.1"}]}})), state),
        ("a pod that is ready", Call::patch(&status(&free), &condition("Ready", "True")), conditions),
        ("a foreign condition", Call::patch(&status(&gated), &condition("PodScheduled", "True")), conditions),
        ("a condition with Giveway's prefix", Call::patch(&status(&free), &condition(OURS, "True")), conditions),
    ];
    for (what, call, words) in denied_calls {
        call.dry().refused(&operator, what, words).await;
    }
    // The API server itself rejects changes to the node selector of a pod without gates.
    let moved = Call::patch(&free, &json!({"spec": {"nodeSelector": {"zone": "a"}}})).dry().make(&operator).await;
    let said = moved.unwrap_err();
    assert!(said.contains("spec: Forbidden: pod updates may not change fields other than"), "{said}");

    // The operator can also make the change without `dryRun`.
    Call::patch(&gated, &ungate(GATE)).allowed(&operator, "its gate").await;
    world.writes_as_the_operator();
}

async fn the_operator_may_only_add_its_finalizer_and_labels_to_a_group(world: &mut World) {
    let group = "/apis/scheduling.giveway.dev/v1alpha1/namespaces/default/podgroups/theirs";
    let theirs = json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {
            "name": "theirs", "labels": {"team": "a"}, "annotations": {"note": "a"}, "finalizers": ["example.com/keep"],
        },
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    });
    world.apply(&theirs.to_string()).await.unwrap();
    let operator = client_with_token_of(world, "giveway-operator").await;
    let finalizers = |all: &[&str]| json!({"metadata": {"finalizers": all}});
    let protected = finalizers(&["example.com/keep", keys::FINALIZER_PROTECTION]);
    let permitted = [
        ("its finalizer", protected.clone()),
        ("its finalizer, with a label", with(protected.clone(), &label(FOREIGN, &json!("true")))),
        ("its finalizer, with a changed annotation", with(protected.clone(), &annotation("note", &json!("b")))),
        ("its finalizer, first", finalizers(&[keys::FINALIZER_PROTECTION, "example.com/keep"])),
    ];
    for (what, body) in permitted {
        Call::merge(group, &body).dry().allowed(&operator, what).await;
    }
    let owners = "metadata.ownerReferences: Giveway's operator may only set the controller of a group that it created and that has no owner";
    let labels = "metadata.labels: Giveway's operator may neither change nor remove a label, nor add one that starts with scheduling.giveway.dev/";
    let annotations =
        "metadata.annotations: Giveway's operator may not change annotations that start with scheduling.giveway.dev/";
    let foreign =
        "metadata.finalizers: Giveway's operator may add and remove only scheduling.giveway.dev/pod-group-protection";
    let managed =
        "metadata.labels[app.kubernetes.io/managed-by]: Giveway's operator writes it only when it creates a group";
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]);
    let denied = [
        ("a label", label("team", &json!("b")), labels),
        ("a label, removed with its finalizer added", with(protected.clone(), &label("team", &Value::Null)), labels),
        ("a label by which it could change minCount", label(keys::LABEL_GANG, &json!("true")), labels),
        (
            "a label by which it could delete the group",
            label(keys::LABEL_MANAGED_BY, &json!(keys::MANAGED_BY)),
            managed,
        ),
        ("an annotation of Giveway", annotation(OURS, &json!("a")), annotations),
        ("a foreign finalizer", finalizers(&["example.com/keep", "example.com/f"]), foreign),
        (
            "a foreign finalizer, together with its own",
            finalizers(&[keys::FINALIZER_PROTECTION, "example.com/keep", "example.com/f"]),
            foreign,
        ),
        ("a foreign finalizer, removed", finalizers(&[]), foreign),
        ("a foreign finalizer, replaced by its own", finalizers(&[keys::FINALIZER_PROTECTION]), foreign),
        ("an owner", json!({"metadata": {"ownerReferences": owner}}), owners),
    ];
    for (what, body, words) in denied {
        Call::merge(group, &body).dry().refused(&operator, what, words).await;
    }
    Call::merge(group, &protected).allowed(&operator, "its finalizer").await;
    Call::merge(group, &finalizers(&["example.com/keep"])).allowed(&operator, "its finalizer, removed").await;
    let left = "/apis/scheduling.giveway.dev/v1alpha1/namespaces/default/podgroups/left";
    let made = json!({keys::LABEL_GANG: "true", keys::LABEL_MANAGED_BY: keys::MANAGED_BY});
    let mut object = theirs.clone();
    object["metadata"] = json!({"name": "left", "labels": made});
    world.apply(&object.to_string()).await.unwrap();
    let owned = |controller: bool| {
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "left", "uid": "u", "controller": controller});
        Call::merge(left, &json!({"metadata": {"ownerReferences": [owner]}})).dry()
    };
    owned(true).allowed(&operator, "the owner of a group that was made for one and has none").await;
    owned(false).refused(&operator, "an owner that is no controller", owners).await;
    // Only the finalizer, which the operator may remove, says that such a group has pods.
    Call::delete(left)
        .dry()
        .allowed(&operator, "the deletion of a group that was made for an owner and has none")
        .await;
    world.writes_as_the_operator();
}

async fn the_webhook_may_only_lower_allowances_of_budgets_and_add_marks_of_preempted_pods(world: &mut World) {
    let nodes = world.nodes(1).cpus(4).create().await;
    world.fill(&nodes).label("app", "web").singles().await;
    world.budget("web").matching("app", "web").min_available(3).create_allowing(1).await;
    let webhook = client_with_token_of(world, "giveway-webhook").await;
    let budget = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web";
    Call::merge(budget, &label("team", &json!("a"))).allowed(&world.client(), "a label of the administrator").await;
    let stored = Call::get(budget).allowed(&webhook, "a read").await;
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut object = stored.clone();
        change(&mut object);
        Call::put(&format!("{budget}/status"), &object).dry()
    };
    let spent = |object: &mut Value| {
        object["status"]["disruptionsAllowed"] = json!(0);
        object["status"]["disruptedPods"] = json!({"web-0": "2026-01-01T00:00:00Z"});
    };
    changed(&spent).allowed(&webhook, "a lowered allowance").await;
    let words = "status.disruptionsAllowed: Giveway's webhook only lowers it";
    let opened = changed(&|object| object["status"]["disruptionsAllowed"] = json!(4));
    opened.refused(&webhook, "a raised allowance", words).await;
    let fields = "status: Giveway's webhook changes only disruptionsAllowed and disruptedPods of budgets, and preemptedPods of PodGroups";
    let healthy = changed(&|object| object["status"]["currentHealthy"] = json!(9));
    healthy.refused(&webhook, "another number of healthy pods", fields).await;
    let injected = changed(&|object| {
        spent(object);
        object["metadata"]["labels"][FOREIGN] = json!("true");
        object["metadata"]["annotations"] = json!({FOREIGN: "true"});
    });
    injected.allowed(&webhook, "a lowered allowance, with a label and an annotation of another plugin").await;
    let words = "metadata.labels: Giveway's webhook may neither change nor remove a label, nor add one that starts with scheduling.giveway.dev/";
    for labels in [json!({"team": "b"}), json!({}), json!({"team": "a", OURS: "a"})] {
        let labelled = changed(&|object| object["metadata"]["labels"] = labels.clone());
        labelled.refused(&webhook, "a label", words).await;
    }
    let words = "metadata: Giveway's webhook may change only labels and annotations";
    let kept = changed(&|object| object["metadata"]["finalizers"] = json!(["example.com/f"]));
    kept.refused(&webhook, "a finalizer", words).await;

    let group = world.gang("train", 2).create().await;
    let status = "/apis/scheduling.giveway.dev/v1alpha1/namespaces/default/podgroups/train/status";
    let marked = |marks: Value| Call::merge(status, &json!({"status": {"preemptedPods": marks}}));
    let mark = json!({"name": "train-0", "time": "2026-01-01T00:00:00Z"});
    marked(json!({"u-1": mark})).dry().allowed(&webhook, "a mark").await;
    let counted = Call::merge(status, &json!({"status": {"pods": {"scheduled": 2}}})).dry();
    counted.refused(&webhook, "another field of the status", fields).await;
    let many: serde_json::Map<String, Value> = (0..65).map(|n| (format!("u-{n}"), mark.clone())).collect();
    let too_many = "status.preemptedPods: Too many: 65: must have at most 64 items";
    marked(many.into()).dry().refused(&webhook, "more marks than a status holds", too_many).await;
    // A mark that nothing follows from yet: the pod exists.
    let uid = group.pods[0].get().await.unwrap().metadata.uid.unwrap();
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    marked(json!({&uid: {"name": "train-0", "time": now}})).allowed(&webhook, "a mark of a running pod").await;
    let words = "status.preemptedPods: Giveway's webhook only adds entries";
    marked(json!({&uid: null})).dry().refused(&webhook, "a removed mark", words).await;
    marked(json!({&uid: {"name": "train-1"}})).dry().refused(&webhook, "a changed mark", words).await;
    world.check_promises().await;
}

async fn the_daemons_have_no_rights_that_they_do_not_use(world: &mut World) {
    create_two_pods(world).await;
    let operator = client_with_token_of(world, "giveway-operator").await;
    let webhook = client_with_token_of(world, "giveway-webhook").await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "evil"},
        "spec": {"containers": [{"name": "c", "image": "registry.example/evil:1"}]}});
    let (gated, secrets) = (format!("{PODS}/gated"), "/api/v1/namespaces/default/secrets");
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "registry.example/evil:1"}]}});
    let groups = "/apis/scheduling.giveway.dev/v1alpha1/namespaces/default/podgroups";
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "free"},
        "target": {"kind": "Node", "name": "n"}});
    let for_both = [
        ("create resource \"pods\"", Call::post(PODS, &pod)),
        ("create resource \"pods/binding\"", Call::post(&format!("{PODS}/free/binding"), &binding)),
        ("patch resource \"pods/ephemeralcontainers\"", Call::patch(&format!("{gated}/ephemeralcontainers"), &debug)),
        ("get resource \"pods/exec\"", Call::get(&format!("{gated}/exec?command=sh"))),
        ("list resource \"secrets\"", Call::get(secrets)),
        ("list resource \"configmaps\"", Call::get("/api/v1/namespaces/giveway-system/configmaps")),
        (
            "delete resource \"podgroups\" in API group \"scheduling.k8s.io\"",
            Call::delete("/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/theirs"),
        ),
        (
            "patch resource \"podgroups/status\" in API group \"scheduling.k8s.io\"",
            Call::merge("/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/theirs/status", &json!({})),
        ),
        ("update resource \"podgroups/finalizers\"", Call::put(&format!("{groups}/train/finalizers"), &json!({}))),
        ("list resource \"jobs\"", Call::get("/apis/batch/v1/namespaces/default/jobs")),
        (
            "patch resource \"statefulsets\"",
            Call::merge("/apis/apps/v1/namespaces/default/statefulsets/db", &json!({"spec": {"replicas": 0}})),
        ),
        ("list resource \"leases\"", Call::get("/apis/coordination.k8s.io/v1/namespaces/giveway-system/leases")),
        (
            "patch resource \"priorityclasses\"",
            Call::merge("/apis/scheduling.k8s.io/v1/priorityclasses/high", &json!({"value": 1})),
        ),
        (
            "delete resource \"validatingadmissionpolicies\"",
            Call::delete("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/giveway-operator"),
        ),
        ("update resource \"nodes\"", Call::put("/api/v1/nodes/n", &json!({}))),
    ];
    for (words, call) in for_both {
        call.refused(&operator, "the operator", &format!("cannot {words}")).await;
        call.refused(&webhook, "the webhook", &format!("cannot {words}")).await;
    }
    let words = "metadata: Giveway's operator may delete only groups without pods that it created from a template, for a replica, or for an owner that no longer exists";
    Call::delete(&format!("{groups}/train")).refused(&operator, "the operator", words).await;
    let taken =
        Call::merge(&format!("{groups}/train"), &json!({"metadata": {"labels": {keys::LABEL_MANAGED_BY: "me"}}}));
    let words =
        "metadata.labels[app.kubernetes.io/managed-by]: Giveway's operator writes it only when it creates a group";
    taken.refused(&operator, "the operator", words).await;
    let smaller = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}});
    let words =
        "spec: Giveway's operator may change only minCount of groups that it created for the owner of their pods";
    Call::merge(&format!("{groups}/train"), &smaller).refused(&operator, "the operator", words).await;
    let for_the_webhook = [
        ("delete resource \"podgroups\"", Call::delete(&format!("{groups}/train"))),
        (
            "patch resource \"jobs\"",
            Call::merge("/apis/batch/v1/namespaces/default/jobs/train", &json!({"spec": {"parallelism": 0}})),
        ),
        ("patch resource \"pods\"", Call::patch(&gated, &json!({"metadata": {"labels": {"a": "b"}}}))),
        (
            "patch resource \"pods/status\"",
            Call::patch(&format!("{gated}/status"), &condition("DisruptionTarget", "True")),
        ),
        ("delete resource \"pods\"", Call::delete(&gated)),
        ("create resource \"pods/eviction\"", Call::post(&format!("{gated}/eviction"), &json!({}))),
        (
            "patch resource \"podgroups\"",
            Call::merge(&format!("{groups}/train"), &json!({"metadata": {"finalizers": null}})),
        ),
        ("patch resource \"nodes/status\"", Call::merge("/api/v1/nodes/n/status", &json!({}))),
        ("delete resource \"nodes\"", Call::delete("/api/v1/nodes/n")),
    ];
    for (words, call) in for_the_webhook {
        call.refused(&webhook, "the webhook", &format!("cannot {words}")).await;
    }
    world.check_promises().await;
}

//! Rights for critical add-ons: what the operator may change on nodes, which pods can become add-ons, and that uninstalling
//! Giveway removes its taints.

use crate::MINUTE;
use crate::cli::run;
use crate::rights::{FOREIGN, OURS, client_with_token_of, label};
use giveway_crds::keys::{ANNOTATION_CRITICAL, ANNOTATION_CRITICAL_POD, LABEL_KEEPS_NODE, TAINT_CRITICAL};
use giveway_tests::attack::Call;
use giveway_tests::audit::OPERATOR;
use giveway_tests::cluster::{Kit, PodBuilder};
use giveway_tests::control_plane::kubeconfig;
use giveway_tests::giveway::NAMESPACE;
use giveway_tests::paths;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use kube::Client;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            the_operator_may_change_only_the_taint_with_a_pod_uid_on_a_node,
            the_webhook_may_only_remove_the_taint_with_a_pod_uid_from_a_node;
        own:
            without_an_operator_the_webhook_opens_a_kept_node_after_its_time,
            without_an_operator_pods_of_the_namespaces_of_the_chart_are_bound_to_a_kept_node,
            pods_can_become_critical_add_ons_only_in_the_namespaces_of_the_chart,
            the_uninstall_hook_removes_only_taints_of_the_operator;
    ]
}

const LEDGER: &str = "/apis/scheduling.giveway.dev/v1alpha1/preemptions";
/// UIDs of pods.
const ONE: &str = "0d5a1c2e-7f43-4c6b-9a51-3f1f4e5d6c7b";
const TWO: &str = "7c1f0b9a-2d34-4e5f-8a6b-0123456789ab";

/// Returns the taint with which Giveway reserves a node for the pod with this UID.
fn ours(uid: &str) -> Value {
    taint(TAINT_CRITICAL, uid, "NoSchedule")
}

fn taint(key: &str, value: &str, effect: &str) -> Value {
    json!({"key": key, "value": value, "effect": effect})
}

fn node(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

fn tainted(name: &str, taints: &[Value]) -> Call {
    Call::merge(&node(name), &json!({"spec": {"taints": taints}}))
}

async fn taints_of(client: &Client, name: &str) -> Value {
    Call::get(&node(name)).allowed(client, "a read").await["spec"]["taints"].take()
}

async fn the_operator_may_change_only_the_taint_with_a_pod_uid_on_a_node(world: &mut World) {
    let dedicated = taint("dedicated", "a", "NoSchedule");
    let busy = taint("busy", "b", "PreferNoSchedule");
    let both = world.nodes(1).prefix("plain").taint("dedicated", "a", "NoSchedule");
    both.taint("busy", "b", "PreferNoSchedule").label("pool", "a").create().await;
    world.nodes(1).prefix("valued").taint(TAINT_CRITICAL, "true", "NoSchedule").create().await;
    world.nodes(1).prefix("bare").taint(TAINT_CRITICAL, "", "NoSchedule").create().await;
    let (plain, valued, bare) = ("plain-000", "valued-000", "bare-000");
    let operator = client_with_token_of(world, "giveway-operator").await;
    let admin = world.client();
    assert_eq!(taints_of(&admin, bare).await, json!([{"key": TAINT_CRITICAL, "effect": "NoSchedule"}]));

    let (a, b) = (dedicated.clone(), busy.clone());
    let all = |more: &[Value]| [&[a.clone(), b.clone()], more].concat();
    let denied = "'giveway-nodes' with binding 'giveway-nodes' denied request: ";
    let taints =
        "spec.taints: Giveway's operator changes only CriticalAddonsOnly=UID:NoSchedule, with the UID of a pod";
    let spec = "spec: Giveway's operator may change only spec.taints of a node";
    let metadata = "metadata: Giveway's operator may change only labels and annotations";
    let labels = "metadata.labels: Giveway's operator may neither change nor remove a label, nor add one that starts with scheduling.giveway.dev/";
    let annotations =
        "metadata.annotations: Giveway's operator may not change annotations that start with scheduling.giveway.dev/";
    let status = "status: Giveway's operator may change only spec.taints of a node";
    let change = |body: Value| Call::merge(&node(plain), &body);
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]);
    let with_ours = json!({"spec": {"taints": all(&[ours(ONE)]), "unschedulable": true}});
    let relabelled = json!({"metadata": {"labels": {"pool": null}}, "spec": {"taints": all(&[ours(ONE)])}});
    let denied_calls = [
        ("no value", tainted(plain, &all(&[json!({"key": TAINT_CRITICAL, "effect": "NoSchedule"})])), taints),
        ("an empty value", tainted(plain, &all(&[ours("")])), taints),
        ("a value that is no UID", tainted(plain, &all(&[ours("true")])), taints),
        ("a UID with a suffix", tainted(plain, &all(&[ours(&format!("{ONE}-1"))])), taints),
        ("another effect", tainted(plain, &all(&[taint(TAINT_CRITICAL, ONE, "NoExecute")])), taints),
        ("another key", tainted(plain, &all(&[taint("maintenance", ONE, "NoSchedule")])), taints),
        ("a foreign taint removed", tainted(plain, std::slice::from_ref(&dedicated)), taints),
        ("all taints removed", change(json!({"spec": {"taints": null}})), taints),
        ("a foreign taint changed", tainted(plain, &[taint("dedicated", "c", "NoSchedule"), busy.clone()]), taints),
        ("another order", tainted(plain, &[busy.clone(), dedicated.clone()]), taints),
        ("a foreign taint of this key removed", tainted(bare, &[]), taints),
        ("a foreign taint of this key with a UID", tainted(bare, &[ours(ONE)]), taints),
        ("a foreign taint of this key with a value, removed", tainted(valued, &[]), taints),
        ("a foreign taint of this key with a value, with a UID", tainted(valued, &[ours(ONE)]), taints),
        ("a cordoned node", change(json!({"spec": {"unschedulable": true}})), spec),
        ("a cordoned node, together with the taint", change(with_ours), spec),
        ("another provider ID", change(json!({"spec": {"providerID": "cloud://evil"}})), spec),
        ("a label", change(label("pool", &json!("b"))), labels),
        ("a label, removed", change(label("pool", &Value::Null)), labels),
        ("a label, removed together with the taint added", change(relabelled), labels),
        ("a label of Giveway", change(label(OURS, &json!("b"))), labels),
        ("an annotation of Giveway", change(json!({"metadata": {"annotations": {OURS: "b"}}})), annotations),
        ("a finalizer", change(json!({"metadata": {"finalizers": ["example.com/f"]}})), metadata),
        ("an owner", change(json!({"metadata": {"ownerReferences": owner}})), metadata),
    ];
    for (what, call, words) in denied_calls {
        call.dry().refused(&operator, what, &format!("{denied}{words}")).await;
    }
    let nothing = json!({});
    let without_right = [
        ("patch resource \"nodes/status\"", Call::merge(&format!("{}/status", node(plain)), &nothing)),
        ("update resource \"nodes\"", Call::put(&node(plain), &nothing)),
        ("delete resource \"nodes\"", Call::delete(&node(plain))),
        ("create resource \"nodes\"", Call::post("/api/v1/nodes", &nothing)),
    ];
    for (words, call) in without_right {
        call.refused(&operator, "the operator", &format!("cannot {words}")).await;
    }
    // The policy also denies these changes if a role grants the operator more rights than the chart does.
    let wide = world.client_of(OPERATOR).await;
    let by_status = |body: Value| Call::merge(&format!("{}/status", node(plain)), &body).dry();
    let capacity = by_status(json!({"status": {"capacity": {"cpu": "1"}}}));
    capacity.refused(&wide, "another capacity", &format!("{denied}{status}")).await;
    let relabelled = by_status(label("pool", &json!("b")));
    relabelled.refused(&wide, "a label through the status subresource", &format!("{denied}{labels}")).await;

    // Permitted: adding the taint at any position of the list, changing its UID, and removing it.
    let first = [&[ours(ONE)], &all(&[])[..]].concat();
    let middle = [dedicated.clone(), ours(TWO), busy.clone()];
    for list in [all(&[ours(ONE)]), all(&[ours(TWO)]), first, middle.to_vec(), all(&[])] {
        tainted(plain, &list).allowed(&operator, "a taint of the operator").await;
        assert_eq!(taints_of(&admin, plain).await, json!(list));
    }
    // What another admission plugin adds to these requests does not block them.
    let injected = json!({
        "metadata": {"labels": {FOREIGN: "true"}, "annotations": {FOREIGN: "1"}}, "spec": {"taints": all(&[ours(ONE)])}
    });
    change(injected).dry().allowed(&operator, "a taint, with a label and an annotation of another plugin").await;
    // Kubernetes permits one taint per key and effect, so a node with a foreign taint of this key cannot get Giveway's.
    let two = tainted(bare, &[json!({"key": TAINT_CRITICAL, "effect": "NoSchedule"}), ours(ONE)]);
    two.refused(&operator, "a second taint", "taints must be unique by key and effect pair").await;
    // Removing the last taint removes the list.
    world.nodes(1).prefix("empty").create().await;
    for list in [vec![ours(ONE)], Vec::new()] {
        tainted("empty-000", &list).allowed(&operator, "a taint of the operator").await;
    }
    assert_eq!(taints_of(&admin, "empty-000").await, Value::Null);
    // The policy also works on a very large node object.
    let images: Vec<Value> = (0..1000)
        .map(|n| json!({"names": [format!("registry.example/a/{n}:1"), format!("registry.example/b/{n}:1")], "sizeBytes": n}))
        .collect();
    let status_of = format!("{}/status", node("empty-000"));
    Call::merge(&status_of, &json!({"status": {"images": images}})).allowed(&admin, "images").await;
    let labels: serde_json::Map<String, Value> = (0..5000).map(|n| (format!("l{n}"), json!(""))).collect();
    Call::merge(&node("empty-000"), &json!({"metadata": {"labels": labels}})).allowed(&admin, "labels").await;
    let many: Vec<Value> = (0..499).map(|n| taint(&format!("t{n}"), ONE, "NoSchedule")).collect();
    tainted("empty-000", &many).allowed(&admin, "taints").await;
    let one_more = [&many[..], &[ours(ONE)]].concat();
    tainted("empty-000", &one_more).allowed(&operator, "a taint of the operator").await;
    tainted("empty-000", &many).allowed(&operator, "a taint of the operator").await;
    // The policy does not affect other users.
    change(json!({"spec": {"unschedulable": true, "taints": [ours("true")]}})).dry().allowed(&admin, "a change").await;

    // The operator may read the Lease of kube-scheduler and no other Lease in kube-system.
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let scheduler = Call::get(&format!("{leases}/kube-scheduler"));
    scheduler.allowed(&operator, "the scheduler's Lease").await;
    let other = Call::get(&format!("{leases}/kube-controller-manager"));
    other.refused(&operator, "another Lease", "cannot get resource \"leases\"").await;
    world.writes_as_the_operator();
}

/// The user `tenant` has the role `edit` in namespace `team`.
const TENANT: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: edit, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: User, name: tenant}]
";

fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

fn annotated(name: &str, annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": "nowhere", "containers": [{"name": "c", "image": "i"}]}})
}

fn annotation(value: &Value) -> Value {
    json!({"metadata": {"annotations": {ANNOTATION_CRITICAL: value}}})
}

/// Returns the message with which the API server denies the annotation with this value.
fn refusal(value: &str) -> String {
    format!(
        "'giveway-critical-addons' with binding 'giveway-critical-addons' denied request: metadata.annotations[scheduling.giveway.dev/critical-addon]: Invalid value: \"{value}\": a pod is made a critical add-on only in kube-system, monitoring: remove the annotation, or create the pod there; an administrator adds namespaces by the chart value criticalAddons.namespaces"
    )
}

async fn pods_can_become_critical_add_ons_only_in_the_namespaces_of_the_chart() {
    let builder = World::builder().helm_value("criticalAddons.namespaces={kube-system,monitoring}");
    let mut world = builder.start().await;
    let accounts = "/api/v1/namespaces/kube-system/serviceaccounts/default";
    let admin = world.client();
    wait_for("kube-system has its default ServiceAccount", MINUTE, async || Call::get(accounts).make(&admin).await)
        .await;
    for namespace in ["team", "monitoring"] {
        world.namespace(namespace).await;
    }
    world.apply(TENANT).await.unwrap();
    let tenant = world.client_in("tenant", &[]).await;
    wait_for("the tenant may list pods", MINUTE, async || Call::get(&pods("team")).make(&tenant).await).await;
    let operator = world.client_of(OPERATOR).await;

    // Creating a pod with the annotation, with any value, also for a pod with the annotation of a mirror pod.
    for value in ["true", "false", ""] {
        let forged = annotated("forged", &json!({ANNOTATION_CRITICAL: value}));
        for client in [&tenant, &admin] {
            Call::post(&pods("team"), &forged).refused(client, "a critical pod", &refusal(value)).await;
        }
        // Two policies deny this pod; the API server reports either of them.
        let said = Call::post(&pods("team"), &forged).make(&operator).await.expect_err("the operator's pod");
        assert!(said.contains(&refusal(value)) || said.contains("may create only placeholders"), "{said}");
    }
    let mirror = annotated("static", &json!({ANNOTATION_CRITICAL: "true", "kubernetes.io/config.mirror": "x"}));
    // Two policies deny this pod; the API server reports either of them.
    let said = Call::post(&pods("team"), &mirror).make(&tenant).await.expect_err("a forged mirror pod");
    assert!(said.contains(&refusal("true")) || said.contains("only a node makes the mirror pod"), "{said}");
    let kubelet = world.client_in("system:node:nowhere", &["system:nodes"]).await;
    Call::post(&pods("team"), &mirror).dry().allowed(&kubelet, "a mirror pod").await;

    // Adding the annotation later, through every subresource.
    Call::post(&pods("team"), &annotated("plain", &json!({}))).allowed(&tenant, "a pod").await;
    let plain = format!("{}/plain", pods("team"));
    let yes = annotation(&json!("true"));
    for client in [&tenant, &admin, &operator] {
        Call::patch(&plain, &yes).refused(client, "a critical pod, later", &refusal("true")).await;
    }
    let by_status = Call::patch(&format!("{plain}/status"), &yes);
    by_status.refused(&admin, "a critical pod, through the status subresource", &refusal("true")).await;
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "nowhere"},
        "metadata": {"name": "plain", "annotations": {ANNOTATION_CRITICAL: "true"}}});
    let bindings = [format!("{plain}/binding"), "/api/v1/namespaces/team/bindings".to_owned()];
    for path in bindings {
        Call::post(&path, &binding).refused(&admin, "a critical pod, through a binding", &refusal("true")).await;
    }
    Call::patch(&plain, &json!({"metadata": {"annotations": {"note": "b"}}}))
        .allowed(&tenant, "another annotation")
        .await;

    // In the namespaces of the chart the administrator may add and remove the annotation.
    let addon = annotated("addon", &json!({ANNOTATION_CRITICAL: "true"}));
    for namespace in ["kube-system", "monitoring"] {
        Call::post(&pods(namespace), &addon).allowed(&admin, "an add-on").await;
        Call::post(&pods(namespace), &annotated("later", &json!({}))).allowed(&admin, "a pod").await;
        let later = format!("{}/later", pods(namespace));
        Call::patch(&later, &yes).allowed(&admin, "an add-on, later").await;
        Call::patch(&later, &annotation(&Value::Null)).allowed(&admin, "the annotation removed from an add-on").await;
    }

    // The deprecated annotation causes a warning of Giveway where it has no effect, and a warning of Kubernetes everywhere.
    let old = |name: &str, value: &str| annotated(name, &json!({ANNOTATION_CRITICAL_POD: value}));
    let usual = "Warning: metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the \"priorityClassName\" field instead";
    let warning = "Warning: Validation failed for ValidatingAdmissionPolicy 'giveway-critical-pods' with binding 'giveway-critical-pods': metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: it has no effect in this namespace: it makes a pod a critical add-on only in kube-system, monitoring";
    assert_eq!(world.warnings_of("team", &old("old", "").to_string()).await, format!("{usual}\n{warning}"));
    assert_eq!(world.warnings_of("team", &old("other", "true").to_string()).await, usual);
    assert_eq!(world.warnings_of("monitoring", &old("old", "").to_string()).await, usual);

    // An annotation that existed before the policy does not prevent other changes of the pod.
    set_action(&world, "Warn").await;
    let early = annotated("early", &json!({ANNOTATION_CRITICAL: "true"}));
    wait_for("the policy is not in force", MINUTE, async || Call::post(&pods("team"), &early).make(&tenant).await)
        .await;
    set_action(&world, "Deny").await;
    let again = Call::post(&pods("team"), &annotated("forged", &json!({ANNOTATION_CRITICAL: "true"}))).dry();
    wait_for("the policy is in force", MINUTE, async || match again.make(&tenant).await {
        Ok(_) => Err("a critical pod is allowed".to_owned()),
        Err(_) => Ok(()),
    })
    .await;
    let early = format!("{}/early", pods("team"));
    Call::patch(&early, &json!({"metadata": {"labels": {"app": "b"}}})).allowed(&tenant, "a label").await;
    Call::patch(&early, &annotation(&json!("1"))).refused(&tenant, "another value", &refusal("1")).await;
    Call::patch(&early, &annotation(&Value::Null)).allowed(&tenant, "the annotation, removed").await;

    // The policies also work without the webhook, and add-ons can be created.
    world.webhook().kill();
    let forged = annotated("forged", &json!({ANNOTATION_CRITICAL: "true"}));
    Call::post(&pods("team"), &forged).refused(&tenant, "a critical pod", &refusal("true")).await;
    for namespace in ["kube-system", "monitoring"] {
        let mut addon =
            annotated("without-webhook", &json!({ANNOTATION_CRITICAL: "true", ANNOTATION_CRITICAL_POD: ""}));
        addon["spec"]["priorityClassName"] = json!("system-cluster-critical");
        Call::post(&pods(namespace), &addon).allowed(&admin, "an add-on without the webhook").await;
    }
    world.check_promises().await;
}

async fn the_webhook_may_only_remove_the_taint_with_a_pod_uid_from_a_node(world: &mut World) {
    let dedicated = taint("dedicated", "a", "NoSchedule");
    world.nodes(1).prefix("kept").taint("dedicated", "a", "NoSchedule").label("pool", "a").create().await;
    let name = "kept-000";
    let (admin, webhook) = (world.client(), client_with_token_of(world, "giveway-webhook").await);
    tainted(name, &[dedicated.clone(), ours(ONE)]).allowed(&admin, "a taint").await;
    let taints = "spec.taints: Giveway's webhook only removes CriticalAddonsOnly=UID:NoSchedule, with the UID of a pod";
    let spec = "spec: Giveway's webhook may change only spec.taints of a node";
    let labels = "metadata.labels: Giveway's webhook may neither change nor remove a label, nor add one that starts with scheduling.giveway.dev/";
    let change = |body: Value| Call::merge(&node(name), &body);
    for (what, call, words) in [
        ("the taint for another pod", tainted(name, &[dedicated.clone(), ours(TWO)]), taints),
        ("a taint added", tainted(name, &[dedicated.clone(), ours(ONE), taint("a", "b", "NoSchedule")]), taints),
        ("a foreign taint removed", tainted(name, &[ours(ONE)]), taints),
        ("a cordoned node", change(json!({"spec": {"unschedulable": true}})), spec),
        ("a label", change(label("pool", &json!("b"))), labels),
    ] {
        let denied = "'giveway-webhook-nodes' with binding 'giveway-webhook-nodes' denied request: ";
        call.dry().refused(&webhook, what, &format!("{denied}{words}")).await;
    }
    tainted(name, std::slice::from_ref(&dedicated)).allowed(&webhook, "the taint removed").await;
    assert_eq!(taints_of(&admin, name).await, json!([dedicated]));
    world.check_promises().await;
}

/// Returns a `Preemption` that keeps this node for a pod with the UID [`ONE`].
fn keeping(node: &str) -> Value {
    json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption",
        "metadata": {"name": "critical", "labels": {LABEL_KEEPS_NODE: "true"}},
        "spec": {
            "preemptor": {"kind": "Pod", "namespace": "kube-system", "name": "dns", "uid": ONE, "priority": 0},
            "strategy": "critical-addon", "placements": [{"pod": "dns", "uid": ONE, "node": node}], "victims": [],
            "cost": {"budgetViolations": 0, "victimPods": 0, "victimGroups": 0}
        }
    })
}

async fn without_an_operator_the_webhook_opens_a_kept_node_after_its_time() {
    let mut world = World::builder().webhook_flag("--kept-node-seconds=1").start().await;
    world.operator().kill();
    let nodes = world.nodes(1).cpus(1).create().await;
    let (admin, operator) = (world.client(), world.client_of(OPERATOR).await);
    let foreign = taint(TAINT_CRITICAL, ONE, "PreferNoSchedule");
    tainted(&nodes[0], &[foreign.clone(), ours(ONE)]).allowed(&admin, "taints").await;
    Call::post(LEDGER, &keeping(&nodes[0])).allowed(&operator, "a plan").await;
    let one = format!("{LEDGER}/critical");
    wait_for("the Preemption keeps no node", MINUTE, async || {
        let labels = Call::get(&one).make(&admin).await?["metadata"]["labels"].take();
        if labels.get(LABEL_KEEPS_NODE).is_none() { Ok(()) } else { Err(labels.to_string()) }
    })
    .await;
    assert_eq!(taints_of(&admin, &nodes[0]).await, json!([foreign]), "the taint is removed before the label");
    world.pod("direct").on(&nodes[0]).create().await;

    let webhook = client_with_token_of(&mut world, "giveway-webhook").await;
    let words = "a Preemption is what Giveway decided: only its operator writes it, and pods are evicted by it.";
    for (what, metadata) in [
        ("a finalizer", json!({"finalizers": ["example.com/f"]})),
        ("the label of a kept node", json!({"labels": {LABEL_KEEPS_NODE: "true"}})),
        ("an owner", json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]})),
    ] {
        Call::merge(&one, &json!({"metadata": metadata})).refused(&webhook, what, words).await;
    }
    Call::delete(&one).refused(&webhook, "a deletion", "cannot delete resource \"preemptions\"").await;
    Call::delete(&one).allowed(&admin, "a break-glass change").await;
    world.check_promises().await;
}

/// Pods of a network plugin that has a namespace of its own, for example. kube-scheduler binds them; `kube-system` is never closed, also if
/// the chart's value does not name it.
async fn without_an_operator_pods_of_the_namespaces_of_the_chart_are_bound_to_a_kept_node() {
    let mut world = World::builder().helm_value("criticalAddons.namespaces={monitoring}").start().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    world.operator().kill();
    let (admin, operator) = (world.client(), world.client_of(OPERATOR).await);
    let accounts = "/api/v1/namespaces/kube-system/serviceaccounts/default";
    wait_for("kube-system has its default ServiceAccount", MINUTE, async || Call::get(accounts).make(&admin).await)
        .await;
    let (team, monitoring) = (world.namespace("team").await, world.namespace("monitoring").await);
    let system = Kit { namespace: "kube-system".to_owned(), ..world.kit() };
    Call::post(LEDGER, &keeping(&nodes[0])).allowed(&operator, "a plan").await;
    let words = format!(
        "node {} is kept for a critical add-on (pod with UID {ONE}) until the add-on is bound, for at most ten minutes",
        nodes[0]
    );
    let direct = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "direct"},
        "spec": {"nodeName": nodes[0], "containers": [{"name": "c", "image": "i"}]}});
    let direct = Call::post(&pods("team"), &direct).dry();
    wait_for("the node is closed", MINUTE, async || match direct.make(&admin).await {
        Err(said) if said.contains(&words) => Ok(()),
        answer => Err(format!("{answer:?}")),
    })
    .await;

    let web = PodBuilder::new(team, "web").create().await;
    for kit in [system, monitoring] {
        assert_eq!(PodBuilder::new(kit, "agent").create().await.wait_bound(MINUTE).await, nodes[0]);
    }
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"},
        "target": {"kind": "Node", "name": nodes[0]}});
    Call::post(&format!("{}/web/binding", pods("team")), &binding).refused(&admin, "a binding", &words).await;
    Call::delete(&format!("{LEDGER}/critical")).allowed(&admin, "a break-glass change").await;
    web.wait_bound(MINUTE).await;
    world.check_promises().await;
}

/// Sets the validation action of the policy's binding: `Warn` or `Deny`.
async fn set_action(world: &World, action: &str) {
    let patch = format!("{{\"spec\":{{\"validationActions\":[\"{action}\"]}}}}");
    let binding = ["patch", "validatingadmissionpolicybinding", "giveway-critical-addons", "--type=merge", "-p"];
    world.kubectl(&[&binding[..], &[patch.as_str()]].concat()).await.unwrap();
}

async fn the_uninstall_hook_removes_only_taints_of_the_operator() {
    let mut world = World::start().await;
    // A running operator would remove leftover taints itself.
    world.operator().kill();
    world.nodes(5).create().await;
    let (admin, operator) = (world.client(), world.client_of(OPERATOR).await);
    for (name, strategy, uid) in [("critical", "critical-addon", ONE), ("ordinary", "least-cost", TWO)] {
        let plan = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": name},
            "spec": {
                "preemptor": {"kind": "Pod", "namespace": "kube-system", "name": "dns", "uid": uid, "priority": 0},
                "strategy": strategy, "placements": [], "victims": [],
                "cost": {"budgetViolations": 0, "victimPods": 0, "victimGroups": 0}
            }
        });
        Call::post(LEDGER, &plan).allowed(&operator, "a plan").await;
    }
    let foreign =
        json!({"key": TAINT_CRITICAL, "value": ONE, "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"});
    let others = [taint("dedicated", "a", "NoSchedule"), foreign];
    let before = [
        json!([others[0], ours(ONE), others[1]]),
        json!([ours(ONE)]),
        // The UID of a pod for which no node was tainted.
        json!([ours(TWO), others[1]]),
        json!([{"key": TAINT_CRITICAL, "effect": "NoSchedule"}]),
        json!([ours("true")]),
    ];
    let after = [json!(others), Value::Null, before[2].clone(), before[3].clone(), before[4].clone()];
    let names: Vec<String> = (0..before.len()).map(|index| format!("node-{index:03}")).collect();
    for (name, taints) in names.iter().zip(&before) {
        tainted(name, taints.as_array().unwrap()).allowed(&admin, "taints").await;
    }
    let expect = async |expected: &[Value]| {
        for (name, taints) in names.iter().zip(expected) {
            assert_eq!(taints_of(&admin, name).await, *taints, "{name}");
        }
    };
    expect(&before).await;

    let account = hook_account(&mut world).await;
    let program = paths::giveway_program("kubectl-giveway").unwrap();
    let release = async |args: &[&str]| run(&program, &[&["cleanup", "taints"], args].concat(), &account, None).await;
    let lines = |done: &str| {
        let line = |name: &str| format!("node/{name}: taint CriticalAddonsOnly={ONE}:NoSchedule {done}\n");
        line("node-000") + &line("node-001")
    };
    let preview = wait_for("the hook has its rights", MINUTE, async || {
        let printed = release(&["--dry-run"]).await;
        if printed.status == Some(0) { Ok(printed) } else { Err(printed.err) }
    })
    .await;
    assert_eq!(preview.out, lines("would be removed"));
    expect(&before).await;
    assert_eq!(release(&[]).await.ok(), lines("removed"));
    expect(&after).await;
    assert_eq!(release(&[]).await.ok(), "No node has a taint of Giveway's.\n");
    expect(&after).await;

    // The taint list is only written if the node has not changed since it was read.
    let metadata = Call::get(&node("node-004")).allowed(&admin, "a read").await["metadata"].take();
    let written = |uid: &Value, version: &Value| {
        let body = json!({"metadata": {"uid": uid, "resourceVersion": version}, "spec": {"taints": null}});
        Call::merge(&node("node-004"), &body)
    };
    let stale = "the object has been modified";
    written(&metadata["uid"], &json!("1")).refused(&admin, "an old version", stale).await;
    let other = written(&json!(TWO), &Value::Null).make(&admin).await;
    assert!(other.is_err(), "a node of the same name is another node");

    // The hook's ServiceAccount has no other rights.
    let hook = kubeconfig::impatient_client(kube::config::Kubeconfig::read_from(&account).unwrap()).await.unwrap();
    let nothing = json!({});
    for (words, call) in [
        ("delete resource \"nodes\"", Call::delete(&node("node-000"))),
        ("patch resource \"nodes/status\"", Call::merge(&format!("{}/status", node("node-000")), &nothing)),
        ("delete resource \"preemptions\"", Call::delete(&format!("{LEDGER}/critical"))),
        ("list resource \"pods\"", Call::get("/api/v1/pods")),
        ("list resource \"secrets\"", Call::get("/api/v1/secrets")),
        ("list resource \"priorityclasses\"", Call::get("/apis/scheduling.k8s.io/v1/priorityclasses")),
    ] {
        call.refused(&hook, "the hook's account", &format!("cannot {words}")).await;
    }
    // Without the CRD no taint is known to be Giveway's. Taints that look like it are reported and kept.
    world.kubectl(&["delete", "crd", "preemptions.scheduling.giveway.dev"]).await.unwrap();
    let unknown = release(&[]).await;
    assert_eq!(unknown.status, Some(1), "{}", unknown.err);
    assert!(unknown.out.is_empty() && unknown.err.contains(": it looks like one of Giveway's, but"), "{}", unknown.err);
    world.check_promises().await;
}

/// Returns a kubeconfig of the ServiceAccount of the hook that removes taints. The Job of the hook is not created.
async fn hook_account(world: &mut World) -> PathBuf {
    let helm = paths::control_plane_program("helm").unwrap();
    let chart = paths::repository().join("helm").display().to_string();
    let args = ["template", "giveway", &chart, "-n", NAMESPACE, "--show-only", "templates/upgrade-taints.yaml"];
    let args = [&args[..], &["--set", "criticalAddons.enabled=false"]].concat();
    let rendered = tokio::process::Command::new(helm).args(args).output().await.unwrap();
    assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
    let manifests = String::from_utf8(rendered.stdout).unwrap();
    let (jobs, rights): (Vec<&str>, Vec<&str>) =
        manifests.split("\n---\n").partition(|document| document.contains("\nkind: Job\n"));
    assert_eq!((jobs.len(), rights.len()), (1, 3), "{manifests}");
    assert!(
        jobs[0].contains("command: [kubectl-giveway, cleanup, taints, --own-binding=giveway-taints]\n"),
        "{}",
        jobs[0]
    );
    world.apply(&rights.join("\n---\n")).await.unwrap();
    world.account(NAMESPACE, "giveway-taints").await
}

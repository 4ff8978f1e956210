//! Admission policies that protect Giveway's labels, annotations, gates, finalizers and objects against all other users, through
//! every subresource. Administrators have break-glass rights.

use crate::MINUTE;
use giveway_crds::keys::{self, ANNOTATION_PREEMPTION_POLICY, ANNOTATION_THRESHOLD, GATE, LABEL_POD_GROUP};
use giveway_tests::attack::Call;
use giveway_tests::cluster::{GroupBuilder, Kit, PodBuilder, PodHandle, Shaped, scheduling_gates};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::DeleteParams;
use kube::{Api, Client};
use serde_json::{Value, json};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            only_roles_that_name_the_break_glass_right_or_all_resources_of_the_group_grant_it,
            the_policies_also_apply_to_a_pod_with_50000_labels;
        own:
            only_the_operator_changes_labels_annotations_and_gates_of_giveway,
            only_the_operator_writes_preemptions_and_break_glass_rights_work,
            without_the_webhook_no_pod_with_keys_of_giveway_is_admitted;
    ]
}

/// User `tenant` has role `edit` in namespace `team`; user `glass` also has the break-glass right there. User `wide` has all
/// verbs on these resources in the whole cluster, among them the finalizers that ordinary controllers may update, but not the
/// break-glass right.
const USERS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: edit, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: User, name: tenant}, {kind: User, name: glass}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: glass, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: giveway-break-glass}
subjects: [{kind: User, name: glass}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: wide}
rules:
- apiGroups: ['']
  resources: [pods, pods/status, pods/binding, pods/ephemeralcontainers, pods/resize, bindings]
  verbs: ['*']
- apiGroups: [scheduling.giveway.dev]
  resources: [podgroups, podgroups/status, podgroups/finalizers, workloads, workloads/status, preemptions, preemptions/status]
  verbs: ['*']
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: wide}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: wide}
subjects: [{kind: User, name: wide}]
";

const GROUPS: &str = "/apis/scheduling.giveway.dev/v1alpha1/namespaces/team/podgroups";
const WORKLOADS: &str = "/apis/scheduling.giveway.dev/v1alpha1/namespaces/team/workloads";
const LEDGER: &str = "/apis/scheduling.giveway.dev/v1alpha1/preemptions";

fn pod(name: &str) -> String {
    format!("/api/v1/namespaces/team/pods/{name}")
}

fn label(key: &str, value: &Value) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

fn annotation(key: &str, value: &Value) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

/// Returns the message with which the API server denies a changed label or annotation.
fn immutable(map: &str, key: &str, value: &str) -> String {
    format!("'giveway-pods' denied request: metadata.{map}[{key}]: Invalid value: \"{value}\": field is immutable")
}

/// Returns a patch that removes one scheduling gate.
fn ungate(gate: &str) -> Value {
    json!({"spec": {"schedulingGates": [{"$patch": "delete", "name": gate}]}})
}

/// Returns a merge patch that removes all finalizers.
fn no_finalizers() -> Value {
    json!({"metadata": {"finalizers": null}})
}

/// Replaces a PodGroup by itself without finalizers, as `kubectl replace` does, and returns the answer.
async fn replace_without_finalizers(group: &str, user: &Client) -> Value {
    // The operator may write the status between the read and the update.
    wait_for("the PodGroup is replaced", MINUTE, async || {
        let mut whole = Call::get(group).make(user).await?;
        whole["metadata"].as_object_mut().unwrap().remove("finalizers");
        Call::put(group, &whole).make(user).await
    })
    .await
}

/// Namespace `team` with the gang `train`, whose only pod `train-0` is gated, the pod `single`, and clients of the users.
struct Fixture {
    world: World,
    team: Kit,
    gated: PodHandle,
    tenant: Client,
    wide: Client,
    glass: Client,
}

impl Fixture {
    async fn build() -> Self {
        let world = World::start().await;
        let team = world.namespace("team").await;
        world.apply(USERS).await.unwrap();
        let mut gang = GroupBuilder::new(team.clone(), "train", 2).create_group().await;
        gang.add_pods(1).await;
        PodBuilder::new(team.clone(), "single").create().await;
        let gated = gang.pods[0].clone();
        wait_for("the group has its finalizer", MINUTE, async || {
            let finalizers = gang.get().await.metadata.finalizers.unwrap_or_default();
            if finalizers.iter().any(|f| f == keys::FINALIZER_PROTECTION) {
                Ok(())
            } else {
                Err(format!("{finalizers:?}"))
            }
        })
        .await;
        let tenant = world.client_in("tenant", &[]).await;
        let wide = world.client_in("wide", &[]).await;
        let glass = world.client_in("glass", &[]).await;
        // RBAC observes new bindings with a delay.
        for (client, path) in [(&tenant, GROUPS), (&glass, GROUPS), (&wide, LEDGER)] {
            wait_for(&format!("the user may list {path}"), MINUTE, async || Call::get(path).make(client).await).await;
        }
        Self { world, team, gated, tenant, wide, glass }
    }
}

async fn only_the_operator_changes_labels_annotations_and_gates_of_giveway() {
    let fixture = Fixture::build().await;
    let (tenant, wide) = (&fixture.tenant, &fixture.wide);

    // Labels and annotations of a pod cannot be changed, removed or added, through any subresource.
    let changes = [
        (
            "another group",
            "train-0",
            label(LABEL_POD_GROUP, &json!("other")),
            immutable("labels", LABEL_POD_GROUP, "other"),
        ),
        ("no group", "train-0", label(LABEL_POD_GROUP, &Value::Null), immutable("labels", LABEL_POD_GROUP, "")),
        (
            "a group, later",
            "single",
            label(LABEL_POD_GROUP, &json!("train")),
            immutable("labels", LABEL_POD_GROUP, "train"),
        ),
        (
            "a template, later",
            "single",
            label(keys::LABEL_WORKLOAD, &json!("w")),
            immutable("labels", keys::LABEL_WORKLOAD, "w"),
        ),
        (
            "a threshold, later",
            "single",
            annotation(ANNOTATION_THRESHOLD, &json!("5000")),
            immutable("annotations", ANNOTATION_THRESHOLD, "5000"),
        ),
        (
            "preemption by Giveway, later",
            "single",
            annotation(ANNOTATION_PREEMPTION_POLICY, &json!("PreemptLowerPriority")),
            immutable("annotations", ANNOTATION_PREEMPTION_POLICY, "PreemptLowerPriority"),
        ),
        (
            "a plan",
            "single",
            annotation("scheduling.giveway.dev/preemption-plan", &json!("{}")),
            immutable("annotations", "scheduling.giveway.dev/preemption-plan", "{}"),
        ),
    ];
    for (what, name, body, words) in &changes {
        Call::patch(&pod(name), body).refused(tenant, what, words).await;
        Call::patch(&pod(name), body).refused(wide, what, words).await;
        let by_status = Call::patch(&format!("{}/status", pod(name)), body);
        by_status.refused(wide, &format!("{what}, through the status subresource"), words).await;
        // The rule includes administrators, because none of these keys ever has to be repaired by hand.
        Call::patch(&pod(name), body).refused(&fixture.world.client(), what, words).await;
    }
    // Through these subresources the API server changes no metadata, whatever it answers.
    for subresource in ["ephemeralcontainers", "resize"] {
        let body = label(LABEL_POD_GROUP, &json!("train"));
        let changed = Call::patch(&format!("{}/{subresource}", pod("single")), &body).make(wide).await;
        let labels = changed.unwrap_or_default()["metadata"]["labels"].clone();
        assert_eq!(labels.get(LABEL_POD_GROUP), None, "{subresource}: {labels}");
    }
    for (map, key) in [("labels", LABEL_POD_GROUP), ("annotations", ANNOTATION_THRESHOLD)] {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": "single", map: {key: "5000"}}, "target": {"kind": "Node", "name": "nowhere"}
        });
        let words = format!(
            "'giveway-bindings' denied request: metadata.{map}[{key}]: Forbidden: a binding would write it to the pod, where it is immutable: remove it"
        );
        Call::post(&format!("{}/binding", pod("single")), &binding).refused(wide, "a binding", &words).await;
        Call::post("/api/v1/namespaces/team/bindings", &binding)
            .refused(wide, "a binding of the deprecated resource", &words)
            .await;
    }

    let gate = "spec.schedulingGates: the gate scheduling.giveway.dev/pod-group is removed by Giveway when the whole pod group fits; `kubectl describe podgroup.scheduling.giveway.dev` gives the reason why it is pending";
    for user in [tenant, wide] {
        Call::patch(&pod("train-0"), &ungate(GATE)).refused(user, "a user that removes the gate", gate).await;
    }

    let group = format!("{GROUPS}/train");
    // An update without the finalizer is admitted and keeps it, also for an administrator.
    let admin = fixture.world.client();
    for user in [tenant, wide, &fixture.glass, &admin] {
        let patched = Call::merge(&group, &no_finalizers()).allowed(user, "a patch that removes the finalizer").await;
        assert_eq!(patched["metadata"]["finalizers"], json!([keys::FINALIZER_PROTECTION]));
        let replaced = replace_without_finalizers(&group, user).await;
        assert_eq!(replaced["metadata"]["finalizers"], json!([keys::FINALIZER_PROTECTION]));
    }
    let status = json!({"status": {"conditions": [], "preemptedBy": {"kind": "PodGroup", "namespace": "default", "name": "other"}}});
    Call::merge(&format!("{group}/status"), &status)
        .refused(tenant, "a group's status, by a tenant", "cannot patch resource \"podgroups/status\"")
        .await;
    let words = "status: Forbidden: only Giveway's operator writes it, because its decisions depend on it";
    Call::merge(&format!("{group}/status"), &status).refused(wide, "a group's status", words).await;
    fixture.world.apply("apiVersion: scheduling.giveway.dev/v1alpha1\nkind: Workload\nmetadata: {name: w, namespace: team}\nspec: {podGroupTemplates: [{name: t, schedulingPolicy: {basic: {}}}]}\n").await.unwrap();
    let counts = json!({"status": {"conditions": []}});
    Call::merge(&format!("{WORKLOADS}/w/status"), &counts).refused(wide, "a workload's status", words).await;

    // Users can change their own labels, annotations and fields.
    Call::patch(&pod("train-0"), &label("app", &json!("b"))).allowed(tenant, "a label of the user").await;
    Call::patch(&pod("train-0"), &annotation("note", &json!("b"))).allowed(tenant, "an annotation of the user").await;
    let count = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}});
    Call::merge(&group, &count).allowed(tenant, "the minCount of the user's gang").await;
    fixture.world.check_promises().await;
}

async fn only_the_operator_writes_preemptions_and_break_glass_rights_work() {
    let mut fixture = Fixture::build().await;
    let (admin, glass, wide) = (fixture.world.client(), fixture.glass.clone(), fixture.wide.clone());
    let operator = fixture.world.client_of("system:serviceaccount:giveway-system:giveway-operator").await;

    // A Preemption.
    let preemptor =
        json!({"kind": "Pod", "namespace": "team", "name": "single", "uid": "u", "priority": 2_000_000_000});
    let plan = |name: &str| {
        json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": name},
            "spec": {
                "preemptor": preemptor, "strategy": "kep5710", "placements": [], "victims": [],
                "cost": {"budgetViolations": 0, "victimPods": 0, "victimGroups": 0}
            }
        })
    };
    let words = "a Preemption is what Giveway decided: only its operator writes it, and pods are evicted by it.";
    let tenants = "cannot create resource \"preemptions\"";
    Call::post(LEDGER, &plan("forged")).refused(&fixture.tenant, "a plan of a tenant", tenants).await;
    Call::post(LEDGER, &plan("forged")).refused(&wide, "a plan of a user with all verbs", words).await;
    Call::post(LEDGER, &plan("forged")).refused(&admin, "a plan of the administrator", words).await;
    // A running operator would remove the unknown plan, so it is stopped first.
    Call::post(LEDGER, &plan("true")).dry().allowed(&operator, "a plan of the operator").await;
    fixture.world.operator().kill();
    Call::post(LEDGER, &plan("true")).allowed(&operator, "a plan of the operator").await;
    let one = format!("{LEDGER}/true");
    let mark = json!({"metadata": {"labels": {"a": "b"}}});
    Call::merge(&one, &mark).refused(&wide, "a changed plan", words).await;
    Call::merge(&one, &mark).refused(&admin, "a changed plan", words).await;
    Call::merge(&format!("{one}/status"), &json!({"status": {"state": "Evicting"}}))
        .refused(&wide, "a state", words)
        .await;
    Call::delete(&one).refused(&wide, "a deleted plan", words).await;
    Call::delete(LEDGER).refused(&wide, "all plans deleted", words).await;
    Call::delete(&one).allowed(&admin, "a break-glass change").await;

    // Without a running operator, users with the break-glass right can remove gate and finalizer.
    let elsewhere = fixture.world.namespace("elsewhere").await;
    let mut other = GroupBuilder::new(elsewhere, "other", 2).create_group().await;
    other.add_pods(1).await;
    let foreign = Call::patch("/api/v1/namespaces/elsewhere/pods/other-0", &ungate(GATE));
    foreign.refused(&glass, "a gate of another namespace", "cannot patch resource \"pods\"").await;
    Call::patch(&pod("train-0"), &ungate(GATE)).allowed(&glass, "a break-glass change").await;
    assert_eq!(scheduling_gates(&fixture.gated.get().await.unwrap()), Vec::<String>::new());
    let train = format!("{GROUPS}/train");
    let removal = Call::merge(&train, &no_finalizers());
    let kept = removal.allowed(&glass, "a patch of a PodGroup that is not being deleted").await;
    assert_eq!(kept["metadata"]["finalizers"], json!([keys::FINALIZER_PROTECTION]));
    Call::delete(&train).allowed(&admin, "a deletion").await;
    let words = "metadata.finalizers: the finalizer scheduling.giveway.dev/pod-group-protection is removed by Giveway when the last pod of the group has ended: keep it in the list, or change the group with `kubectl apply`";
    removal.refused(&wide, "a user with the right to update podgroups/finalizers", words).await;
    removal.allowed(&glass, "a break-glass change").await;
    Call::get(&train).refused(&admin, "a read of the deleted PodGroup", "not found").await;
    let bare = GroupBuilder::new(fixture.team.clone(), "bare", 2).create_group().await;
    let bare = format!("{GROUPS}/{}", bare.name);
    let back = json!({"metadata": {"finalizers": [keys::FINALIZER_PROTECTION]}});
    let words = "is added by Giveway when the group has pods: leave it out";
    Call::merge(&bare, &back).refused(&glass, "a finalizer that the operator did not add", words).await;
    let status = Call::merge(&format!("{bare}/status"), &json!({"status": {"conditions": []}}));
    status.refused(&admin, "a status", "only Giveway's operator writes it").await;
    foreign.allowed(&admin, "a break-glass change").await;

    // A namespace can be deleted with all its groups once the operator runs again.
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    fixture.world.operator().start().await;
    let mut gang = GroupBuilder::new(fixture.team.clone(), "late", 2).create_group().await;
    gang.add_pods(1).await;
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    wait_for("the namespace is deleted", MINUTE, async || {
        match namespaces.get_opt("team").await.map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(namespace) => Err(format!("{:?}", namespace.status)),
        }
    })
    .await;
    fixture.world.check_promises().await;
}

async fn without_the_webhook_no_pod_with_keys_of_giveway_is_admitted() {
    let mut world = World::start().await;
    world.nodes(1).cpus(2).create().await;
    world.webhook().kill();
    let failed = "failed calling webhook \"annotated.pods.giveway.dev\"";
    for (key, value) in [(ANNOTATION_THRESHOLD, "2000000000"), (ANNOTATION_PREEMPTION_POLICY, "PreemptLowerPriority")] {
        let forged = world.pod("forged").annotation(key, value).try_create().await.err();
        let said = forged.unwrap_or_else(|| panic!("a pod with {key} is admitted")).to_string();
        assert!(said.contains(failed), "{said}");
    }
    let mut gated = world.pod("gated").build();
    let spec = gated.spec.as_mut().unwrap();
    spec.scheduling_gates = Some(vec![k8s_openapi::api::core::v1::PodSchedulingGate { name: GATE.to_owned() }]);
    let said = world.kit().api().create(&kube::api::PostParams::default(), &gated).await.unwrap_err().to_string();
    assert!(said.contains(failed), "{said}");
    world.pod("other").annotation("note", "mine").create().await.wait_bound(MINUTE).await;
    // Keys of pods that exist are protected by the policies, which need no webhook.
    let (path, admin) = ("/api/v1/namespaces/default/pods/other", world.client());
    for (key, value) in [(ANNOTATION_THRESHOLD, "5000"), (ANNOTATION_PREEMPTION_POLICY, "PreemptLowerPriority")] {
        let words = immutable("annotations", key, value);
        Call::patch(path, &annotation(key, &json!(value))).refused(&admin, "an annotation, later", &words).await;
    }
    let words = immutable("labels", LABEL_POD_GROUP, "train");
    Call::patch(path, &label(LABEL_POD_GROUP, &json!("train"))).refused(&admin, "a group, later", &words).await;
    world.webhook().start().await;
    let forged = world.pod("forged").annotation(ANNOTATION_THRESHOLD, "2000000000").try_create().await.err();
    let said = forged.unwrap().to_string();
    assert!(said.contains("must not be provided in pod annotations"), "{said}");
    world.check_promises().await;
}

async fn the_policies_also_apply_to_a_pod_with_50000_labels(world: &World) {
    let mut pod = world.pod("huge").build();
    let many = (0..50_000).map(|n| (format!("l{n}"), String::new()));
    pod.metadata.labels.get_or_insert_default().extend(many);
    world.kit().api().create(&kube::api::PostParams::default(), &pod).await.unwrap();
    let (admin, path) = (world.client(), "/api/v1/namespaces/default/pods/huge");
    let operator = world.client_of("system:serviceaccount:giveway-system:giveway-operator").await;
    let condition = json!({"status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}});
    Call::patch(&format!("{path}/status"), &condition).allowed(&operator, "a condition of a victim").await;
    Call::patch(path, &annotation("note", &json!("a"))).allowed(&admin, "an annotation").await;
    Call::patch(path, &label("l1", &json!("a"))).allowed(&admin, "a label").await;
    let words = immutable("labels", LABEL_POD_GROUP, "g");
    Call::patch(path, &label(LABEL_POD_GROUP, &json!("g"))).refused(&admin, "a group, later", &words).await;
    // More labels than the policy compares, of which a plugin would change one.
    let words =
        "metadata.labels: Giveway's operator may change or remove only labels that start with scheduling.giveway.dev/";
    Call::patch(path, &label("added", &json!("a"))).dry().refused(&operator, "one more label", words).await;
    world.check_promises().await;
}

/// Two Roles in namespace `team`: one with the finalizers that ordinary controllers may update, one with all resources of the group.
const ROLES: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: finalizers, namespace: team}
rules:
- {apiGroups: [scheduling.giveway.dev], resources: [podgroups, podgroups/status, podgroups/finalizers], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: all, namespace: team}
rules:
- {apiGroups: [scheduling.giveway.dev], resources: ['*'], verbs: ['*']}
";

/// Returns true if this user may use break-glass access in the namespace, or in the whole cluster if it is empty.
async fn may_break_glass(user: &Client, namespace: &str) -> bool {
    let right = json!({
        "group": keys::GROUP, "resource": "podgroups", "subresource": "breakglass", "verb": "update", "namespace": namespace
    });
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": right}
    });
    let asked = Call::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review);
    asked.allowed(user, "a review of the user's own rights").await["status"]["allowed"] == true
}

async fn only_roles_that_name_the_break_glass_right_or_all_resources_of_the_group_grant_it(world: &World) {
    world.namespace("team").await;
    world.apply(ROLES).await.unwrap();
    let users = [
        ("viewer", "ClusterRole", "view", false),
        ("editor", "ClusterRole", "edit", false),
        ("owner", "ClusterRole", "admin", false),
        ("controller", "Role", "finalizers", false),
        ("wildcard", "Role", "all", true),
        ("glass", "ClusterRole", "giveway-break-glass", true),
    ];
    for (user, kind, role, granted) in users {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": user, "namespace": "team"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
        });
        world.apply(&binding.to_string()).await.unwrap();
        let client = world.client_in(user, &[]).await;
        // RBAC observes new bindings with a delay.
        wait_for(&format!("the binding of user {user} is observed"), MINUTE, async || {
            let observed = if granted {
                may_break_glass(&client, "team").await
            } else {
                Call::get(GROUPS).make(&client).await.is_ok()
            };
            if observed { Ok(()) } else { Err(format!("{role} is not in force")) }
        })
        .await;
        assert_eq!(may_break_glass(&client, "team").await, granted, "{role}");
        assert!(!may_break_glass(&client, "").await, "{role} is bound in one namespace");
    }
    assert!(may_break_glass(&world.client(), "").await, "a cluster administrator");
    world.check_promises().await;
}

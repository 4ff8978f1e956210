//! Settings of administrators for namespaces: protection against evictions, by the chart and by an annotation, also during a
//! plan; and namespaces without group scheduling.

use crate::cli::giveway;
use crate::{INITIALLY_SCHEDULED, MINUTE, expect_condition};
use giveway_crds::keys::{
    ANNOTATION_CRITICAL, ANNOTATION_NEVER_EVICT, ANNOTATION_PREEMPTION_POLICY, ANNOTATION_THRESHOLD, GATE,
    LABEL_ENABLED, LABEL_GANG, LABEL_POD_GROUP, LABEL_WORKLOAD,
};
use giveway_crds::plan::PlanState;
use giveway_tests::attack::Call;
use giveway_tests::audit::Promises;
use giveway_tests::cluster::{FillBuilder, Group, GroupBuilder, Kit, PodBuilder, PodHandle, Shaped, scheduling_gates};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::PodSchedulingGate;
use kube::Client;
use serde_json::{Value, json};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            no_further_pod_of_a_protected_group_is_evicted_after_a_preemption_by_kube_scheduler,
            a_tenant_cannot_protect_a_namespace_with_any_namespaced_rights;
        own:
            no_pod_is_evicted_in_a_namespace_that_the_chart_protects_and_messages_say_why,
            an_administrator_can_protect_and_unprotect_a_namespace,
            a_plan_is_cancelled_if_its_victims_become_protected,
            in_namespaces_without_groups_pods_start_individually_and_preempt_no_pod,
            a_gated_gang_is_ungated_when_its_namespace_is_excluded,
            group_labels_in_excluded_namespaces_do_not_bypass_admission;
    ]
}

const VAULT: &str = "/api/v1/namespaces/vault";

async fn create_classes(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
}

fn never_evict(value: &Value) -> Value {
    json!({"metadata": {"annotations": {ANNOTATION_NEVER_EVICT: value}}})
}

/// Sets or removes the annotation that protects namespace `vault`, as an administrator.
async fn set_protected(world: &World, protected: bool) {
    let value = if protected { json!("true") } else { Value::Null };
    Call::merge(VAULT, &never_evict(&value)).allowed(&world.client(), "an administrator").await;
}

/// Fills the nodes with single pods of low priority in this namespace.
async fn fill(kit: &Kit, nodes: &[String]) -> Vec<PodHandle> {
    FillBuilder::new(kit.clone(), nodes).priority("low").grace_seconds(1).singles().await
}

/// Returns the number of evicted pods of namespace `vault`.
async fn evicted(world: &World) -> usize {
    world.audit().await.evicted().iter().filter(|removal| removal.pod.0 == "vault").count()
}

async fn no_pod_is_evicted_in_a_namespace_that_the_chart_protects_and_messages_say_why() {
    let world = World::builder().operator_flag("--protected-namespaces=vault,else");
    let mut world = world.helm_value("victims.protectedNamespaces={vault,else}").start().await;
    create_classes(&world).await;
    let vault = world.namespace("vault").await;
    let nodes = world.nodes(1).cpus(4).create().await;
    fill(&vault, &nodes).await;
    let host = "kubernetes.io/hostname";
    let vip = world.gang("vip", 2).priority("high").node_selector(host, &nodes[0]).create().await;
    let words = "4 pods below priority 1000 are protected: no pod in their namespaces is evicted.";
    expect_condition(&vip, INITIALLY_SCHEDULED, "False Unschedulable", words).await;
    // `plan` and `why` report the protection from the cluster; `plan` also reports it from a snapshot.
    for args in [&["plan", "--for", "podgroup/vip"][..], &["why", "podgroup/vip"]] {
        let page = giveway(&mut world, &[args, &["-n", "default"]].concat()).await;
        let page = page.ok();
        assert!(page.contains(words), "{args:?}: {page}");
    }
    let file = world.plane().directory().join("snapshot.json").display().to_string();
    for hidden in [&[][..], &["--anonymize"]] {
        giveway(&mut world, &[&["snapshot", "--output", &file][..], hidden].concat()).await.ok();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.contains("vault"), hidden.is_empty(), "{text}");
        let list: Value = serde_json::from_str(&text).unwrap();
        let items = list["items"].as_array().unwrap();
        let group = items.iter().find(|item| item["kind"] == "PodGroup").unwrap();
        let name = |field: &str| group["metadata"][field].as_str().unwrap().to_owned();
        let target = format!("podgroup/{}", name("name"));
        let args = ["plan", "--for", &target, "-n", &name("namespace"), "--snapshot", &file];
        let page = giveway(&mut world, &args).await;
        let page = page.ok();
        assert!(page.contains(words), "{page}");
    }
    // Pods in other namespaces are evicted.
    let more = world.nodes(1).cpus(4).prefix("more").create().await;
    PodBuilder::new(vault.clone(), "kept").priority("low").on(&more[0]).create().await.wait_bound(MINUTE).await;
    let low = world.fill(&more).priority("low").singles().await;
    assert_eq!(low.len(), 3);
    let late = world.gang("late", 2).priority("high").node_selector(host, &more[0]).create().await;
    late.wait_bound(MINUTE).await;
    assert_eq!((world.audit().await.evicted_names().len(), evicted(&world).await), (2, 0));
    world.check_promises().await;
}

async fn an_administrator_can_protect_and_unprotect_a_namespace() {
    let world = World::builder().operator_flag("--critical-addons-after=1s").start().await;
    create_classes(&world).await;
    let vault = world.namespace("vault").await;
    set_protected(&world, true).await;
    let nodes = world.nodes(1).cpus(2).create().await;
    let group = FillBuilder::new(vault, &nodes).priority("low").whole().groups_of(2).await;
    let vip = world.gang("vip", 2).priority("high").create().await;
    expect_condition(&vip, INITIALLY_SCHEDULED, "False Unschedulable", "2 pods below priority 1000 are protected")
        .await;
    // Pods in the namespace are not evicted for a critical add-on either.
    let system = Kit { namespace: "kube-system".to_owned(), ..world.kit() };
    let dns = PodBuilder::new(system, "dns").annotation(ANNOTATION_CRITICAL, "true").create().await;
    let said = dns.wait_event("CriticalAddonUnschedulable", MINUTE).await;
    assert!(said.contains("because no pod of protected namespaces is evicted"), "{said}");
    assert_eq!(evicted(&world).await, 0);
    dns.delete().await;
    set_protected(&world, false).await;
    vip.wait_bound(MINUTE).await;
    group[0].wait_removed(MINUTE).await;
    world.check_promises().await;
}

/// The namespace becomes protected between two evictions: no further pod is evicted, and the gang waits for other capacity.
async fn a_plan_is_cancelled_if_its_victims_become_protected() {
    let world = World::builder().operator_flag("--evictions-per-second=1").start().await;
    create_classes(&world).await;
    let vault = world.namespace("vault").await;
    let nodes = world.nodes(1).cpus(20).create().await;
    fill(&vault, &nodes).await;
    let vip = world.gang("vip", 20).priority("high").create().await;
    wait_for("the first pods are evicted", MINUTE, async || {
        let evicted = evicted(&world).await;
        if evicted > 0 { Ok(()) } else { Err("no pod is evicted".to_owned()) }
    })
    .await;
    set_protected(&world, true).await;
    let plan = vip.wait_plan(PlanState::Cancelled, MINUTE).await;
    let words = "must not be evicted: its namespace is protected (scheduling.giveway.dev/never-evict: \"true\").";
    assert!(
        plan.message.starts_with("No other pod is evicted: pod vault/") && plan.message.ends_with(words),
        "{}",
        plan.message
    );
    expect_condition(
        &vip,
        INITIALLY_SCHEDULED,
        "False Unschedulable",
        "are protected: no pod in their namespaces is evicted.",
    )
    .await;
    let by_then = evicted(&world).await;
    assert!(by_then < 20, "{by_then}");
    // New nodes provide the capacity instead.
    world.nodes(1).cpus(20).prefix("more").create().await;
    vip.wait_bound(MINUTE).await;
    assert_eq!(evicted(&world).await, by_then);
    world.check_promises().await;
}

/// Protection takes precedence over whole-group disruption, so the group stays partially disrupted.
async fn no_further_pod_of_a_protected_group_is_evicted_after_a_preemption_by_kube_scheduler(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("stock", 1000).create().await;
    let vault = world.namespace("vault").await;
    set_protected(world, true).await;
    let nodes = world.nodes(1).cpus(4).create().await;
    let low = FillBuilder::new(vault, &nodes).priority("low").whole().groups_of(4).await;
    low[0].wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    world.pod("stock").priority("stock").create().await.wait_bound(MINUTE).await;
    let event = low[0].wait_event("Protected", MINUTE).await;
    let words = ". The 3 other pods of the PodGroup are not evicted: its namespace is protected (scheduling.giveway.dev/never-evict: \"true\").";
    assert!(event.starts_with("kube-scheduler preempted pod ") && event.ends_with(words), "{event}");
    assert_eq!(evicted(world).await, 0);
    world.check(&Promises::new().allow_partial_disruptions(1)).await;
}

/// User `owner` has all rights inside namespace `vault` and may therefore change the Namespace object. User `maker` may write all
/// Namespaces. User `keeper` also has the chart's role `giveway-namespace-admin`.
const ACCOUNTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: owner, namespace: vault}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: User, name: owner}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: maker}
rules: [{apiGroups: [''], resources: [namespaces, namespaces/status, namespaces/finalize], verbs: ['*']}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: maker}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: maker}
subjects: [{kind: User, name: maker}, {kind: User, name: keeper}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: keeper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: giveway-namespace-admin}
subjects: [{kind: User, name: keeper}]
";

/// Returns a client of a user and waits until RBAC has observed the user's bindings.
async fn user(world: &World, name: &str) -> Client {
    let client = world.client_in(name, &[]).await;
    // RBAC observes new bindings with a delay.
    wait_for(&format!("user {name} may read the Namespace"), MINUTE, async || Call::get(VAULT).make(&client).await)
        .await;
    client
}

async fn a_tenant_cannot_protect_a_namespace_with_any_namespaced_rights(world: &World) {
    world.namespace("vault").await;
    world.apply(ACCOUNTS).await.unwrap();
    let (owner, maker, keeper) = (user(world, "owner").await, user(world, "maker").await, user(world, "keeper").await);
    let words = "metadata.annotations[scheduling.giveway.dev/never-evict]: Forbidden: only an administrator sets, changes or removes it: bind the ClusterRole giveway-namespace-admin by a ClusterRoleBinding";
    let set = never_evict(&json!("true"));
    let status = format!("{VAULT}/status");
    for user in [&owner, &maker] {
        Call::merge(VAULT, &set).refused(user, "a tenant", words).await;
        Call::merge(&status, &set).refused(user, "a tenant, through the status subresource", words).await;
        let mut whole = Call::get(VAULT).allowed(user, "a read").await;
        whole["metadata"]["annotations"] = json!({ANNOTATION_NEVER_EVICT: "true"});
        Call::put(VAULT, &whole).refused(user, "a tenant, with an update", words).await;
        Call::put(&format!("{VAULT}/finalize"), &whole)
            .refused(user, "a tenant, through the finalize subresource", words)
            .await;
        // Other fields of the Namespace may be changed.
        let note = json!({"metadata": {"annotations": {"note": "mine"}, "labels": {"team": "a"}}});
        Call::merge(VAULT, &note).allowed(user, "a note").await;
    }
    let mut new = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}});
    Call::post("/api/v1/namespaces", &new).dry().allowed(&maker, "a namespace").await;
    new["metadata"]["annotations"] = json!({ANNOTATION_NEVER_EVICT: "true"});
    Call::post("/api/v1/namespaces", &new).refused(&maker, "a protected namespace", words).await;

    // This label enables group scheduling in a namespace if the chart uses opt-in.
    let words =
        words.replace("annotations[scheduling.giveway.dev/never-evict]", "labels[scheduling.giveway.dev/enabled]");
    let enabled = json!({"metadata": {"labels": {LABEL_ENABLED: "true"}}});
    for user in [&owner, &maker] {
        Call::merge(VAULT, &enabled).refused(user, "a tenant that sets the label", &words).await;
    }
    Call::merge(VAULT, &enabled).allowed(&keeper, "a user with the chart's role").await;

    Call::merge(VAULT, &set).allowed(&keeper, "a user with the chart's role").await;
    for (what, value) in [("removed", Value::Null), ("changed", json!("false"))] {
        let words = "metadata.annotations[scheduling.giveway.dev/never-evict]: Forbidden";
        Call::merge(VAULT, &never_evict(&value)).refused(&owner, what, words).await;
    }
    let note = json!({"metadata": {"annotations": {"note": "again"}}});
    Call::merge(VAULT, &note).allowed(&owner, "another annotation").await;
    Call::merge(VAULT, &never_evict(&Value::Null)).allowed(&keeper, "removed").await;
    world.check_promises().await;
}

/// Starts a world that schedules groups in all namespaces except those of team `strange`.
async fn start_with_excluded_namespaces() -> World {
    let rule = r#"{"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["strange"]}]}"#;
    let mut world = World::builder().operator_flag(&format!("--served-namespaces={rule}"));
    for value in ["key=team", "operator=NotIn", "values={strange}"] {
        world = world.helm_value(&format!("namespaces.selector.matchExpressions[0].{value}"));
    }
    world.start().await
}

/// Creates a namespace with label `team=strange`.
async fn create_excluded_namespace(world: &World) -> Kit {
    let manifest = "apiVersion: v1\nkind: Namespace\nmetadata: {name: strange, labels: {team: strange}}\n";
    world.apply(manifest).await.unwrap();
    wait_for("the namespace has a ServiceAccount", MINUTE, async || {
        world.kubectl(&["get", "serviceaccount", "default", "-n", "strange"]).await
    })
    .await;
    Kit { namespace: "strange".to_owned(), ..world.kit() }
}

/// Returns the number of gated pods of a group.
async fn count_gated(group: &Group) -> usize {
    let members = group.members().await.unwrap();
    members.iter().filter(|pod| scheduling_gates(pod).iter().any(|gate| gate == GATE)).count()
}

async fn in_namespaces_without_groups_pods_start_individually_and_preempt_no_pod() {
    let mut world = start_with_excluded_namespaces().await;
    create_classes(&world).await;
    let strange = create_excluded_namespace(&world).await;
    let nodes = world.nodes(1).cpus(4).create().await;
    FillBuilder::new(world.kit(), &nodes).priority("low").cpu(2).singles().await[0].delete().await;
    let loose = GroupBuilder::new(strange.clone(), "loose", 4).priority("high").create().await;
    let words = "Giveway serves no groups in namespace strange: pods there start one by one. An administrator chooses the namespaces (chart value namespaces.selector).";
    expect_condition(&loose, INITIALLY_SCHEDULED, "False NotServed", words).await;
    wait_for("two of the four pods are bound", MINUTE, async || {
        let bound =
            loose.members().await.unwrap().iter().filter(|pod| pod.spec.as_ref().unwrap().node_name.is_some()).count();
        if bound == 2 { Ok(()) } else { Err(format!("{bound} are bound")) }
    })
    .await;
    assert_eq!(count_gated(&loose).await, 0);
    let page = giveway(&mut world, &["plan", "--for", "podgroup/loose", "-n", "strange"]).await;
    let page = page.ok();
    assert!(page.contains("NotServed") && page.contains(words), "{page}");
    // Creating members, groups or gang owners in such a namespace returns a warning.
    let warning = "Giveway serves no groups in this namespace: pods are not gated, and start one by one.";
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: late, labels: {scheduling.giveway.dev/pod-group: loose}}\nspec: {containers: [{name: main, image: 'registry.example/fake:1'}]}\n";
    let group = "apiVersion: scheduling.giveway.dev/v1alpha1\nkind: PodGroup\nmetadata: {name: other}\nspec: {schedulingPolicy: {gang: {minCount: 2}}}\n";
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train, labels: {scheduling.giveway.dev/gang: 'true'}}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: 'registry.example/fake:1'}]}}}\n";
    for manifest in [pod, group, job] {
        for (namespace, warned) in [("strange", true), ("default", false)] {
            let said = world.warnings_of(namespace, manifest).await;
            assert_eq!(said.contains(warning), warned, "{namespace}: {manifest}: {said}");
        }
    }
    // In other namespaces gangs preempt as usual.
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.gang("vip", 2).priority("high").create().await.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names().len(), 1);
    world.check_promises().await;
}

/// A gang is gated when its namespace becomes excluded.
async fn a_gated_gang_is_ungated_when_its_namespace_is_excluded() {
    let world = start_with_excluded_namespaces().await;
    create_classes(&world).await;
    let team = world.namespace("team").await;
    world.nodes(1).cpus(4).create().await;
    let mut gang = GroupBuilder::new(team, "train", 3).priority("high").create_group().await;
    gang.add_pods(2).await;
    expect_condition(&gang, INITIALLY_SCHEDULED, "False WaitingForPods", "3 pods needed").await;
    assert_eq!(count_gated(&gang).await, 2);
    world.kubectl(&["label", "namespace", "team", "team=strange"]).await.unwrap();
    gang.wait_bound(MINUTE).await;
    assert_eq!(count_gated(&gang).await, 0);
    world.check_promises().await;
}

/// Excluded namespaces are not sent to the webhook for members. Pods with group labels cannot use this to set fields that the
/// webhook would reject.
async fn group_labels_in_excluded_namespaces_do_not_bypass_admission() {
    let world = start_with_excluded_namespaces().await;
    create_classes(&world).await;
    let strange = create_excluded_namespace(&world).await;
    let served = "Giveway serves no groups in this namespace";
    for (map, key, value) in [
        ("annotations", ANNOTATION_THRESHOLD, "2000000000"),
        ("annotations", ANNOTATION_PREEMPTION_POLICY, "PreemptLowerPriority"),
    ] {
        for (label, name) in [(LABEL_POD_GROUP, "g"), (LABEL_WORKLOAD, "w"), (LABEL_GANG, "true")] {
            let mut pod = PodBuilder::new(strange.clone(), "p").priority("low").label(label, name).build();
            pod.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
            let pod = serde_json::to_value(&pod).unwrap();
            let call = Call::post("/api/v1/namespaces/strange/pods", &pod);
            // Two policies reject it, and either one may be the first.
            let words = format!("metadata.{map}[{key}]: ");
            call.refused(&world.client(), &format!("{label} with {map} {key}"), &words).await;
        }
    }
    let mut gated = PodBuilder::new(strange.clone(), "p").label(LABEL_POD_GROUP, "g").build();
    gated.spec.as_mut().unwrap().scheduling_gates = Some(vec![PodSchedulingGate { name: GATE.to_owned() }]);
    let call = Call::post("/api/v1/namespaces/strange/pods", &serde_json::to_value(&gated).unwrap());
    call.refused(&world.client(), "the gate", served).await;
    // A pod without group labels is checked by the webhook as everywhere.
    let mut single = PodBuilder::new(strange, "p").priority("low").build();
    single.metadata.annotations.get_or_insert_default().insert(ANNOTATION_THRESHOLD.to_owned(), "5".to_owned());
    let call = Call::post("/api/v1/namespaces/strange/pods", &serde_json::to_value(&single).unwrap());
    call.refused(&world.client(), "a single pod", ANNOTATION_THRESHOLD).await;
    world.check_promises().await;
}

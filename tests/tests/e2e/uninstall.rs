//! Install, upgrade and uninstall with the real helm: the chart's hook Jobs run with their own ServiceAccounts after the operator
//! has lost its rights, and remove Giveway's taints.

use crate::MINUTE;
use crate::cli::giveway as cli;
use giveway_crds::keys::{ANNOTATION_CRITICAL, FINALIZER_PROTECTION, GATE, LABEL_POD_GROUP, TAINT_CRITICAL};
use giveway_tests::attack::Call;
use giveway_tests::audit::OPERATOR;
use giveway_tests::control_plane::kubeconfig;
use giveway_tests::giveway::chart::CRITICAL_ADDONS;
use giveway_tests::giveway::{self, NAMESPACE};
use giveway_tests::paths;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use kube::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            critical_add_ons_are_off_in_a_new_installation_and_an_upgrade_leaves_them_on,
            taints_are_removed_when_critical_add_ons_are_disabled_or_the_chart_is_uninstalled,
            a_failed_job_of_the_uninstallation_deletes_its_rights_and_stays,
            no_account_has_rights_after_the_last_job_of_the_uninstallation_has_failed,
            uninstall_removes_nothing_while_an_operator_leads,
            cleanup_ends_the_deletion_of_a_namespace_while_no_operator_runs;
        release:
            the_uninstall_job_runs_where_a_quota_limits_its_priority_class,
            without_the_webhook_classes_are_released_after_the_chart_is_uninstalled,
            uninstall_lists_all_objects_that_helm_deletes_and_taints_of_unknown_origin,
            the_commands_in_the_one_file_manifest_remove_all_its_objects;
    ]
}

/// UID of a pod.
const UID: &str = "0d5a1c2e-7f43-4c6b-9a51-3f1f4e5d6c7b";
const NODE: &str = "/api/v1/nodes/node-000";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Starts helm, which waits for the Jobs of hooks; the test runs their programs meanwhile.
pub(crate) fn helm(world: &mut World, args: &[&str]) -> Child {
    let mut command = Command::new(paths::control_plane_program("helm").unwrap());
    let plane = world.plane();
    command.args(args).args(["--namespace", NAMESPACE, "--timeout", "120s"]);
    command.env("KUBECONFIG", plane.kubeconfig()).env("HOME", plane.directory());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    command.kill_on_drop(true).spawn().unwrap()
}

/// Waits for helm and expects it to succeed.
pub(crate) async fn succeeds(helm: Child) {
    let output = helm.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs the program of a hook's Job from the build of the tests, and returns its output.
pub(crate) async fn run_hook(world: &mut World, job: &str) -> String {
    giveway::run_hook(world, job, |program| paths::giveway_program(program).unwrap()).await
}

/// Taints the node as an operator that was stopped before it removed the taint.
async fn taint(admin: &Client, foreign: &Value) {
    let ours = json!({"key": TAINT_CRITICAL, "value": UID, "effect": "NoSchedule"});
    let body = json!({"spec": {"taints": [foreign, ours]}});
    Call::merge(NODE, &body).allowed(admin, "a taint").await;
}

/// Returns a client with the rights that the chart gives to the operator.
async fn with_rights_of_the_operator(world: &mut World) -> Client {
    let token = world.kubectl(&["create", "token", "giveway-operator", "-n", NAMESPACE]).await.unwrap();
    let config = world.plane().kubeconfig_with_token("operator", token.trim());
    kubeconfig::impatient_client(config).await.unwrap()
}

/// The message with which the API server denies a patch of a node without the right to it.
const NO_RIGHT: &str = "cannot patch resource \"nodes\"";

/// Only the second of three upgrades sets the value `criticalAddons.enabled`. An upgrade that ran the Job which removes taints would not
/// end, because no kubelet starts its program.
async fn critical_add_ons_are_off_in_a_new_installation_and_an_upgrade_leaves_them_on() {
    let mut world = World::bare().await;
    world.nodes(1).create().await;
    let admin = world.client();
    let account = Call::get("/api/v1/namespaces/kube-system/serviceaccounts/default");
    wait_for("kube-system has its default ServiceAccount", MINUTE, async || account.make(&admin).await).await;
    let chart = paths::repository().join("helm").display().to_string();
    let expect_flag = async |world: &World, flag: &str| {
        let args = "jsonpath={.spec.template.spec.containers[0].args}";
        for daemon in ["giveway-operator", "giveway-webhook"] {
            let get = ["get", "deployment", daemon, "-n", NAMESPACE, "-o", args];
            let said = world.kubectl(&get).await.unwrap();
            assert!(said.contains(&format!("\"{flag}\"")), "{daemon}: {flag} is not in {said}");
        }
    };
    let (again, upgrade) = (Call::merge(NODE, &json!({})), ["upgrade", "giveway", &chart, "--reset-values"]);

    succeeds(helm(&mut world, &["install", "giveway", &chart, "--create-namespace"])).await;
    expect_flag(&world, "--critical-addons=false").await;
    let operator = with_rights_of_the_operator(&mut world).await;
    again.refused(&operator, "a taint", NO_RIGHT).await;
    succeeds(helm(&mut world, &upgrade)).await;
    expect_flag(&world, "--critical-addons=false").await;
    again.refused(&operator, "a taint after an upgrade", NO_RIGHT).await;
    // Tenants may not annotate pods meanwhile, because the annotation would have its effect as soon as add-ons are turned on.
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "annotations": {ANNOTATION_CRITICAL: "true"}},
        "spec": {"containers": [{"name": "web", "image": "web"}]}
    });
    let create = |namespace: &str| Call::post(&format!("/api/v1/namespaces/{namespace}/pods"), &pod).dry();
    wait_for("the annotation is denied", MINUTE, async || match create("default").make(&admin).await {
        Err(said) if said.contains("a pod is made a critical add-on only in kube-system: ") => Ok(()),
        answer => Err(format!("{answer:?}")),
    })
    .await;
    create("kube-system").allowed(&admin, "an annotated pod of kube-system").await;

    succeeds(helm(&mut world, &[&upgrade[..], &["--set", CRITICAL_ADDONS]].concat())).await;
    wait_for("the operator may taint", MINUTE, async || again.make(&operator).await).await;
    succeeds(helm(&mut world, &upgrade)).await;
    expect_flag(&world, "--critical-addons=true").await;
    for policy in ["giveway-nodes", "giveway-webhook-nodes", "giveway-kept-nodes"] {
        world.kubectl(&["get", "validatingadmissionpolicy", policy]).await.unwrap();
    }
    again.allowed(&operator, "a taint after an upgrade that does not set the value").await;
}

async fn taints_are_removed_when_critical_add_ons_are_disabled_or_the_chart_is_uninstalled() {
    let mut world = World::bare().await;
    world.nodes(2).create().await;
    let chart = paths::repository().join("helm").display().to_string();
    let install = ["install", "giveway", &chart, "--create-namespace", "--set", CRITICAL_ADDONS];
    succeeds(helm(&mut world, &install)).await;

    world.kubectl(&["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"]).await.unwrap();

    let admin = world.client();
    let plan = json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": "critical"},
        "spec": {
            "preemptor": {"kind": "Pod", "namespace": "kube-system", "name": "dns", "uid": UID, "priority": 0},
            "strategy": "critical-addon", "placements": [], "victims": [],
            "cost": {"budgetViolations": 0, "victimPods": 0, "victimGroups": 0}
        }
    });
    let preemptions = "/apis/scheduling.giveway.dev/v1alpha1/preemptions";
    let operator = world.client_of(OPERATOR).await;
    Call::post(preemptions, &plan).allowed(&operator, "a plan").await;
    let operator = with_rights_of_the_operator(&mut world).await;
    let again = Call::merge(NODE, &json!({}));
    wait_for("the operator may taint", MINUTE, async || again.make(&operator).await).await;

    let foreign = json!({"key": TAINT_CRITICAL, "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"});
    let removed = format!("node/node-000: taint CriticalAddonsOnly={UID}:NoSchedule removed\n");
    let account = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/giveway-taints");
    let off = "criticalAddons.enabled=false";
    taint(&admin, &foreign).await;
    let upgrade = helm(&mut world, &["upgrade", "giveway", &chart, "--set", off]);
    assert_eq!(run_hook(&mut world, "giveway-taints").await, removed);
    again.refused(&operator, "a taint after the upgrade", NO_RIGHT).await;
    succeeds(upgrade).await;
    let node = Call::get(NODE).allowed(&admin, "a read").await;
    assert_eq!(node["spec"]["taints"], json!([foreign]));
    Call::get(&account).refused(&admin, "the hook's ServiceAccount", "not found").await;

    // The next upgrade leaves critical add-ons off, and runs the Job only if one of an earlier upgrade failed and is still there.
    let next = ["upgrade", "giveway", &chart, "--reset-values"];
    succeeds(helm(&mut world, &next)).await;
    again.refused(&operator, "a taint after another upgrade", NO_RIGHT).await;
    let failed = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "giveway-taints", "namespace": NAMESPACE},
        "spec": {"suspend": true, "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "taints", "image": "taints"}]}
        }}
    });
    world.apply(&failed.to_string()).await.unwrap();
    let retry = helm(&mut world, &next);
    assert_eq!(run_hook(&mut world, "giveway-taints").await, "No node has a taint of Giveway's.\n");
    succeeds(retry).await;

    // An upgrade that enables critical add-ons runs no Job.
    succeeds(helm(&mut world, &["upgrade", "giveway", &chart, "--set", CRITICAL_ADDONS])).await;
    wait_for("the operator may taint", MINUTE, async || again.make(&operator).await).await;
    taint(&admin, &foreign).await;
    let uninstall = helm(&mut world, &["uninstall", "giveway"]);
    assert_eq!(run_hook(&mut world, "giveway-uninstall").await, "No PriorityClass is managed.\n");
    assert!(run_hook(&mut world, "giveway-rest").await.starts_with(&removed));
    let said = again.make(&operator).await.unwrap_err();
    assert!(said.contains(NO_RIGHT) || said == "Unauthorized", "{said}");
    succeeds(uninstall).await;
    let node = Call::get(NODE).allowed(&admin, "a read").await;
    assert_eq!(node["spec"]["taints"], json!([foreign]));
    for kind in [
        "clusterrole",
        "clusterrolebinding",
        "serviceaccount",
        "job",
        "deployment",
        "validatingadmissionpolicy",
        "validatingadmissionpolicybinding",
        "mutatingwebhookconfiguration",
        "validatingwebhookconfiguration",
    ] {
        let left = world.kubectl(&["get", kind, "-n", NAMESPACE, "-o", "name"]).await.unwrap();
        assert!(!left.contains("giveway"), "{left}");
    }
    // The stored plans can still be read.
    Call::get(&format!("{preemptions}/critical")).allowed(&admin, "the history").await;
}

/// Returns the pod of a Job when it runs.
async fn running_pod(world: &World, job: &str) -> Value {
    let admin = world.client();
    let selected = Call::get(&format!("/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=job-name%3D{job}"));
    wait_for(&format!("the Job {job} has a pod that runs"), MINUTE, async || {
        let pods = selected.make(&admin).await?;
        let mut all = pods["items"].as_array().into_iter().flatten();
        all.find(|pod| pod["status"]["phase"] == "Running").cloned().ok_or_else(|| pods.to_string())
    })
    .await
}

/// Runs the program of this Job with the rights of its account until its first attempt has failed. Then the kubelet terminates the
/// pod of the Job. Returns what the program printed.
async fn run_failing(world: &World, job: &str) -> String {
    let pod = running_pod(world, job).await;
    let file = world.account(NAMESPACE, job).await;
    let command = pod["spec"]["containers"][0]["command"].as_array().unwrap().iter();
    let args: Vec<&str> = command.skip(1).map(|word| word.as_str().unwrap()).collect();
    let mut program = Command::new(paths::giveway_program("kubectl-giveway").unwrap());
    program.args(&args).env("KUBECONFIG", &file).env("HOME", "/nonexistent").kill_on_drop(true);
    let mut program = program.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(program.stderr.take().unwrap()).lines();
    let mut said = String::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("this attempt failed") {
            let terminated = Command::new("kill").arg(program.id().unwrap().to_string()).status().await.unwrap();
            assert!(terminated.success());
        }
        said += &line;
    }
    assert_eq!(program.wait().await.unwrap().code(), Some(1), "{said}");
    assert!(said.contains("this Job: it was terminated before it was done"), "{said}");
    let status = format!("/api/v1/namespaces/{NAMESPACE}/pods/{}/status", pod["metadata"]["name"].as_str().unwrap());
    let failed = Call::merge(&status, &json!({"status": {"phase": "Failed"}}));
    failed.allowed(&world.client(), "the status of a failed pod").await;
    said
}

/// Expects that helm reports the failure of this Job, that the Job exists, and that its account may not make a call any more.
async fn expect_rights_deleted(world: &World, job: &str, call: &Call, denied: &str, helm: Child) {
    let admin = world.client();
    let output = helm.wait_with_output().await.unwrap();
    assert!(!output.status.success(), "the uninstallation fails with its Job");
    for binding in ["clusterrolebindings", &format!("namespaces/{NAMESPACE}/rolebindings")] {
        Call::get(&format!("{RBAC}/{binding}/{job}")).refused(&admin, "the Job's binding", "not found").await;
    }
    let account = world.client_in(&format!("system:serviceaccount:{NAMESPACE}:{job}"), &[]).await;
    wait_for("the account has no rights", MINUTE, async || match call.make(&account).await {
        Err(said) if said.contains(denied) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let job = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}");
    Call::get(&job).allowed(&admin, "the Job, which has the log").await;
}

/// The class cannot be released because of its finalizer, so every attempt of the first Job fails.
async fn a_failed_job_of_the_uninstallation_deletes_its_rights_and_stays() {
    let mut world = World::bare().await;
    world.nodes(1).create().await;
    world.apply(&MANAGED.replace("  name: high\n", "  name: high\n  finalizers: [example.com/hold]\n")).await.unwrap();
    let chart = paths::repository().join("helm").display().to_string();
    succeeds(helm(&mut world, &["install", "giveway", &chart, "--create-namespace"])).await;
    let uninstall = helm(&mut world, &["uninstall", "giveway"]);
    let said = run_failing(&world, "giveway-uninstall").await;
    assert!(said.contains("finalizers would delay its deletion"), "{said}");
    let class = Call::delete("/apis/scheduling.k8s.io/v1/priorityclasses/high").dry();
    let denied = "cannot delete resource \"priorityclasses\"";
    expect_rights_deleted(&world, "giveway-uninstall", &class, denied, uninstall).await;
    // Repeated, it makes the bindings again.
    let uninstall = helm(&mut world, &["uninstall", "giveway"]);
    wait_for("the binding exists again", MINUTE, async || {
        Call::get(&format!("{RBAC}/clusterrolebindings/giveway-uninstall")).make(&world.client()).await
    })
    .await;
    drop(uninstall);
}

/// Without the CustomResourceDefinitions it is unknown whether a taint is Giveway's, so every attempt of the last Job fails. Helm does not
/// delete the accounts of its hooks then.
async fn no_account_has_rights_after_the_last_job_of_the_uninstallation_has_failed() {
    let mut world = World::bare().await;
    world.nodes(2).create().await;
    let chart = paths::repository().join("helm").display().to_string();
    let values = ["--set", CRITICAL_ADDONS, "--set", "crds.keep=false"];
    let install = [&["install", "giveway", &chart, "--create-namespace"][..], &values].concat();
    succeeds(helm(&mut world, &install)).await;
    taint(&world.client(), &json!({"key": "dedicated", "effect": "NoSchedule"})).await;
    let uninstall = helm(&mut world, &["uninstall", "giveway"]);
    run_hook(&mut world, "giveway-uninstall").await;
    wait_for("the CRDs are deleted", MINUTE, async || {
        let left = world.kubectl(&["get", "crd", "-o", "name"]).await?;
        if left.contains("giveway") { Err(left) } else { Ok(()) }
    })
    .await;
    let said = run_failing(&world, "giveway-rest").await;
    let remedy = format!("kubectl taint node node-000 {TAINT_CRITICAL}={UID}:NoSchedule-");
    assert!(said.contains(&remedy), "{remedy} is not in: {said}");
    let again = Call::merge(NODE, &json!({})).dry();
    expect_rights_deleted(&world, "giveway-rest", &again, NO_RIGHT, uninstall).await;
    // None of the chart's accounts has rights: not those of helm's other hooks, and not those of the daemons.
    let bindings = ["get", "clusterrolebindings,rolebindings", "--all-namespaces", "-o", "name"];
    let left = world.kubectl(&bindings).await.unwrap();
    assert!(!left.contains("giveway"), "{left}");
}

/// Uses an API server that permits `system-` classes only in namespaces with a matching quota, as on GKE.
async fn the_uninstall_job_runs_where_a_quota_limits_its_priority_class() {
    let limits = paths::repository().join("tests/controlplane/limited-classes.yaml");
    let limits = format!("--admission-control-config-file={}", limits.display());
    let mut world = World::builder().bare().server_flag(&limits).start().await;
    world.nodes(1).create().await;
    let chart = paths::repository().join("helm").display().to_string();
    let options = ["--create-namespace", "--set", "priorityClassQuota.enabled=true"];
    succeeds(helm(&mut world, &[&["install", "giveway", &chart][..], &options].concat())).await;
    let uninstall = helm(&mut world, &["uninstall", "giveway"]);
    run_hook(&mut world, "giveway-uninstall").await;
    run_hook(&mut world, "giveway-rest").await;
    succeeds(uninstall).await;
    let left = world.kubectl(&["get", "resourcequota,job", "-n", NAMESPACE, "-o", "name"]).await.unwrap();
    assert_eq!(left, "");
    // Without the quota the API server rejects the class.
    let rejection =
        world.kubectl(&["run", "a", "--image=a", "-n", NAMESPACE, "--overrides", CRITICAL]).await.unwrap_err();
    assert!(rejection.contains("insufficient quota to match these scopes"), "{rejection}");
}

const CRITICAL: &str = r#"{"spec": {"priorityClassName": "system-cluster-critical"}}"#;

/// A managed class as it is stored.
const MANAGED: &str = "
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: high
  annotations:
    scheduling.giveway.dev/managed: 'true'
    scheduling.giveway.dev/preemption-policy: PreemptLowerPriority
value: 1000
preemptionPolicy: Never
";

async fn without_the_webhook_classes_are_released_after_the_chart_is_uninstalled() {
    let mut world = World::bare().await;
    world.apply(MANAGED).await.unwrap();
    let chart = paths::repository().join("helm").display().to_string();
    let mut install =
        vec!["install", "giveway", &chart, "--create-namespace", "--set", "webhook.url=https://127.0.0.1:1"];
    install.extend(["--set", "managedPriorityClasses=all"]);
    succeeds(helm(&mut world, &install)).await;
    // While the webhook configuration exists, `release` needs the webhook, because the webhook could make the class managed
    // again.
    let program = paths::giveway_program("kubectl-giveway").unwrap();
    let kubeconfig = world.plane().kubeconfig();
    let release = async |flags: &[&str]| {
        crate::cli::run(&program, &[&["release", "--all"], flags].concat(), &kubeconfig, None).await
    };
    wait_for("API servers call the webhook", MINUTE, async || {
        let said = release(&["--dry-run"]).await;
        if said.err.contains("failed calling webhook") { Ok(()) } else { Err(said.out) }
    })
    .await;
    assert_eq!(release(&[]).await.status, Some(1));
    // `cleanup all` refuses to run before the chart is uninstalled.
    let early = cli(&mut world, &["cleanup", "all"]).await;
    let words = "error: nothing was removed, because Giveway still runs: replicas of Deployment giveway-system/giveway-operator are 2.";
    assert!(early.status == Some(1) && early.err.contains(words), "{}", early.err);

    succeeds(helm(&mut world, &["uninstall", "giveway", "--no-hooks"])).await;
    wait_for("API servers no longer call the webhook", MINUTE, async || {
        let said = release(&[]).await;
        if said.out == "priorityclass.scheduling.k8s.io/high released\n" { Ok(()) } else { Err(said.err) }
    })
    .await;
    cli(&mut world, &["cleanup", "all"]).await.ok();
    let policy = ["get", "priorityclass", "high", "-o", "jsonpath={.preemptionPolicy}"];
    assert_eq!(world.kubectl(&policy).await.unwrap(), "PreemptLowerPriority");
}

async fn uninstall_removes_nothing_while_an_operator_leads() {
    let mut world = World::start().await;
    cli(&mut world, &["mode", "off", "--yes"]).await.ok();
    let early = cli(&mut world, &["cleanup", "all"]).await;
    let words = " is the leader; it renewed the Lease giveway-system/giveway-operator ";
    assert!(early.status == Some(1) && early.err.contains(words), "{}", early.err);
    let switch = ["get", "configmap", "giveway-mode", "-n", NAMESPACE, "-o", "jsonpath={.data.mode}"];
    assert_eq!(world.kubectl(&switch).await.unwrap(), "off", "the mode is unchanged");
    // The operator releases its Lease on SIGTERM.
    world.operator().terminate().await;
    let said = cli(&mut world, &["cleanup", "all"]).await;
    assert!(said.ok().contains("configmap/giveway-system/giveway-mode: deleted\n"), "{}", said.out);
    world.operator().start().await;
    cli(&mut world, &["cleanup", "all", "--force"]).await.ok();
    world.check_promises().await;
}

async fn cleanup_ends_the_deletion_of_a_namespace_while_no_operator_runs() {
    let mut world = World::start().await;
    crate::gangs::cluster(&world, 1).await;
    world.namespace("team").await;
    let mut job = crate::gangs::job("train", 2, "low");
    job["metadata"]["namespace"] = json!("team");
    world.apply(&job.to_string()).await.unwrap();
    let finalizers = ["get", "gpg", "train", "-n", "team", "-o", "jsonpath={.metadata.finalizers}"];
    wait_for("the group has the finalizer", MINUTE, async || {
        let text = world.kubectl(&finalizers).await?;
        if text.contains(FINALIZER_PROTECTION) { Ok(()) } else { Err(text) }
    })
    .await;
    let early = cli(&mut world, &["cleanup", "finalizers", "-n", "team"]).await;
    let words = "error: nothing was removed, because an operator runs: ";
    assert!(early.status == Some(1) && early.err.contains(words), "{}", early.err);
    world.operator().terminate().await;
    let live = cli(&mut world, &["cleanup", "finalizers", "-n", "team"]).await;
    assert!(live.ok().contains("No PodGroup of namespace team is being deleted"), "{}", live.out);
    world.kubectl(&["delete", "namespace", "team", "--wait=false"]).await.unwrap();
    wait_for("only the finalizer keeps the namespace", MINUTE, async || {
        let path = "jsonpath={.status.conditions[?(@.type==\"NamespaceFinalizersRemaining\")].message}";
        let text = world.kubectl(&["get", "namespace", "team", "-o", path]).await?;
        let pods = world.kubectl(&["get", "pods", "-n", "team", "-o", "name"]).await?;
        if text.contains(FINALIZER_PROTECTION) && pods.is_empty() { Ok(()) } else { Err(format!("{text} {pods}")) }
    })
    .await;
    let said = cli(&mut world, &["cleanup", "finalizers", "-n", "team"]).await;
    assert_eq!(said.ok(), "podgroup/team/train: finalizer removed\n");
    world.kubectl(&["wait", "namespace/team", "--for=delete", "--timeout=60s"]).await.unwrap();
    world.operator().start().await;
    world.check_promises().await;
}

/// Third-party kinds of which the chart can create objects.
const KINDS: [(&str, &str, &str); 5] = [
    ("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
    ("monitoring.coreos.com", "PodMonitor", "podmonitors"),
    ("monitoring.coreos.com", "PrometheusRule", "prometheusrules"),
    ("cert-manager.io", "Certificate", "certificates"),
    ("cert-manager.io", "Issuer", "issuers"),
];

async fn uninstall_lists_all_objects_that_helm_deletes_and_taints_of_unknown_origin() {
    let mut world = World::bare().await;
    world.nodes(1).create().await;
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    for (group, kind, plural) in KINDS {
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": any}});
        let names =
            json!({"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
        });
        world.apply(&crd.to_string()).await.unwrap();
    }
    world.kubectl(&["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"]).await.unwrap();
    world.kubectl(&["create", "namespace", "grafana"]).await.unwrap();
    let chart = paths::repository().join("helm").display().to_string();
    let mut install = vec!["install", "giveway", &chart, "--create-namespace"];
    for value in [
        CRITICAL_ADDONS,
        "crds.keep=false",
        "priorityClassQuota.enabled=true",
        "webhook.certManager.enabled=true",
        "metrics.monitor=ServiceMonitor",
        "metrics.prometheusRule.enabled=true",
        "metrics.dashboard.enabled=true",
        "metrics.dashboard.namespace=grafana",
    ] {
        install.extend(["--set", value]);
    }
    succeeds(helm(&mut world, &install)).await;
    let preview = cli(&mut world, &["cleanup", "all", "--dry-run"]).await;
    let manifest = world.helm(&["get", "manifest", "giveway", "--namespace", NAMESPACE]).await.unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for document in manifest.split("\n---\n") {
        let object: Value = serde_yaml_ng::from_str(document).unwrap();
        let (Some(kind), Some(name)) = (object["kind"].as_str(), object["metadata"]["name"].as_str()) else { continue };
        let prefix = match object["metadata"]["namespace"].as_str() {
            Some(namespace) if namespace != NAMESPACE => format!("{namespace}/"),
            _ => String::new(),
        };
        let line = format!("{}/{prefix}{name}: would be deleted", kind.to_lowercase());
        assert!(preview.ok().contains(&line), "{line} is not in:\n{}", preview.out);
        kinds.insert(kind.to_owned());
    }
    assert!(kinds.len() >= 20, "{kinds:?}");

    // Without Preemption objects it is unknown whether a taint is Giveway's.
    let admin = world.client();
    let foreign = json!({"key": TAINT_CRITICAL, "effect": "NoExecute"});
    taint(&admin, &foreign).await;
    succeeds(helm(&mut world, &["uninstall", "giveway", "--no-hooks"])).await;
    wait_for("the CRDs are deleted", MINUTE, async || {
        let left = world.kubectl(&["get", "crd", "-o", "name"]).await?;
        if left.contains("giveway") { Err(left) } else { Ok(()) }
    })
    .await;
    let command = format!("kubectl taint node node-000 {TAINT_CRITICAL}={UID}:NoSchedule-");
    let said = cli(&mut world, &["cleanup", "all"]).await;
    assert!(said.status == Some(1) && said.err.contains(&command), "{}", said.err);
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    world.kubectl(&words).await.unwrap();
    cli(&mut world, &["cleanup", "all"]).await.ok();
    let node = Call::get(NODE).allowed(&admin, "a read").await;
    assert_eq!(node["spec"]["taints"], json!([foreign]));
}

async fn the_commands_in_the_one_file_manifest_remove_all_its_objects() {
    let mut world = World::bare().await;
    world.nodes(1).create().await;
    world.install_crds().await;
    // A group with a gated member, and a taint of an operator that was stopped.
    let group = json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "train", "finalizers": [FINALIZER_PROTECTION]},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train-0", "labels": {LABEL_POD_GROUP: "train"}},
        "spec": {"schedulingGates": [{"name": GATE}], "containers": [{"name": "main", "image": "main"}]}
    });
    let plan = json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": "critical"},
        "spec": {
            "preemptor": {"kind": "Pod", "namespace": "kube-system", "name": "dns", "uid": UID, "priority": 0},
            "strategy": "critical-addon", "placements": [], "victims": [],
            "cost": {"budgetViolations": 0, "victimPods": 0, "victimGroups": 0}
        }
    });
    for object in [group, pod, plan] {
        world.apply(&object.to_string()).await.unwrap();
    }
    let foreign = json!({"key": TAINT_CRITICAL, "effect": "NoExecute"});
    taint(&world.client(), &foreign).await;

    let mut print = Command::new(paths::repository().join("packaging/file.sh"));
    let output = print.env("HELM", paths::control_plane_program("helm").unwrap()).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let file = world.plane().directory().join("one-file.yaml").display().to_string();
    std::fs::write(&file, &text).unwrap();
    world.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file]).await.unwrap();
    let commands: Vec<&str> = text
        .lines()
        .take_while(|line| line.starts_with('#'))
        .filter_map(|line| line.strip_prefix("#   kubectl "))
        .collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    let mut said = String::new();
    for command in commands {
        let words: Vec<&str> =
            command.split(' ').map(|word| if word == "giveway.yaml" { file.as_str() } else { word }).collect();
        match words.split_first().unwrap() {
            (&"giveway", words) => said += cli(&mut world, words).await.ok(),
            _ => said += &world.kubectl(&[&words[..], &["--timeout=60s"]].concat()).await.unwrap(),
        }
    }
    for line in [
        &format!("node/node-000: taint CriticalAddonsOnly={UID}:NoSchedule removed\n"),
        "podgroup/default/train: finalizer removed\n",
        "pod/default/train-0: GATED, and no operator will remove the gate",
    ] {
        assert!(said.contains(line), "{line} is not in:\n{said}");
    }
    let left =
        world.kubectl(&["get", "crd,namespaces,clusterroles,validatingadmissionpolicies", "-o", "name"]).await.unwrap();
    assert!(!left.contains("giveway"), "{left}");
    let node = Call::get(NODE).allowed(&world.client(), "a read").await;
    assert_eq!(node["spec"]["taints"], json!([foreign]));
}

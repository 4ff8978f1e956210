//! The chart comes, changes and goes with the real helm: its Jobs run with their own accounts, when the operator has lost
//! its rights, and leave no taint of Giveway's on a node.

use crate::MINUTE;
use giveway_crds::keys::TAINT_CRITICAL;
use giveway_tests::attack::Call;
use giveway_tests::audit::OPERATOR;
use giveway_tests::control_plane::kubeconfig;
use giveway_tests::giveway::{self, NAMESPACE};
use giveway_tests::paths;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use kube::Client;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

/// UID of a pod.
const UID: &str = "0d5a1c2e-7f43-4c6b-9a51-3f1f4e5d6c7b";
const NODE: &str = "/api/v1/nodes/node-000";

/// Starts helm. It waits for the Jobs of hooks, which the test carries out meanwhile.
fn helm(world: &mut World, args: &[&str]) -> Child {
    let mut command = Command::new(paths::control_plane_program("helm").unwrap());
    let plane = world.plane();
    command.args(args).args(["--namespace", NAMESPACE, "--timeout", "120s"]);
    command.env("KUBECONFIG", plane.kubeconfig()).env("HOME", plane.directory());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    command.kill_on_drop(true).spawn().unwrap()
}

async fn succeeds(helm: Child) {
    let output = helm.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Carries out the Job of a hook with the programs that were built with the tests.
async fn carry_out(world: &mut World, job: &str) -> String {
    giveway::carry_out(world, job, |program| paths::giveway_program(program).unwrap()).await
}

/// Taints the node as an operator does that is stopped in the middle of its work.
async fn taint(admin: &Client, foreign: &Value) {
    let ours = json!({"key": TAINT_CRITICAL, "value": UID, "effect": "NoSchedule"});
    let body = json!({"spec": {"taints": [foreign, ours]}});
    Call::merge(NODE, &body).allowed(admin, "a taint").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_taint_stays_when_critical_add_ons_are_switched_off_or_the_chart_is_uninstalled() {
    let mut world = World::bare().await;
    world.nodes(2).create().await;
    let chart = paths::repository().join("helm").display().to_string();
    succeeds(helm(&mut world, &["install", "giveway", &chart, "--create-namespace"])).await;

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
    let ledger = "/apis/scheduling.giveway.dev/v1alpha1/preemptions";
    let operator = world.client_of(OPERATOR).await;
    Call::post(ledger, &plan).allowed(&operator, "a plan").await;
    let token = world.kubectl(&["create", "token", "giveway-operator", "-n", NAMESPACE]).await.unwrap();
    let config = world.plane().kubeconfig_with_token("operator", token.trim());
    let operator = kubeconfig::impatient_client(config).await.unwrap();
    let again = Call::merge(NODE, &json!({}));
    wait_for("the operator may taint", MINUTE, async || again.make(&operator).await).await;

    let foreign = json!({"key": TAINT_CRITICAL, "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"});
    let removed = format!("node/node-000: taint CriticalAddonsOnly={UID}:NoSchedule removed\n");
    let no_right = "cannot patch resource \"nodes\"";
    let account = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/giveway-taints");
    let off = "criticalAddons.enabled=false";
    let on = "criticalAddons.enabled=true";
    taint(&admin, &foreign).await;
    let upgrade = helm(&mut world, &["upgrade", "giveway", &chart, "--set", off]);
    assert_eq!(carry_out(&mut world, "giveway-taints").await, removed);
    again.refused(&operator, "a taint after the upgrade", no_right).await;
    succeeds(upgrade).await;
    let node = Call::get(NODE).allowed(&admin, "a look").await;
    assert_eq!(node["spec"]["taints"], json!([foreign]));
    Call::get(&account).refused(&admin, "the hook's account", "not found").await;

    // With them switched on again an upgrade asks for no Job.
    succeeds(helm(&mut world, &["upgrade", "giveway", &chart, "--set", on])).await;
    wait_for("the operator may taint", MINUTE, async || again.make(&operator).await).await;
    taint(&admin, &foreign).await;
    let uninstall = helm(&mut world, &["uninstall", "giveway"]);
    assert_eq!(carry_out(&mut world, "giveway-uninstall").await, "No PriorityClass is managed.\n");
    assert!(carry_out(&mut world, "giveway-rest").await.starts_with(&removed));
    let said = again.make(&operator).await.unwrap_err();
    assert!(said.contains(no_right) || said == "Unauthorized", "{said}");
    succeeds(uninstall).await;
    let node = Call::get(NODE).allowed(&admin, "a look").await;
    assert_eq!(node["spec"]["taints"], json!([foreign]));
    for kind in ["clusterrole", "clusterrolebinding", "serviceaccount", "job", "deployment"] {
        let left = world.kubectl(&["get", kind, "-n", NAMESPACE, "-o", "name"]).await.unwrap();
        assert!(!left.contains("giveway"), "{left}");
    }
    // What happened stays readable.
    Call::get(&format!("{ledger}/critical")).allowed(&admin, "the history").await;
}

//! `kubectl giveway check` passes on a healthy installation and names each fault with its remedy.

use crate::MINUTE;
use crate::cli::{Printed, Reader, giveway};
use giveway_crds::keys::{ANNOTATION_THRESHOLD, LABEL_POD_GROUP};
use giveway_tests::cluster::{Shaped, scheduling_gates};
use giveway_tests::giveway::chart::values_file;
use giveway_tests::giveway::install_chart;
use giveway_tests::paths;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use serde_json::Value;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            check_passes_on_a_healthy_installation_and_names_each_later_fault,
            check_names_every_missing_part_if_giveway_is_not_installed,
            check_pre_finds_what_an_installation_needs_and_accepts_the_values_for_it,
            the_values_of_gke_start_giveway_where_classes_need_a_quota_and_check_names_their_port;
    ]
}

/// Returns the failed findings of a report. Checks that `ok` and the exit status agree with them.
fn failed(printed: &Printed) -> Vec<Value> {
    let report = printed.json();
    let findings = report["findings"].as_array().unwrap().iter();
    let failed: Vec<Value> = findings.filter(|finding| finding["status"] == "FAIL").cloned().collect();
    assert_eq!(report["ok"], failed.is_empty(), "{report:#}");
    assert_eq!(printed.status, Some(i32::from(!failed.is_empty())), "{report:#}");
    failed
}

async fn check_passes_on_a_healthy_installation_and_names_each_later_fault() {
    let mut world = World::start().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    world.class("web", 10).managed().annotation(ANNOTATION_THRESHOLD, "5000").create().await;
    for name in ["web-0", "web-1"] {
        world.pod(name).priority("web").label("app", "web").on(&nodes[0]).create().await;
    }
    // A pod with a threshold but without a budget is not guarded.
    world.pod("other").priority("web").on(&nodes[0]).create().await;
    world.budget("web").matching("app", "web").min_available(2).create_allowing(0).await;

    let passed = giveway(&mut world, &["check"]).await;
    assert!(passed.ok().contains("2 pods have a guaranteed budget"), "{}", passed.out);
    for line in ["OK      crds", "OK      webhook", "OK      operator", "OK      in-tree", "\n0 failed, "] {
        assert!(passed.out.contains(line), "{line} is not in:\n{}", passed.out);
    }
    assert_eq!(failed(&giveway(&mut world, &["check", "-o", "json"]).await), Vec::<Value>::new());

    // Neither a class that reaches the threshold nor a managed class is a fault.
    world.class("urgent", 5000).create().await;
    world.class("calm", 100).managed().create().await;
    assert_eq!(failed(&giveway(&mut world, &["check", "-o", "json"]).await), Vec::<Value>::new());
    world.class("batch", 100).create().await;
    let lines = failed(&giveway(&mut world, &["check", "-o", "json"]).await);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!((&lines[0]["check"], &lines[0]["class"]), (&"classes".into(), &"batch".into()));
    assert_eq!(lines[0]["remedy"], "kubectl giveway adopt batch");
    let exposed = lines[0]["exposed"].as_array().unwrap();
    assert_eq!(exposed.len(), 2, "{lines:#?}");
    assert_eq!(
        exposed[0],
        serde_json::json!({"namespace": "default", "name": "web-0", "priority": 10, "threshold": 5000, "budgets": ["web"]})
    );
    giveway(&mut world, &["adopt", "batch"]).await.ok();
    assert_eq!(failed(&giveway(&mut world, &["check", "-o", "json"]).await), Vec::<Value>::new());

    // For a user with fewer rights the report says what could not be checked.
    let reader = Reader::new(&mut world).await;
    let partly = reader.giveway(&["check"]).await;
    for part in ["Whether admission works is not known: ", "Whether an operator is the leader is not known: "] {
        assert!(partly.ok().contains(part), "{part} is not in:\n{}", partly.out);
    }

    // A policy without a binding, or with a binding that only warns, is a fault. Policies that only some chart values install are
    // checked too.
    let action = |action: &str| format!("{{\"spec\":{{\"validationActions\":[\"{action}\"]}}}}");
    let binding = ["patch", "validatingadmissionpolicybinding", "giveway-pods", "--type=merge", "-p"];
    world.kubectl(&[&binding[..], &[action("Warn").as_str()]].concat()).await.unwrap();
    for policy in
        ["giveway-namespaces", "giveway-nodes", "giveway-kept-nodes", "giveway-webhook", "giveway-critical-pods"]
    {
        world.kubectl(&["delete", "validatingadmissionpolicybinding", policy]).await.unwrap();
    }
    let lines = failed(&giveway(&mut world, &["check", "-o", "json"]).await);
    assert_eq!((lines.len(), &lines[0]["check"]), (1, &"policies".into()), "{lines:#?}");
    let named = ": giveway-critical-pods, giveway-kept-nodes, giveway-namespaces, giveway-nodes, giveway-pods, giveway-webhook. ";
    assert!(lines[0]["message"].as_str().unwrap().contains(named), "{lines:#?}");
    let manifest = world.plane().manifests().display().to_string();
    world.kubectl(&["apply", "-f", &manifest]).await.unwrap();
    assert_eq!(failed(&giveway(&mut world, &["check", "-o", "json"]).await), Vec::<Value>::new());

    // Without an operator the gate of a pod is not removed. The remedy in the report removes it.
    world.gang("train", 2).create_group().await;
    let member = world.pod("m").label(LABEL_POD_GROUP, "train").create().await;
    world.operator().kill();
    let lines = wait_for("the lease has expired", MINUTE, async || {
        let lines = failed(&giveway(&mut world, &["check", "-o", "json"]).await);
        if lines.is_empty() { Err("an operator leads".to_owned()) } else { Ok(lines) }
    })
    .await;
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0]["message"].as_str().unwrap().starts_with("No operator is the leader: "), "{lines:#?}");
    assert_eq!(
        lines[1]["message"],
        "1 pod has the scheduling gate scheduling.giveway.dev/pod-group, and no operator runs that would remove it."
    );
    let remedy = lines[1]["remedy"].as_str().unwrap();
    let (_, patch) = remedy.trim_end_matches('\'').rsplit_once('\'').unwrap();
    world.kubectl(&["patch", "pod", "m", "-p", patch]).await.unwrap();
    assert_eq!(scheduling_gates(&member.get().await.unwrap()), Vec::<String>::new());
    world.operator().start().await;
    wait_for("an operator leads again", MINUTE, async || {
        let lines = failed(&giveway(&mut world, &["check", "-o", "json"]).await);
        if lines.is_empty() { Ok(()) } else { Err(format!("{lines:?}")) }
    })
    .await;

    world.webhook().kill();
    let lines = failed(&giveway(&mut world, &["check", "-o", "json"]).await);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    let message = lines[0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("Giveway's webhook does not work; the API server says: ")
            && message.contains("failed calling webhook"),
        "{message}"
    );
    world.check_promises().await;
}

async fn check_names_every_missing_part_if_giveway_is_not_installed() {
    let mut world = World::bare().await;
    let lines = failed(&giveway(&mut world, &["check", "-o", "json"]).await);
    let messages: Vec<&str> = lines.iter().filter_map(|line| line["message"].as_str()).collect();
    assert_eq!(
        messages,
        [
            "scheduling.giveway.dev/v1alpha1 does not serve podgroups, podgroups/status, preemptions, preemptions/status, \
             workloads, workloads/status.",
            "There is no MutatingWebhookConfiguration giveway, so the API server does not call Giveway's webhook.",
            "There is no ValidatingWebhookConfiguration giveway, so the API server does not call Giveway's webhook.",
            "Giveway's webhook was not called: the API server accepted a managed PriorityClass unchanged (dry run).",
            "These ValidatingAdmissionPolicies do not exist, or have no binding that puts them into force: giveway-bindings, giveway-class-annotations, giveway-classless-pods, giveway-critical-addons, giveway-mirror-pods, giveway-namespaces, giveway-operator, giveway-operator-groups, giveway-placeholders, giveway-pod-groups, giveway-pods, giveway-preemptions. Without them, Giveway's labels, annotations and objects are not protected against other users (docs/security.md).",
            "No operator has ever been the leader: there is no Lease in namespace giveway-system.",
        ]
    );
    world.class("high", 1000).create().await;
    let adopted = giveway(&mut world, &["adopt", "high"]).await;
    assert_eq!(adopted.status, Some(1), "{}", adopted.err);
    let said = "error: PriorityClass high: Giveway is not installed, or its admission is not in force";
    assert!(adopted.err.contains(said), "{}", adopted.err);
}

/// Returns the finding of a check in a report.
fn finding_of(printed: &Printed, check: &str) -> Value {
    let report = printed.json();
    let found = report["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == check).cloned();
    found.unwrap_or_else(|| panic!("no finding {check} in {report:#}"))
}

/// Starts an API server that permits `system-` classes only in namespaces with a matching quota, as on GKE.
async fn start_with_limited_classes() -> World {
    let limits = paths::repository().join("tests/controlplane/limited-classes.yaml");
    let limits = format!("--admission-control-config-file={}", limits.display());
    World::builder().bare().server_flag(&limits).start().await
}

async fn check_pre_finds_what_an_installation_needs_and_accepts_the_values_for_it() {
    let mut world = start_with_limited_classes().await;
    let gke = values_file("gke").display().to_string();
    // The Lease of kube-scheduler is read only for critical add-ons, which are off by default.
    let on = world.plane().directory().join("critical-addons.yaml");
    std::fs::write(&on, "criticalAddons: {enabled: true}\n").unwrap();
    let on = on.display().to_string();
    let pre = ["check", "--pre", "-o", "json"];
    let with_values = [&pre[..], &["-f", &gke, "-f", &on]].concat();

    // Until kube-controller-manager has created the ServiceAccount of the namespace, the API server rejects every pod there.
    let printed = wait_for("the API server asks for a quota", MINUTE, async || {
        let printed = giveway(&mut world, &pre).await;
        if failed(&printed).is_empty() { Err(printed.out) } else { Ok(printed) }
    })
    .await;
    let lines = failed(&printed);
    assert_eq!((lines.len(), &lines[0]["check"]), (1, &"pods".into()), "{lines:#?}");
    assert!(lines[0]["message"].as_str().unwrap().contains("insufficient quota to match these scopes"), "{lines:#?}");
    assert!(lines[0]["remedy"].as_str().unwrap().contains("priorityClassQuota.enabled=true"), "{lines:#?}");
    let network = finding_of(&printed, "network");
    let message = network["message"].as_str().unwrap();
    assert!(message.starts_with("The API servers must reach TCP port 9443 of the webhook's pods from "), "{message}");

    let accepted = giveway(&mut world, &with_values).await;
    assert_eq!(failed(&accepted), Vec::<Value>::new());
    let network = finding_of(&accepted, "network");
    let message = network["message"].as_str().unwrap();
    assert!(message.starts_with("The API servers must reach TCP port 10250 of the webhook's pods from "), "{message}");
    for check in ["kubernetes", "apis", "pods"] {
        assert_eq!(finding_of(&accepted, check)["status"], "OK", "{check}");
    }
    wait_for("kube-scheduler has renewed its Lease", MINUTE, async || {
        let finding = finding_of(&giveway(&mut world, &with_values).await, "scheduler");
        if finding["status"] == "OK" { Ok(()) } else { Err(finding.to_string()) }
    })
    .await;

    world.plane().process("kube-scheduler").unwrap().kill();
    let long_ago = r#"{"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}"#;
    let lease = ["patch", "lease", "kube-scheduler", "-n", "kube-system", "--type=merge", "-p", long_ago];
    world.kubectl(&lease).await.unwrap();
    let late = finding_of(&giveway(&mut world, &with_values).await, "scheduler");
    let message = "Lease kube-system/kube-scheduler is not renewed: no kube-scheduler holds it.";
    assert_eq!((&late["status"], &late["message"]), (&"WARN".into(), &message.into()));

    let reader = Reader::new(&mut world).await;
    let partly = reader.giveway(&["check", "--pre", "-f", &on]).await;
    for part in ["Whether namespace giveway-system accepts pods", "Whether Lease kube-system/kube-scheduler is renewed"]
    {
        assert!(partly.ok().contains(part), "{part} is not in:\n{}", partly.out);
    }
    assert_eq!(world.kubectl(&["get", "pods", "-A", "-o", "name"]).await.unwrap(), "", "a dry run stores nothing");
}

/// Also `check` after the installation: no API server gets an answer from the frozen webhook, as if a firewall dropped the packets.
async fn the_values_of_gke_start_giveway_where_classes_need_a_quota_and_check_names_their_port() {
    let mut world = start_with_limited_classes().await;
    world.nodes(2).cpus(8).create().await;
    let (chart, gke) = (paths::repository().join("helm"), values_file("gke").display().to_string());
    // Helm waits until the pods of both Deployments are ready. The processes of the test answer for them.
    let args = ["--values", &gke, "--wait", "--timeout", "120s"];
    let find = |program: &str| paths::giveway_program(program).unwrap();
    let installed = install_chart(world.plane(), &chart, &args, find).await.unwrap();
    assert_eq!(failed(&giveway(&mut world, &["check", "-o", "json"]).await), Vec::<Value>::new());

    installed.webhook.freeze(true);
    let lines = failed(&giveway(&mut world, &["check", "-o", "json"]).await);
    installed.webhook.freeze(false);
    let webhook = lines.iter().find(|line| line["check"] == "webhook").unwrap_or_else(|| panic!("{lines:#?}"));
    let remedy = webhook["remedy"].as_str().unwrap();
    assert!(remedy.starts_with("Allow the API servers to reach TCP port 10250 of the webhook's pods"), "{webhook:#}");
}

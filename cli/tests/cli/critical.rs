//! `plan --critical` on files: exact answers.
use crate::common::{Printed, giveway};
use serde_json::{Value, json};

fn plan(pod: &str, more: &[&str]) -> Printed {
    let target = format!("pod/{pod}");
    let args = ["plan", "--critical", "--snapshot", "critical.yaml", "-n", "kube-system", "--for", &target];
    giveway(&[&args, more].concat())
}

fn answer(pod: &str) -> Value {
    plan(pod, &["-o", "json"]).json()
}

#[track_caller]
fn refused(args: &[&str], message: &str) {
    let printed = giveway(&[&["plan", "--critical", "--snapshot", "critical.yaml"], args].concat());
    assert_eq!((printed.status, printed.out.as_str()), (Some(2), ""), "{}", printed.err);
    assert_eq!(printed.err.lines().next().unwrap(), format!("error: {message}"), "{}", printed.err);
}

#[test]
fn a_table_has_victims_with_grace_periods_the_step_and_how_the_node_is_reserved() {
    let text = plan("dns", &["--explain"]).out;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "pod/kube-system/dns (priority 0): It fits on node n2 once its victims have terminated: 1 pod of priority \
             0 and below, 0 budget violations. Step 2: no PodDisruptionBudget is violated, and longer grace periods are shortened to 10 s.",
            "",
            "VICTIM               PRIORITY  OWNER           LOSES       NODES  BUDGET  GRACE",
            "pod/shop/web-7d9f-a  0         Deployment/web  1 of 1 pod  n2     kept    3600 s, cut to 10 s",
            "Kept: Node n2 gets the taint CriticalAddonsOnly=u-dns:NoSchedule until it is bound.",
            "",
            "NODE  PODS  PLACED",
            "n2    1     kube-system/dns",
            "",
            "How it was found (critical-addon)",
            "  - 2 of 2 nodes could be freed by evictions; n2 costs least: step 2, 1 pod of priority 0 and below, 0 budget \
             violations, shortened grace periods: 1, evicted pods that fit on no other node: 1.",
            "  - pod/shop/web-7d9f-a: Its capacity is needed for a critical add-on.",
        ]
    );
}

#[test]
fn the_same_in_json_yaml_and_as_a_graph() {
    let json = answer("dns");
    assert_eq!(
        json["criticalAddon"],
        json!({"step": 2, "means": "no PodDisruptionBudget is violated, and longer grace periods are shortened to 10 s", "taint": true,
            "kept": "Node n2 gets the taint CriticalAddonsOnly=u-dns:NoSchedule until it is bound.",
            "shortenedGraces": 1})
    );
    assert_eq!(json["victims"][0]["graces"], json!([{"pod": "shop/web-7d9f-a", "seconds": 3600, "given": 10}]));
    assert_eq!((&json["strategy"], &json["victimPods"]), (&json!("critical-addon"), &json!(["shop/web-7d9f-a"])));
    let yaml: Value = serde_yaml_ng::from_str(&plan("dns", &["-o", "yaml"]).out).unwrap();
    assert_eq!(yaml, json);
    let dot = plan("dns", &["-o", "dot"]).out;
    assert!(dot.contains("\"pod/kube-system/dns\" [label=\"pod/kube-system/dns\\npriority 0\\nstep 2\""), "{dot}");
}

#[test]
fn a_pod_that_does_not_tolerate_the_taint_is_nominated() {
    let json = answer("plain");
    assert_eq!(json["criticalAddon"]["taint"], false);
    assert_eq!(
        json["criticalAddon"]["kept"],
        "It is nominated to node n2, without a taint, because it does not tolerate the taint \
         CriticalAddonsOnly=u-plain:NoSchedule."
    );
}

#[test]
fn a_third_step_violates_budgets_and_an_unprocessed_pod_has_a_note() {
    let json = answer("both");
    assert_eq!(
        json["message"],
        "It fits on node n1 once its victims have terminated: 2 pods of priority 0 and below, 2 budget violations. \
         Step 3: PodDisruptionBudgets that are not guaranteed may be violated, and longer grace periods are shortened to 10 s."
    );
    assert_eq!((&json["budgetViolations"], &json["criticalAddon"]["step"]), (&json!(2), &json!(3)));
    assert_eq!(
        json["notes"],
        json!([
            "kube-scheduler has not found it Unschedulable: the operator waits for that, and then for its hold-off."
        ])
    );
}

#[test]
fn no_pod_is_evicted_if_a_node_is_feasible() {
    let json = answer("tolerant");
    assert_eq!(json["message"], "It fits on node n3 now; no pod is evicted.");
    assert_eq!((&json["preemptionNeeded"], &json["placements"][0]["node"]), (&json!(false), &json!("n3")));
}

#[test]
fn if_no_node_can_be_freed_the_nearest_is_named_and_the_exit_status_is_0() {
    let json = answer("large");
    assert_eq!((&json["schedulable"], &json["reason"]), (&json!(false), &json!("CriticalAddonUnschedulable")));
    assert_eq!(
        json["message"],
        "No node can be freed for it, so no pod is evicted. The nearest is n2: without the 3 pods there that may be \
         evicted it still lacks 1 cpu; 1 pod there cannot be evicted. 1 node(s) had untolerated taint {team: secret}."
    );
}

/// The snapshot with the policy of a chart whose value `criticalAddons.namespaces` has these namespaces.
fn with_namespaces(names: &str) -> String {
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "giveway-namespaces", "annotations": {
            "scheduling.giveway.dev/protected-namespaces": "", "scheduling.giveway.dev/critical-namespaces": names}}});
    format!("{}\n---\n{policy}\n", include_str!("../data/critical.yaml"))
}

#[test]
fn a_pod_that_is_no_critical_add_on_is_rejected_with_the_missing_requirement() {
    let critical = "is not a critical add-on: its priority";
    let annotation = "annotation scheduling.giveway.dev/critical-addon: \"true\"";
    refused(
        &["--for", "pod/web-7d9f-a", "-n", "shop"],
        &format!(
            "critical.yaml: pod/shop/web-7d9f-a {critical} 0 is below 2000000000, and it has no {annotation}, which counts \
             in namespace kube-system"
        ),
    );
    let args = ["plan", "--critical", "--snapshot", "-", "--for", "pod/tenant", "-n", "shop", "-o", "json"];
    let planned = |names: &str| crate::common::giveway_with(&args, None, &with_namespaces(names));
    let elsewhere = planned("a,b");
    let words = format!(
        "error: standard input: pod/shop/tenant {critical} 7 is below 2000000000, and its {annotation} counts only in \
         namespaces a, b"
    );
    assert_eq!((elsewhere.status, elsewhere.err.trim_end()), (Some(2), words.as_str()));
    assert_eq!(planned("shop,kube-system").json()["criticalAddon"]["step"], 2);
    // The chart lists no namespace while critical add-ons are off.
    let off = planned("");
    let words = "critical add-ons are off (chart value criticalAddons.enabled), so no pod is evicted for pod/shop/tenant as one";
    assert_eq!((off.status, off.err.trim_end()), (Some(2), format!("error: standard input: {words}").as_str()));
}

#[test]
fn a_pod_of_a_system_class_in_another_namespace_is_refused() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
        "spec": {"priority": 2_000_000_000, "containers": [{"name": "c"}]}});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [pod]}).to_string();
    let args = ["plan", "--critical", "--for", "pod/web", "-n", "shop", "--snapshot", "-"];
    let printed = crate::common::giveway_with(&args, None, &list);
    let words = "pod/shop/web is not a critical add-on: its priority 2000000000 counts only in namespace kube-system";
    assert_eq!(printed.status, Some(2));
    assert!(printed.err.contains(words), "{}", printed.err);
}

#[test]
fn flags_that_do_not_go_together() {
    refused(
        &["--for", "podgroup/pair"],
        "the argument '--critical' cannot be used with '--for podgroup/pair': a critical add-on is a pod",
    );
    refused(&["-f", "training.yaml"], "the argument '--critical' cannot be used with '--filename <FILE>'");
    refused(
        &["--for", "pod/dns", "--strategy", "kep5710"],
        "the argument '--critical' cannot be used with '--strategy <NAME>'",
    );
    refused(&["--for", "pod/missing"], "critical.yaml: pod/default/missing is not in it");
}

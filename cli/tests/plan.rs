//! The command line as a user meets it: answers as JSON, and messages that say what is wrong with the input.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubectl-giveway")).args(args).output().unwrap()
}

/// Writes a snapshot and returns its path.
fn file(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn list(items: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn pod(name: &str, priority: i32, node: Option<&str>, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"priority": priority, "nodeName": node,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}})
}

fn node() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
        "status": {"allocatable": {"cpu": "1", "pods": "10"}}})
}

fn answer(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The message of a run that has to fail with 2, without the path of the file.
fn problem(name: &str, text: &str, target: &str) -> String {
    let path = file(name, text);
    let output = run(&["plan", "--snapshot", &path, "--for", target, "-o", "json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    String::from_utf8(output.stderr).unwrap().trim_end().replace(&path, "FILE")
}

#[test]
fn a_plan_is_printed_as_json_for_json_and_for_yaml() {
    let snapshot = list(&json!([node(), pod("low", 1, Some("a"), "1"), pod("p", 10, None, "1")]));
    let yaml = serde_yaml_ng::to_string(&snapshot).unwrap();
    for (name, text) in [("plan.json", snapshot.to_string()), ("plan.yaml", yaml)] {
        let answer = answer(&run(&["plan", "--snapshot", &file(name, &text), "--for", "pod/p", "-o", "json"]));
        assert_eq!(answer["schedulable"], true);
        assert_eq!(answer["preemptionNeeded"], true);
        assert_eq!(answer["strategy"], "least-cost");
        assert_eq!(answer["placements"], json!([{"pod": "default/p", "node": "a"}]));
        assert_eq!(answer["victimPods"], json!(["default/low"]));
        assert_eq!(answer["victims"][0]["kind"], "Pod");
        assert_eq!(answer["victims"][0]["violatesBudget"], false);
        assert_eq!(answer["budgetViolations"], 0);
        assert_eq!(
            answer["message"],
            "It fits once its victims are gone: 1 pod of priority 1 and below, 0 budget violations."
        );
    }
}

#[test]
fn a_verdict_without_a_plan_is_an_answer_too() {
    let text = list(&json!([node(), pod("high", 99, Some("a"), "1"), pod("p", 10, None, "1")])).to_string();
    let answer = answer(&run(&["plan", "--snapshot", &file("no.json", &text), "--for", "pod/p"]));
    assert_eq!(answer["schedulable"], false);
    assert_eq!(answer["reason"], "Unschedulable");
    assert_eq!(answer["message"], "1 pod needed, 0 fit now. Missing 1 cpu. No workload has a priority below 10.");
}

#[test]
fn input_that_cannot_be_used_names_file_object_field_and_value() {
    let bad_quantity = list(&json!([pod("p", 1, None, "one")])).to_string();
    assert_eq!(
        problem("quantity.json", &bad_quantity, "pod/p"),
        "error: FILE: Pod default/p: spec.containers[0].resources.requests[cpu]: Invalid value: \"one\": \
         must start with a number, as in 100m or 2Gi"
    );
    let mut bad_type = pod("p", 1, None, "1");
    bad_type["spec"]["priority"] = json!("high");
    assert_eq!(
        problem("type.json", &list(&json!([bad_type])).to_string(), "pod/p"),
        "error: FILE: Pod default/p: spec.priority: invalid type: string \"high\", expected i32"
    );
    assert_eq!(
        problem("kind.json", &list(&json!([{"apiVersion": "v1"}])).to_string(), "pod/p"),
        "error: FILE: items[0]: kind: Required value: every object has one"
    );
    assert_eq!(
        problem("absent.json", &list(&json!([])).to_string(), "podgroup/g"),
        "error: FILE: podgroup/default/g is not in it"
    );
    assert!(
        problem("pod.json", &pod("p", 1, None, "1").to_string(), "pod/p")
            .starts_with("error: FILE: kind: Invalid value: \"Pod\": must be a v1 List, as `kubectl get nodes,pods,")
    );
    assert!(problem("syntax.json", "{", "pod/p").starts_with("error: FILE: is neither JSON nor YAML: "));
    let missing = run(&["plan", "--snapshot", "/does/not/exist", "--for", "pod/p"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).starts_with("error: /does/not/exist: cannot be read: "));
}

#[test]
fn arguments_that_make_no_sense_say_what_would() {
    let output = run(&["plan", "--snapshot", "-", "--for", "job/x"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("unknown kind \"job\": must be podgroup or pod"), "{message}");
}

#[test]
fn help_shows_an_example() {
    let help = String::from_utf8(run(&["plan", "--help"]).stdout).unwrap();
    assert!(help.contains("kubectl giveway plan --snapshot cluster.yaml --for podgroup/training -n research -o json"));
}

//! The namespaces in the rendered objects: of the release, of `helm test`, and in the notes.

use crate::helm::{object, rendered, rendered_in};
use giveway_tests::giveway::chart::{CRITICAL_ADDONS, TEST_NAMESPACE};
use giveway_tests::paths;
use serde_json::{Value, json};
use std::process::Command;

#[test]
fn the_namespace_of_helm_test_has_a_name_unique_to_the_release() {
    let manifests = rendered(&[]);
    let namespace = object(&manifests, "Namespace", TEST_NAMESPACE);
    let when = &namespace["metadata"]["annotations"]["helm.sh/hook-delete-policy"];
    assert_eq!(when, "hook-succeeded,hook-failed");
    let other = rendered_in("other", &[]);
    assert!(!other.contains(TEST_NAMESPACE) && other.contains("name: \"giveway-test-"), "each release has its own");
}

#[test]
fn the_namespace_of_helm_test_matches_the_namespace_selector() {
    let labels = |manifests: &str| object(manifests, "Namespace", TEST_NAMESPACE)["metadata"]["labels"].clone();
    let default = labels(&rendered(&[]));
    let selector = "namespaces.selector.matchExpressions";
    let selected = labels(&rendered(&[
        "namespaces.selector.matchLabels.team=ml",
        &format!("{selector}[0].key=stage"),
        &format!("{selector}[0].operator=NotIn"),
        &format!("{selector}[0].values={{test,play}}"),
        &format!("{selector}[1].key=stage"),
        &format!("{selector}[1].operator=In"),
        &format!("{selector}[1].values={{play,live}}"),
        &format!("{selector}[2].key=cost"),
        &format!("{selector}[2].operator=Exists"),
        &format!("{selector}[3].key=scheduling.giveway.dev/enabled"),
        &format!("{selector}[3].operator=Exists"),
    ]));
    // The API server sets the label with the name of the namespace. With such a selector, `helm test` tests no gang.
    let by_name = "namespaces.selector.matchLabels.kubernetes\\.io/metadata\\.name=billing";
    assert_eq!(labels(&rendered(&[by_name])), default);
    let more = [("scheduling.giveway.dev/enabled", "true"), ("team", "ml"), ("stage", "live"), ("cost", "true")];
    let mut wanted = default;
    more.iter().for_each(|(key, value)| wanted[key] = json!(value));
    assert_eq!(selected, wanted);
}

/// Returns the values of all fields with this name, at any depth.
fn fields(value: &Value, name: &str) -> Vec<Value> {
    match value {
        Value::Object(map) => {
            let own = map.get(name).cloned();
            own.into_iter().chain(map.values().flat_map(|value| fields(value, name))).collect()
        }
        Value::Array(list) => list.iter().flat_map(|value| fields(value, name)).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn a_numeric_namespace_is_rendered_as_a_string() {
    let lease = [CRITICAL_ADDONS, "criticalAddons.schedulerLease=123/kube-scheduler"];
    for values in [&lease[..], &["webhook.certManager.enabled=true"]] {
        let manifests = rendered_in("123", values);
        let objects: Vec<Value> =
            manifests.split("\n---\n").map(|document| serde_yaml_ng::from_str(document).unwrap()).collect();
        let namespaces: Vec<Value> = objects.iter().flat_map(|object| fields(object, "namespace")).collect();
        assert!(namespaces.contains(&json!("123")) && !namespaces.iter().any(Value::is_number), "{namespaces:?}");
    }
}

#[test]
fn notes_name_the_namespace_and_say_whether_critical_add_ons_are_on() {
    let notes = |values: &[&str]| {
        let chart = paths::repository().join("helm").display().to_string();
        let mut command = Command::new(paths::control_plane_program("helm").unwrap());
        command.args(["install", "giveway", &chart, "--dry-run=client", "--namespace", "gw"]).args(values);
        let output = command.env("KUBECONFIG", "/nowhere").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let said = notes(&[]);
    let off = "Giveway evicts no pods for critical add-ons. criticalAddons.enabled=true turns that on";
    let on = "Giveway evicts pods for a critical add-on that stays unschedulable: a pod in kube-system";
    assert!(said.contains(off) && !said.contains(on), "{said}");
    let with = notes(&["--set", CRITICAL_ADDONS]);
    assert!(with.contains(on) && !with.contains(off), "{with}");
    for line in [
        "kubectl giveway check --giveway-namespace gw\n",
        "kubectl giveway adopt NAME --giveway-namespace gw\n",
        "kubectl giveway release NAME --giveway-namespace gw\n",
        "`kubectl giveway release --all --giveway-namespace gw`",
        "kubectl giveway cleanup all --dry-run --giveway-namespace gw\n",
        "`kubectl giveway cleanup all --giveway-namespace gw`",
    ] {
        assert!(said.contains(line), "{line} is not in:\n{said}");
    }
}

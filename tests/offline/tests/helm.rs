//! Runs `helm template` on the chart and reads the rendered manifests.

use giveway_tests::giveway::chart::values_file;
use giveway_tests::paths;
use serde_json::Value;
use std::process::{Command, Output};

/// Returns the command `helm template` of the chart for this namespace.
fn helm_template(namespace: &str) -> Command {
    let chart = paths::repository().join("helm");
    let mut helm = Command::new(paths::control_plane_program("helm").unwrap());
    helm.args(["template", "giveway"]).arg(chart).args(["--namespace", namespace]);
    helm
}

/// Returns the output of `helm template` for this namespace and these `--set` values.
pub fn template(namespace: &str, values: &[&str]) -> Output {
    let mut helm = helm_template(namespace);
    for value in values {
        helm.args(["--set", value]);
    }
    helm.output().unwrap()
}

/// Returns the manifests for namespace `giveway-system` with the values file of a platform.
pub fn rendered_for(platform: &str) -> String {
    let mut helm = helm_template("giveway-system");
    let output = helm.arg("--values").arg(values_file(platform)).output().unwrap();
    assert!(output.status.success(), "{platform}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the manifests of a successful `helm template` for this namespace.
pub fn rendered_in(namespace: &str, values: &[&str]) -> String {
    let output = template(namespace, values);
    assert!(output.status.success(), "{values:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the manifests for namespace `giveway-system`.
pub fn rendered(values: &[&str]) -> String {
    rendered_in("giveway-system", values)
}

/// Expects that helm rejects the values with a message that contains `words`.
pub fn rejects(namespace: &str, values: &[&str], words: &str) {
    let output = template(namespace, values);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains(words), "{values:?} in {namespace}: {message}");
}

/// Returns the text of the rendered object with this kind and name.
pub fn document<'a>(manifests: &'a str, kind: &str, name: &str) -> &'a str {
    let of_kind = format!("\nkind: {kind}\n");
    let named = [format!("\n  name: {name}\n"), format!("\n  name: \"{name}\"\n")];
    let is_it = |document: &&str| document.contains(&of_kind) && named.iter().any(|name| document.contains(name));
    let found = manifests.split("\n---\n").find(is_it);
    found.unwrap_or_else(|| panic!("no {kind} {name} in:\n{manifests}"))
}

/// Returns the rendered object with this kind and name.
pub fn object(manifests: &str, kind: &str, name: &str) -> Value {
    serde_yaml_ng::from_str(document(manifests, kind, name)).unwrap()
}

/// Expects that a rendered Deployment passes these flags.
pub fn has_flags(deployment: &str, flags: &[&str]) {
    for flag in flags {
        assert!(deployment.contains(&format!("            - {flag}\n")), "{flag} is not in:\n{deployment}");
    }
}

/// Returns the pods of all rendered Deployments and Jobs: the name of the owner, and the pod's spec.
pub fn pods(manifests: &str) -> Vec<(String, Value)> {
    let has_pods = |text: &&str| text.contains("\nkind: Deployment\n") || text.contains("\nkind: Job\n");
    let owners =
        manifests.split("\n---\n").filter(has_pods).map(|text| serde_yaml_ng::from_str::<Value>(text).unwrap());
    owners
        .map(|owner| {
            let name = owner["metadata"]["name"].as_str().unwrap().to_owned();
            (name, owner["spec"]["template"]["spec"].clone())
        })
        .collect()
}

/// Returns the pod template of a rendered Deployment.
pub fn pod_template(manifests: &str, deployment: &str) -> Value {
    object(manifests, "Deployment", deployment)["spec"]["template"].clone()
}

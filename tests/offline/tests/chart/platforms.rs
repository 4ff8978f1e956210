//! The values files of the platforms: each renders, passes the schema, and has what its platform needs.

use crate::helm::{document, has_flags, object, pod_template, rendered, rendered_for};
use giveway_tests::giveway::chart::{PLATFORMS, values_file};
use giveway_tests::paths;
use serde_json::{Value, json};
use std::path::PathBuf;

#[test]
fn every_values_file_is_of_a_platform_and_the_page_explains_it() {
    let folder = std::fs::read_dir(paths::repository().join("helm")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let of_platforms = names.filter(|name| name.starts_with("values-") && name.ends_with(".yaml"));
    let mut found: Vec<String> = of_platforms.collect();
    found.sort();
    assert_eq!(found, PLATFORMS.map(|platform| format!("values-{platform}.yaml")));
    let page = std::fs::read_to_string(paths::repository().join("docs/platforms.md")).unwrap();
    for platform in PLATFORMS {
        assert!(page.contains(&format!("-f giveway/values-{platform}.yaml")), "{platform}");
    }
}

/// Returns the paths of the values in a file, without those that are the chart's defaults.
fn changed(values: &Value, defaults: &Value, path: &str, found: &mut Vec<String>) {
    match values.as_object().filter(|map| !map.is_empty()) {
        Some(map) if defaults.as_object().is_some_and(|map| !map.is_empty()) => {
            for (key, value) in map {
                changed(value, &defaults[key], &format!("{path}/{key}"), found);
            }
        }
        _ if values != defaults => found.push(path.to_owned()),
        _ => {}
    }
}

#[test]
fn values_files_change_only_what_their_platform_needs() {
    let read = |path: PathBuf| serde_yaml_ng::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap();
    let defaults = read(paths::repository().join("helm/values.yaml"));
    let expected: [(&str, &[&str]); 4] = [
        ("aks", &["/webhook/configurationAnnotations"]),
        ("eks", &["/webhook/hostNetwork"]),
        ("gke", &["/priorityClassQuota/enabled", "/webhook/port"]),
        // The default is right: the file only pins it.
        ("openshift", &[]),
    ];
    for (platform, paths) in expected {
        let mut found = Vec::new();
        changed(&read(values_file(platform)), &defaults, "", &mut found);
        assert_eq!(found, paths, "{platform}");
    }
}

#[test]
fn on_gke_a_quota_allows_the_class_and_the_webhook_has_an_open_port() {
    let manifests = rendered_for("gke");
    for quota in ["giveway-priority", "giveway-rest-priority"] {
        let selector = &object(&manifests, "ResourceQuota", quota)["spec"]["scopeSelector"]["matchExpressions"];
        let expected = json!([{"scopeName": "PriorityClass", "operator": "In", "values": ["system-cluster-critical"]}]);
        assert_eq!(*selector, expected, "{quota}");
    }
    has_flags(document(&manifests, "Deployment", "giveway-webhook"), &["--address=0.0.0.0:10250"]);
    let ports = pod_template(&manifests, "giveway-webhook")["spec"]["containers"][0]["ports"].clone();
    assert_eq!(ports[0], json!({"name": "https", "containerPort": 10250}));
    // A private cluster with restricted egress rejects webhooks with a URL.
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        assert!(!document(&manifests, kind, "giveway").contains(" url: "), "{kind}");
    }
}

#[test]
fn on_eks_only_the_webhook_uses_the_network_of_its_node() {
    let manifests = rendered_for("eks");
    let networks = ["giveway-webhook", "giveway-operator"]
        .map(|name| pod_template(&manifests, name)["spec"]["hostNetwork"].clone());
    assert_eq!(networks, [json!(true), Value::Null]);
}

#[test]
fn on_aks_the_admissions_enforcer_leaves_both_webhook_configurations_alone() {
    let annotations =
        |manifests: &str, kind: &str| object(manifests, kind, "giveway")["metadata"]["annotations"].clone();
    let with_cert_manager =
        rendered(&["webhook.certManager.enabled=true", "webhook.configurationAnnotations.team=platform"]);
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let expected = json!({"admissions.enforcer/disabled": "true"});
        assert_eq!(annotations(&rendered_for("aks"), kind), expected, "{kind}");
        assert_eq!(annotations(&rendered(&[]), kind), Value::Null, "{kind}");
        let expected = json!({"team": "platform", "cert-manager.io/inject-ca-from": "giveway-system/giveway-webhook"});
        assert_eq!(annotations(&with_cert_manager, kind), expected, "{kind}");
    }
}

//! What the chart renders for monitoring.

use giveway_tests::paths;
use std::process::{Command, Output};

fn render(values: &[&str]) -> Output {
    let chart = paths::repository().join("helm").display().to_string();
    let mut helm = Command::new(paths::control_plane_program("helm").unwrap());
    helm.args(["template", "giveway", &chart, "--namespace", "giveway-system"]);
    for value in values {
        helm.args(["--set", value]);
    }
    helm.output().unwrap()
}

/// What `helm template` writes with these values.
pub fn rendered(values: &[&str]) -> String {
    let output = render(values);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The rendered object of this kind and name.
pub fn object(manifests: &str, kind: &str, name: &str) -> serde_json::Value {
    let documents = manifests.split("\n---\n").map(|text| text.trim_start_matches("---\n"));
    let objects = documents.filter_map(|text| serde_yaml_ng::from_str::<serde_json::Value>(text).ok());
    let mut found = objects.filter(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.next().unwrap_or_else(|| panic!("no {kind} {name} in:\n{manifests}"))
}

#[test]
fn without_values_nothing_needs_the_prometheus_operator() {
    let usual = rendered(&[]);
    assert!(!usual.contains("monitoring.coreos.com") && !usual.contains("grafana"), "{usual}");
}

#[test]
fn monitors_scrape_the_port_of_the_metrics_of_both_daemons() {
    let values = ["metrics.serviceMonitor.enabled=true", "metrics.serviceMonitor.labels.release=prometheus"];
    let services = rendered(&values);
    for name in ["giveway-operator", "giveway-webhook"] {
        let monitor = object(&services, "ServiceMonitor", name);
        assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
        assert_eq!(monitor["spec"]["endpoints"][0]["port"], "metrics");
        let service = object(&services, "Service", name);
        for (key, value) in monitor["spec"]["selector"]["matchLabels"].as_object().unwrap() {
            assert_eq!(&service["metadata"]["labels"][key], value, "{name} is not chosen by {key}");
        }
        assert!(service["spec"]["ports"].as_array().unwrap().iter().any(|port| port["name"] == "metrics"));
    }
    let pods = rendered(&["metrics.podMonitor.enabled=true", "metrics.podMonitor.interval=15s"]);
    for name in ["giveway-operator", "giveway-webhook"] {
        let monitor = object(&pods, "PodMonitor", name);
        let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
        assert_eq!((&endpoint["port"], &endpoint["interval"]), (&"metrics".into(), &"15s".into()));
        let deployment = object(&pods, "Deployment", name);
        let template = &deployment["spec"]["template"];
        for (key, value) in monitor["spec"]["selector"]["matchLabels"].as_object().unwrap() {
            assert_eq!(&template["metadata"]["labels"][key], value, "pods of {name} are not chosen by {key}");
        }
        assert!(template["spec"]["containers"][0]["ports"].as_array().unwrap().iter().any(|p| p["name"] == "metrics"));
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (values, words) in [
        (
            &["metrics.serviceMonitor.enabled=true", "metrics.podMonitor.enabled=true"][..],
            "everything would be scraped twice",
        ),
        (
            &["metrics.podMonitor.enabled=true", "deployments.enabled=false", "webhook.url=https://10.0.0.5:9443"],
            "there is nothing to scrape",
        ),
        (&["metrics.serviceMonitor.interval=often"], "interval"),
        (&["metrics.prometheusRule.thresholds.refusedRatio=2"], "refusedRatio"),
        (&["metrics.prometheusRule.thresholds.groupWaitsMinutes=0"], "groupWaitsMinutes"),
        (&["metrics.prometheusRule.runbookUrl=docs"], "runbookUrl"),
        (&["metrics.dashbord.enabled=true"], "dashbord"),
    ] {
        let output = render(values);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{values:?}: {said}");
    }
}

#[test]
fn the_dashboard_is_in_a_config_map_that_grafana_finds() {
    let usual = rendered(&["metrics.dashboard.enabled=true"]);
    let map = object(&usual, "ConfigMap", "giveway-dashboard");
    assert_eq!(map["metadata"]["namespace"], "giveway-system");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let file = std::fs::read_to_string(paths::repository().join("helm/files/dashboard.json")).unwrap();
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(json(map["data"]["giveway.json"].as_str().unwrap()), json(&file));
    let elsewhere = rendered(&["metrics.dashboard.enabled=true", "metrics.dashboard.namespace=monitoring"]);
    assert_eq!(object(&elsewhere, "ConfigMap", "giveway-dashboard")["metadata"]["namespace"], "monitoring");
}

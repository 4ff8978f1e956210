//! The rendered objects for monitoring: ServiceMonitor, PodMonitor and the dashboard.

use crate::helm::{object, rejects, rendered};
use giveway_tests::paths;

#[test]
fn by_default_no_object_needs_the_prometheus_operator_or_grafana() {
    let usual = rendered(&[]);
    assert!(!usual.contains("monitoring.coreos.com") && !usual.contains("grafana"), "{usual}");
}

#[test]
fn monitors_scrape_the_metrics_port_of_both_daemons() {
    let values = ["metrics.monitor=ServiceMonitor", "metrics.labels.release=prometheus"];
    let services = rendered(&values);
    for name in ["giveway-operator", "giveway-webhook"] {
        let monitor = object(&services, "ServiceMonitor", name);
        assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
        assert_eq!(monitor["spec"]["endpoints"][0]["port"], "metrics");
        let service = object(&services, "Service", name);
        for (key, value) in monitor["spec"]["selector"]["matchLabels"].as_object().unwrap() {
            assert_eq!(&service["metadata"]["labels"][key], value, "{name} is not selected by {key}");
        }
        assert!(service["spec"]["ports"].as_array().unwrap().iter().any(|port| port["name"] == "metrics"));
    }
    let pods = rendered(&["metrics.monitor=PodMonitor"]);
    for name in ["giveway-operator", "giveway-webhook"] {
        let monitor = object(&pods, "PodMonitor", name);
        let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
        assert_eq!((&endpoint["port"], &endpoint["interval"]), (&"metrics".into(), &"30s".into()));
        let deployment = object(&pods, "Deployment", name);
        let template = &deployment["spec"]["template"];
        for (key, value) in monitor["spec"]["selector"]["matchLabels"].as_object().unwrap() {
            assert_eq!(&template["metadata"]["labels"][key], value, "pods of {name} are not selected by {key}");
        }
        assert!(template["spec"]["containers"][0]["ports"].as_array().unwrap().iter().any(|p| p["name"] == "metrics"));
    }
}

#[test]
fn contradictory_and_invalid_values_are_rejected() {
    for (values, words) in [
        (
            &["metrics.monitor=PodMonitor", "deployments.enabled=false", "webhook.url=https://10.0.0.5:9443"][..],
            "there is nothing to scrape",
        ),
        (&["metrics.monitor=Probe"], "monitor"),
        (&["metrics.prometheusRule.thresholds.refusedRatio=2"], "refusedRatio"),
        (&["metrics.prometheusRule.thresholds.groupWaitsMinutes=0"], "groupWaitsMinutes"),
        (&["metrics.dashbord.enabled=true"], "dashbord"),
    ] {
        rejects("giveway-system", values, words);
    }
}

#[test]
fn the_dashboard_is_in_a_labelled_config_map() {
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

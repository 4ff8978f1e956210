//! The rendered alerts: their queries use existing metrics, each alert has a runbook, and they fire in promtool's unit
//! tests.

use super::{catalogue, dashboard, promql};
use crate::helm::{object, rendered};
use giveway_serving::metrics::MetricKind;
use giveway_tests::paths;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Returns the rules that the chart renders with these values.
fn rules(values: &[&str]) -> Value {
    let values = [&["metrics.prometheusRule.enabled=true"], values].concat();
    object(&rendered(&values), "PrometheusRule", "giveway")["spec"].clone()
}

fn alerts(rules: &Value) -> Vec<Value> {
    rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// Creates a directory for promtool with one file in it.
fn directory(name: &str, file: &str, text: &str) -> PathBuf {
    let directory = paths::repository().join("target/observability").join(name);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join(file), text).unwrap();
    directory
}

fn promtool(arguments: &[&str], input: &str) -> Output {
    let mut promtool = Command::new(paths::promtool().unwrap())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    promtool.wait_with_output().unwrap()
}

/// Returns the output of promtool if it fails; `None` if it succeeds.
fn fault(arguments: &[&str], input: &str) -> Option<String> {
    let output = promtool(arguments, input);
    let said = [output.stdout, output.stderr].concat();
    (!output.status.success()).then(|| String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn alert_queries_name_existing_metrics_and_labels() {
    for alert in alerts(&rules(&[])) {
        let (name, query) = (&alert["alert"], alert["expr"].as_str().unwrap());
        assert_eq!(promql::unknown(query), [""; 0], "{name}: {query}");
    }
}

#[test]
fn each_alert_has_a_severity_sentences_and_an_existing_runbook() {
    let page = fs::read_to_string(paths::repository().join("docs/runbooks.md")).unwrap();
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    let sections: Vec<&str> = headings.filter(|heading| heading.starts_with("Giveway")).collect();
    let alerts = alerts(&rules(&[]));
    let names: Vec<&str> = alerts.iter().map(|alert| alert["alert"].as_str().unwrap()).collect();
    assert_eq!(sections, names, "docs/runbooks.md has a section for each alert, in their order");
    for alert in &alerts {
        let name = alert["alert"].as_str().unwrap();
        assert!(["critical", "warning"].contains(&alert["labels"]["severity"].as_str().unwrap()), "{name}");
        let annotations = &alert["annotations"];
        let page = "https://github.com/giveway/giveway/blob/main/docs/runbooks.md";
        assert_eq!(annotations["runbook_url"], format!("{page}#{}", name.to_lowercase()));
        for sentence in ["summary", "description"] {
            assert!(annotations[sentence].as_str().unwrap().ends_with('.'), "{name}: {sentence}");
        }
    }
}

#[test]
#[ignore = "needs promtool: make test-alerts"]
fn promtool_accepts_rules_and_dashboard_queries() {
    let rules = directory("check", "rules.json", &rules(&[]).to_string());
    assert_eq!(
        fault(&["check", "rules", "--lint=all", "--lint-fatal", &rules.join("rules.json").display().to_string()], ""),
        None
    );
    let record =
        |(number, (_, query)): (usize, (&str, &str))| json!({"record": format!("panel:{number}"), "expr": query});
    let panels: Vec<Value> = dashboard::queries().enumerate().map(record).collect();
    let panels = json!({"groups": [{"name": "dashboard", "rules": panels}]});
    let panels = directory("check", "dashboard.json", &panels.to_string()).join("dashboard.json");
    assert_eq!(fault(&["check", "rules", &panels.display().to_string()], ""), None);
    let wrong = json!({"groups": [{"name": "g", "rules": [{"record": "a", "expr": "sum by class (b)"}]}]});
    let wrong = directory("check", "wrong.json", &wrong.to_string()).join("wrong.json");
    assert!(fault(&["check", "rules", &wrong.display().to_string()], "").is_some(), "promtool reports a wrong input");
}

#[test]
#[ignore = "needs promtool: make test-alerts"]
fn the_alerts_fire_when_they_should_and_not_before() {
    let directory = directory("test", "rules.yaml", &rules(&[]).to_string());
    let tests = paths::repository().join("tests/cases/rules.yaml");
    fs::copy(tests, directory.join("tests.yaml")).unwrap();
    assert_eq!(fault(&["test", "rules", &directory.join("tests.yaml").display().to_string()], ""), None);
    // With another threshold the same tests fail: they depend on the rendered rules.
    let other = rules(&["metrics.prometheusRule.thresholds.groupWaitsMinutes=500"]);
    fs::write(directory.join("rules.yaml"), other.to_string()).unwrap();
    let said = fault(&["test", "rules", &directory.join("tests.yaml").display().to_string()], "").unwrap();
    assert!(said.contains("GivewayGroupWaits"), "{said}");
}

#[test]
#[ignore = "needs promtool: make test-alerts"]
fn names_and_help_texts_of_the_metrics_pass_promtool() {
    let mut text = String::new();
    for about in catalogue() {
        let labels: Vec<String> = about.labels.iter().map(|label| format!("{}=\"a\"", label.name)).collect();
        let labels = labels.join(",");
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {0} {1}.\n# TYPE {0} {2}", about.name, about.help, about.kind.as_str());
        let _ = match about.kind {
            MetricKind::Counter | MetricKind::Gauge => writeln!(text, "{}{{{labels}}} 1", about.name),
            MetricKind::Histogram => writeln!(
                text,
                "{0}_bucket{{{labels}{comma}le=\"+Inf\"}} 1\n{0}_sum{{{labels}}} 1\n{0}_count{{{labels}}} 1",
                about.name,
                comma = if labels.is_empty() { "" } else { "," }
            ),
        };
    }
    assert_eq!(fault(&["check", "metrics"], &text), None);
    let wrong = "# HELP giveway_evictions Evictions.\n# TYPE giveway_evictions counter\ngiveway_evictions 1\n";
    assert!(fault(&["check", "metrics"], wrong).unwrap().contains("_total"), "promtool reports a wrong input");
}

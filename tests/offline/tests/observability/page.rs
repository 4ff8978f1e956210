//! The page docs/metrics.md, generated from the lists of metrics.

use super::is_generated;
use giveway_serving::metrics::{About, PROCESS};
use std::fmt::Write as _;

const HEAD: &str = "\
# Metrics

<!-- Generated from operator/src/observability/metrics/catalogue.rs and webhook/src/metrics/catalogue.rs by `make metrics`; do not edit. -->

The operator shows its metrics on port 9091, the webhook on port 9090, each at `/metrics`: as OpenMetrics to those who ask for it,
and to everybody else in Prometheus' text format. The chart makes what the Prometheus operator and Grafana need:
`metrics.serviceMonitor.enabled` or `metrics.podMonitor.enabled`, `metrics.prometheusRule.enabled` (each alert has a
[runbook](runbooks.md)) and `metrics.dashboard.enabled`.

* Only the operator that leads knows who waits and what is decided; the others show zeros or nothing. Add up over the pods.
* No label has a value that a tenant may choose: no names of pods, groups or namespaces. Names of priority classes are
  administrators'; the first 32 that each operator sees are told apart, and all others, and those that do not exist, are `other`.
  `none` is who names no class.
* Counters and histograms begin anew with each process, and each series of one with labels only with its first event, with the
  value that it has then. `increase()` counts from there, so it misses the first burst; the alerts ask
  `(x unless x offset 1h) or increase(x[1h])` instead: of a series that is younger than that hour all is new.
";

fn table(text: &mut String, title: &str, metrics: &[About]) {
    // Writing to a string does not fail.
    let _ = write!(text, "\n## {title}\n\n| metric | kind | labels | what it tells |\n|---|---|---|---|\n");
    for about in metrics {
        let labels: Vec<String> =
            about.labels.iter().map(|label| format!("`{}`: {}", label.name, label.values)).collect();
        let (name, kind, labels) = (about.name, about.kind.as_str(), labels.join("<br>"));
        let _ = writeln!(text, "| `{name}` | {kind} | {labels} | {} |", about.help);
    }
}

fn page() -> String {
    let mut text = HEAD.to_owned();
    table(&mut text, "Operator", giveway_operator::observability::metrics::CATALOGUE);
    table(&mut text, "Webhook", giveway_webhook::metrics::CATALOGUE);
    table(&mut text, "Both, as processes", PROCESS);
    text
}

#[test]
fn the_page_lists_every_metric() {
    is_generated("docs/metrics.md", &page());
}

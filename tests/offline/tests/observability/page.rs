//! The page docs/reference/metrics.md, generated from the lists of metrics.

use super::is_generated;
use giveway_serving::metrics::{About, PROCESS};
use std::fmt::Write as _;

const HEAD: &str = "\
# Metrics

<!-- Generated from operator/src/observability/metrics/catalogue.rs and webhook/src/metrics/catalogue.rs by `make metrics`; do not edit. -->

The operator serves its metrics on port 9091, the webhook on port 9090, each at `/metrics`: as OpenMetrics to clients that ask for
it, otherwise in Prometheus' text format. The chart creates the objects that the Prometheus operator and Grafana need:
`metrics.monitor` (`ServiceMonitor` or `PodMonitor`), `metrics.prometheusRule.enabled` (each alert has a
[runbook](../runbooks.md)) and `metrics.dashboard.enabled`. For metrics of single PodGroups and Preemptions, by name, there is a
[configuration of kube-state-metrics](https://github.com/giveway/giveway/blob/main/examples/monitoring/kube-state-metrics.yaml).

* Only the leader knows the pending pods and the decisions; standby operators report zeros or nothing. Sum over the pods.
* No label has a value that a tenant can choose: no names of pods, groups or namespaces. Only administrators choose the names of
  priority classes; each operator reports the first 32 by name, and all others, and those that do not exist, as `other`. `none`
  stands for pods and groups that name no class.
* Counters and histograms start at zero in each process. A series with labels appears with its first event, with the value that
  it has then. `increase()` counts from there, so it misses the first burst; the alerts use
  `(x unless x offset 1h) or increase(x[1h])` instead, in which the whole value of a series younger than an hour counts.
";

fn table(text: &mut String, title: &str, metrics: &[About]) {
    // Writing to a string does not fail.
    let _ = write!(text, "\n## {title}\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n");
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
    is_generated("docs/reference/metrics.md", &page());
}

//! The dashboard: a table of panels, and the JSON that Grafana reads.

use super::{is_generated, promql};
use serde_json::{Value, json};

/// A panel: its title, the unit of its values, and its lines, each a query and its legend.
struct Panel {
    title: &'static str,
    unit: &'static str,
    /// True for a single number instead of a graph.
    stat: bool,
    lines: &'static [(&'static str, &'static str)],
}

const fn stat(title: &'static str, unit: &'static str, lines: &'static [(&'static str, &'static str)]) -> Panel {
    Panel { title, unit, stat: true, lines }
}

const fn graph(title: &'static str, unit: &'static str, lines: &'static [(&'static str, &'static str)]) -> Panel {
    Panel { title, unit, stat: false, lines }
}

/// The rows of the dashboard.
const ROWS: &[(&str, &[Panel])] = &[
    (
        "Now",
        &[
            stat("Leaders", "none", &[("sum(giveway_operator_leader)", "")]),
            stat("Webhooks ready", "none", &[("sum(giveway_webhook_ready)", "")]),
            stat("Groups that wait", "none", &[("sum(giveway_operator_waiting_groups)", "")]),
            stat("Longest wait", "s", &[("max(giveway_operator_oldest_waiting_group_age_seconds)", "")]),
            stat("Gated pods", "none", &[("sum(giveway_operator_gated_pods)", "")]),
            stat(
                "Certificate expires in",
                "s",
                &[("min(giveway_webhook_certificate_expiry_timestamp_seconds > 0) - time()", "")],
            ),
        ],
    ),
    (
        "Pending pods and groups",
        &[
            graph(
                "Groups that wait, by reason",
                "none",
                &[("sum by (reason) (giveway_operator_waiting_groups) > 0", "{{reason}}")],
            ),
            graph(
                "Longest wait, by class",
                "s",
                &[("max by (class) (giveway_operator_oldest_waiting_group_age_seconds) > 0", "{{class}}")],
            ),
            graph(
                "From submitted to bound",
                "s",
                &[
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(giveway_operator_group_submitted_to_bound_seconds_bucket[30m])))",
                        "half of the groups",
                    ),
                    (
                        "histogram_quantile(0.95, sum by (le) (rate(giveway_operator_group_submitted_to_bound_seconds_bucket[30m])))",
                        "95 %",
                    ),
                ],
            ),
            graph(
                "From planned to bound",
                "s",
                &[
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(giveway_operator_planned_to_bound_seconds_bucket[30m])))",
                        "half of the plans",
                    ),
                    (
                        "histogram_quantile(0.95, sum by (le) (rate(giveway_operator_planned_to_bound_seconds_bucket[30m])))",
                        "95 %",
                    ),
                ],
            ),
        ],
    ),
    (
        "Evictions",
        &[
            graph(
                "Evictions a minute, by preemptor's and victim's class",
                "none",
                &[(
                    "60 * sum by (preemptor_class, victim_class) (rate(giveway_operator_evictions_total[5m]))",
                    "{{victim_class}} for {{preemptor_class}}",
                )],
            ),
            graph(
                "Evictions a minute, by way",
                "none",
                &[("60 * sum by (cause, way) (rate(giveway_operator_evictions_total[5m]))", "{{cause}}, {{way}}")],
            ),
            graph(
                "Plans in an hour, by outcome",
                "none",
                &[("sum by (outcome) (increase(giveway_operator_plans_total[1h]))", "{{outcome}}")],
            ),
            graph(
                "Budgets in an hour",
                "none",
                &[
                    ("sum(increase(giveway_operator_budget_violations_total[1h]))", "pods evicted against a budget"),
                    (
                        "sum by (by) (increase(giveway_operator_guaranteed_refusals_total[1h]))",
                        "not evicted, guaranteed budget: {{by}}",
                    ),
                    (
                        "sum by (verdict) (increase(giveway_webhook_guard_decisions_total{verdict!=\"permitted\"}[1h]))",
                        "preemptions by kube-scheduler denied: {{verdict}}",
                    ),
                ],
            ),
        ],
    ),
    (
        "Groups and plans",
        &[
            graph(
                "Groups scheduled in an hour, by class",
                "none",
                &[(
                    "sum by (class) (increase(giveway_operator_group_submitted_to_bound_seconds_count[1h]))",
                    "{{class}}",
                )],
            ),
            graph(
                "From submitted to bound, by class (95 %)",
                "s",
                &[(
                    "histogram_quantile(0.95, sum by (le, class) (rate(giveway_operator_group_submitted_to_bound_seconds_bucket[1h])))",
                    "{{class}}",
                )],
            ),
            graph(
                "Plans and departures in flight, by cause and stage",
                "none",
                &[("sum by (cause, stage) (giveway_operator_preemptions_in_flight) > 0", "{{cause}}, {{stage}}")],
            ),
            graph(
                "Decisions in an hour, by reason",
                "none",
                &[("sum by (reason) (increase(giveway_operator_outcomes_total[1h])) > 0", "{{reason}}")],
            ),
        ],
    ),
    (
        "History",
        &[
            graph(
                "Pods evicted in a day, by their class",
                "none",
                &[("sum by (victim_class) (increase(giveway_operator_evictions_total[1d]))", "{{victim_class}}")],
            ),
            graph(
                "Pods evicted in a day, by the class of the preemptor",
                "none",
                &[("sum by (preemptor_class) (increase(giveway_operator_evictions_total[1d]))", "{{preemptor_class}}")],
            ),
            graph(
                "Plans in a day that evicted pods for a preemptor that was not bound",
                "none",
                &[(
                    "sum by (preemptor_class) (increase(giveway_operator_evicted_not_bound_total[1d]))",
                    "{{preemptor_class}}",
                )],
            ),
            graph(
                "Plans for critical add-ons in a day",
                "none",
                &[("sum by (step) (increase(giveway_operator_rescues_total[1d]))", "step {{step}}")],
            ),
            graph(
                "Bans and open circuit breakers",
                "none",
                &[
                    ("sum by (ban) (giveway_operator_bans)", "ban of a {{ban}}"),
                    ("sum by (kind) (giveway_operator_breakers_open)", "circuit breaker of a {{kind}}"),
                ],
            ),
            graph(
                "Plans that wait for the limits of evictions",
                "none",
                &[("sum(giveway_operator_plans_held_back)", "")],
            ),
        ],
    ),
    (
        "How well it works",
        &[
            graph(
                "Time to decide",
                "s",
                &[(
                    "histogram_quantile(0.99, sum by (le) (rate(giveway_operator_decision_duration_seconds_bucket[5m])))",
                    "99 %",
                )],
            ),
            graph(
                "Time of the API server, by verb (95 %)",
                "s",
                &[(
                    "histogram_quantile(0.95, sum by (le, verb) (rate(giveway_operator_api_request_duration_seconds_bucket[5m])))",
                    "{{verb}}",
                )],
            ),
            graph(
                "Calls that failed, a minute",
                "none",
                &[(
                    "60 * sum by (call) (rate(giveway_operator_api_calls_total{result=\"error\"}[5m])) > 0",
                    "{{call}}",
                )],
            ),
            graph(
                "Admission requests a second",
                "none",
                &[(
                    "sum by (kind, allowed) (rate(giveway_webhook_requests_total[5m]))",
                    "{{kind}}, allowed: {{allowed}}",
                )],
            ),
            graph(
                "Time to a verdict of admission (99 %)",
                "s",
                &[(
                    "histogram_quantile(0.99, sum by (le, kind) (rate(giveway_webhook_request_duration_seconds_bucket[5m])))",
                    "{{kind}}",
                )],
            ),
            graph(
                "Watches broken",
                "s",
                &[
                    ("max by (kind) (giveway_operator_watch_broken_seconds)", "operator: {{kind}}"),
                    ("max by (watch) (giveway_webhook_watch_broken_seconds)", "webhook: {{watch}}"),
                ],
            ),
            graph(
                "Time of a pass (99 %)",
                "s",
                &[(
                    "histogram_quantile(0.99, sum by (le, pod) (rate(giveway_operator_pass_duration_seconds_bucket[5m])))",
                    "{{pod}}",
                )],
            ),
            graph(
                "Oldest entry of a queue",
                "s",
                &[("max by (queue) (giveway_operator_queue_age_seconds) > 0", "{{queue}}")],
            ),
            graph("Memory", "bytes", &[("process_resident_memory_bytes{pod=~\"giveway-.*\"}", "{{pod}}")]),
            graph("Processors", "none", &[("rate(process_cpu_seconds_total{pod=~\"giveway-.*\"}[5m])", "{{pod}}")]),
        ],
    ),
];

/// Returns every query of the dashboard, with the title of its panel.
pub fn queries() -> impl Iterator<Item = (&'static str, &'static str)> {
    let panels = ROWS.iter().flat_map(|(_, panels)| panels.iter());
    panels.flat_map(|panel| panel.lines.iter().map(|(query, _)| (panel.title, *query)))
}

/// Number of columns of Grafana's grid.
const WIDTH: usize = 24;

fn dashboard() -> Value {
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let (mut panels, mut y) = (Vec::new(), 0);
    for (title, row) in ROWS {
        let id = panels.len() + 1;
        let place = json!({"h": 1, "w": WIDTH, "x": 0, "y": y});
        panels
            .push(json!({"type": "row", "id": id, "title": title, "collapsed": false, "gridPos": place, "panels": []}));
        y += 1;
        let (w, h) = if row.iter().all(|panel| panel.stat) { (WIDTH / row.len(), 4) } else { (WIDTH / 2, 8) };
        for (index, panel) in row.iter().enumerate() {
            let in_a_row = WIDTH / w;
            let place = json!({"h": h, "w": w, "x": index % in_a_row * w, "y": y + index / in_a_row * h});
            let target = |(number, (query, name)): (usize, &(&str, &str))| {
                let id = char::from(b'A' + u8::try_from(number).unwrap());
                json!({"refId": id, "expr": query, "legendFormat": name, "datasource": source})
            };
            panels.push(json!({
                "type": if panel.stat { "stat" } else { "timeseries" },
                "id": panels.len() + 1,
                "title": panel.title,
                "datasource": source,
                "gridPos": place,
                "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
                "targets": panel.lines.iter().enumerate().map(target).collect::<Vec<_>>(),
            }));
        }
        y += row.len().div_ceil(WIDTH / w) * h;
    }
    json!({
        "uid": "giveway",
        "title": "Giveway",
        "description": "Pending pods and groups, the evictions for them, and their duration. Generated: see docs/reference/metrics.md.",
        "tags": ["giveway", "kubernetes"],
        "schemaVersion": 39,
        "version": 1,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}]},
        "panels": panels,
    })
}

#[test]
fn the_dashboard_of_the_chart_is_generated_from_the_table() {
    is_generated("helm/files/dashboard.json", &format!("{:#}\n", dashboard()));
}

#[test]
fn panel_queries_name_existing_metrics_and_labels() {
    for (title, query) in queries() {
        assert_eq!(promql::unknown(query), [""; 0], "{title}: {query}");
    }
}

#[test]
fn panel_legends_name_labels_that_the_query_keeps() {
    for (_, panels) in ROWS {
        for (query, name) in panels.iter().flat_map(|panel| panel.lines) {
            let labels = name.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
            for label in labels {
                let kept = query.split("by (").nth(1).map_or("pod", |rest| rest.split(')').next().unwrap());
                assert!(kept.split(", ").any(|kept| kept == label), "label {label} is aggregated away in {query}");
            }
        }
    }
}

//! Checks that the metrics and labels in a query exist. promtool checks the grammar of the query.

use super::catalogue;
use std::collections::BTreeSet;

/// Labels that Prometheus adds to scraped series, and the label of buckets.
const TARGET_LABELS: [&str; 7] = ["container", "endpoint", "instance", "job", "le", "namespace", "pod"];

/// Returns a message for each metric and label in the query that does not exist.
pub fn unknown(query: &str) -> Vec<String> {
    let (words, catalogue) = (words(query), catalogue());
    let named: Vec<_> = words
        .iter()
        .filter(|word| word.starts_with("giveway_") || word.starts_with("process_"))
        .map(|word| (word, catalogue.iter().find(|about| about.has_sample(word))))
        .collect();
    let mut wrong: Vec<String> =
        named.iter().filter(|(_, about)| about.is_none()).map(|(word, _)| format!("no metric {word}")).collect();
    if named.is_empty() {
        wrong.push("the query names no metric".to_owned());
    }
    let mut labels: BTreeSet<&str> = TARGET_LABELS.into();
    labels.extend(named.iter().filter_map(|(_, about)| *about).flat_map(|about| about.labels).map(|label| label.name));
    // Labels that the query creates itself.
    labels.extend(query.split("label_replace(").skip(1).filter_map(|call| call.split('"').nth(1)));
    wrong.extend(labels_in(query).difference(&labels).map(|label| format!("no label {label}")));
    wrong
}

fn words(text: &str) -> Vec<String> {
    let no_strings: String = text.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let words = no_strings.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Returns the labels in selectors and in the lists of `by`, `without`, `on`, `ignoring` and
/// `group_left`/`group_right`.
fn labels_in(query: &str) -> BTreeSet<&str> {
    let mut labels = BTreeSet::new();
    for selector in query.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(selector, _)| selector) {
        let unquoted: Vec<&str> = selector.split('"').step_by(2).collect();
        labels
            .extend(unquoted.iter().map(|name| name.trim_matches([' ', ',', '=', '!', '~'])).filter(|n| !n.is_empty()));
    }
    for keyword in ["by", "without", "on", "ignoring", "group_left", "group_right"] {
        for list in query.split(&format!("{keyword} (")).skip(1).filter_map(|rest| rest.split(')').next()) {
            labels.extend(list.split(',').map(str::trim).filter(|name| !name.is_empty()));
        }
    }
    labels
}

#[test]
fn an_unknown_metric_or_label_is_reported() {
    assert_eq!(unknown("sum by (class) (giveway_operator_waiting_groups{reason=\"Unschedulable\"}) > 0"), [""; 0]);
    assert_eq!(unknown("giveway_operator_waiting_group"), ["no metric giveway_operator_waiting_group"]);
    assert_eq!(unknown("sum(rate(giveway_operator_outcomes[5m]))"), ["no metric giveway_operator_outcomes"]);
    assert_eq!(unknown("sum by (victim) (giveway_operator_evictions_total)"), ["no label victim"]);
    assert_eq!(unknown("giveway_operator_gated_pods{class!=\"a\", pod=~\"b\"}"), ["no label class"]);
    let histogram =
        "histogram_quantile(0.9, sum by (le) (rate(giveway_operator_decision_duration_seconds_bucket[5m])))";
    assert_eq!(unknown(histogram), [""; 0]);
    assert_eq!(unknown("vector(1)"), ["the query names no metric"]);
}

//! Observability: metrics, dashboard and alerts use series that exist, and alerts fire when they should.

mod dashboard;
mod monitors;
mod page;
mod promql;
mod rules;
mod state_metrics;

use giveway_serving::metrics::{About, PROCESS};
use giveway_tests::paths;
use std::fs;

/// Returns the metrics of both daemons.
fn catalogue() -> Vec<&'static About> {
    giveway_operator::observability::metrics::CATALOGUE
        .iter()
        .chain(giveway_webhook::metrics::CATALOGUE)
        .chain(PROCESS)
        .collect()
}

/// Expects that a file of the repository has the generated text. With `GIVEWAY_WRITE` set, the file is written first.
fn is_generated(path: &str, text: &str) {
    let file = paths::repository().join(path);
    if std::env::var_os("GIVEWAY_WRITE").is_some() {
        fs::write(&file, text).unwrap();
    }
    let there = fs::read_to_string(&file).unwrap_or_default();
    assert!(there == text, "{path} is not what the lists of metrics generate: run `make metrics`");
}

//! Observability: metrics, dashboard and alerts use series that exist, and alerts fire when they should.

mod dashboard;
#[path = "../../../../crds/tests/crds/golden.rs"]
mod golden;
mod monitors;
mod page;
mod promql;
mod rules;
mod state_metrics;

use giveway_serving::metrics::{About, PROCESS};
use giveway_tests::paths;

/// Returns the metrics of both daemons.
fn catalogue() -> Vec<&'static About> {
    giveway_operator::observability::metrics::CATALOGUE
        .iter()
        .chain(giveway_webhook::metrics::CATALOGUE)
        .chain(PROCESS)
        .collect()
}

/// Expects that a file of the repository has the text that the lists of metrics generate.
fn is_generated(path: &str, text: &str) {
    golden::is_generated(&paths::repository().join(path), text, "make metrics");
}

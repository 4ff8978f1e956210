//! What an administrator sees: that page, alerts and dashboard name what there is, and that the alerts fire when they should.
// Tests end on the spot, with a message, when an expectation fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod chart;
mod dashboard;
mod page;
mod promql;
mod rules;

use giveway_serving::metrics::{About, PROCESS};
use giveway_tests::paths;
use std::fs;

/// The metrics of both daemons.
fn catalogue() -> Vec<&'static About> {
    giveway_operator::metrics::CATALOGUE.iter().chain(giveway_webhook::metrics::CATALOGUE).chain(PROCESS).collect()
}

/// Expects that a file of the repository is what was generated; with `GIVEWAY_WRITE` set it is written.
fn is_generated(path: &str, text: &str) {
    let file = paths::repository().join(path);
    if std::env::var_os("GIVEWAY_WRITE").is_some() {
        fs::write(&file, text).unwrap();
    }
    let there = fs::read_to_string(&file).unwrap_or_default();
    assert!(there == text, "{path} is not what the lists of metrics generate: run `make metrics`");
}

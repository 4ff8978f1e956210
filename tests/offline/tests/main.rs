//! Tests that need no control plane: they link the libraries of the daemons, or render the chart with helm.
//!
//! ```text
//! simulation     the operator in one thread, against a simulated API server
//! observability  metrics, dashboard, alerts and their pages
//! chart          the rendered objects, and the values that the chart rejects
//! packaging      scripts that create clusters and releases, against stand-ins for the programs that they call
//! helm           runs helm and reads the rendered objects
//! words          phrases that no text and no name of the repository has
//! ```
// A failed expectation ends the test at once, with its message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod chart;
mod helm;
mod observability;
mod packaging;
mod simulation;
mod words;

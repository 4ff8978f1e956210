//! End-to-end tests on a real control plane: one file a promise, each test on a cluster of its own.
// Tests end on the spot, with a message, when an expectation fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod admission;
mod barrier;
mod competition;
mod crash;
mod crds;
mod malformed;
mod preemption;
mod restraint;
mod smoke;
mod workloads;

use std::time::Duration;

/// The deadline of every wait: generous, because two clusters share two cores.
const MINUTE: Duration = Duration::from_secs(60);
/// Condition types of a PodGroup.
const SCHEDULED: &str = giveway_crds::condition::types::INITIALLY_SCHEDULED;
const PLANNED: &str = giveway_crds::condition::types::PREEMPTION_PLANNED;
const DISRUPTED: &str = giveway_crds::condition::types::DISRUPTION_TARGET;

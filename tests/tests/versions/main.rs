//! Short tests on every supported version of Kubernetes, with one world per version.
//!
//! `make test-versions` builds and tests all versions, `make test-oldest` the oldest one. A version that is not built is a
//! failure.
// A test panics with a message when an expectation fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod removal;
mod shared;
mod stories;

use giveway_tests::control_plane::Version;
use libtest_mimic::{Arguments, Trial};
use shared::{last_on, on};
use std::process::ExitCode;
use std::time::Duration;

/// Deadline of every wait. It is generous because other work shares the cores.
const LIMIT: Duration = Duration::from_secs(90);

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let trials = Version::ALL.into_iter().flat_map(trials).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    shared::end();
    conclusion.exit_code()
}

/// Returns the tests of one version.
fn trials(version: Version) -> Vec<Trial> {
    vec![
        on(version, "install", async move |world| stories::install(world, version).await),
        on(version, "gang", async |world| stories::gang(world).await),
        on(version, "preemption", async |world| stories::preemption(world).await),
        on(version, "budgets", async |world| stories::budgets(world).await),
        on(version, "guard", async |world| stories::guard(world).await),
        on(version, "departure", async |world| stories::departure(world).await),
        last_on(version, "uninstall", async |world| removal::uninstall(world).await),
    ]
}

//! The upgrade from the previous version of Giveway with gangs in every state. Ignored if the previous version is not built.
// A test panics with a message when an expectation fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod in_flight;

use giveway_tests::giveway::predecessor_missing;
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

fn main() -> ExitCode {
    let missing = predecessor_missing();
    if let Some(why) = &missing {
        println!("{why}");
    }
    let name = "in_flight::gangs_in_every_state_are_bound_after_an_upgrade_without_repeated_evictions";
    let trial = Trial::test(name, || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(in_flight::gangs_in_every_state_are_bound_after_an_upgrade_without_repeated_evictions());
        Ok(())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial.with_ignored_flag(missing.is_some())]).exit_code()
}

//! The upgrade from the Giveway before this one, with gangs in every state in flight. Ignored where that one is not built.
// Tests end on the spot, with a message, when an expectation fails.
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
    let name = "in_flight::gangs_in_every_state_are_bound_after_an_upgrade_and_nobody_is_evicted_twice";
    let trial = Trial::test(name, || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(in_flight::gangs_in_every_state_are_bound_after_an_upgrade_and_nobody_is_evicted_twice());
        Ok(())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial.with_ignored_flag(missing.is_some())]).exit_code()
}

//! Tests on a real node: containers that take time to stop, end, fail and come back, and Giveway running among them as the
//! chart installs it.
//!
//! They share one node, one after the other, because starting one takes longer than most of them. Where no node can run
//! they are ignored, and one line says why.
// Tests end on the spot, with a message, when an expectation fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rig;
mod shared;
mod traces;

use libtest_mimic::{Arguments, Trial};
use shared::{on_its_own, on_the_node};
use std::process::ExitCode;
use std::time::Duration;

/// The deadline of every wait: generous, because control plane, node and containers share two cores.
const LIMIT: Duration = Duration::from_secs(90);

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let refusal = giveway_tests::node::check().err();
    if let Some(why) = &refusal {
        println!("{why}");
    }
    let trials = tests().into_iter().map(|trial| trial.with_ignored_flag(refusal.is_some())).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    shared::end();
    conclusion.exit_code()
}

/// A test on the shared node, or on its own, which has the name of its function.
macro_rules! test {
    (shared $module:ident::$function:ident) => {
        on_the_node(concat!(stringify!($module), "::", stringify!($function)), async |world| {
            $module::$function(world).await;
        })
    };
    (own $module:ident::$function:ident) => {
        on_its_own(concat!(stringify!($module), "::", stringify!($function)), async || $module::$function().await)
    };
}

fn tests() -> Vec<Trial> {
    vec![
        test!(own rig::nothing_is_left_of_a_node_that_is_dropped),
        test!(own rig::nothing_is_left_of_a_node_whose_program_is_killed),
        test!(shared rig::pods_run_and_end_as_they_are_told),
    ]
}

/// The manifest of a pod of one container that runs with these arguments, and has half a minute to stop.
fn pod(name: &str, arguments: &[&str]) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 30
  containers: [{{name: main, image: giveway.test/workload:1, imagePullPolicy: Never, args: {arguments:?}}}]
"
    )
}

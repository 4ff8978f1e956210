//! Real controllers of other projects: of workloads (JobSet, LeaderWorkerSet, KubeRay, and those of Kubeflow), and Karpenter.
//!
//! Tests of workloads share one world, one after the other. A test whose controller is not built is ignored, and one line says so.
// Tests end on the spot, with a message, when an expectation fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod examples;
mod karpenter;
mod shared;

use giveway_tests::controllers::{self, Controller};
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    if let Some(why) = controllers::missing() {
        println!("{why}");
    }
    let conclusion = libtest_mimic::run(&arguments, tests());
    shared::end();
    conclusion.exit_code()
}

/// A test that needs these controllers, which has the name of its function.
macro_rules! test {
    ($module:ident::$function:ident, $($needs:expr),+) => {
        shared::trial(concat!(stringify!($module), "::", stringify!($function)), async |world| {
            $module::$function(world).await;
        })
        .with_ignored_flag(![$($needs),+].into_iter().all(Controller::is_built))
    };
}

/// A test of Karpenter, on a world of its own.
macro_rules! karpenter {
    ($function:ident) => {
        shared::alone(concat!("karpenter::", stringify!($function)), karpenter::world, async |world| {
            karpenter::$function(world).await;
        })
        .with_ignored_flag(!Controller::Karpenter.is_built())
    };
}

fn tests() -> Vec<Trial> {
    vec![
        test!(examples::each_job_of_a_jobset_takes_and_gives_place_whole, Controller::JobSet),
        test!(examples::each_replica_of_a_leaderworkerset_takes_and_gives_place_whole, Controller::LeaderWorkerSet),
        test!(examples::the_cluster_of_a_rayjob_takes_and_gives_place_whole, Controller::KubeRay),
        test!(examples::the_nodes_of_a_trainjob_take_and_give_place_whole, Controller::JobSet, Controller::Trainer),
        test!(examples::the_pods_of_a_pytorchjob_take_and_give_place_whole, Controller::TrainingOperator),
        test!(examples::launcher_and_workers_of_an_mpijob_take_and_give_place_whole, Controller::MpiOperator),
        karpenter!(nodes_come_for_a_gang_and_nobody_is_evicted),
        karpenter!(where_its_limit_leaves_too_little_the_time_passes_and_the_gang_preempts),
    ]
}

//! Tests with the real controllers of other projects: JobSet, LeaderWorkerSet, KubeRay, those of Kubeflow, and Karpenter.
//!
//! Tests of workloads share one world. A test whose controller is not built is ignored, and one line says so.
// A test panics with a message when an expectation fails.
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

/// Defines a test that needs these controllers; its name is that of the function.
macro_rules! test {
    ($module:ident::$function:ident, $($needs:expr),+) => {
        shared::trial(concat!(stringify!($module), "::", stringify!($function)), async |world| {
            $module::$function(world).await;
        })
        .with_ignored_flag(![$($needs),+].into_iter().all(Controller::is_built))
    };
}

/// Defines a test of Karpenter on a world of its own.
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
        test!(examples::each_job_of_a_jobset_preempts_and_is_preempted_as_a_whole, Controller::JobSet),
        test!(
            examples::each_replica_of_a_leaderworkerset_preempts_and_is_preempted_as_a_whole,
            Controller::LeaderWorkerSet
        ),
        test!(examples::the_cluster_of_a_rayjob_preempts_and_is_preempted_as_a_whole, Controller::KubeRay),
        test!(
            examples::the_nodes_of_a_trainjob_preempt_and_are_preempted_as_a_whole,
            Controller::JobSet,
            Controller::Trainer
        ),
        test!(examples::the_pods_of_a_pytorchjob_preempt_and_are_preempted_as_a_whole, Controller::TrainingOperator),
        test!(
            examples::launcher_and_workers_of_an_mpijob_preempt_and_are_preempted_as_a_whole,
            Controller::MpiOperator
        ),
        karpenter!(karpenter_adds_nodes_for_a_gang_and_no_pod_is_evicted),
        karpenter!(a_gang_preempts_after_its_delay_if_the_limit_of_the_node_pool_is_too_low),
    ]
}

//! Tests on a real node: containers that terminate slowly, exit, fail and are replaced, with Giveway on the same node as the
//! chart installs it.
//!
//! The tests share one node, because starting a node takes longer than most tests. If no node can run here, they are ignored and
//! one line says why.
// A test panics with a message when an expectation fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod chart;
mod failures;
mod gang;
mod pods;
mod rig;
mod services;
mod shared;
mod traces;
mod workloads;

use giveway_tests::World;
use libtest_mimic::{Arguments, Trial};
use shared::{last_on_the_node, on_its_own, on_the_node};
use std::process::ExitCode;
use std::time::Duration;

/// Deadline of every wait. It is generous because control plane, node and containers share two cores.
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

/// Defines a test on the shared node or on a node of its own; its name is that of the function.
macro_rules! test {
    (shared $module:ident::$function:ident) => {
        on_the_node(concat!(stringify!($module), "::", stringify!($function)), async |world| {
            $module::$function(world).await;
        })
    };
    (last $module:ident::$function:ident) => {
        last_on_the_node(concat!(stringify!($module), "::", stringify!($function)), async |world| {
            $module::$function(world).await;
        })
    };
    (own $module:ident::$function:ident) => {
        on_its_own(concat!(stringify!($module), "::", stringify!($function)), async || $module::$function().await)
    };
}

fn tests() -> Vec<Trial> {
    vec![
        test!(own rig::a_dropped_node_is_removed_completely),
        test!(own rig::a_node_is_removed_completely_if_its_program_is_killed),
        test!(shared rig::pods_run_and_exit_with_their_code),
        test!(shared chart::the_default_chart_is_ready_and_check_passes_inside_the_cluster),
        test!(shared chart::helm_test_schedules_a_gang_and_passes),
        test!(shared chart::a_gang_starts_although_the_leading_operator_is_deleted_during_evictions),
        test!(shared chart::no_admission_fails_while_a_webhook_replica_is_deleted),
        test!(shared chart::no_admission_fails_while_both_deployments_are_restarted),
        test!(shared chart::an_upgrade_with_another_flag_does_not_affect_a_gang_in_flight),
        test!(shared chart::with_the_values_of_eks_the_webhook_answers_on_the_address_of_its_node),
        test!(shared workloads::a_preempted_gang_gets_sigterm_and_saves_its_work),
        test!(shared workloads::members_are_ungated_only_after_victims_that_ignore_sigterm_have_terminated),
        test!(shared workloads::victims_that_exit_with_0_count_as_succeeded_and_with_1_do_not),
        test!(shared workloads::a_crashed_member_is_replaced_and_starts_alone),
        test!(shared workloads::the_last_member_starts_alone_when_the_others_have_finished),
        test!(shared workloads::init_containers_and_sidecars_count_for_feasibility),
        test!(shared failures::a_group_counts_ready_members_if_others_crash_repeatedly_or_lack_their_image),
        test!(shared failures::a_member_that_uses_too_much_memory_is_replaced),
        test!(shared failures::a_plan_on_a_node_without_kubelet_is_cancelled_and_the_node_is_not_used),
        test!(shared services::a_drain_respects_a_guaranteed_budget_and_no_pod_is_placed_on_the_node),
        test!(shared services::pods_of_an_unready_service_are_not_evicted),
        test!(last chart::an_uninstall_leaves_only_the_documented_objects),
    ]
}

/// Name of a managed class of priority 100.
const CALM: &str = "calm";
/// Name of a managed class of priority 1000.
const URGENT: &str = "urgent";

/// Creates both classes.
async fn create_classes(world: &World) {
    world.class(CALM, 100).managed().create().await;
    world.class(URGENT, 1000).managed().create().await;
}

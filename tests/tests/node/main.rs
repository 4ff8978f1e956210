//! Tests on a real node: containers that take time to stop, end, fail and come back, and Giveway running among them as the
//! chart installs it.
//!
//! They share one node, one after the other, because starting one takes longer than most of them. Where no node can run
//! they are ignored, and one line says why.
// Tests end on the spot, with a message, when an expectation fails.
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
use shared::{on_its_own, on_the_node, on_the_node_at_last};
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
    (last $module:ident::$function:ident) => {
        on_the_node_at_last(concat!(stringify!($module), "::", stringify!($function)), async |world| {
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
        test!(shared chart::the_default_chart_is_ready_and_check_finds_nothing_wrong_from_inside),
        test!(shared chart::helm_test_starts_a_gang_and_finds_nothing_wrong),
        test!(shared chart::a_gang_starts_though_the_leading_operator_is_deleted_in_the_middle),
        test!(shared chart::no_admission_fails_while_a_webhook_replica_is_deleted),
        test!(shared chart::no_admission_fails_while_both_deployments_are_restarted),
        test!(shared chart::an_upgrade_that_changes_a_flag_leaves_a_gang_in_flight_alone),
        test!(shared workloads::a_gang_takes_the_place_of_another_which_saves_its_work),
        test!(shared workloads::members_are_released_when_victims_that_ignore_sigterm_are_gone_and_not_before),
        test!(shared workloads::victims_that_end_with_0_count_as_done_and_with_1_do_not),
        test!(shared workloads::a_member_that_crashes_is_replaced_and_starts_alone),
        test!(shared workloads::the_last_member_starts_alone_when_the_others_have_finished),
        test!(shared workloads::init_containers_and_sidecars_are_part_of_what_is_placed),
        test!(shared failures::a_group_says_how_many_run_when_members_crash_again_and_again_or_have_no_image),
        test!(shared failures::a_member_that_uses_too_much_memory_is_replaced),
        test!(shared failures::nobody_waits_for_ever_for_a_node_without_kubelet_or_is_placed_on_it),
        test!(shared services::a_drain_waits_for_a_guarded_service_and_nobody_is_placed_on_the_node),
        test!(shared services::a_service_that_is_not_ready_keeps_its_pods_until_it_is),
        test!(last chart::an_uninstall_leaves_what_is_documented),
    ]
}

/// The name of a managed class of priority 100.
const CALM: &str = "calm";
/// The name of a managed class of priority 1000.
const URGENT: &str = "urgent";

/// Creates both classes.
async fn classes(world: &World) {
    world.class(CALM, 100).managed().create().await;
    world.class(URGENT, 1000).managed().create().await;
}

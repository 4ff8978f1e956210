//! End-to-end tests on real control planes, one file for each promise. `tests/README.md` explains how to add one.
// A test panics with a message when an expectation fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod additions;
mod addon_cli;
mod admission;
mod admission_words;
mod adopt;
mod backfill;
mod backoff;
mod barrier;
mod breakers;
mod budgets;
mod certificates;
mod changes;
mod chart;
mod check;
mod cli;
mod competition;
mod constraints;
mod crash;
mod crds;
mod critical;
mod critical_rights;
mod denials;
mod departures;
mod events;
mod examples;
mod faults;
mod feasibility;
mod forbidden;
mod gangs;
mod guaranteed;
mod guard;
mod guard_cost;
mod guard_seats;
mod helm;
mod large_objects;
mod later_plugins;
mod malformed;
mod many_kinds;
mod metrics;
mod native;
mod partial_gangs;
mod policies;
mod preemption;
mod provisioning;
mod quota;
mod rates;
mod real_answers;
mod restraint;
mod rights;
mod roles;
mod scheduler_config;
mod served;
mod smoke;
mod standbys;
mod statuses;
mod stored_plans;
mod strangers;
mod switch;
mod topology;
mod traces;
mod ui;
mod uninstall;
mod unreadable;
mod volumes;
mod workloads;

use giveway_crds::condition;
use giveway_crds::condition::types::{DISRUPTION_TARGET, INITIALLY_SCHEDULED, PREEMPTING};
use giveway_tests::cluster::Group;
use giveway_tests::runner;
use giveway_tests::wait::wait_for;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let tests = [
        additions::tests(),
        addon_cli::tests(),
        admission::tests(),
        admission_words::tests(),
        adopt::tests(),
        backfill::tests(),
        backoff::tests(),
        barrier::tests(),
        breakers::tests(),
        budgets::duels::tests(),
        budgets::races::tests(),
        budgets::rounds::tests(),
        budgets::stories::tests(),
        denials::bindings::tests(),
        denials::evictions::tests(),
        denials::gates::tests(),
        denials::objects::tests(),
        departures::tests(),
        certificates::tests(),
        changes::tests(),
        chart::tests(),
        check::tests(),
        cli::tests(),
        competition::tests(),
        constraints::tests(),
        crash::tests(),
        crds::tests(),
        critical::changes::tests(),
        critical::contention::tests(),
        critical::crash::tests(),
        critical::denials::tests(),
        critical::restraint::tests(),
        critical::steps::tests(),
        critical::stranded::tests(),
        critical_rights::tests(),
        events::tests(),
        examples::tests(),
        faults::admission::tests(),
        faults::answers::tests(),
        faults::clocks::tests(),
        faults::crashes::tests(),
        faults::leaders::tests(),
        faults::outages::tests(),
        faults::silent_watches::tests(),
        faults::soak::tests(),
        feasibility::tests(),
        forbidden::tests(),
        gangs::jobs::tests(),
        gangs::others::tests(),
        gangs::sets::tests(),
        gangs::succession::tests(),
        gangs::survival::tests(),
        guaranteed::tests(),
        guard::tests(),
        guard_cost::tests(),
        guard_seats::tests(),
        helm::tests(),
        stored_plans::tests(),
        large_objects::tests(),
        later_plugins::tests(),
        malformed::tests(),
        many_kinds::tests(),
        metrics::tests(),
        native::tests(),
        partial_gangs::tests(),
        policies::tests(),
        preemption::tests(),
        provisioning::tests(),
        quota::tests(),
        rates::tests(),
        real_answers::tests(),
        restraint::tests(),
        rights::tests(),
        roles::tests(),
        scheduler_config::tests(),
        served::tests(),
        smoke::tests(),
        standbys::tests(),
        statuses::tests(),
        strangers::tests(),
        switch::tests(),
        topology::tests(),
        traces::tests(),
        ui::tests(),
        uninstall::tests(),
        unreadable::tests(),
        volumes::tests(),
        workloads::tests(),
    ];
    runner::run(tests.into_iter().flatten().collect()).exit_code()
}

/// Deadline of every wait. It is generous because three control planes share two cores.
const MINUTE: Duration = Duration::from_secs(60);

/// Waits until a condition of the group has this status and reason (`True Scheduled`) and a message that contains `text`.
async fn expect_condition(group: &Group, type_: &str, state: &str, text: &str) {
    wait_for(&format!("condition {type_} of PodGroup {} is {state}: {text}", group.name), MINUTE, async || {
        let conditions = group.get().await.status.unwrap_or_default().conditions;
        let Some(found) = condition::find(&conditions, type_) else { return Err(format!("no condition {type_}")) };
        let is = format!("{} {}", found.status, found.reason);
        if is == state && found.message.contains(text) { Ok(()) } else { Err(format!("{is}: {}", found.message)) }
    })
    .await;
}

//! End-to-end tests on a real control plane: one file a promise, each test on a cluster of its own.
// Tests end on the spot, with a message, when an expectation fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod addon_cli;
mod admission;
mod adopt;
mod backfill;
mod backoff;
mod barrier;
mod budgets;
mod cascade;
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
mod half_bound;
mod helm;
mod ledger;
mod malformed;
mod metrics;
mod native;
mod policies;
mod preemption;
mod provisioning;
mod quota;
mod rates;
mod restraint;
mod rights;
mod roles;
mod served;
mod smoke;
mod statuses;
mod switch;
mod topology;
mod traces;
mod uninstall;
mod unreadable;
mod volumes;
mod workloads;

use giveway_crds::condition;
use giveway_tests::cluster::Group;
use giveway_tests::wait::wait_for;
use std::time::Duration;

/// The deadline of every wait: generous, because three clusters share two cores.
const MINUTE: Duration = Duration::from_secs(60);
/// Condition types of a PodGroup.
const SCHEDULED: &str = giveway_crds::condition::types::INITIALLY_SCHEDULED;
const PLANNED: &str = giveway_crds::condition::types::PREEMPTION_PLANNED;
const DISRUPTED: &str = giveway_crds::condition::types::DISRUPTION_TARGET;

/// Waits until a condition of the group says this: `True Scheduled`, and a text that its message contains.
async fn told(group: &Group, type_: &str, state: &str, text: &str) {
    wait_for(&format!("group {} tells {type_}={state}: {text}", group.name), MINUTE, async || {
        let conditions = group.get().await.status.unwrap_or_default().conditions;
        let Some(found) = condition::find(&conditions, type_) else { return Err(format!("no condition {type_}")) };
        let is = format!("{} {}", found.status, found.reason);
        if is == state && found.message.contains(text) { Ok(()) } else { Err(format!("{is}: {}", found.message)) }
    })
    .await;
}

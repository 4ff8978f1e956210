//! Writes of Giveway's own objects, of events and of the Lease are rejected: without a stored plan no pod is evicted, and statuses and
//! events that cannot be written delay nothing.

use super::{WORDS, evicts_nothing_until_it_ends, expect_evicted, fill_node};
use crate::{INITIALLY_SCHEDULED, MINUTE};
use giveway_tests::cluster::Shaped as _;
use giveway_tests::denials::Rule;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            no_pod_is_evicted_for_a_plan_that_cannot_be_stored,
            a_gang_is_bound_although_its_status_cannot_be_written;
        release_shared:
            no_pod_is_evicted_for_a_plan_if_its_status_cannot_be_stored,
            a_gang_is_bound_although_no_event_can_be_written,
            a_gang_is_bound_although_two_renewals_of_the_lease_are_rejected;
    ]
}

async fn no_pod_is_evicted_for_a_plan_that_cannot_be_stored(world: &World) {
    evicts_nothing_until_it_ends(world, Rule::preemptions()).await;
}

async fn no_pod_is_evicted_for_a_plan_if_its_status_cannot_be_stored(world: &World) {
    evicts_nothing_until_it_ends(world, Rule::preemption_statuses()).await;
}

async fn a_gang_is_bound_although_its_status_cannot_be_written(world: &World) {
    fill_node(world).await;
    let denial = world.deny(Rule::pod_group_statuses().saying(500, WORDS)).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    assert!(!denial.denied().is_empty());
    expect_evicted(world, 2, "low").await;
    denial.end().await;
    gang.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    world.check_promises().await;
}

async fn a_gang_is_bound_although_no_event_can_be_written(world: &World) {
    fill_node(world).await;
    let denial = world.deny(Rule::events().saying(403, WORDS)).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    denial.wait_denied(MINUTE).await;
    expect_evicted(world, 2, "low").await;
    world.check_promises().await;
}

/// The Lease is renewed every fifth of its duration, so two rejections do not lose it.
async fn a_gang_is_bound_although_two_renewals_of_the_lease_are_rejected(world: &World) {
    fill_node(world).await;
    let denial = world.deny(Rule::leases().times(2).saying(500, WORDS)).await;
    denial.wait_denied(MINUTE).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    expect_evicted(world, 2, "low").await;
    world.check_promises().await;
}

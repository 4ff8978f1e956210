//! The removal of the scheduling gate or the nomination is rejected: this is known before the first eviction, and the gang is bound when
//! the rejection ends.

use super::{
    WORDS, evicts_nothing_until_it_ends, expect_evicted, expect_no_eviction_and_all_gates, fill_node, wait_words,
};
use crate::MINUTE;
use giveway_tests::audit::OPERATOR;
use giveway_tests::cluster::{Denial, PodHandle, Shaped as _};
use giveway_tests::denials::{Rule, WEBHOOK};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_policy_that_rejects_the_removal_of_the_gate_costs_no_eviction,
            a_webhook_that_rejects_the_removal_of_the_gate_costs_no_eviction,
            a_rejection_of_one_members_gate_costs_at_most_the_victims_of_one_plan,
            a_rejected_nomination_costs_no_eviction;
        own:
            a_webhook_without_an_answer_that_is_ignored_only_delays_the_gang;
        release_shared:
            a_single_rejection_delays_the_gang_until_the_next_rehearsal;
    ]
}

/// Creates a policy that denies updates of pods by the operator, and waits until it is in force.
async fn deny_updates(world: &World, pod: &PodHandle) {
    // The second user shows when the policy is in force.
    let unless = format!("!(request.userInfo.username in ['{OPERATOR}', 'probe'])");
    let denial = Denial { name: "no-changes", operation: "UPDATE", of: ("", "pods"), unless: &unless, message: WORDS };
    world.apply(&denial.manifest()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(world.client_of("probe").await);
    let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
    wait_for("the policy is in force", MINUTE, async || {
        match pods.patch(&pod.name, &dry_run, &Patch::Merge(json!({}))).await {
            Err(kube::Error::Api(status)) if status.message.contains(WORDS) => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(_) => Err("an update is admitted".to_owned()),
        }
    })
    .await;
}

/// Before, the victims were evicted in rounds without end: the policy's words were in the log alone.
async fn a_policy_that_rejects_the_removal_of_the_gate_costs_no_eviction(world: &World) {
    let low = fill_node(world).await;
    deny_updates(world, &low[0]).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    wait_words(&gang, &["ValidatingAdmissionPolicy 'no-changes'", WORDS]).await;
    expect_no_eviction_and_all_gates(world, &gang).await;
    let kinds = "validatingadmissionpolicybindings,validatingadmissionpolicies";
    world.kubectl(&["delete", kinds, "no-changes"]).await.unwrap();
    // The rehearsal is repeated after 10 s, and then after twice that time.
    gang.wait_bound(MINUTE).await;
    expect_evicted(world, 2, "low").await;
    world.check_promises().await;
}

async fn a_webhook_that_rejects_the_removal_of_the_gate_costs_no_eviction(world: &World) {
    fill_node(world).await;
    let denial = world.deny(Rule::pod_updates().named("train").saying(500, WORDS)).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    wait_words(&gang, &[WEBHOOK, WORDS]).await;
    // The rehearsal alone is repeated.
    wait_for("the rehearsal is repeated", MINUTE, async || {
        let denied = denial.denied();
        let rehearsals = denied.iter().filter(|request| request.name == denied[0].name && request.dry_run).count();
        if rehearsals > 1 { Ok(()) } else { Err(format!("{denied:?}")) }
    })
    .await;
    expect_no_eviction_and_all_gates(world, &gang).await;
    assert!(denial.denied().iter().all(|request| request.dry_run), "{:?}", denial.denied());
    denial.end().await;
    gang.wait_bound(MINUTE).await;
    expect_evicted(world, 2, "low").await;
    world.check_promises().await;
}

/// One member of each template is rehearsed, so a rejection of another one may be found only after the evictions. Then no further pod is
/// evicted, and the gang is bound when the rejection ends.
async fn a_rejection_of_one_members_gate_costs_at_most_the_victims_of_one_plan(world: &World) {
    fill_node(world).await;
    let denial = world.deny(Rule::pod_updates().named("train-1").saying(403, WORDS)).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    wait_words(&gang, &[WEBHOOK, WORDS]).await;
    wait_for("the removal of the gate is rejected twice", MINUTE, async || {
        let denied = denial.denied();
        if denied.len() > 1 { Ok(()) } else { Err(format!("{denied:?}")) }
    })
    .await;
    assert!(world.audit().await.evicted().len() <= 2);
    denial.end().await;
    gang.wait_bound(MINUTE).await;
    expect_evicted(world, 2, "low").await;
    world.check_promises().await;
}

async fn a_rejected_nomination_costs_no_eviction(world: &World) {
    evicts_nothing_until_it_ends(world, Rule::pod_statuses().named("train")).await;
}

/// The API server waits 10 s for the webhook, at the rehearsal and at the removal of the gate, and then admits the request. Before, the
/// operator waited exactly as long, so that no call was answered. The Lease lasts as long as by default; no call outlives it.
async fn a_webhook_without_an_answer_that_is_ignored_only_delays_the_gang() {
    let world = World::builder().operator_flag("--lease-duration-seconds=15").start().await;
    fill_node(&world).await;
    let hanging = Rule::pod_updates().named("train").late(Duration::from_secs(60), 10).ignored();
    let webhook = world.deny(hanging).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    gang.wait_bound(2 * MINUTE).await;
    assert!(webhook.denied().iter().any(|request| !request.dry_run), "{:?}", webhook.denied());
    expect_evicted(&world, 2, "low").await;
    world.check_promises().await;
}

async fn a_single_rejection_delays_the_gang_until_the_next_rehearsal(world: &World) {
    fill_node(world).await;
    let denial = world.deny(Rule::pod_updates().named("train").saying(503, WORDS).times(1)).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    denial.wait_denied(MINUTE).await;
    expect_no_eviction_and_all_gates(world, &gang).await;
    gang.wait_bound(MINUTE).await;
    expect_evicted(world, 2, "low").await;
    world.check_promises().await;
}

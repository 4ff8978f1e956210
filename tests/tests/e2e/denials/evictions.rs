//! Evictions are rejected by webhooks with every code, throttled, or refused by a budget in an unusual way: a webhook's denial is definite
//! whatever its code, everything else is retried.

use super::{
    WORDS, create_classes, expect_evicted, expect_no_eviction_and_all_gates, fill_node, fill_nodes_with_precious,
    wait_reported, wait_words,
};
use crate::MINUTE;
use giveway_crds::keys::ANNOTATION_THRESHOLD;
use giveway_crds::plan::PlanState;
use giveway_tests::audit::OPERATOR;
use giveway_tests::cluster::Shaped as _;
use giveway_tests::denials::{Rule, WEBHOOK};
use giveway_tests::proxy::{Call, Fault};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_victim_is_excluded_if_a_webhook_denies_its_eviction_with_500,
            a_denial_that_begins_after_the_rehearsal_leaves_the_victims_out,
            evictions_that_a_webhook_denies_for_ever_evict_no_pod,
            a_webhook_that_admits_only_the_first_eviction_ends_the_evictions;
        release_shared:
            an_unreachable_webhook_of_evictions_evicts_no_pod_until_it_is_removed;
        own:
            denials_with_429_and_503_are_definite_and_throttling_is_waited_for,
            a_budget_that_counts_too_many_evicted_pods_refuses_and_does_not_ban;
    ]
}

/// Strimzi's drain cleaner denies evictions with the code 500, because it restarts the pod itself.
async fn a_victim_is_excluded_if_a_webhook_denies_its_eviction_with_500(world: &World) {
    let precious = fill_nodes_with_precious(world, 1).await;
    let denial = world.deny(Rule::evictions().named("precious").saying(500, WORDS)).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    expect_evicted(world, 2, "other").await;
    wait_reported(world, &precious[0], &[WEBHOOK, WORDS]).await;
    // The victim is left out for 10 minutes: the next preemptor does not ask again.
    let denied = denial.denied();
    let next = world.gang("next", 1).priority("high").create().await;
    next.wait_bound(MINUTE).await;
    assert_eq!(denial.denied(), denied);
    expect_evicted(world, 3, "other").await;
    assert!(precious[0].get().await.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()));
    world.check_promises().await;
}

async fn a_denial_that_begins_after_the_rehearsal_leaves_the_victims_out(world: &World) {
    let precious = fill_nodes_with_precious(world, 2).await;
    let denial = world.deny(Rule::evictions().named("precious").no_dry_runs().saying(403, WORDS)).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    expect_evicted(world, 2, "other").await;
    let denied = denial.denied();
    assert!(!denied.is_empty() && denied.len() <= 2, "{denied:?}");
    let first = precious.iter().find(|pod| pod.name == denied[0].name).unwrap();
    wait_reported(world, first, &[WEBHOOK, WORDS]).await;
    world.check_promises().await;
}

async fn evictions_that_a_webhook_denies_for_ever_evict_no_pod(world: &World) {
    fill_node(world).await;
    let denial = world.deny(Rule::evictions().saying(503, WORDS)).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    wait_words(&gang, &[WEBHOOK, WORDS]).await;
    expect_no_eviction_and_all_gates(world, &gang).await;
    assert!(denial.denied().iter().all(|request| request.dry_run), "{:?}", denial.denied());
    // The rule stays in force: the cluster is at rest, and the members' gates have a reported reason.
    world.check_promises().await;
}

/// A policy may count: no dry run shows how many evictions it admits.
async fn a_webhook_that_admits_only_the_first_eviction_ends_the_evictions(world: &World) {
    fill_nodes_with_precious(world, 2).await;
    let denial = world.deny(Rule::evictions().no_dry_runs().after(1).saying(403, WORDS)).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    wait_for("the evictions of the three other pods are denied", MINUTE, async || {
        let names: BTreeSet<String> = denial.denied().into_iter().map(|request| request.name).collect();
        if names.len() == 3 { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
    wait_words(&gang, &[WEBHOOK, WORDS]).await;
    assert_eq!(world.audit().await.evicted().len(), 1);
    assert_eq!(denial.denied().len(), 3, "each pod is left out after the first denial");
    denial.end().await;
    // The pods are left out for 10 minutes, or until the Preemptions are deleted.
    world.kubectl(&["delete", "preemptions", "--all"]).await.unwrap();
    gang.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 2);
    world.check_promises().await;
}

async fn an_unreachable_webhook_of_evictions_evicts_no_pod_until_it_is_removed(world: &World) {
    fill_node(world).await;
    let denial = world.deny(Rule::evictions().unreachable()).await;
    let gang = world.gang("train", 2).priority("high").create().await;
    wait_for("two evictions fail", MINUTE, async || {
        let lines = world.audit_lines().await;
        let failed = lines.iter().filter(|line| {
            line.user.username == OPERATOR
                && line.object_ref.subresource == "eviction"
                && line.response_status.message.contains("failed calling webhook")
        });
        let failed = failed.count();
        if failed > 1 { Ok(()) } else { Err(format!("{failed} failed")) }
    })
    .await;
    expect_no_eviction_and_all_gates(world, &gang).await;
    denial.end().await;
    gang.wait_bound(MINUTE).await;
    expect_evicted(world, 2, "low").await;
    world.check_promises().await;
}

/// KubeVirt denies evictions with the code 429. Before, the plan stayed `Evicting` for ever and kept its reservation.
async fn denials_with_429_and_503_are_definite_and_throttling_is_waited_for() {
    let world = World::builder().proxy().start().await;
    let precious = fill_nodes_with_precious(&world, 2).await;
    let busy = world.deny(Rule::evictions().named("precious-000").saying(429, WORDS)).await;
    let down = world.deny(Rule::evictions().named("precious-001").saying(503, WORDS)).await;
    // The first dry run and the first two evictions of other pods are throttled.
    let (mut dry_runs, mut evictions) = (1, 2);
    world.proxy().play(Box::new(move |call: &Call| {
        if call.method != "POST" || !call.path.contains("/pods/other-") || !call.path.ends_with("/eviction") {
            return Fault::None;
        }
        let left = if call.dry_run { &mut dry_runs } else { &mut evictions };
        if *left == 0 {
            return Fault::None;
        }
        *left -= 1;
        Fault::Answer(429)
    }));
    let gang = world.gang("train", 2).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    gang.wait_plan(PlanState::Completed, MINUTE).await;
    expect_evicted(&world, 2, "other").await;
    // Two evictions were throttled and carried out later. A dry run was throttled too if there was one.
    let throttled = world.proxy().tally().get("429").copied().unwrap_or(0);
    assert!((2..=3).contains(&throttled), "{throttled}");
    for (denial, victim) in [(&busy, &precious[0]), (&down, &precious[1])] {
        assert!(denial.denied().iter().all(|request| request.dry_run), "{:?}", denial.denied());
        assert!(victim.get().await.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()));
        if !denial.denied().is_empty() {
            wait_reported(&world, victim, &[WEBHOOK, WORDS]).await;
        }
    }
    assert!(!busy.denied().is_empty() || !down.denied().is_empty());
    world.check_promises().await;
}

/// The API server answers 403 if a budget counts more than 2000 pods that were evicted and have not been seen to terminate. That is a
/// state of the budget which passes, and no policy.
async fn a_budget_that_counts_too_many_evicted_pods_refuses_and_does_not_ban() {
    let mut world = World::start().await;
    create_classes(&world).await;
    world.class("guarded", 10).annotation(ANNOTATION_THRESHOLD, "5000").create().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    let mut pods = Vec::new();
    for number in 0..2 {
        let pod = world.pod(&format!("db-{number}")).priority("guarded").label("app", "db").on(&nodes[0]);
        pods.push(pod.create().await);
    }
    world.budget("db").matching("app", "db").min_available(1).create_allowing(1).await;
    // The disruption controller would correct the status.
    world.plane().process("kube-controller-manager").unwrap().kill();
    let budgets: Api<PodDisruptionBudget> = world.kit().api();
    let evicted = (0..2001).map(|number| (format!("pod-{number}"), "2026-01-01T00:00:00Z"));
    let many = Patch::Merge(json!({"status": {"disruptedPods": evicted.collect::<BTreeMap<_, _>>()}}));
    budgets.patch_status("db", &PatchParams::default(), &many).await.unwrap();
    let gang = world.gang("train", 1).priority("high").create().await;
    wait_for("an eviction is refused", MINUTE, async || {
        let lines = world.audit_lines().await;
        let refused = lines.iter().any(|line| line.response_status.message.contains("DisruptedPods map too big"));
        if refused { Ok(()) } else { Err("no eviction is refused".to_owned()) }
    })
    .await;
    expect_no_eviction_and_all_gates(&world, &gang).await;
    let none = Patch::Merge(json!({"status": {"disruptedPods": null}}));
    budgets.patch_status("db", &PatchParams::default(), &none).await.unwrap();
    gang.wait_bound(MINUTE).await;
    expect_evicted(&world, 1, "db").await;
    world.check_promises().await;
}

//! Circuit breakers: a preemptor whose evictions lead to no binding evicts no further pods for a while. The condition, the metric and
//! `kubectl giveway check` say so, and deleting the Preemptions of its plans closes the breaker.

use crate::cli::giveway;
use crate::{INITIALLY_SCHEDULED, MINUTE};
use giveway_tests::cluster::{PodHandle, Shaped as _};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            after_three_plans_without_effect_no_further_pod_is_evicted_for_a_preemptor;
    ]
}

/// Waits until this number of pods were evicted.
async fn wait_evicted(world: &World, number: usize) {
    wait_for(&format!("{number} pods were evicted"), MINUTE, async || {
        let evicted = world.audit().await.evicted_names();
        if evicted.len() == number { Ok(()) } else { Err(format!("{evicted:?}")) }
    })
    .await;
}

/// Waits until the metric shows this number of open breakers of preemptors.
async fn wait_open(world: &World, number: usize) {
    let line = format!("giveway_operator_breakers_open{{kind=\"preemptor\"}} {number}");
    wait_for(&line, MINUTE, async || {
        let metrics = world.operator_metrics().await;
        if metrics.lines().any(|there| there == line) { Ok(()) } else { Err(format!("it is not in:\n{metrics}")) }
    })
    .await;
}

/// Lets three plans for the gang that runs only on the node of this pod evict a pod each: while the victim terminates, another pod is bound to
/// the node without kube-scheduler and takes the capacity. Returns the victims, which still terminate.
async fn evict_three_without_effect(world: &World, first: PodHandle, node: &str) -> Vec<PodHandle> {
    let mut pods = vec![first];
    for number in 1..=3 {
        wait_evicted(world, number).await;
        let next = world.pod(&format!("low-{number}")).priority("low").on(node);
        // The last one is evicted when the breaker has closed, and terminates at once.
        let next = if number < 3 { next.grace_seconds(600) } else { next };
        // It may be evicted before it runs.
        pods.push(next.try_create().await.unwrap());
    }
    pods.truncate(3);
    pods
}

async fn after_three_plans_without_effect_no_further_pod_is_evicted_for_a_preemptor(world: &mut World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let taken = world.nodes(1).cpus(1).prefix("taken").label("pool", "taken").create().await;
    let others = world.nodes(1).cpus(1).prefix("other").label("pool", "other").create().await;
    let low = world.pod("low-0").priority("low").on(&taken[0]).grace_seconds(600).create().await;
    world.pod("other-0").priority("low").on(&others[0]).create().await;
    let gang = world.gang("train", 1).priority("high").node_selector("pool", "taken").create().await;
    let victims = evict_three_without_effect(world, low, &taken[0]).await;

    let words = gang.wait_condition(INITIALLY_SCHEDULED, "False", "CircuitBreakerOpen", MINUTE).await;
    let begin =
        "3 plans in a row evicted pods for this preemptor, and it was not bound. No pod is evicted for it until ";
    assert!(words.starts_with(begin), "{words}");
    gang.wait_event("CircuitBreakerOpen", MINUTE).await;
    wait_open(world, 1).await;
    let report = giveway(world, &["check", "-o", "json"]).await.json();
    let findings = report["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["check"] == "breakers");
    let finding = finding.unwrap_or_else(|| panic!("no finding names the breaker: {report:#}"));
    let named = "No pod is evicted for 1 preemptor, because several plans in a row evicted pods for it, and it was not bound: podgroup/default/train (3 plans) until ";
    assert!(finding["message"].as_str().unwrap().starts_with(named), "{finding:#}");
    assert_eq!(finding["status"], "WARN", "{finding:#}");
    // Pods are evicted for other preemptors, and by then none was for this one.
    let next = world.gang("next", 1).priority("high").node_selector("pool", "other").create().await;
    next.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names(), ["low-0", "low-1", "low-2", "other-0"]);

    let pods = world.kit().api::<Pod>();
    for victim in &victims {
        pods.delete(&victim.name, &DeleteParams::default().grace_period(0)).await.unwrap();
        victim.wait_removed(MINUTE).await;
    }
    world.kubectl(&["delete", "preemptions", "--all"]).await.unwrap();
    gang.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names(), ["low-0", "low-1", "low-2", "low-3", "other-0"]);
    wait_open(world, 0).await;
    world.check_promises().await;
}

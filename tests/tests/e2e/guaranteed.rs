//! Guaranteed budgets (KEP-3280) on both sides of the threshold, and what preemptor, victim and budget tell of it.

use crate::{MINUTE, SCHEDULED, told};
use giveway_crds::keys::ANNOTATION_THRESHOLD;
use giveway_tests::audit::How;
use giveway_tests::cluster::{PodHandle, Shaped, wait_for_event};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::Pod;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            below_the_threshold_the_budget_holds_and_everybody_says_why,
            from_the_threshold_on_the_budget_may_be_violated,
            two_budgets_on_one_pod_count_as_a_refusal_below_the_threshold_and_as_none_above,
            a_refused_victim_is_left_out_and_another_one_goes;
    ]
}

/// Pods `db-0` and so on, guarded up to priority 5000, on one node that they fill.
async fn guarded(world: &World, count: usize) -> Vec<PodHandle> {
    world.class("guarded", 10).annotation(ANNOTATION_THRESHOLD, "5000").create().await;
    world.class("high", 1000).managed().create().await;
    world.class("top", 5000).managed().create().await;
    let nodes = world.nodes(1).cpus(u32::try_from(count).unwrap()).create().await;
    let mut pods = Vec::new();
    for index in 0..count {
        let pod = world.pod(&format!("db-{index}")).priority("guarded").label("app", "db").on(&nodes[0]);
        pods.push(pod.create().await);
    }
    pods
}

async fn below_the_threshold_the_budget_holds_and_everybody_says_why(world: &World) {
    guarded(world, 4).await;
    world.budget("db").matching("app", "db").min_available(3).create_allowing(1).await;
    let words =
        "2 of 3 places would need pods of budget default/db, which allows 1 more disruption to preemptors below 5000.";
    let train = world.gang("train", 3).priority("high").create().await;
    told(&train, SCHEDULED, "False UnschedulableGuaranteedBudget", words).await;
    assert!(train.wait_event("UnschedulableGuaranteedBudget", MINUTE).await.contains(words));
    let said = wait_for_event(&world.kit(), "PodDisruptionBudget", "db", "GuaranteedBudget", MINUTE).await;
    assert_eq!(said, format!("Pod group default/train of priority 1000 waits: {words}"));
    let pod = world.pod("large").priority("high").cpu(2).create().await;
    let said = pod.wait_event("UnschedulableGuaranteedBudget", MINUTE).await;
    let one =
        "1 of 1 places would need pods of budget default/db, which allows 1 more disruption to preemptors below 5000.";
    assert!(said.ends_with(one), "{said}");
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    // What the budget allows may go.
    let small = world.pod("small").priority("high").create().await;
    small.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 1);
    assert!(world.audit().await.evicted().iter().all(|removal| removal.how == How::Evict));
    world.check_promises().await;
}

async fn from_the_threshold_on_the_budget_may_be_violated(world: &World) {
    guarded(world, 4).await;
    world.budget("db").matching("app", "db").min_available(3).create_allowing(1).await;
    let gang = world.gang("top", 3).priority("top").create().await;
    gang.wait_bound(MINUTE).await;
    let history = world.audit().await;
    assert_eq!(history.evicted().len(), 3);
    assert!(history.evicted().iter().any(|removal| removal.how == How::Delete), "two were refused, and deleted then");
    assert!(history.evicted().iter().all(|removal| removal.precondition.as_deref() == Some(removal.uid.as_str())));
    world.check_promises().await;
}

async fn two_budgets_on_one_pod_count_as_a_refusal_below_the_threshold_and_as_none_above(world: &World) {
    let db = guarded(world, 1).await;
    world.budget("one").matching("app", "db").create_allowing(1).await;
    world.budget("two").matching("app", "db").create_allowing(1).await;
    let refusal = "The eviction of pod default/db-0 was refused: This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    let pod = world.pod("below").priority("high").create().await;
    assert_eq!(db[0].wait_event("EvictionRefused", MINUTE).await, refusal);
    for budget in ["one", "two"] {
        let said = wait_for_event(&world.kit(), "PodDisruptionBudget", budget, "EvictionRefused", MINUTE).await;
        assert_eq!(said, refusal);
    }
    let said = pod.wait_event("UnschedulableGuaranteedBudget", MINUTE).await;
    assert!(said.ends_with(refusal), "{said}");
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.pod("above").priority("top").create().await.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names(), ["db-0"]);
    world.check_promises().await;
}

async fn a_refused_victim_is_left_out_and_another_one_goes(world: &World) {
    let db = guarded(world, 2).await;
    // The one that runs for the shorter time is chosen first, in whichever second each was started. It is under two budgets, which
    // the eviction API cannot handle; the other one is under one.
    let started = |pod: Option<Pod>| pod.and_then(|pod| pod.status?.start_time).map(|time| time.0);
    let [zero, one] = [started(db[0].get().await), started(db[1].get().await)];
    assert!(zero.is_some() && one.is_some());
    let (first, other) = if one > zero { (&db[1], &db[0]) } else { (&db[0], &db[1]) };
    world.kubectl(&["label", "pod", &first.name, "also=this"]).await.unwrap();
    world.budget("all").matching("app", "db").min_available(1).create_allowing(1).await;
    world.budget("also").matching("also", "this").create_allowing(1).await;
    let pod = world.pod("below").priority("high").create().await;
    pod.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names(), [other.name.as_str()]);
    first.wait_event("EvictionRefused", MINUTE).await;
    assert!(first.get().await.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()));
    world.check_promises().await;
}

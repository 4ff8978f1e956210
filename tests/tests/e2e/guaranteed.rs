//! Guaranteed budgets (KEP-3280) and preemptors below and at the threshold, with the events on preemptor, victim and budget.

use crate::{INITIALLY_SCHEDULED, MINUTE, expect_condition};
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
            below_the_threshold_the_budget_holds_and_its_events_say_why,
            a_preemptor_that_reaches_the_threshold_may_violate_the_budget,
            a_pod_under_two_budgets_is_evicted_only_by_preemptors_that_reach_the_threshold,
            another_victim_is_evicted_if_several_budgets_select_the_first;
    ]
}

/// Fills one node with pods `db-0` and so on whose class has threshold 5000.
async fn create_guarded_pods(world: &World, count: usize) -> Vec<PodHandle> {
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

async fn below_the_threshold_the_budget_holds_and_its_events_say_why(world: &World) {
    create_guarded_pods(world, 4).await;
    world.budget("db").matching("app", "db").min_available(3).create_allowing(1).await;
    let words = "2 of 3 pods would fit only after evictions of pods of budget default/db, which allows 1 more disruption to preemptors below 5000.";
    let train = world.gang("train", 3).priority("high").create().await;
    expect_condition(&train, INITIALLY_SCHEDULED, "False UnschedulableGuaranteedBudget", words).await;
    assert!(train.wait_event("UnschedulableGuaranteedBudget", MINUTE).await.contains(words));
    let said = wait_for_event(&world.kit(), "PodDisruptionBudget", "db", "GuaranteedBudget", MINUTE).await;
    assert_eq!(said, format!("Pod group default/train of priority 1000 is pending: {words}"));
    let pod = world.pod("large").priority("high").cpu(2).create().await;
    let said = pod.wait_event("UnschedulableGuaranteedBudget", MINUTE).await;
    let one = "1 of 1 pod would fit only after evictions of pods of budget default/db, which allows 1 more disruption to preemptors below 5000.";
    assert!(said.ends_with(one), "{said}");
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    // A preemptor that needs no more than the allowance is bound.
    let small = world.pod("small").priority("high").create().await;
    small.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 1);
    assert!(world.audit().await.evicted().iter().all(|removal| removal.how == How::Evict));
    world.check_promises().await;
}

async fn a_preemptor_that_reaches_the_threshold_may_violate_the_budget(world: &World) {
    create_guarded_pods(world, 4).await;
    world.budget("db").matching("app", "db").min_available(3).create_allowing(1).await;
    let gang = world.gang("top", 3).priority("top").create().await;
    gang.wait_bound(MINUTE).await;
    let history = world.audit().await;
    assert_eq!(history.evicted().len(), 3);
    assert!(
        history.evicted().iter().any(|removal| removal.how == How::Delete),
        "two evictions were refused, and the pods were deleted"
    );
    assert!(history.evicted().iter().all(|removal| removal.precondition.as_deref() == Some(removal.uid.as_str())));
    world.check_promises().await;
}

async fn a_pod_under_two_budgets_is_evicted_only_by_preemptors_that_reach_the_threshold(world: &World) {
    create_guarded_pods(world, 1).await;
    world.budget("one").matching("app", "db").create_allowing(1).await;
    world.budget("two").matching("app", "db").create_allowing(1).await;
    let pod = world.pod("below").priority("high").create().await;
    let said = pod.wait_event("Unschedulable", MINUTE).await;
    let words = "several budgets select it or a pod of its group, which the Eviction API rejects";
    assert!(said.contains(words), "{said}");
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.pod("above").priority("top").create().await.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names(), ["db-0"]);
    world.check_promises().await;
}

async fn another_victim_is_evicted_if_several_budgets_select_the_first(world: &World) {
    let db = create_guarded_pods(world, 2).await;
    // The pod that started later is the first choice. Two budgets select it, so that the Eviction API would reject its eviction; one
    // budget selects the other pod.
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
    let tried = first.events().await.into_iter().any(|event| event.reason == "EvictionRefused");
    assert!(!tried, "Giveway knows without asking that the Eviction API rejects it");
    assert!(first.get().await.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()));
    world.check_promises().await;
}

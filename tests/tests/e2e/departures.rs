//! kube-scheduler preempts one pod of a group in mode `PodGroup`: Giveway evicts the other pods, and a condition names the cause.

use crate::backfill::wait_next_second;
use crate::{DISRUPTION_TARGET, INITIALLY_SCHEDULED, MINUTE, expect_condition};
use giveway_crds::keys::ANNOTATION_THRESHOLD;
use giveway_crds::plan::{Cause, PlanState, StoredPlan};
use giveway_crds::pod_group::PreemptorReference;
use giveway_tests::audit::SCHEDULER;
use giveway_tests::cluster::{Group, Shaped, stored_plans, wait_for_event};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            the_remaining_pods_of_the_group_are_evicted_and_its_condition_names_the_cause,
            pods_removed_by_users_and_drains_do_not_disrupt_the_rest_of_the_group;
        own:
            after_a_preemption_while_no_operator_ran_the_remaining_pods_of_the_group_are_evicted,
            a_new_leader_evicts_the_remaining_pods_when_the_budget_that_refused_allows_it;
        release:
            an_operator_restarted_before_or_during_a_disruption_completes_it,
            a_guaranteed_budget_is_not_violated_and_has_an_event_about_the_refused_eviction;
    ]
}

/// Creates a managed class, for which Giveway preempts, and an unmanaged one, for which kube-scheduler preempts.
async fn create_classes(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("stock", 1000).create().await;
}

/// Waits until the operator has observed these groups as scheduled. Pods removed before that are unknown to it.
async fn wait_observed(groups: &[Group]) {
    for group in groups {
        group.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    }
}

/// Returns the name of the only pod that kube-scheduler preempted.
async fn preempted_by_scheduler(world: &World) -> String {
    let history = world.audit().await;
    let names: Vec<String> = history.removed_by(SCHEDULER).iter().map(|r| r.pod.1.clone()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    names[0].clone()
}

async fn the_remaining_pods_of_the_group_are_evicted_and_its_condition_names_the_cause(world: &World) {
    create_classes(world).await;
    let nodes = world.nodes(2).cpus(4).create().await;
    let low = world.fill(&nodes).priority("low").whole().groups_of(4).await;
    wait_observed(&low).await;
    let pod = world.pod("stock").priority("stock").create().await;
    pod.wait_bound(MINUTE).await;
    let first = preempted_by_scheduler(world).await;
    let (disrupted, remaining) = if first.starts_with(&low[0].name) { (&low[0], &low[1]) } else { (&low[1], &low[0]) };
    disrupted.wait_removed(MINUTE).await;
    let words = format!(
        "Preempted by kube-scheduler: it preempted pod {first}, so the 3 other pods of the PodGroup are evicted."
    );
    assert_eq!(disrupted.wait_condition(DISRUPTION_TARGET, "True", "PreemptionByScheduler", MINUTE).await, words);
    let by = PreemptorReference::scheduler("kube-scheduler");
    assert_eq!(disrupted.get().await.status.unwrap().preempted_by, Some(by));
    assert_eq!(disrupted.wait_event("Preempted", MINUTE).await, words);
    let evicted = world.audit().await.evicted_names();
    assert_eq!(evicted.len(), 3, "{evicted:?}");
    remaining.wait_running(MINUTE).await;
    world.check_promises().await;
}

async fn after_a_preemption_while_no_operator_ran_the_remaining_pods_of_the_group_are_evicted() {
    let mut world = World::start().await;
    create_classes(&world).await;
    let nodes = world.nodes(1).cpus(4).create().await;
    let low = world.fill(&nodes).priority("low").whole().groups_of(4).await;
    wait_observed(&low).await;
    // A pod created in the second of the preemption could be a replacement pod: an operator that did not observe it cannot tell.
    for pod in &low[0].pods {
        wait_next_second(pod).await;
    }
    world.operator().kill();
    world.pod("stock").priority("stock").create().await.wait_bound(MINUTE).await;
    let first = preempted_by_scheduler(&world).await;
    let marks = low[0].get().await.status.unwrap().preempted_pods;
    assert_eq!(marks.values().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), [first.as_str()]);
    world.operator().start().await;
    low[0].wait_removed(MINUTE).await;
    let words = format!(
        "Preempted by kube-scheduler: it preempted pod {first}, so the 3 other pods of the PodGroup are evicted."
    );
    assert_eq!(low[0].wait_event("Preempted", MINUTE).await, words);
    assert_eq!(world.audit().await.evicted().len(), 3);
    wait_for("the mark is removed", MINUTE, async || {
        let marks = low[0].get().await.status.unwrap().preempted_pods;
        if marks.is_empty() { Ok(()) } else { Err(format!("{marks:?}")) }
    })
    .await;
    world.check_promises().await;
}

/// Returns the only stored departure.
async fn departure(world: &World) -> StoredPlan {
    let mut plans = stored_plans(&world.client()).await.unwrap();
    assert_eq!(plans.len(), 1, "{plans:?}");
    let plan = plans.remove(0);
    assert_eq!(plan.cause, Cause::MemberPreempted, "{plan:?}");
    plan
}

async fn a_new_leader_evicts_the_remaining_pods_when_the_budget_that_refused_allows_it() {
    let mut world = World::start().await;
    create_classes(&world).await;
    let nodes = world.nodes(1).cpus(3).create().await;
    let low = world.gang("db", 3).whole().priority("low").label("app", "db").on(&nodes).create().await;
    wait_observed(std::slice::from_ref(&low)).await;
    // kube-scheduler uses up what the budget allows. A departure violates no budget, whether or not it is guaranteed.
    world.budget("db").matching("app", "db").min_available(2).create_allowing(1).await;
    world.pod("stock").priority("stock").create().await.wait_bound(MINUTE).await;
    preempted_by_scheduler(&world).await;
    wait_for_event(&world.kit(), "PodDisruptionBudget", "db", "EvictionRefused", MINUTE).await;
    let first = departure(&world).await;
    world.operator().kill();
    world.operator().start().await;
    wait_for("the next leader has stored that it continues the departure", MINUTE, async || {
        let now = departure(&world).await;
        if now.term != first.term && now.state == PlanState::Evicting { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new(), "the budget allows no eviction");
    world.kubectl(&["delete", "pdb", "db"]).await.unwrap();
    low.wait_removed(MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 2, "each remaining pod is evicted once");
    let message = wait_for("the departure is completed", MINUTE, async || {
        let now = departure(&world).await;
        if now.state == PlanState::Completed { Ok(now.message) } else { Err(format!("{now:?}")) }
    })
    .await;
    assert_eq!(message, "The 2 pods that this Preemption evicts have terminated.");
    world.check_promises().await;
}

async fn an_operator_restarted_before_or_during_a_disruption_completes_it() {
    let mut world = World::builder().operator_flag("--evictions-per-second=1").start().await;
    create_classes(&world).await;
    let nodes = world.nodes(1).cpus(6).create().await;
    let low = world.fill(&nodes).priority("low").whole().grace_seconds(20).groups_of(6).await;
    // A pod created in the second of the preemption could be a replacement pod: an operator that did not observe it cannot tell.
    for pod in &low[0].pods {
        wait_next_second(pod).await;
    }
    world.operator().kill();
    world.pod("stock").priority("stock").create().await;
    wait_for("kube-scheduler preempts a pod", MINUTE, async || {
        let taken = world.audit().await.removed_by(SCHEDULER).len();
        if taken == 1 { Ok(()) } else { Err(format!("{taken} preempted")) }
    })
    .await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.operator().start().await;
    wait_for("some but not all of the remaining pods are evicted", MINUTE, async || {
        let evicted = world.audit().await.evicted().len();
        if (1..5).contains(&evicted) { Ok(()) } else { Err(format!("{evicted} of 5")) }
    })
    .await;
    world.operator().kill();
    assert!(world.audit().await.evicted().len() < 5, "killed before the last eviction");
    let first = preempted_by_scheduler(&world).await;
    // The preempted pod is removed, so a new leader learns of the disruption only from the stored Preemption.
    world.kubectl(&["delete", "pod", &first, "--grace-period=0", "--force"]).await.unwrap();
    world.operator().start().await;
    low[0].wait_removed(MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 5, "each pod is evicted once");
    world.check_promises().await;
}

async fn pods_removed_by_users_and_drains_do_not_disrupt_the_rest_of_the_group(world: &World) {
    create_classes(world).await;
    let nodes = world.nodes(2).cpus(3).create().await;
    let low = world.fill(&nodes).priority("low").whole().groups_of(3).await;
    // An operator that did not observe the complete group would report missing pods.
    for group in &low {
        group.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    }
    low[0].pods[0].delete().await;
    low[0].pods[0].wait_removed(MINUTE).await;
    let node = low[1].pods[0].get().await.unwrap().spec.unwrap().node_name.unwrap();
    world.kubectl(&["label", "pod", &low[1].pods[0].name, "drain=me"]).await.unwrap();
    world.kubectl(&["drain", &node, "--force", "--pod-selector=drain=me", "--timeout=60s"]).await.unwrap();
    low[1].pods[0].wait_removed(MINUTE).await;
    // When this gang is scheduled, the operator has processed the deletions above.
    world.nodes(1).cpus(1).prefix("more").create().await;
    let gang = world.gang("after", 1).create().await;
    gang.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    for group in &low {
        expect_condition(group, INITIALLY_SCHEDULED, "True Scheduled", "2 pods have a node, 3 needed.").await;
    }
    world.check_promises().await;
}

async fn a_guaranteed_budget_is_not_violated_and_has_an_event_about_the_refused_eviction() {
    // With the guard, kube-scheduler could not preempt the pod.
    let world = World::builder().helm_value("guard.enabled=false").webhook_flag("--guard=false").start().await;
    world.class("stock", 1000).create().await;
    world.class("guarded", 10).annotation(ANNOTATION_THRESHOLD, "5000").create().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    let low = world.gang("db", 2).whole().priority("guarded").label("app", "db").on(&nodes).create().await;
    wait_observed(std::slice::from_ref(&low)).await;
    world.budget("db").matching("app", "db").min_available(1).create_allowing(1).await;
    world.pod("stock").priority("stock").create().await.wait_bound(MINUTE).await;
    let first = preempted_by_scheduler(&world).await;
    let left = low.pods.iter().find(|pod| pod.name != first).unwrap();
    let said = wait_for_event(&world.kit(), "PodDisruptionBudget", "db", "EvictionRefused", MINUTE).await;
    assert_eq!(
        said,
        format!(
            "The eviction of pod default/{} was refused: The disruption budget db needs 1 healthy pods and has 1 currently",
            left.name
        )
    );
    assert!(
        left.get().await.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()),
        "the budget requires one healthy pod"
    );
    world.kubectl(&["delete", "pdb", "db"]).await.unwrap();
    low.wait_removed(MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 1);
    world.check_promises().await;
}

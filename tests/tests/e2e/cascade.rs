//! kube-scheduler preempts one pod of a group that gives way whole: the rest goes too, and the group says who began.

use crate::backfill::wait_next_second;
use crate::{DISRUPTED, MINUTE, SCHEDULED, told};
use giveway_crds::keys::ANNOTATION_THRESHOLD;
use giveway_tests::audit::SCHEDULER;
use giveway_tests::cluster::{Group, Shaped};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            the_rest_of_the_group_goes_and_its_condition_says_who_began,
            users_and_drains_take_single_pods_and_the_rest_stays;
        release:
            an_operator_that_was_away_or_is_killed_half_way_finishes_it,
            a_guarded_budget_is_not_forced_and_says_what_waits_for_it;
    ]
}

/// A class that Giveway preempts for, and one that kube-scheduler preempts for.
async fn classes(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("stock", 1000).create().await;
}

/// The operator leads and knows these groups: what is gone before that leaves no trace.
async fn known(groups: &[Group]) {
    for group in groups {
        group.wait_condition(SCHEDULED, "True", "Scheduled", MINUTE).await;
    }
}

/// The only pod that kube-scheduler took.
async fn taken(world: &World) -> String {
    let history = world.audit().await;
    let names: Vec<String> = history.removed_by(SCHEDULER).iter().map(|r| r.pod.1.clone()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    names[0].clone()
}

async fn the_rest_of_the_group_goes_and_its_condition_says_who_began(world: &World) {
    classes(world).await;
    let nodes = world.nodes(2).cpus(4).create().await;
    let low = world.fill(&nodes).priority("low").whole().groups_of(4).await;
    known(&low).await;
    let pod = world.pod("stock").priority("stock").create().await;
    pod.wait_bound(MINUTE).await;
    let first = taken(world).await;
    let (gone, stays) = if first.starts_with(&low[0].name) { (&low[0], &low[1]) } else { (&low[1], &low[0]) };
    gone.wait_gone(MINUTE).await;
    let words = format!("Preempted by kube-scheduler, which took pod {first}. The group goes whole: 3 more pods go.");
    assert_eq!(gone.wait_condition(DISRUPTED, "True", "PreemptionByScheduler", MINUTE).await, words);
    assert_eq!(gone.get().await.status.unwrap().preempted_by.as_deref(), Some("kube-scheduler"));
    assert_eq!(gone.wait_event("Preempted", MINUTE).await, words);
    let evicted = world.audit().await.evicted_names();
    assert_eq!(evicted.len(), 3, "{evicted:?}");
    stays.wait_running(MINUTE).await;
    world.check_promises().await;
}

async fn an_operator_that_was_away_or_is_killed_half_way_finishes_it() {
    let mut world = World::builder().operator_flag("--evictions-per-second=1").start().await;
    classes(&world).await;
    let nodes = world.nodes(1).cpus(6).create().await;
    let low = world.fill(&nodes).priority("low").whole().grace_seconds(20).groups_of(6).await;
    // Who was made in the second in which one is taken may have come instead, for an operator that did not see it.
    for pod in &low[0].pods {
        wait_next_second(pod).await;
    }
    world.operator().kill();
    world.pod("stock").priority("stock").create().await;
    wait_for("kube-scheduler takes a pod", MINUTE, async || {
        let taken = world.audit().await.removed_by(SCHEDULER).len();
        if taken == 1 { Ok(()) } else { Err(format!("{taken} taken")) }
    })
    .await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.operator().start().await;
    wait_for("some of the rest are evicted, not all", MINUTE, async || {
        let evicted = world.audit().await.evicted().len();
        if (1..5).contains(&evicted) { Ok(()) } else { Err(format!("{evicted} of 5")) }
    })
    .await;
    world.operator().kill();
    assert!(world.audit().await.evicted().len() < 5, "killed half way");
    let first = taken(&world).await;
    // What would tell a new leader of the first pod is removed: only the group's condition is left.
    world.kubectl(&["delete", "pod", &first, "--grace-period=0", "--force"]).await.unwrap();
    world.operator().start().await;
    low[0].wait_gone(MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 5, "each once");
    world.check_promises().await;
}

async fn users_and_drains_take_single_pods_and_the_rest_stays(world: &World) {
    classes(world).await;
    let nodes = world.nodes(2).cpus(3).create().await;
    let low = world.fill(&nodes).priority("low").whole().groups_of(3).await;
    // An operator that has not seen them whole would say that pods are missing.
    for group in &low {
        group.wait_condition(SCHEDULED, "True", "Scheduled", MINUTE).await;
    }
    low[0].pods[0].delete().await;
    low[0].pods[0].wait_gone(MINUTE).await;
    let node = low[1].pods[0].get().await.unwrap().spec.unwrap().node_name.unwrap();
    world.kubectl(&["label", "pod", &low[1].pods[0].name, "drain=me"]).await.unwrap();
    world.kubectl(&["drain", &node, "--force", "--pod-selector=drain=me", "--timeout=60s"]).await.unwrap();
    low[1].pods[0].wait_gone(MINUTE).await;
    // The operator has looked at it all when it has placed this.
    world.nodes(1).cpus(1).prefix("more").create().await;
    let gang = world.gang("after", 1).create().await;
    gang.wait_condition(SCHEDULED, "True", "Scheduled", MINUTE).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    for group in &low {
        told(group, SCHEDULED, "True Scheduled", "2 pods have a node, 3 needed.").await;
    }
    world.check_promises().await;
}

async fn a_guarded_budget_is_not_forced_and_says_what_waits_for_it() {
    // The guard would have kept the scheduler away.
    let world = World::builder().helm_value("guard.enabled=false").webhook_flag("--guard=false").start().await;
    world.class("stock", 1000).create().await;
    world.class("guarded", 10).annotation(ANNOTATION_THRESHOLD, "5000").create().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    let low = world.gang("db", 2).whole().priority("guarded").label("app", "db").on(&nodes).create().await;
    known(std::slice::from_ref(&low)).await;
    world.budget("db").matching("app", "db").min_available(1).create_allowing(1).await;
    world.pod("stock").priority("stock").create().await.wait_bound(MINUTE).await;
    let first = taken(&world).await;
    let left = low.pods.iter().find(|pod| pod.name != first).unwrap();
    let said =
        giveway_tests::cluster::wait_for_event(&world.kit(), "PodDisruptionBudget", "db", "EvictionRefused", MINUTE)
            .await;
    assert_eq!(
        said,
        format!(
            "The eviction of pod default/{} was refused: The disruption budget db needs 1 healthy pods and has 1 currently",
            left.name
        )
    );
    assert!(left.get().await.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()), "one must stay healthy");
    world.kubectl(&["delete", "pdb", "db"]).await.unwrap();
    low.wait_gone(MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 1);
    world.check_promises().await;
}

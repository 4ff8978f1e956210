//! Preemption for a gang that does not fit: its victims, and the conditions and events on the group and its victims.

use crate::{DISRUPTION_TARGET, INITIALLY_SCHEDULED, MINUTE, PREEMPTING, expect_condition};
use giveway_crds::plan::PlanState;
use giveway_tests::audit::How;
use giveway_tests::cluster::Shaped;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_gang_preempts_no_more_single_pods_than_it_needs,
            a_gang_preempts_whole_groups_and_is_bound_to_the_planned_nodes,
            a_gang_preempts_single_pods_and_whole_groups_and_its_events_count_both,
            kubectl_wait_for_the_condition_scheduled_returns_when_the_gang_is_bound,
            a_single_pod_of_a_managed_class_preempts_a_whole_group,
            members_are_bound_only_after_victims_with_a_grace_period_have_terminated,
            the_priority_of_the_group_counts_and_a_condition_reports_a_mismatch;
    ]
}

async fn create_classes(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
}

async fn a_gang_preempts_no_more_single_pods_than_it_needs(world: &World) {
    create_classes(world).await;
    let nodes = world.nodes(2).cpus(4).create().await;
    let low = world.fill(&nodes).priority("low").singles().await;
    let gang = world.gang("train", 4).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    let plan = gang.wait_plan(PlanState::Completed, MINUTE).await;
    assert_eq!(plan.cost.victim_pods, 4);
    gang.wait_condition(PREEMPTING, "False", "Completed", MINUTE).await;
    gang.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    let history = world.audit().await;
    assert_eq!(history.evicted().len(), 4);
    for removal in history.evicted() {
        assert_eq!(removal.precondition.as_deref(), Some(removal.uid.as_str()), "evicted by UID");
        assert_eq!((removal.how, removal.plan.as_deref()), (How::Evict, Some(plan.id.as_str())));
        let victim = low.iter().find(|pod| pod.uid == removal.uid).unwrap();
        let words = "Preempted by pod group default/train of priority 1000, which needs its capacity; the priority of this pod is 10.";
        assert_eq!(victim.wait_event("Preempted", MINUTE).await, words);
    }
    assert_eq!(history.marks.len(), 0, "each victim is evicted with one call");
    world.check_promises().await;
}

async fn a_gang_preempts_whole_groups_and_is_bound_to_the_planned_nodes(world: &World) {
    create_classes(world).await;
    let nodes = world.nodes(4).cpus(4).create().await;
    let low = world.fill(&nodes).priority("low").whole().groups_of(4).await;
    let gang = world.gang("train", 8).priority("high").create().await;
    let bound = gang.wait_bound(MINUTE).await;
    let plan = gang.wait_plan(PlanState::Completed, MINUTE).await;
    assert_eq!((plan.cost.victim_pods, plan.cost.victim_groups), (8, 2), "{}", plan.message);
    for (pod, node) in gang.pods.iter().zip(&bound) {
        let placement = plan.placements.iter().find(|p| p.pod == pod.name).unwrap();
        assert_eq!(&placement.node, node, "pod {}", pod.name);
    }
    let victims: Vec<&str> = plan.victims.iter().map(|v| v.name.as_str()).collect();
    for group in low.iter().filter(|g| victims.contains(&g.name.as_str())) {
        group.wait_removed(MINUTE).await;
        let message = group.wait_condition(DISRUPTION_TARGET, "True", "PreemptionByScheduler", MINUTE).await;
        assert_eq!(
            message,
            "Preempted by pod group default/train of priority 1000, which needs its capacity; the priority of this group is 10."
        );
        let by = group.get().await.status.unwrap().preempted_by.map(|by| by.to_string());
        assert_eq!(by.as_deref(), Some("podgroup/default/train"));
    }
    assert_eq!(world.audit().await.evicted().len(), 8);
    world.check_promises().await;
}

async fn a_gang_preempts_single_pods_and_whole_groups_and_its_events_count_both(world: &World) {
    create_classes(world).await;
    let nodes = world.nodes(2).cpus(4).create().await;
    world.fill(&nodes[..1]).priority("low").prefix("single").singles().await;
    world.fill(&nodes[1..]).priority("low").prefix("group").whole().groups_of(4).await;
    let gang = world.gang("train", 8).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    let plan = gang.wait_plan(PlanState::Completed, MINUTE).await;
    assert_eq!((plan.cost.victim_pods, plan.cost.victim_groups), (8, 1), "{}", plan.message);
    let message = gang.wait_event("Planned", MINUTE).await;
    assert_eq!(
        message,
        "8 pods, among them 1 whole pod group, of priority 10 or less are evicted for 8 pods of pod group default/train with priority 1000."
    );
    let evicted = world.audit().await.evicted_names();
    assert_eq!(evicted.iter().filter(|n| n.starts_with("single")).count(), 4, "{evicted:?}");
    // Events are written after the calls of the preemption.
    gang.wait_event("Evicting", MINUTE).await;
    gang.wait_event("Completed", MINUTE).await;
    let story = world.kubectl(&["describe", "gpg", "train"]).await.unwrap();
    for part in ["PodGroupInitiallyScheduled", "8 pods have a node, 8 needed.", "Planned", "Evicting", "Completed"] {
        assert!(story.contains(part), "{part} is not in:\n{story}");
    }
    world.check_promises().await;
}

async fn kubectl_wait_for_the_condition_scheduled_returns_when_the_gang_is_bound(world: &World) {
    create_classes(world).await;
    let nodes = world.nodes(1).cpus(4).create().await;
    world.fill(&nodes).priority("low").whole().grace_seconds(3).groups_of(4).await;
    let other = world.gang("other", 4).priority("low").create().await;
    other.wait_condition(INITIALLY_SCHEDULED, "False", "Unschedulable", MINUTE).await;
    let gang = world.gang("train", 4).priority("high").create().await;
    let said = world.kubectl(&["wait", "gpg/train", "--for=condition=Scheduled", "--timeout=60s"]).await.unwrap();
    assert_eq!(said, "podgroup.scheduling.giveway.dev/train condition met\n");
    let members = gang.members().await.unwrap();
    let bound = members.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())).count();
    assert_eq!(bound, 4, "all members were bound before kubectl returned");
    let said = world.kubectl(&["wait", "gpg/other", "--for=condition=Scheduled", "--timeout=1s"]).await.unwrap_err();
    assert!(said.contains("timed out waiting for the condition"), "{said}");
    world.check_promises().await;
}

async fn a_single_pod_of_a_managed_class_preempts_a_whole_group(world: &World) {
    create_classes(world).await;
    let nodes = world.nodes(2).cpus(2).create().await;
    let low = world.fill(&nodes).priority("low").whole().groups_of(2).await;
    let pod = world.pod("vip").priority("high").create().await;
    pod.wait_bound(MINUTE).await;
    let history = world.audit().await;
    assert_eq!(history.evicted().len(), 2, "both pods of one group: {:?}", history.evicted_names());
    let disrupted = if history.evicted_names()[0].starts_with(&low[0].name) { &low[0] } else { &low[1] };
    disrupted.wait_removed(MINUTE).await;
    let message = disrupted.wait_condition(DISRUPTION_TARGET, "True", "PreemptionByScheduler", MINUTE).await;
    assert!(message.starts_with("Preempted by pod default/vip of priority 1000"), "{message}");
    let planned = pod.wait_event("Planned", MINUTE).await;
    assert!(
        planned.starts_with("2 pods, among them 1 whole pod group, of priority 10 or less are evicted"),
        "{planned}"
    );
    world.check_promises().await;
}

async fn members_are_bound_only_after_victims_with_a_grace_period_have_terminated(world: &World) {
    create_classes(world).await;
    let nodes = world.nodes(2).cpus(2).create().await;
    let low = world.fill(&nodes).priority("low").whole().grace_seconds(8).groups_of(4).await;
    let gang = world.gang("train", 4).priority("high").create().await;
    // The condition that a Job's podFailurePolicy matches.
    for victim in &low[0].pods {
        victim.wait_condition(DISRUPTION_TARGET, "True", "EvictionByEvictionAPI", MINUTE).await;
    }
    gang.wait_plan(PlanState::WaitingForVictims, MINUTE).await;
    let message = gang.wait_condition(INITIALLY_SCHEDULED, "False", "WaitingForPreemption", MINUTE).await;
    assert!(
        message.starts_with("4 pods wait for capacity: ") && message.contains(" of 4 victims have terminated"),
        "{message}"
    );
    gang.wait_condition(PREEMPTING, "True", "WaitingForVictims", MINUTE).await;
    gang.wait_bound(MINUTE).await;
    let history = world.audit().await;
    let evicted = history.evicted().iter().map(|r| r.at).max().unwrap();
    let bound = history.bindings.iter().filter(|b| b.pod.1.starts_with("train")).map(|b| b.at).min().unwrap();
    assert!(bound.duration_since(evicted).as_secs() >= 4, "bound {bound}, last eviction {evicted}");
    world.check_promises().await;
}

async fn the_priority_of_the_group_counts_and_a_condition_reports_a_mismatch(world: &World) {
    create_classes(world).await;
    world.class("mid", 500).managed().create().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    // A gang of class `mid` preempts pods of class `high`, because their group has class `low`.
    let cheap = world.gang("cheap", 4).whole().priority("low").on(&nodes).create_group().await;
    let mut pods = world.gang("cheap", 4).priority("high").on(&nodes).without_group();
    pods.add_pods(4).await;
    let words = "4 pods have priority 1000; the group's priority 10 counts instead.";
    expect_condition(&cheap, "PodsNotMatchingPriority", "True PriorityMismatch", words).await;
    let gang = world.gang("train", 2).priority("mid").create().await;
    gang.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names(), ["cheap-0", "cheap-1", "cheap-2", "cheap-3"]);
    world.check_promises().await;
}

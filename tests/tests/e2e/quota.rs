//! A ResourceQuota scoped by priority class also holds for groups: pods do not get the priority of a class that the quota denies
//! them, neither to preempt others nor as protection against preemption.
//!
//! All scenarios share one cluster. The quota of namespace `tenant` permits no pod of class `high`; namespace `paid` has no
//! quota.

use crate::{INITIALLY_SCHEDULED, MINUTE, expect_condition};
use giveway_crds::{PodGroup, keys};
use giveway_tests::audit::OPERATOR;
use giveway_tests::cluster::{Group, GroupBuilder, Kit, PodBuilder, PodHandle, Shaped, scheduling_gates};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use std::collections::BTreeSet;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            a_group_gives_no_priority_that_a_quota_denies_to_its_pods;
    ]
}

/// Condition that reports members whose priority differs from that of their group.
const MISMATCH: &str = giveway_crds::condition::types::PODS_NOT_MATCHING_PRIORITY;
/// Error of the quota.
const EXCEEDED: &str = "exceeded quota: no-high, requested: pods=1, used: pods=0, limited: pods=0";

/// A cluster whose pool `victims` is full of pods of class `mid`.
struct Scene {
    world: World,
    tenant: Kit,
    paid: Kit,
    shield: Vec<String>,
    evicted: BTreeSet<String>,
}

impl Scene {
    async fn start() -> Self {
        let world = World::start().await;
        world.class("low", 10).managed().create().await;
        world.class("mid", 500).managed().create().await;
        world.class("high", 1000).managed().create().await;
        let victims = world.nodes(1).prefix("victims").cpus(6).label("pool", "victims").create().await;
        let shield = world.nodes(2).prefix("shield").cpus(4).label("pool", "shield").create().await;
        world.fill(&victims).priority("mid").prefix("mid").singles().await;
        let (tenant, paid) = (world.namespace("tenant").await, world.namespace("paid").await);
        let scene = Self { world, tenant, paid, shield, evicted: BTreeSet::new() };
        scene.create_quota().await;
        scene
    }

    /// Creates a quota that permits no pod of class `high` in namespace `tenant`, and waits until it is enforced.
    async fn create_quota(&self) {
        let quota: ResourceQuota = serde_json::from_value(json!({
            "metadata": {"name": "no-high"},
            "spec": {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
            ]}},
        }))
        .unwrap();
        let quotas = self.tenant.api::<ResourceQuota>();
        quotas.create(&PostParams::default(), &quota).await.unwrap();
        wait_for("the status of the quota is computed", MINUTE, async || {
            let status = quotas.get("no-high").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
            if status.hard.is_some() && status.used.is_some() { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
    }

    fn group(&self, kit: &Kit, name: &str, size: usize) -> GroupBuilder {
        GroupBuilder::new(kit.clone(), name, size).node_selector("pool", "victims")
    }

    /// Returns a builder of a pod of the tenant in the group `group`; `class` is the pod's own class.
    fn member(&self, name: &str, group: &str, class: Option<&str>) -> PodBuilder {
        let pod = PodBuilder::new(self.tenant.clone(), name).label(keys::LABEL_POD_GROUP, group);
        let pod = pod.node_selector("pool", "victims");
        class.map_or(pod.clone(), |class| pod.priority(class))
    }

    /// Creates a gang of class `high` in namespace `paid` and checks that exactly one pod of class `mid` is evicted for it. Gangs
    /// that have waited longer have been processed before, so a forbidden preemption for one of them would be noticed.
    async fn preempt_for_gang_of_its_own_class(&mut self, name: &str) {
        let gang = self.group(&self.paid, name, 1).priority("high").create().await;
        gang.wait_bound(MINUTE).await;
        let now: BTreeSet<String> = self.world.audit().await.evicted_names().into_iter().collect();
        let new: Vec<&String> = now.difference(&self.evicted).collect();
        assert!(new.len() == 1 && new[0].starts_with("mid-"), "evicted for {name}: {new:?}");
        self.evicted = now;
    }
}

/// Creates a pod and returns the error. Panics if the pod is admitted.
async fn rejection(pod: PodBuilder) -> String {
    match pod.try_create().await {
        Ok(pod) => panic!("{} was accepted", pod.name),
        Err(error) => error.to_string(),
    }
}

/// Returns the error for a member of class `low` in a group of class `high`.
fn below(group: &str) -> String {
    format!(
        "spec.priorityClassName: Invalid value: \"low\": priority class low gives the pod 10, below the priority of pod group {group}, 1000, and a group does not raise the priority of its pods: name class high, or no class, and it gets high from its group"
    )
}

#[track_caller]
fn assert_message(said: &str, words: &str) {
    assert!(said.contains(words), "the rejection has another message:\n{said}\nexpected: {words}");
}

async fn a_group_gives_no_priority_that_a_quota_denies_to_its_pods() {
    let mut scene = Scene::start().await;
    directly_and_through_a_group(&scene).await;
    through_a_template(&scene).await;
    while_the_webhook_is_down(&mut scene).await;
    with_the_group_created_after_its_pods(&mut scene).await;
    with_a_basic_group_created_after_its_pods(&scene).await;
    with_the_group_created_over_running_pods(&mut scene).await;
    with_the_group_recreated_for_running_pods(&mut scene).await;
    scene.world.check_promises().await;
}

async fn directly_and_through_a_group(scene: &Scene) {
    assert_message(&rejection(PodBuilder::new(scene.tenant.clone(), "plain").priority("high")).await, EXCEEDED);
    scene.group(&scene.tenant, "gang", 1).priority("high").create_group().await;
    scene.group(&scene.tenant, "basic", 1).basic().priority("high").create_group().await;
    for group in ["gang", "basic"] {
        assert_message(&rejection(scene.member("m", group, Some("low"))).await, &below(group));
        assert_message(&rejection(scene.member("m", group, Some("low")).on("victims-0")).await, &below(group));
        assert_message(&rejection(scene.member("m", group, None)).await, EXCEEDED);
        assert_message(&rejection(scene.member("m", group, Some("high"))).await, EXCEEDED);
    }
    // A pod without a class gets the class of its group, and the quota counts it.
    let member = PodBuilder::new(scene.tenant.clone(), "cheap").label(keys::LABEL_POD_GROUP, "cheap");
    GroupBuilder::new(scene.tenant.clone(), "cheap", 9).priority("low").create_group().await;
    let pod = member.create().await.get().await.unwrap();
    assert_eq!(pod.spec.unwrap().priority_class_name.as_deref(), Some("low"));
}

async fn through_a_template(scene: &Scene) {
    let workload = "apiVersion: scheduling.giveway.dev/v1alpha1\nkind: Workload\nmetadata: {name: work, namespace: tenant}\nspec:\n  podGroupTemplates:\n  - {name: gang, schedulingPolicy: {gang: {minCount: 1}}, priorityClassName: high}\n  - {name: basic, schedulingPolicy: {basic: {}}, priorityClassName: high}\n";
    scene.world.apply(workload).await.unwrap();
    for template in ["gang", "basic"] {
        let pod = || {
            let pod = PodBuilder::new(scene.tenant.clone(), "m").label(keys::LABEL_WORKLOAD, "work");
            pod.label(keys::LABEL_TEMPLATE, template)
        };
        assert_message(&rejection(pod().priority("low")).await, &below(&format!("work-{template}")));
        let replica = pod().label(keys::LABEL_REPLICA, "0").priority("low");
        assert_message(&rejection(replica).await, &below(&format!("work-{template}-0")));
        assert_message(&rejection(pod()).await, EXCEEDED);
    }
}

/// The webhook entry for members fails closed, so an outage does not bypass the check of the class.
async fn while_the_webhook_is_down(scene: &mut Scene) {
    scene.world.webhook().kill();
    assert_message(&rejection(scene.member("m", "gang", Some("low"))).await, "failed calling webhook");
    let labelled = PodBuilder::new(scene.tenant.clone(), "m").label(keys::LABEL_WORKLOAD, "work").priority("low");
    assert_message(&rejection(labelled.label(keys::LABEL_TEMPLATE, "gang")).await, "failed calling webhook");
    scene.world.webhook().start().await;
}

async fn with_the_group_created_after_its_pods(scene: &mut Scene) {
    let mut late = scene.group(&scene.tenant, "late", 2).priority("low").without_group();
    late.add_pods(2).await;
    scene.group(&scene.tenant, "late", 2).priority("high").create_group().await;
    expect_condition(
        &late,
        MISMATCH,
        "True PriorityMismatch",
        "2 pods are never ungated and not counted: priority 10 is below the group's, 1000, and a PodGroup does not raise the priority of its pods. To start, delete such pods and create them again with class high or without a class.",
    )
    .await;
    let waits = "2 pods needed, 0 exist; 2 more do not count because their priority is below the group's.";
    expect_condition(&late, INITIALLY_SCHEDULED, "False WaitingForPods", waits).await;
    scene.preempt_for_gang_of_its_own_class("first").await;
    for pod in &late.pods {
        let pod = pod.get().await.unwrap();
        assert_eq!((scheduling_gates(&pod), &pod.spec.unwrap().node_name), (vec![keys::GATE.to_owned()], &None));
    }

    // In a namespace without the quota the remedy in the message works.
    let mut cured = scene.group(&scene.paid, "cured", 1).priority("low").without_group();
    cured.add_pods(1).await;
    let mut right = scene.group(&scene.paid, "cured", 1).priority("high").create_group().await;
    expect_condition(&right, MISMATCH, "True PriorityMismatch", "1 pod is never ungated and not counted").await;
    cured.pods[0].delete().await;
    cured.pods[0].wait_removed(MINUTE).await;
    right.add_pods(1).await;
    right.wait_bound(MINUTE).await;
    expect_condition(&right, MISMATCH, "False PriorityMatches", "All pods have the group's priority.").await;
    scene.evicted = scene.world.audit().await.evicted_names().into_iter().collect();
    assert_eq!(scene.evicted.len(), 2, "{:?}", scene.evicted);
}

async fn with_a_basic_group_created_after_its_pods(scene: &Scene) {
    let early = scene.member("early", "late-basic", Some("low")).create().await;
    let group = scene.group(&scene.tenant, "late-basic", 1).basic().priority("high").create_group().await;
    expect_condition(&group, MISMATCH, "True PriorityMismatch", "1 pod is never ungated and not counted").await;
    let pod = early.get().await.unwrap();
    assert_eq!(scheduling_gates(&pod), [keys::GATE]);

    // A member with the priority of its group is ungated.
    let pod = PodBuilder::new(scene.tenant.clone(), "own").priority("low").label(keys::LABEL_POD_GROUP, "late-own");
    let own = pod.node_selector("pool", "shield").create().await;
    GroupBuilder::new(scene.tenant.clone(), "late-own", 1).basic().priority("low").create_group().await;
    own.wait_bound(MINUTE).await;
    own.delete().await;
    own.wait_removed(MINUTE).await;
}

/// Running pods of class `low` name a group of class `high` that is created later.
async fn with_the_group_created_over_running_pods(scene: &mut Scene) {
    let nodes = [scene.shield[0].clone()];
    let builder = GroupBuilder::new(scene.tenant.clone(), "shield", 4).whole();
    let mut pods = builder.clone().priority("low").on(&nodes).without_group();
    pods.add_pods(4).await;
    builder.priority("high").create_group().await;
    scene.expect_no_protection(&pods, &nodes[0]).await;
}

async fn with_the_group_recreated_for_running_pods(scene: &mut Scene) {
    let nodes = [scene.shield[1].clone()];
    let builder = GroupBuilder::new(scene.tenant.clone(), "recreated", 4).whole();
    let gang = builder.clone().priority("low").on(&nodes).create().await;
    let groups = scene.tenant.api::<PodGroup>();
    wait_for("the group has its finalizer", MINUTE, async || {
        let finalizers = gang.get().await.metadata.finalizers.unwrap_or_default();
        if finalizers == [keys::FINALIZER_PROTECTION] { Ok(()) } else { Err(format!("{finalizers:?}")) }
    })
    .await;
    gang.delete().await;
    let said = groups.create(&PostParams::default(), &builder.clone().priority("high").build()).await.unwrap_err();
    assert_message(
        &said.to_string(),
        "object is being deleted: podgroups.scheduling.giveway.dev \"recreated\" already exists",
    );
    let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));

    // Only the operator may remove the finalizer. The test removes it to show that a recreated group protects the pods no better.
    scene.world.operator().kill();
    let operator: Client = scene.world.client_of(OPERATOR).await;
    let as_operator: Api<PodGroup> = Api::namespaced(operator, "tenant");
    as_operator.patch("recreated", &PatchParams::default(), &bare).await.unwrap();
    wait_for("the group is deleted", MINUTE, async || match groups.get_opt("recreated").await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    builder.priority("high").create_group().await;
    scene.world.operator().start().await;
    scene.expect_no_protection(&gang, &nodes[0]).await;
}

impl Scene {
    /// Checks that a gang of class `mid` preempts a group of class `high` whose four running pods have class `low`, all pods
    /// together.
    async fn expect_no_protection(&mut self, group: &Group, node: &str) {
        let words = "4 pods run with priority 10, below the group's, 1000; the lower priority counts for preemption.";
        expect_condition(group, MISMATCH, "True PriorityMismatch", words).await;
        let preemptor = GroupBuilder::new(self.paid.clone(), &format!("over-{}", group.name), 2).priority("mid");
        let preemptor = preemptor.node_selector("kubernetes.io/hostname", node).create().await;
        preemptor.wait_bound(MINUTE).await;
        let names = |pods: &[PodHandle]| pods.iter().map(|pod| pod.name.clone()).collect::<BTreeSet<_>>();
        let now: BTreeSet<String> = self.world.audit().await.evicted_names().into_iter().collect();
        let new: BTreeSet<String> = now.difference(&self.evicted).cloned().collect();
        assert_eq!(new, names(&group.pods), "the whole group is evicted, with the priority of its pods");
        self.evicted = now;
        // The remaining pods are not needed by later scenarios.
        for pod in group.members().await.unwrap() {
            let _ = self.tenant.api::<Pod>().delete(&pod.metadata.name.unwrap(), &DeleteParams::default()).await;
        }
    }
}

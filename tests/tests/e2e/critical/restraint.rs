//! Cases in which no pod may be evicted for an add-on: eviction would not help, kube-scheduler is down, Giveway is disabled, or
//! the pod is not an add-on.

use super::{addon, after, expect_no_eviction, system, taints, wait_plan};
use crate::{INITIALLY_SCHEDULED, MINUTE, expect_condition};
use giveway_crds::keys;
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::{PodBuilder, PodHandle, Shaped};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::json;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            no_pod_is_evicted_for_a_selector_a_volume_or_an_annotation_in_another_namespace,
            an_add_on_without_toleration_is_nominated_and_a_foreign_taint_suffices,
            with_critical_add_ons_disabled_no_pod_is_evicted_for_them,
            a_recreated_victim_does_not_preempt_its_critical_add_on,
            in_mode_observe_or_off_no_pod_is_evicted_for_an_add_on_and_no_node_is_tainted;
        release:
            no_pod_is_evicted_for_an_add_on_while_kube_scheduler_is_down;
    ]
}

async fn no_pod_is_evicted_for_a_selector_a_volume_or_an_annotation_in_another_namespace() {
    let world = after("1s").start().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    world.fill(&nodes).grace_seconds(0).singles().await;
    let picky = addon(&world, "picky").node_selector("disk", "ssd").create().await;
    assert_eq!(
        picky.wait_event("CriticalAddonUnschedulable", MINUTE).await,
        "It fits on no node, even with all pods evicted, so no pod is evicted: 1 node(s) didn't match Pod's node affinity/selector."
    );
    let mut pod = addon(&world, "stateful").build();
    let volume = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    pod.spec.get_or_insert_default().volumes = serde_json::from_value(volume).unwrap();
    let pod = system(&world).api::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
    let stateful = PodHandle::new(system(&world), &pod);
    assert_eq!(
        stateful.wait_event("CriticalAddonUnschedulable", MINUTE).await,
        "No pod is evicted for it, because eviction may not help: where it can run depends on claim data, which was not found."
    );
    // The deprecated annotation makes a pod critical only in the namespaces that the chart names.
    let old = |builder: PodBuilder| builder.annotation(keys::ANNOTATION_CRITICAL_POD, "");
    let tenant = old(world.pod("tenant")).create().await;
    tenant.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    expect_no_eviction(&world).await;
    let events = tenant.events().await;
    assert!(events.iter().all(|event| !event.reason.starts_with("Critical")), "{events:?}");
    let legacy = old(PodBuilder::new(system(&world), "legacy")).tolerate(keys::TAINT_CRITICAL).create().await;
    legacy.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted().len(), 1);
    world.check_promises().await;
}

/// Without this rule an add-on of priority 0 and its recreated victim evicted each other in turn, 14 times in 4 minutes.
async fn a_recreated_victim_does_not_preempt_its_critical_add_on() {
    let world = after("1s").start().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).cpus(2).create().await;
    world.pod("web").priority("high").cpu(2).on(&nodes[0]).grace_seconds(0).create().await;
    let dns = addon(&world, "dns").cpu(2).create().await;
    assert_eq!(dns.wait_bound(MINUTE).await, nodes[0]);
    wait_plan(&world, &dns, PlanState::Completed).await;

    let again = world.pod("web-again").priority("high").cpu(2).create().await;
    let gang = world.gang("train", 2).priority("high").create().await;
    again.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    let shortfall = "2 pods needed, 0 fit now. Missing 2 cpu. 1 pod below priority 1000 is a critical add-on, which is not evicted.";
    expect_condition(&gang, INITIALLY_SCHEDULED, "False Unschedulable", shortfall).await;
    assert_eq!(world.audit().await.evicted_names(), ["web"]);
    world.check_promises().await;
}

async fn no_pod_is_evicted_for_an_add_on_while_kube_scheduler_is_down() {
    let mut world = after("8s").start().await;
    let nodes = world.nodes(1).cpus(1).create().await;
    world.fill(&nodes).grace_seconds(0).singles().await;
    let dns = addon(&world, "dns").create().await;
    dns.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    world.plane().process("kube-scheduler").unwrap().kill();
    let event = dns.wait_event("SchedulerNotResponding", MINUTE).await;
    assert!(
        event.ends_with("No pod is evicted for it, because kube-scheduler may be down: its Lease kube-system/kube-scheduler is not renewed, and it has not decided about any pod since."),
        "{event}"
    );
    expect_no_eviction(&world).await;
    world.plane().restart("kube-scheduler").unwrap();
    dns.wait_bound(MINUTE).await;
    wait_plan(&world, &dns, PlanState::Completed).await;
    world.check_promises().await;
}

async fn an_add_on_without_toleration_is_nominated_and_a_foreign_taint_suffices() {
    let world = after("1s").start().await;
    let nodes = world.nodes(1).cpus(1).create().await;
    world.fill(&nodes).grace_seconds(0).singles().await;
    let plain = PodBuilder::new(system(&world), "plain").annotation(keys::ANNOTATION_CRITICAL, "true").create().await;
    assert_eq!(plain.wait_bound(MINUTE).await, nodes[0]);
    let plan = wait_plan(&world, &plain, PlanState::Completed).await;
    assert_eq!(plan.critical_addon.map(|addon| addon.taint), Some(false));
    let history = world.audit().await;
    let nominated = history.nominations.iter().any(|n| n.pod.1 == "plain" && n.node.as_deref() == Some(&nodes[0]));
    assert!(nominated, "{:?}", history.nominations);
    // A node pool that an administrator has tainted for add-ons permanently.
    let pool = world.nodes(1).cpus(1).prefix("pool").taint(keys::TAINT_CRITICAL, "", "NoSchedule").create().await;
    world.pod("tolerant").on(&pool[0]).tolerate(keys::TAINT_CRITICAL).grace_seconds(0).create().await;
    let before = taints(&world).await;
    let dns = addon(&world, "dns").create().await;
    assert_eq!(dns.wait_bound(MINUTE).await, pool[0]);
    let plan = wait_plan(&world, &dns, PlanState::Completed).await;
    assert_eq!(plan.critical_addon.map(|addon| addon.taint), Some(false));
    assert_eq!(taints(&world).await, before, "the taints are unchanged");
    world.check_promises().await;
}

async fn with_critical_add_ons_disabled_no_pod_is_evicted_for_them() {
    let world = after("1s").operator_flag("--critical-addons=false").start().await;
    let nodes = world.nodes(1).cpus(1).create().await;
    world.fill(&nodes).grace_seconds(0).singles().await;
    let dns = addon(&world, "dns").create().await;
    dns.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    // The operator processes all pods on every change. When it has preempted for this later pod, it has also processed the
    // add-on.
    let class = world.class("high", 1000).managed().create().await;
    let high = world.pod("high").priority(class.metadata.name.as_deref().unwrap()).create().await;
    high.wait_bound(MINUTE).await;
    let history = world.audit().await;
    assert_eq!(history.evicted().len(), 1, "one pod is evicted, for the pod of the managed class");
    wait_for("the metric counts no waiting add-on", MINUTE, async || {
        let metrics = world.operator_metrics().await;
        let none = metrics.contains("giveway_operator_critical_addons_waiting 0");
        if none { Ok(()) } else { Err(metrics) }
    })
    .await;
    world.check_promises().await;
}

async fn in_mode_observe_or_off_no_pod_is_evicted_for_an_add_on_and_no_node_is_tainted() {
    let world = after("1s").operator_flag("--mode=observe").start().await;
    let nodes = world.nodes(1).cpus(1).create().await;
    world.fill(&nodes).grace_seconds(0).singles().await;
    let dns = addon(&world, "dns").create().await;
    let words = format!(
        "Giveway is in mode observe and evicts no pods: it would evict 1 pod for this critical add-on. Node {} would be freed.",
        nodes[0]
    );
    assert_eq!(dns.wait_event("Observing", MINUTE).await, words);
    let plan = wait_plan(&world, &dns, PlanState::Observed).await;
    assert_eq!((plan.victims.len(), plan.critical_addon.is_some()), (1, true));
    let switch = |mode: &str| format!("--from-literal=mode={mode}");
    let map = ["configmap", "giveway-mode", "-n", "giveway-system"];
    world.kubectl(&[&["create"], &map[..], &[switch("off").as_str()]].concat()).await.unwrap();
    let words = "Giveway is switched off: it gates no pods and evicts none.";
    assert_eq!(dns.wait_event("SwitchedOff", MINUTE).await, words);
    expect_no_eviction(&world).await;
    assert!(taints(&world).await.is_empty());
    world
        .kubectl(&[
            "patch",
            "configmap",
            "giveway-mode",
            "-n",
            "giveway-system",
            "-p",
            r#"{"data":{"mode":"enforce"}}"#,
        ])
        .await
        .unwrap();
    dns.wait_bound(MINUTE).await;
    wait_plan(&world, &dns, PlanState::Completed).await;
    assert_eq!(world.audit().await.evicted().len(), 1);
    world.check_promises().await;
}

//! Switching the mode at runtime (`enforce`, `observe`, `off`): the behaviour in each mode, messages, rights, and plans in
//! flight.

use crate::cli::giveway;
use crate::roles::{ACCOUNTS, Account};
use crate::{INITIALLY_SCHEDULED, MINUTE, PREEMPTING, expect_condition};
use giveway_crds::keys;
use giveway_crds::plan::PlanState;
use giveway_tests::attack::Call;
use giveway_tests::audit::Promises;
use giveway_tests::cluster::{Group, Kit, Shaped, scheduling_gates, stored_plans, wait_for_event};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use serde_json::json;
use std::collections::BTreeSet;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            mode_off_ungates_all_pods_and_an_invalid_mode_is_ignored,
            in_mode_observe_a_group_is_not_disrupted_after_a_preemption_by_kube_scheduler,
            switching_the_mode_requires_a_role;
        own:
            in_mode_observe_a_plan_is_stored_once_and_no_pod_is_evicted;
        release:
            a_new_leader_keeps_the_mode,
            switching_to_observe_completes_the_current_group_and_evicts_no_other;
    ]
}

const MAP: &str = "/api/v1/namespaces/giveway-system/configmaps/giveway-mode";
const OBSERVES: &str = "Giveway is in mode observe and evicts no pods";
const OFF: &str = "Giveway is switched off: it gates no pods and evicts none";

async fn create_classes(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
}

/// Creates two nodes, each full of one group in mode `PodGroup`.
async fn create_full_nodes(world: &World) -> Vec<Group> {
    let nodes = world.nodes(2).cpus(4).create().await;
    world.fill(&nodes).priority("low").whole().groups_of(4).await
}

/// Returns for each pod of a group whether it has Giveway's scheduling gate.
async fn gated(group: &Group) -> Vec<bool> {
    let members = group.members().await.unwrap();
    members.iter().map(|pod| scheduling_gates(pod).iter().any(|gate| gate == keys::GATE)).collect()
}

/// Waits until the group has `pods` pods and none is gated.
async fn wait_ungated(group: &Group, pods: usize) {
    wait_for(&format!("the pods of group {} are ungated", group.name), MINUTE, async || {
        let gated = gated(group).await;
        if gated == vec![false; pods] { Ok(()) } else { Err(format!("{gated:?}")) }
    })
    .await;
}

async fn expect_no_eviction(world: &World) {
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
}

/// Returns the number of plans in state `Observed` whose preemptor is this group.
async fn count_observed(world: &World, group: &str) -> usize {
    let plans = stored_plans(&world.client()).await.unwrap();
    plans.iter().filter(|plan| plan.preemptor.name == group && plan.state == PlanState::Observed).count()
}

async fn in_mode_observe_a_plan_is_stored_once_and_no_pod_is_evicted() {
    let mut world = World::builder().operator_flag("--mode=observe").start().await;
    create_classes(&world).await;
    let low = create_full_nodes(&world).await;
    let vip = world.gang("vip", 4).priority("high").create().await;
    let words =
        format!("{OBSERVES}: it would evict 4 pods, among them 1 whole pod group, of priority 10 or less for 4 pods.");
    assert_eq!(vip.wait_condition(INITIALLY_SCHEDULED, "False", "Observing", MINUTE).await, words);
    let plan = vip.wait_plan(PlanState::Observed, MINUTE).await;
    assert_eq!((plan.victims.len(), plan.placements.len()), (1, 4));
    assert!(low.iter().any(|group| group.name == plan.victims[0].name), "{plan:?}");
    let words = format!(
        "{OBSERVES}. What would be done: 4 pods, among them 1 whole pod group, of priority 10 or less would be evicted"
    );
    assert!(plan.message.starts_with(&words), "{}", plan.message);
    expect_condition(&vip, PREEMPTING, "False Observing", OBSERVES).await;
    // A gang that fits is bound. Changes of the cluster do not cause another stored plan.
    world.nodes(1).cpus(1).prefix("more").create().await;
    let fits = world.gang("fits", 1).priority("low").create().await;
    fits.wait_bound(MINUTE).await;
    assert_eq!(count_observed(&world, "vip").await, 1);
    assert_eq!(gated(&vip).await, [true; 4]);
    expect_no_eviction(&world).await;
    let metrics = world.operator_metrics().await;
    assert!(metrics.contains("giveway_operator_mode{mode=\"observe\"} 1"), "{metrics}");
    let page = giveway(&mut world, &["why", "podgroup/vip", "-n", "default"]).await;
    assert!(page.ok().contains(OBSERVES) && page.out.contains("Observed"), "{}", page.out);
    let victim = format!("podgroup/{}", plan.victims[0].name);
    let page = giveway(&mut world, &["why", &victim, "-n", "default"]).await;
    assert!(!page.ok().contains("Preempted by"), "{}", page.out);
    // The operator enforces plans after the switch, without a restart.
    world
        .kubectl(&["create", "configmap", "giveway-mode", "-n", "giveway-system", "--from-literal=mode=enforce"])
        .await
        .unwrap();
    vip.wait_bound(MINUTE).await;
    expect_condition(&vip, PREEMPTING, "False Completed", "were evicted for 4 pods").await;
    assert_eq!(count_observed(&world, "vip").await, 1, "the observed plan stays in the history");
    world.check_promises().await;
}

async fn mode_off_ungates_all_pods_and_an_invalid_mode_is_ignored(world: &mut World) {
    create_classes(world).await;
    create_full_nodes(world).await;
    // A gang with a missing member, whose existing pods fit on no node.
    let lacks = world.gang("lacks", 3).priority("low").without_pods().create().await;
    let member = |name: &str| world.pod(name).label(keys::LABEL_POD_GROUP, "lacks").node_selector("rack", "none");
    member("lacks-a").priority("low").create().await;
    member("lacks-b").priority("low").create().await;
    lacks.wait_condition(INITIALLY_SCHEDULED, "False", "WaitingForPods", MINUTE).await;
    assert_eq!(gated(&lacks).await, [true; 2]);
    let healthy = giveway(world, &["check"]).await;
    assert!(healthy.out.contains("the mode was not switched"), "{}", healthy.out);

    let printed = giveway(world, &["mode", "off", "--dry-run"]).await;
    assert!(printed.ok().contains("Nothing was written"), "{}", printed.out);
    assert!(world.kubectl(&["get", "configmap", "giveway-mode", "-n", "giveway-system"]).await.is_err());
    // The switch is confirmed by a flag where no terminal can confirm it.
    let refused = giveway(world, &["mode", "off"]).await;
    let words = "error: Mode off removes Giveway's scheduling gate from every gated pod in all namespaces, ";
    assert!(refused.status == Some(2) && refused.err.starts_with(words), "{}", refused.err);
    assert!(refused.err.trim().ends_with("use '--yes' where standard input is not a terminal"), "{}", refused.err);
    assert!(world.kubectl(&["get", "configmap", "giveway-mode", "-n", "giveway-system"]).await.is_err());
    let printed = giveway(world, &["mode", "off", "--yes"]).await;
    let words = format!(
        "{OFF}. It says `mode: off` in ConfigMap giveway-system/giveway-mode; `kubectl giveway mode chart` takes that back.\n"
    );
    assert_eq!(printed.ok(), words);
    assert_eq!(lacks.wait_condition(INITIALLY_SCHEDULED, "False", "SwitchedOff", MINUTE).await, format!("{OFF}."));
    wait_ungated(&lacks, 2).await;
    let vip = world.gang("vip", 4).priority("high").create().await;
    vip.wait_condition(INITIALLY_SCHEDULED, "False", "SwitchedOff", MINUTE).await;
    wait_ungated(&vip, 4).await;
    let check = giveway(world, &["check"]).await;
    assert!(check.out.contains("WARN") && check.out.contains("switched off"), "{}", check.out);
    let metrics = world.operator_metrics().await;
    assert!(metrics.contains("giveway_operator_mode{mode=\"off\"} 1"), "{metrics}");

    // An invalid mode is ignored and reported by an event on the ConfigMap.
    let wrong = json!({"data": {"mode": "Enforce"}}).to_string();
    world.kubectl(&["patch", "configmap", "giveway-mode", "-n", "giveway-system", "-p", &wrong]).await.unwrap();
    let own = Kit { client: world.client(), namespace: "giveway-system".to_owned() };
    let complaint = wait_for_event(&own, "ConfigMap", "giveway-mode", "ModeUnknown", MINUTE).await;
    let words = "data.mode: \"Enforce\": must be enforce, observe or off. The mode is off until then.";
    assert_eq!(complaint, words);
    let later = world.gang("later", 2).priority("high").create().await;
    later.wait_condition(INITIALLY_SCHEDULED, "False", "SwitchedOff", MINUTE).await;
    let check = giveway(world, &["check"]).await;
    assert_eq!(check.status, Some(1), "{}", check.out);
    expect_no_eviction(world).await;

    let printed = giveway(world, &["mode", "chart"]).await;
    let words = "ConfigMap giveway-system/giveway-mode is deleted: the chart's value `mode` counts again.\n";
    assert_eq!(printed.ok(), words);
    vip.wait_bound(MINUTE).await;
    later.wait_bound(MINUTE).await;
    assert!(giveway(world, &["mode", "chart"]).await.ok().starts_with("Nothing was switched"));
    world.check_promises().await;
}

/// An operator that is killed and restarted uses the mode of the ConfigMap, not that of its flag.
async fn a_new_leader_keeps_the_mode() {
    let mut world = World::start().await;
    create_classes(&world).await;
    create_full_nodes(&world).await;
    giveway(&mut world, &["mode", "observe"]).await.ok();
    let vip = world.gang("vip", 4).priority("high").create().await;
    vip.wait_condition(INITIALLY_SCHEDULED, "False", "Observing", MINUTE).await;
    world.operator().kill();
    let late = world.gang("late", 4).priority("high").create().await;
    world.operator().start().await;
    late.wait_condition(INITIALLY_SCHEDULED, "False", "Observing", MINUTE).await;
    expect_no_eviction(&world).await;
    world.check_promises().await;
}

async fn switching_to_observe_completes_the_current_group_and_evicts_no_other() {
    let mut world = World::builder().operator_flag("--evictions-per-second=1").start().await;
    create_classes(&world).await;
    let nodes = world.nodes(4).cpus(5).create().await;
    let low = world.fill(&nodes).priority("low").whole().grace_seconds(1).groups_of(5).await;
    let vip = world.gang("vip", 20).priority("high").create().await;
    wait_for("the first pods are evicted", MINUTE, async || {
        let evicted = world.audit().await.evicted().len();
        if evicted > 0 { Ok(()) } else { Err("no pod was evicted".to_owned()) }
    })
    .await;
    giveway(&mut world, &["mode", "observe"]).await.ok();
    let message = wait_for("the plan is cancelled", MINUTE, async || {
        let plans = stored_plans(&world.client()).await.map_err(|error| error.to_string())?;
        let cancelled = plans.iter().find(|plan| plan.state == PlanState::Cancelled);
        cancelled.map(|plan| plan.message.clone()).ok_or_else(|| format!("{plans:?}"))
    })
    .await;
    assert_eq!(
        message,
        format!("{OBSERVES}; disruptions that have started are finished, and no other pod is evicted.")
    );
    wait_for("the departures have ended", MINUTE, async || {
        let plans = stored_plans(&world.client()).await.map_err(|error| error.to_string())?;
        let in_flight: Vec<_> = plans.iter().filter(|plan| plan.state.in_flight()).collect();
        if in_flight.is_empty() { Ok(()) } else { Err(format!("{in_flight:?}")) }
    })
    .await;
    let evicted = world.audit().await.evicted_names();
    let whole = low.iter().filter(|group| group.pods.iter().all(|pod| evicted.contains(&pod.name))).count();
    assert!((1..4).contains(&whole), "{evicted:?}");
    assert_eq!(evicted.len(), 5 * whole, "no pod of another group is evicted: {evicted:?}");
    vip.wait_condition(INITIALLY_SCHEDULED, "False", "Observing", MINUTE).await;
    giveway(&mut world, &["mode", "chart"]).await.ok();
    vip.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names().into_iter().collect::<BTreeSet<_>>().len(), 20);
    world.check_promises().await;
}

async fn in_mode_observe_a_group_is_not_disrupted_after_a_preemption_by_kube_scheduler(world: &mut World) {
    world.class("low", 10).managed().create().await;
    world.class("stock", 1000).create().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    let low = world.fill(&nodes).priority("low").whole().groups_of(4).await;
    low[0].wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", MINUTE).await;
    giveway(world, &["mode", "observe"]).await.ok();
    wait_for("the operator is in mode observe", MINUTE, async || {
        let metrics = world.operator_metrics().await;
        if metrics.contains("giveway_operator_mode{mode=\"observe\"} 1") { Ok(()) } else { Err(metrics) }
    })
    .await;
    world.pod("stock").priority("stock").create().await.wait_bound(MINUTE).await;
    let event = low[0].wait_event("Observing", MINUTE).await;
    let words = format!(". The 3 other pods of the PodGroup are not evicted: {OBSERVES}.");
    assert!(event.starts_with("kube-scheduler preempted pod ") && event.ends_with(&words), "{event}");
    expect_no_eviction(world).await;
    let pods = world.kubectl(&["get", "pods", "-n", "default", "-o", "name"]).await.unwrap();
    assert_eq!(pods.lines().count(), 4, "three pods of the group and the preemptor: {pods}");
    world.check(&Promises::new().allow_partial_disruptions(1)).await;
}

/// Switching the mode affects all users, so it requires a right on one ConfigMap that tenants do not have.
async fn switching_the_mode_requires_a_role(world: &mut World) {
    world.apply(ACCOUNTS).await.unwrap();
    let (tenant, boss) = (Account::new(world, "tenant").await, Account::new(world, "boss").await);
    // A ConfigMap of this name in another namespace has no effect.
    let own = world.kubectl(&["create", "configmap", "giveway-mode", "-n", "team", "--from-literal=mode=off"]).await;
    own.unwrap();
    for mode in ["off", "observe"] {
        let no = giveway(world, &["mode", mode, "--yes", "--giveway-namespace=team"]).await;
        let words =
            "--giveway-namespace: \"team\": no Giveway is installed there: it has no Deployment giveway-operator";
        assert!(no.status == Some(2) && no.err.contains(words), "{mode}: {}", no.err);
    }
    for mode in ["off", "observe", "chart"] {
        let no = tenant.giveway(&["mode", mode, "--yes"]).await;
        let words = "is forbidden: User \"system:serviceaccount:team:tenant\" cannot ";
        assert!(no.status == Some(1) && no.err.contains(words), "{mode}: {}", no.err);
    }
    let no = boss.giveway(&["mode", "off", "--yes"]).await;
    let advice = "the chart's Role giveway-switch allows it: kubectl create rolebinding NAME --role=giveway-switch --user=system:serviceaccount:team:boss --namespace=giveway-system";
    assert!(no.err.trim().ends_with(advice), "{}", no.err);
    let (_, command) = advice.split_once(": kubectl ").unwrap();
    world.kubectl(&command.replace("NAME", "boss").split(' ').collect::<Vec<_>>()).await.unwrap();
    boss.works(&["mode", "off", "--yes"]).await;
    let gang: Group = world.gang("lacks", 2).without_pods().create().await;
    world.pod("one").label(keys::LABEL_POD_GROUP, "lacks").create().await;
    wait_ungated(&gang, 1).await;
    assert_eq!(boss.giveway(&["mode", "chart"]).await.status, Some(0));
    // The operator's ServiceAccount cannot switch the mode.
    let operator = crate::rights::client_with_token_of(world, "giveway-operator").await;
    let put =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "giveway-mode"}, "data": {"mode": "off"}});
    let path = MAP.trim_end_matches("/giveway-mode");
    Call::post(path, &put)
        .dry()
        .refused(&operator, "the ConfigMap of the mode", "cannot create resource \"configmaps\"")
        .await;
    world.check_promises().await;
}

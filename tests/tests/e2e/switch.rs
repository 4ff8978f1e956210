//! Giveway is switched while it runs: what it does then, what it says, who may switch it, and what becomes of plans in flight.

use crate::cli::giveway;
use crate::roles::{PEOPLE, Person};
use crate::{MINUTE, PLANNED, SCHEDULED, told};
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
            paused_it_releases_everybody_at_once_evicts_nobody_and_a_typing_error_changes_nothing,
            the_rest_of_a_group_of_which_kube_scheduler_took_a_pod_stays_and_the_group_says_so,
            only_who_has_the_right_switches;
        own:
            who_observes_says_and_stores_once_what_it_would_do_lets_start_what_fits_and_evicts_nobody;
        release:
            a_new_leader_is_in_the_mode_of_the_last_one,
            a_plan_in_flight_finishes_the_group_that_it_began_and_nobody_else_goes;
    ]
}

const MAP: &str = "/api/v1/namespaces/giveway-system/configmaps/giveway-mode";
const OBSERVES: &str = "Giveway observes and evicts nobody";
const OFF: &str = "Giveway is switched off: it holds nobody and evicts nobody";

async fn classes(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
}

/// Two nodes, full of one group each.
async fn full(world: &World) -> Vec<Group> {
    let nodes = world.nodes(2).cpus(4).create().await;
    world.fill(&nodes).priority("low").whole().groups_of(4).await
}

/// Whether the pods of a group are held.
async fn held(group: &Group) -> Vec<bool> {
    let members = group.members().await.unwrap();
    members.iter().map(|pod| scheduling_gates(pod).iter().any(|gate| gate == keys::GATE)).collect()
}

async fn wait_let_go(group: &Group, pods: usize) {
    wait_for(&format!("the pods of group {} are held no more", group.name), MINUTE, async || {
        let held = held(group).await;
        if held == vec![false; pods] { Ok(()) } else { Err(format!("{held:?}")) }
    })
    .await;
}

async fn nobody_was_evicted(world: &World) {
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
}

async fn observed(world: &World, group: &str) -> usize {
    let plans = stored_plans(&world.client()).await.unwrap();
    plans.iter().filter(|plan| plan.preemptor.name == group && plan.state == PlanState::Observed).count()
}

async fn who_observes_says_and_stores_once_what_it_would_do_lets_start_what_fits_and_evicts_nobody() {
    let mut world = World::builder().operator_flag("--mode=observe").start().await;
    classes(&world).await;
    let low = full(&world).await;
    let vip = world.gang("vip", 4).priority("high").create().await;
    let words =
        format!("{OBSERVES}: it would evict 4 pods, among them 1 whole pod group, of priority 10 or less for 4 pods.");
    assert_eq!(vip.wait_condition(SCHEDULED, "False", "Observing", MINUTE).await, words);
    let plan = vip.wait_plan(PlanState::Observed, MINUTE).await;
    assert_eq!((plan.victims.len(), plan.placements.len()), (1, 4));
    assert!(low.iter().any(|group| group.name == plan.victims[0].name), "{plan:?}");
    let words = format!(
        "{OBSERVES}. What would be done: 4 pods, among them 1 whole pod group, of priority 10 or less give way"
    );
    assert!(plan.message.starts_with(&words), "{}", plan.message);
    told(&vip, PLANNED, "False Observing", OBSERVES).await;
    // A gang that fits starts, and what changes is no reason to say the same again.
    world.nodes(1).cpus(1).prefix("more").create().await;
    let fits = world.gang("fits", 1).priority("low").create().await;
    fits.wait_bound(MINUTE).await;
    assert_eq!(observed(&world, "vip").await, 1);
    assert_eq!(held(&vip).await, [true; 4]);
    nobody_was_evicted(&world).await;
    let metrics = world.operator_metrics().await;
    assert!(metrics.contains("giveway_operator_mode{mode=\"observe\"} 1"), "{metrics}");
    let page = giveway(&mut world, &["why", "podgroup/vip", "-n", "default"]).await;
    assert!(page.ok().contains(OBSERVES) && page.out.contains("Observed"), "{}", page.out);
    let spared = format!("podgroup/{}", plan.victims[0].name);
    let page = giveway(&mut world, &["why", &spared, "-n", "default"]).await;
    assert!(!page.ok().contains("Who took its place"), "{}", page.out);
    // From now on it acts, without a restart.
    world
        .kubectl(&["create", "configmap", "giveway-mode", "-n", "giveway-system", "--from-literal=mode=enforce"])
        .await
        .unwrap();
    vip.wait_bound(MINUTE).await;
    told(&vip, PLANNED, "False Completed", "give way to 4 pods").await;
    assert_eq!(observed(&world, "vip").await, 1, "it stays in the history");
    world.check_promises().await;
}

async fn paused_it_releases_everybody_at_once_evicts_nobody_and_a_typing_error_changes_nothing(world: &mut World) {
    classes(world).await;
    full(world).await;
    // It waits for its pods; those that exist have no node anywhere.
    let lacks = world.gang("lacks", 3).priority("low").without_pods().create().await;
    let member = |name: &str| world.pod(name).label(keys::LABEL_POD_GROUP, "lacks").node_selector("rack", "none");
    member("lacks-a").priority("low").create().await;
    member("lacks-b").priority("low").create().await;
    lacks.wait_condition(SCHEDULED, "False", "WaitingForPods", MINUTE).await;
    assert_eq!(held(&lacks).await, [true; 2]);
    let healthy = giveway(world, &["check"]).await;
    assert!(healthy.out.contains("nobody has switched Giveway"), "{}", healthy.out);

    let printed = giveway(world, &["pause", "--dry-run"]).await;
    assert!(printed.ok().contains("Nothing was written"), "{}", printed.out);
    assert!(world.kubectl(&["get", "configmap", "giveway-mode", "-n", "giveway-system"]).await.is_err());
    let printed = giveway(world, &["pause"]).await;
    let words = format!(
        "{OFF}. It says `mode: off` in ConfigMap giveway-system/giveway-mode; `kubectl giveway resume` takes that back.\n"
    );
    assert_eq!(printed.ok(), words);
    assert_eq!(lacks.wait_condition(SCHEDULED, "False", "SwitchedOff", MINUTE).await, format!("{OFF}."));
    wait_let_go(&lacks, 2).await;
    let vip = world.gang("vip", 4).priority("high").create().await;
    vip.wait_condition(SCHEDULED, "False", "SwitchedOff", MINUTE).await;
    wait_let_go(&vip, 4).await;
    let check = giveway(world, &["check"]).await;
    assert!(check.out.contains("WARN") && check.out.contains("switched off"), "{}", check.out);
    let metrics = world.operator_metrics().await;
    assert!(metrics.contains("giveway_operator_mode{mode=\"off\"} 1"), "{metrics}");

    // Somebody writes what is no mode: it stays off, and the ConfigMap says so.
    let wrong = json!({"data": {"mode": "Enforce"}}).to_string();
    world.kubectl(&["patch", "configmap", "giveway-mode", "-n", "giveway-system", "-p", &wrong]).await.unwrap();
    let own = Kit { client: world.client(), namespace: "giveway-system".to_owned() };
    let complaint = wait_for_event(&own, "ConfigMap", "giveway-mode", "ModeUnknown", MINUTE).await;
    let words = "data.mode: \"Enforce\": must be enforce, observe or off. The mode is off until then.";
    assert_eq!(complaint, words);
    let later = world.gang("later", 2).priority("high").create().await;
    later.wait_condition(SCHEDULED, "False", "SwitchedOff", MINUTE).await;
    let check = giveway(world, &["check"]).await;
    assert_eq!(check.status, Some(1), "{}", check.out);
    nobody_was_evicted(world).await;

    let printed = giveway(world, &["resume"]).await;
    let words = "ConfigMap giveway-system/giveway-mode is gone: the chart's value `mode` counts again.\n";
    assert_eq!(printed.ok(), words);
    vip.wait_bound(MINUTE).await;
    later.wait_bound(MINUTE).await;
    assert!(giveway(world, &["resume"]).await.ok().starts_with("Nothing was switched"));
    world.check_promises().await;
}

/// An operator that is killed while it is off begins with that, and not with what its flag says.
async fn a_new_leader_is_in_the_mode_of_the_last_one() {
    let mut world = World::start().await;
    classes(&world).await;
    full(&world).await;
    giveway(&mut world, &["observe"]).await.ok();
    let vip = world.gang("vip", 4).priority("high").create().await;
    vip.wait_condition(SCHEDULED, "False", "Observing", MINUTE).await;
    world.operator().kill();
    let late = world.gang("late", 4).priority("high").create().await;
    world.operator().start().await;
    late.wait_condition(SCHEDULED, "False", "Observing", MINUTE).await;
    nobody_was_evicted(&world).await;
    world.check_promises().await;
}

async fn a_plan_in_flight_finishes_the_group_that_it_began_and_nobody_else_goes() {
    let mut world = World::builder().operator_flag("--evictions-per-second=1").start().await;
    classes(&world).await;
    let nodes = world.nodes(4).cpus(5).create().await;
    let low = world.fill(&nodes).priority("low").whole().grace_seconds(1).groups_of(5).await;
    let vip = world.gang("vip", 20).priority("high").create().await;
    wait_for("the first ones are evicted", MINUTE, async || {
        let evicted = world.audit().await.evicted().len();
        if evicted > 0 { Ok(()) } else { Err("nobody was evicted".to_owned()) }
    })
    .await;
    giveway(&mut world, &["observe"]).await.ok();
    let message = wait_for("the plan is over", MINUTE, async || {
        let plans = stored_plans(&world.client()).await.map_err(|error| error.to_string())?;
        let over = plans.iter().find(|plan| plan.state == PlanState::Cancelled);
        over.map(|plan| plan.message.clone()).ok_or_else(|| format!("{plans:?}"))
    })
    .await;
    assert_eq!(message, format!("{OBSERVES}; what was begun is finished, and nobody else goes."));
    let evicted = world.audit().await.evicted_names();
    let whole = low.iter().filter(|group| group.pods.iter().all(|pod| evicted.contains(&pod.name))).count();
    assert!((1..4).contains(&whole), "{evicted:?}");
    assert_eq!(evicted.len(), 5 * whole, "nobody of the others: {evicted:?}");
    vip.wait_condition(SCHEDULED, "False", "Observing", MINUTE).await;
    giveway(&mut world, &["resume"]).await.ok();
    vip.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names().into_iter().collect::<BTreeSet<_>>().len(), 20);
    world.check_promises().await;
}

async fn the_rest_of_a_group_of_which_kube_scheduler_took_a_pod_stays_and_the_group_says_so(world: &mut World) {
    world.class("low", 10).managed().create().await;
    world.class("stock", 1000).create().await;
    let nodes = world.nodes(1).cpus(4).create().await;
    let low = world.fill(&nodes).priority("low").whole().groups_of(4).await;
    low[0].wait_condition(SCHEDULED, "True", "Scheduled", MINUTE).await;
    giveway(world, &["observe"]).await.ok();
    wait_for("it observes", MINUTE, async || {
        let metrics = world.operator_metrics().await;
        if metrics.contains("giveway_operator_mode{mode=\"observe\"} 1") { Ok(()) } else { Err(metrics) }
    })
    .await;
    world.pod("stock").priority("stock").create().await.wait_bound(MINUTE).await;
    let told = low[0].wait_event("Observing", MINUTE).await;
    let words = format!(". {OBSERVES}: 3 more pods stay, though the group should go whole.");
    assert!(told.starts_with("kube-scheduler took pod ") && told.ends_with(&words), "{told}");
    nobody_was_evicted(world).await;
    let three = world.kubectl(&["get", "pods", "-n", "default", "-o", "name"]).await.unwrap();
    assert_eq!(three.lines().count(), 4, "three of the group, and the one that took a place: {three}");
    world.check(&Promises::new().allow_torn(1)).await;
}

/// Whoever may switch Giveway may stop it for everybody: that takes a right on one ConfigMap, which no tenant has.
async fn only_who_has_the_right_switches(world: &mut World) {
    world.apply(PEOPLE).await.unwrap();
    let (tenant, boss) = (Person::new(world, "tenant").await, Person::new(world, "boss").await);
    // A ConfigMap of that name in a namespace of his own switches nothing.
    let own = world.kubectl(&["create", "configmap", "giveway-mode", "-n", "team", "--from-literal=mode=off"]).await;
    own.unwrap();
    for switch in ["pause", "observe"] {
        let no = giveway(world, &[switch, "--giveway-namespace=team"]).await;
        let words =
            "--giveway-namespace: \"team\": no Giveway is installed there: it has no Deployment giveway-operator";
        assert!(no.status == Some(2) && no.err.contains(words), "{switch}: {}", no.err);
    }
    for args in [["pause"], ["observe"], ["resume"]] {
        let no = tenant.giveway(&args).await;
        let words = "is forbidden: User \"system:serviceaccount:team:tenant\" cannot ";
        assert!(no.status == Some(1) && no.err.contains(words), "{args:?}: {}", no.err);
    }
    let no = boss.giveway(&["pause"]).await;
    let advice = "the chart's Role giveway-switch allows it: kubectl create rolebinding NAME --role=giveway-switch --user=system:serviceaccount:team:boss --namespace=giveway-system";
    assert!(no.err.trim().ends_with(advice), "{}", no.err);
    let (_, command) = advice.split_once(": kubectl ").unwrap();
    world.kubectl(&command.replace("NAME", "boss").split(' ').collect::<Vec<_>>()).await.unwrap();
    boss.works(&["pause"]).await;
    let gang: Group = world.gang("lacks", 2).without_pods().create().await;
    world.pod("one").label(keys::LABEL_POD_GROUP, "lacks").create().await;
    wait_let_go(&gang, 1).await;
    assert_eq!(boss.giveway(&["resume"]).await.status, Some(0));
    // Nor does the operator's own token switch anything.
    let operator = crate::rights::thief(world, "giveway-operator").await;
    let put =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "giveway-mode"}, "data": {"mode": "off"}});
    let path = MAP.trim_end_matches("/giveway-mode");
    Call::post(path, &put).dry().refused(&operator, "a switch", "cannot create resource \"configmaps\"").await;
    world.check_promises().await;
}

//! Topology constraints: a gang is placed in one domain, which is chosen by cost, and its pods get a node selector for it.

use crate::cli::{Reader, giveway};
use crate::constraints::{HOST, SOON, spread};
use crate::{INITIALLY_SCHEDULED, MINUTE, PREEMPTING, expect_condition};
use giveway_crds::constraints::SchedulingConstraints;
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_tests::audit::OPERATOR;
use giveway_tests::cluster::{Group, GroupBuilder, Shaped, scheduling_gates};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use serde_json::Value;
use std::collections::BTreeSet;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_gang_gets_the_rack_with_the_fewest_victims_including_those_in_other_racks,
            a_gang_in_a_rack_is_spread_over_the_nodes_of_that_rack,
            no_pod_is_evicted_if_no_rack_is_large_enough,
            a_replacement_pod_stays_in_the_rack_of_its_gang,
            nodes_without_the_label_are_not_used,
            a_plan_is_replaced_by_one_in_another_rack_if_its_rack_is_cordoned,
            a_gang_follows_the_node_selector_of_a_member_and_two_selectors_are_unschedulable,
            a_group_from_a_template_has_its_topology_constraint,
            plan_prints_the_rack_and_explain_lists_the_others;
        release:
            the_next_leader_keeps_the_rack_of_the_plan,
            an_ungated_gang_waits_for_its_rack_although_another_one_is_free;
    ]
}

/// Label key whose values are the racks.
const RACK: &str = "example.com/rack";

async fn create_classes(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("mid", 500).managed().create().await;
    world.class("high", 1000).managed().create().await;
}

/// Creates the two nodes of a rack, `NAME-000` and `NAME-001`.
async fn create_rack(world: &World, name: &str, cpus: u32) -> Vec<String> {
    world.nodes(2).cpus(cpus).prefix(name).label(RACK, name).create().await
}

/// Returns a builder of a gang that is constrained to one rack.
fn gang(world: &World, name: &str, size: usize) -> GroupBuilder {
    world.gang(name, size).priority("high").spec(one_rack)
}

fn one_rack(spec: &mut giveway_crds::PodGroupSpec) {
    spec.scheduling_constraints = Some(SchedulingConstraints::topology(RACK));
}

/// Returns the racks of these nodes.
fn racks_of(nodes: &[String]) -> BTreeSet<&str> {
    nodes.iter().filter_map(|node| node.rsplit_once('-')).map(|(rack, _)| rack).collect()
}

/// Creates groups of 8 in mode `PodGroup`, each with 4 pods on both nodes.
async fn create_groups_on_two_nodes(
    world: &World,
    prefix: &str,
    class: &str,
    nodes: &[&str; 2],
    count: usize,
) -> Vec<Group> {
    let mut groups = Vec::new();
    for index in 0..count {
        let builder = world.gang(&format!("{prefix}-{index}"), 8).priority(class).whole();
        groups.push(builder.on(nodes).create().await);
    }
    groups
}

/// Checks that the node selector of every member consists of this rack and that no member is gated.
async fn expect_selector(group: &Group, rack: &str) {
    for pod in group.members().await.unwrap() {
        let selector = pod.spec.clone().unwrap().node_selector.unwrap_or_default();
        let selector: Vec<(&str, &str)> = selector.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(selector, [(RACK, rack)], "{:?}", pod.metadata.name);
        assert_eq!(scheduling_gates(&pod), Vec::<String>::new());
    }
}

fn domain(plan: &StoredPlan) -> String {
    plan.domain.as_ref().map(ToString::to_string).unwrap_or_default()
}

async fn a_gang_gets_the_rack_with_the_fewest_victims_including_those_in_other_racks(world: &World) {
    create_classes(world).await;
    let (r1, r2, r3) =
        (create_rack(world, "r1", 8).await, create_rack(world, "r2", 8).await, create_rack(world, "r3", 8).await);
    // A plan in r1 or r2 evicts 32 pods, half of them in the other rack; a plan in r3 evicts 16.
    create_groups_on_two_nodes(world, "left", "low", &[&r1[0], &r2[0]], 2).await;
    create_groups_on_two_nodes(world, "right", "low", &[&r1[1], &r2[1]], 2).await;
    world.fill(&r3).priority("low").prefix("alone").whole().groups_of(8).await;
    let train = gang(world, "train", 16).create().await;
    let bound = train.wait_bound(MINUTE).await;
    assert_eq!(racks_of(&bound), BTreeSet::from(["r3"]));
    let plan = train.wait_plan(PlanState::Completed, MINUTE).await;
    assert_eq!(
        (domain(&plan).as_str(), plan.cost.victim_pods, plan.cost.victim_groups),
        ("example.com/rack=r3", 16, 2)
    );
    expect_selector(&train, "r3").await;
    let words = "16 pods, among them 2 whole pod groups, of priority 10 or less are evicted for 16 pods of pod group \
                 default/train with priority 1000 in example.com/rack=r3.";
    assert_eq!(train.wait_event("Planned", MINUTE).await, words);
    expect_condition(
        &train,
        INITIALLY_SCHEDULED,
        "True Scheduled",
        "16 pods have a node in example.com/rack=r3, 16 needed.",
    )
    .await;
    expect_condition(&train, PREEMPTING, "False Completed", &words.replace(" are evicted ", " were evicted ")).await;

    // With r3 in use, r1 and r2 cost four groups each, and r1 is first by name. Half of r2 becomes free too.
    let more = gang(world, "more", 16).create().await;
    let bound = more.wait_bound(MINUTE).await;
    assert_eq!(racks_of(&bound), BTreeSet::from(["r1"]));
    let plan = more.wait_plan(PlanState::Completed, MINUTE).await;
    assert_eq!(
        (domain(&plan).as_str(), plan.cost.victim_pods, plan.cost.victim_groups),
        ("example.com/rack=r1", 32, 4)
    );
    // The third gang fits in r2 without evictions.
    let last = gang(world, "last", 16).create().await;
    assert_eq!(racks_of(&last.wait_bound(MINUTE).await), BTreeSet::from(["r2"]));
    expect_selector(&last, "r2").await;
    assert_eq!(world.audit().await.evicted().len(), 48);
    world.check_promises().await;
    check_ungating_requests(world).await;
}

/// kube-scheduler applies the node selector before topology spread, so nodes of other racks do not count.
async fn a_gang_in_a_rack_is_spread_over_the_nodes_of_that_rack(world: &World) {
    create_classes(world).await;
    let (r1, r2) = (create_rack(world, "r1", 4).await, create_rack(world, "r2", 4).await);
    world.fill(&r1).priority("low").prefix("low").singles().await;
    world.fill(&r2).priority("mid").prefix("mid").singles().await;
    world.nodes(1).cpus(4).prefix("r3").label(RACK, "r3").create().await;
    let even = |name: &str, size| gang(world, name, size).label("app", name).pod_spec(spread(name, &[(HOST, 1)]));
    // All four pods are bound to the only node of rack r3.
    let small = even("small", 4).create().await;
    assert_eq!(racks_of(&small.wait_bound(SOON).await), BTreeSet::from(["r3"]));
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    let train = even("train", 6).create().await;
    let bound = train.wait_bound(SOON).await;
    assert_eq!(racks_of(&bound), BTreeSet::from(["r1"]));
    assert_eq!(bound.iter().filter(|node| **node == r1[0]).count(), 3, "{bound:?}");
    assert_eq!(world.audit().await.evicted().len(), 6);
    world.check_promises().await;
}

/// Checks that gate and node selector of each pod were changed in one request, so no pod was ungated without its selector.
async fn check_ungating_requests(world: &World) {
    let lines = world.audit_lines().await;
    let of_operator = lines.iter().filter(|line| line.user.username == OPERATOR && line.verb == "patch");
    let of_pods = |line: &&giveway_tests::audit::log::Line| {
        line.object_ref.resource == "pods" && line.object_ref.subresource.is_empty()
    };
    let specs = of_operator.filter(of_pods).filter(|line| !line.is_dry_run());
    let specs: Vec<&Value> = specs.filter_map(|line| line.request_object.get("spec")).collect();
    assert_eq!(specs.len(), 48, "one request per pod: {specs:?}");
    for spec in specs {
        let set = (spec.get("schedulingGates").is_some(), spec.pointer("/nodeSelector/example.com~1rack").is_some());
        assert_eq!(set, (true, true), "{spec}");
    }
}

async fn no_pod_is_evicted_if_no_rack_is_large_enough(world: &mut World) {
    create_classes(world).await;
    for name in ["r1", "r2", "r3"] {
        let nodes = create_rack(world, name, 8).await;
        world.fill(&nodes).priority("low").prefix(name).whole().groups_of(8).await;
    }
    let train = gang(world, "train", 20).create().await;
    let message = train.wait_condition(INITIALLY_SCHEDULED, "False", "Unschedulable", MINUTE).await;
    assert!(message.starts_with("20 pods needed, 0 fit now."), "{message}");
    assert!(
        message.contains("example.com/rack=r"),
        "the message names the rack with the smallest shortfall: {message}"
    );
    let printed = giveway(world, &["why", "podgroup/train"]).await;
    for part in ["State: Unschedulable", "Topology: one value of example.com/rack", "example.com/rack=r"] {
        assert!(printed.ok().contains(part), "{part} is not in:\n{}", printed.out);
    }
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    for pod in train.members().await.unwrap() {
        assert_eq!(scheduling_gates(&pod), [giveway_crds::keys::GATE]);
    }
    // With one more node in rack r2 the gang fits.
    world.nodes(1).cpus(8).prefix("r2-more").label(RACK, "r2").create().await;
    let nodes = train.wait_bound(MINUTE).await;
    assert!(nodes.iter().all(|node| node.starts_with("r2-")), "{nodes:?}");
    expect_selector(&train, "r2").await;
    world.check_promises().await;
}

async fn a_replacement_pod_stays_in_the_rack_of_its_gang(world: &World) {
    create_classes(world).await;
    let r1 = create_rack(world, "r1", 4).await;
    let mut train = gang(world, "train", 8).create().await;
    assert_eq!(racks_of(&train.wait_bound(MINUTE).await), BTreeSet::from(["r1"]));
    expect_condition(
        &train,
        INITIALLY_SCHEDULED,
        "True Scheduled",
        "8 pods have a node in example.com/rack=r1, 8 needed.",
    )
    .await;
    // An empty rack is added, and another pod uses the capacity of a deleted member.
    create_rack(world, "r2", 4).await;
    let deleted = train.pods.pop().unwrap();
    let node = deleted.wait_bound(MINUTE).await;
    deleted.delete().await;
    deleted.wait_removed(MINUTE).await;
    let squatter = world.pod("squatter").priority("low").on(&node).create().await;
    train.add_pods(1).await;
    let replacement = train.pods.last().unwrap().clone();
    assert_eq!(replacement.wait_bound(MINUTE).await, node, "it preempts in its rack and does not use the free rack");
    squatter.wait_removed(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names(), ["squatter"]);
    expect_selector(&train, "r1").await;
    assert!(r1.contains(&node));
    world.check_promises().await;
}

async fn nodes_without_the_label_are_not_used(world: &World) {
    create_classes(world).await;
    world.nodes(2).cpus(8).prefix("bare").create().await;
    let r1 = create_rack(world, "r1", 4).await;
    world.fill(&r1).priority("low").whole().groups_of(4).await;
    let train = gang(world, "train", 8).create().await;
    assert_eq!(racks_of(&train.wait_bound(MINUTE).await), BTreeSet::from(["r1"]));
    assert_eq!(world.audit().await.evicted().len(), 8, "victims are evicted although nodes without the label are free");
    // No node has this label.
    let blocks = world.gang("blocks", 2).priority("high");
    let blocks =
        blocks.spec(|spec| spec.scheduling_constraints = Some(SchedulingConstraints::topology("example.com/block")));
    let blocks = blocks.create().await;
    let message = blocks.wait_condition(INITIALLY_SCHEDULED, "False", "Unschedulable", MINUTE).await;
    assert!(message.starts_with("2 pods needed, 0 fit now."), "{message}");
    assert_eq!(world.audit().await.evicted().len(), 8, "no further pod is evicted");
    world.kubectl(&["label", "node", "bare-000", "example.com/block=b1"]).await.unwrap();
    assert_eq!(blocks.wait_bound(MINUTE).await, ["bare-000", "bare-000"]);
    world.check_promises().await;
}

async fn a_plan_is_replaced_by_one_in_another_rack_if_its_rack_is_cordoned(world: &World) {
    create_classes(world).await;
    let (r1, r2) = (create_rack(world, "r1", 4).await, create_rack(world, "r2", 4).await);
    // Of plans with equal cost the one with the latest start of its victims is chosen, then the first by name.
    for (name, nodes) in [("second", &r2), ("first", &r1)] {
        world.fill(nodes).priority("low").prefix(name).grace_seconds(4).whole().groups_of(4).await;
    }
    let train = gang(world, "train", 8).create().await;
    let plan = train.wait_plan(PlanState::WaitingForVictims, MINUTE).await;
    assert_eq!(domain(&plan), "example.com/rack=r1");
    expect_condition(
        &train,
        INITIALLY_SCHEDULED,
        "False WaitingForPreemption",
        "8 pods wait for capacity in example.com/rack=r1: ",
    )
    .await;
    for node in &r1 {
        world.kubectl(&["cordon", node]).await.unwrap();
    }
    assert_eq!(racks_of(&train.wait_bound(MINUTE).await), BTreeSet::from(["r2"]));
    expect_selector(&train, "r2").await;
    let next = train.wait_plan(PlanState::Completed, MINUTE).await;
    assert_eq!((domain(&next).as_str(), next.id == plan.id), ("example.com/rack=r2", false));
    let message = train.wait_event("Cancelled", MINUTE).await;
    assert!(message.starts_with("The plan became infeasible while victims terminated: "), "{message}");
    world.check_promises().await;
}

async fn the_next_leader_keeps_the_rack_of_the_plan() {
    let mut world = World::start().await;
    create_classes(&world).await;
    let (r1, r2) = (create_rack(&world, "r1", 2).await, create_rack(&world, "r2", 2).await);
    // Of plans with equal cost the one with the latest start of its victims is chosen, then the first by name.
    for (name, nodes) in [("second", &r2), ("first", &r1)] {
        world.fill(nodes).priority("low").prefix(name).grace_seconds(8).whole().groups_of(4).await;
    }
    let train = gang(&world, "train", 4).create().await;
    let plan = train.wait_plan(PlanState::WaitingForVictims, MINUTE).await;
    assert_eq!(domain(&plan), "example.com/rack=r1");
    world.operator().kill();
    world.operator().start().await;
    assert_eq!(racks_of(&train.wait_bound(MINUTE).await), BTreeSet::from(["r1"]));
    let done = train.wait_plan(PlanState::Completed, MINUTE).await;
    assert_eq!((done.id, done.domain), (plan.id, plan.domain));
    expect_selector(&train, "r1").await;
    assert_eq!(world.audit().await.evicted().len(), 4);
    world.check_promises().await;
}

async fn an_ungated_gang_waits_for_its_rack_although_another_one_is_free() {
    let mut world = World::start().await;
    create_classes(&world).await;
    let (r1, _) = (create_rack(&world, "r1", 2).await, create_rack(&world, "r2", 2).await);
    // Without kube-scheduler no ungated pod is bound.
    world.plane().process("kube-scheduler").unwrap().kill();
    let train = gang(&world, "train", 4).create().await;
    wait_for("all members are ungated", MINUTE, async || {
        let members = train.members().await.map_err(|error| error.to_string())?;
        let gated = members.iter().filter(|pod| !scheduling_gates(pod).is_empty()).count();
        if gated == 0 { Ok(()) } else { Err(format!("{gated} are gated")) }
    })
    .await;
    expect_selector(&train, "r1").await;
    for node in &r1 {
        world.kubectl(&["cordon", node]).await.unwrap();
    }
    world.plane().restart("kube-scheduler").unwrap();
    train.wait_event("Failed", MINUTE).await;
    let message = train.wait_condition(INITIALLY_SCHEDULED, "False", "Unschedulable", MINUTE).await;
    assert!(message.starts_with("4 pods needed, 0 fit now."), "{message}");
    for node in &r1 {
        world.kubectl(&["uncordon", node]).await.unwrap();
    }
    assert_eq!(racks_of(&train.wait_bound(MINUTE).await), BTreeSet::from(["r1"]));
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}

async fn a_gang_follows_the_node_selector_of_a_member_and_two_selectors_are_unschedulable(world: &World) {
    create_classes(world).await;
    let (_, r2) = (create_rack(world, "r1", 4).await, create_rack(world, "r2", 4).await);
    world.fill(&r2).priority("low").singles().await;
    // One of four members has a node selector for the full rack, so all members are placed there.
    let mut train = gang(world, "train", 4).create_group().await;
    train.add_pods(3).await;
    let selecting = world.pod("selects").priority("high").label(giveway_crds::keys::LABEL_POD_GROUP, "train");
    let selecting = selecting.node_selector(RACK, "r2").create().await;
    let mut nodes = train.wait_bound(MINUTE).await;
    nodes.push(selecting.wait_bound(MINUTE).await);
    assert_eq!(racks_of(&nodes), BTreeSet::from(["r2"]));
    assert_eq!(world.audit().await.evicted().len(), 4);
    expect_selector(&train, "r2").await;
    // Two members with selectors for different racks can never be in one rack.
    let split = gang(world, "split", 2).create_group().await;
    for (name, rack) in [("split-a", "r1"), ("split-b", "r2")] {
        let pod = world.pod(name).priority("high").label(giveway_crds::keys::LABEL_POD_GROUP, "split");
        pod.node_selector(RACK, rack).create().await;
    }
    let message = split.wait_condition(INITIALLY_SCHEDULED, "False", "Unschedulable", MINUTE).await;
    let why = "The pods of the group cannot all be on nodes with one value of label example.com/rack: pod split-a asks for r1 in its nodeSelector, pod \
    split-b asks for r2 in its nodeSelector.";
    assert!(message.starts_with("2 pods needed, 1 fits now.") && message.contains(why), "{message}");
    split.wait_event("Unschedulable", MINUTE).await;
    // Later changes of the cluster do not repeat the event.
    world.pod("other").priority("low").create().await.wait_bound(MINUTE).await;
    assert_eq!(
        split.events().await.iter().filter(|event| event.reason == "Unschedulable").count(),
        1,
        "the event is written once"
    );
    assert_eq!(world.audit().await.evicted().len(), 4, "no pod is evicted for it");
    world.check_promises().await;
}

async fn a_group_from_a_template_has_its_topology_constraint(world: &World) {
    create_classes(world).await;
    create_rack(world, "r1", 1).await;
    create_rack(world, "r2", 1).await;
    world.apply(WORKLOAD).await.unwrap();
    let mut pods = Vec::new();
    for replica in ["0", "1"] {
        for index in 0..2 {
            let pod = world.pod(&format!("serve-{replica}-{index}"));
            let pod = pod.label(giveway_crds::keys::LABEL_WORKLOAD, "serve");
            let pod = pod.label(giveway_crds::keys::LABEL_TEMPLATE, "worker");
            pods.push(pod.label(giveway_crds::keys::LABEL_REPLICA, replica).create().await);
        }
    }
    let mut nodes = Vec::new();
    for pod in &pods {
        nodes.push(pod.wait_bound(MINUTE).await);
    }
    let racks = [racks_of(&nodes[..2]), racks_of(&nodes[2..])];
    assert!(
        racks.iter().all(|racks| racks.len() == 1) && racks[0] != racks[1],
        "each replica has a rack of its own: {racks:?}"
    );
    let made = world.gang("serve-worker-0", 2).without_group().get().await;
    assert_eq!(made.spec.topology_key(), Some(RACK));
    world.check_promises().await;
}

const WORKLOAD: &str = "
apiVersion: scheduling.giveway.dev/v1alpha1
kind: Workload
metadata: {name: serve}
spec:
  podGroupTemplates:
  - name: worker
    schedulingPolicy: {gang: {minCount: 2}}
    schedulingConstraints: {topology: [{key: example.com/rack}]}
    disruptionMode: PodGroup
    priorityClassName: high
";

async fn plan_prints_the_rack_and_explain_lists_the_others(world: &mut World) {
    create_classes(world).await;
    let (r1, r2) = (create_rack(world, "r1", 2).await, create_rack(world, "r2", 2).await);
    world.fill(&r1).priority("mid").prefix("dear").singles().await;
    world.fill(&r2).priority("low").prefix("cheap").singles().await;
    let reader = Reader::new(world).await;
    let directory = tempfile::tempdir().unwrap();
    let manifest = directory.path().join("train.yaml");
    std::fs::write(&manifest, TRAINING).unwrap();
    let manifest = manifest.display().to_string();
    let plan = reader.giveway(&["plan", "-f", &manifest, "-o", "json"]).await.json();
    assert_eq!(plan["domain"], serde_json::json!({"key": RACK, "value": "r2"}), "{plan:#}");
    let table = reader.giveway(&["plan", "-f", &manifest, "--explain"]).await;
    for part in [
        "It fits in example.com/rack=r2 once its victims have terminated: 4 pods",
        "- example.com/rack=r2: 4 members, 4 pods",
    ] {
        assert!(table.ok().contains(part), "{part} is not in:\n{}", table.out);
    }
    // A domain whose lower bound is above the best cost need not be searched; the output counts such domains.
    assert!(table.out.contains("- example.com/rack=r1: ") || table.out.contains("not searched"), "{}", table.out);
    world.apply(TRAINING).await.unwrap();
    let train = world.gang("train", 4).without_group();
    let done = train.wait_plan(PlanState::Completed, MINUTE).await;
    assert_eq!(domain(&done), "example.com/rack=r2");
    let page = reader.giveway(&["why", "podgroup/train"]).await;
    for part in [
        "Topology: one value of example.com/rack: its pods are in r2",
        "Places: 4 pods in example.com/rack=r2 on r2-000",
    ] {
        assert!(page.ok().contains(part), "{part} is not in:\n{}", page.out);
    }
    wait_for("kubectl shows the domain", MINUTE, async || {
        let shown = world.kubectl(&["get", "gpr", "-o", "wide"]).await?;
        if shown.contains("DOMAIN") && shown.contains(" r2 ") { Ok(()) } else { Err(shown) }
    })
    .await;
    world.check_promises().await;
}

/// Manifest of a gang with a topology constraint: a PodGroup and a Job.
const TRAINING: &str = "
apiVersion: scheduling.giveway.dev/v1alpha1
kind: PodGroup
metadata: {name: train}
spec:
  schedulingPolicy: {gang: {minCount: 4}}
  schedulingConstraints: {topology: [{key: example.com/rack}]}
  disruptionMode: PodGroup
  priorityClassName: high
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 4
  completions: 4
  template:
    metadata: {labels: {scheduling.giveway.dev/pod-group: train}}
    spec:
      restartPolicy: Never
      tolerations: [{operator: Exists}]
      containers: [{name: main, image: train, resources: {requests: {cpu: '1'}}}]
";

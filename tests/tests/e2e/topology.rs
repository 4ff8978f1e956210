//! A gang that asks for one domain of topology gets one: chosen by what it costs, kept by a node selector, never left.

use crate::cli::{Reader, giveway};
use crate::constraints::{HOST, SOON, spread};
use crate::{MINUTE, PLANNED, SCHEDULED, told};
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
            a_gang_takes_the_rack_that_costs_least_with_the_pods_that_go_in_other_racks,
            a_gang_in_a_rack_is_spread_over_the_nodes_of_that_rack,
            where_no_rack_is_large_enough_nobody_is_evicted_and_it_is_said,
            a_member_that_comes_back_stays_in_the_rack_of_the_others,
            nodes_without_the_label_are_in_no_rack,
            when_its_rack_is_cordoned_under_way_a_plan_is_dropped_and_the_next_one_takes_another,
            who_asks_for_a_rack_himself_gets_that_one_and_for_two_none,
            a_group_of_a_template_asks_for_what_the_template_asks,
            the_command_line_tells_the_rack_and_with_explain_those_that_were_tried;
        release:
            the_next_leader_keeps_the_rack_of_the_plan,
            who_was_released_into_a_rack_waits_there_although_there_is_room_elsewhere;
    ]
}

/// The label whose values are the racks.
const RACK: &str = "example.com/rack";

async fn classes(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("mid", 500).managed().create().await;
    world.class("high", 1000).managed().create().await;
}

/// Two nodes of a rack, called `RACK-000` and `RACK-001`.
async fn rack(world: &World, name: &str, cpus: u32) -> Vec<String> {
    world.nodes(2).cpus(cpus).prefix(name).label(RACK, name).create().await
}

/// A gang that asks for one rack.
fn gang(world: &World, name: &str, size: usize) -> GroupBuilder {
    world.gang(name, size).priority("high").spec(one_rack)
}

fn one_rack(spec: &mut giveway_crds::PodGroupSpec) {
    spec.scheduling_constraints = Some(SchedulingConstraints::topology(RACK));
}

/// The racks of these nodes.
fn racks_of(nodes: &[String]) -> BTreeSet<&str> {
    nodes.iter().filter_map(|node| node.rsplit_once('-')).map(|(rack, _)| rack).collect()
}

/// Whole groups of 8, each with 4 pods on either node.
async fn span(world: &World, prefix: &str, class: &str, nodes: &[&str; 2], count: usize) -> Vec<Group> {
    let mut groups = Vec::new();
    for index in 0..count {
        let builder = world.gang(&format!("{prefix}-{index}"), 8).priority(class).whole();
        groups.push(builder.on(nodes).create().await);
    }
    groups
}

/// Every member asks for this rack, and for nothing else.
async fn selects(group: &Group, rack: &str) {
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

async fn a_gang_takes_the_rack_that_costs_least_with_the_pods_that_go_in_other_racks(world: &World) {
    classes(world).await;
    let (r1, r2, r3) = (rack(world, "r1", 8).await, rack(world, "r2", 8).await, rack(world, "r3", 8).await);
    // Who takes r1 or r2 evicts 32 pods, half of them in the other rack; in r3 it is 16.
    span(world, "left", "low", &[&r1[0], &r2[0]], 2).await;
    span(world, "right", "low", &[&r1[1], &r2[1]], 2).await;
    world.fill(&r3).priority("low").prefix("alone").whole().groups_of(8).await;
    let train = gang(world, "train", 16).create().await;
    let bound = train.wait_bound(MINUTE).await;
    assert_eq!(racks_of(&bound), BTreeSet::from(["r3"]));
    let plan = train.wait_plan(PlanState::Completed, MINUTE).await;
    assert_eq!(
        (domain(&plan).as_str(), plan.cost.victim_pods, plan.cost.victim_groups),
        ("example.com/rack=r3", 16, 2)
    );
    selects(&train, "r3").await;
    let words = "16 pods, among them 2 whole pod groups, of priority 10 or less give way to 16 pods of pod group \
                 default/train with priority 1000 in example.com/rack=r3.";
    assert_eq!(train.wait_event("Planned", MINUTE).await, words);
    told(&train, SCHEDULED, "True Scheduled", "16 pods have a node in example.com/rack=r3, 16 needed.").await;
    told(&train, PLANNED, "False Completed", words).await;

    // With r3 taken, either of the others costs four groups; the first name decides, and room is left in the second.
    let more = gang(world, "more", 16).create().await;
    let bound = more.wait_bound(MINUTE).await;
    assert_eq!(racks_of(&bound), BTreeSet::from(["r1"]));
    let plan = more.wait_plan(PlanState::Completed, MINUTE).await;
    assert_eq!(
        (domain(&plan).as_str(), plan.cost.victim_pods, plan.cost.victim_groups),
        ("example.com/rack=r1", 32, 4)
    );
    // The third one finds r2 empty.
    let last = gang(world, "last", 16).create().await;
    assert_eq!(racks_of(&last.wait_bound(MINUTE).await), BTreeSet::from(["r2"]));
    selects(&last, "r2").await;
    assert_eq!(world.audit().await.evicted().len(), 48);
    world.check_promises().await;
    gate_and_selector_go_together(world).await;
}

/// kube-scheduler sees the node selector, and spreads over the nodes of the rack alone: the empty ones of others are nothing to it.
async fn a_gang_in_a_rack_is_spread_over_the_nodes_of_that_rack(world: &World) {
    classes(world).await;
    let (r1, r2) = (rack(world, "r1", 4).await, rack(world, "r2", 4).await);
    world.fill(&r1).priority("low").prefix("low").singles().await;
    world.fill(&r2).priority("mid").prefix("mid").singles().await;
    world.nodes(1).cpus(4).prefix("r3").label(RACK, "r3").create().await;
    let even = |name: &str, size| gang(world, name, size).label("app", name).pod_spec(spread(name, &[(HOST, 1)]));
    // Over its only node, on which all four fit.
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

/// Each release is one request: no pod is ever free to go without the selector.
async fn gate_and_selector_go_together(world: &World) {
    let lines = world.audit_lines().await;
    let of_operator = lines.iter().filter(|line| line.user.username == OPERATOR && line.verb == "patch");
    let specs = of_operator.filter(|line| line.object_ref.resource == "pods" && line.object_ref.subresource.is_empty());
    let specs: Vec<&Value> = specs.filter_map(|line| line.request_object.get("spec")).collect();
    assert_eq!(specs.len(), 48, "one a pod: {specs:?}");
    for spec in specs {
        let set = (spec.get("schedulingGates").is_some(), spec.pointer("/nodeSelector/example.com~1rack").is_some());
        assert_eq!(set, (true, true), "{spec}");
    }
}

async fn where_no_rack_is_large_enough_nobody_is_evicted_and_it_is_said(world: &mut World) {
    classes(world).await;
    for name in ["r1", "r2", "r3"] {
        let nodes = rack(world, name, 8).await;
        world.fill(&nodes).priority("low").prefix(name).whole().groups_of(8).await;
    }
    let train = gang(world, "train", 20).create().await;
    let message = train.wait_condition(SCHEDULED, "False", "Unschedulable", MINUTE).await;
    assert!(message.starts_with("20 pods needed, 0 fit now."), "{message}");
    assert!(message.contains("example.com/rack=r"), "it names the rack that comes nearest: {message}");
    let printed = giveway(world, &["why", "podgroup/train"]).await;
    for part in ["State: Unschedulable", "Topology: one value of example.com/rack", "example.com/rack=r"] {
        assert!(printed.ok().contains(part), "{part} is not in:\n{}", printed.out);
    }
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    for pod in train.members().await.unwrap() {
        assert_eq!(scheduling_gates(&pod), [giveway_crds::keys::GATE]);
    }
    // One more node in a rack is what helps.
    world.nodes(1).cpus(8).prefix("r2-more").label(RACK, "r2").create().await;
    let nodes = train.wait_bound(MINUTE).await;
    assert!(nodes.iter().all(|node| node.starts_with("r2-")), "{nodes:?}");
    selects(&train, "r2").await;
    world.check_promises().await;
}

async fn a_member_that_comes_back_stays_in_the_rack_of_the_others(world: &World) {
    classes(world).await;
    let r1 = rack(world, "r1", 4).await;
    let mut train = gang(world, "train", 8).create().await;
    assert_eq!(racks_of(&train.wait_bound(MINUTE).await), BTreeSet::from(["r1"]));
    told(&train, SCHEDULED, "True Scheduled", "8 pods have a node in example.com/rack=r1, 8 needed.").await;
    // An empty rack appears; the place of a member that dies is taken at once.
    rack(world, "r2", 4).await;
    let dead = train.pods.pop().unwrap();
    let node = dead.wait_bound(MINUTE).await;
    dead.delete().await;
    dead.wait_gone(MINUTE).await;
    let squatter = world.pod("squatter").priority("low").on(&node).create().await;
    train.add_pods(1).await;
    let back = train.pods.last().unwrap().clone();
    assert_eq!(back.wait_bound(MINUTE).await, node, "it takes its place again, and no free one elsewhere");
    squatter.wait_gone(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names(), ["squatter"]);
    selects(&train, "r1").await;
    assert!(r1.contains(&node));
    world.check_promises().await;
}

async fn nodes_without_the_label_are_in_no_rack(world: &World) {
    classes(world).await;
    world.nodes(2).cpus(8).prefix("bare").create().await;
    let r1 = rack(world, "r1", 4).await;
    world.fill(&r1).priority("low").whole().groups_of(4).await;
    let train = gang(world, "train", 8).create().await;
    assert_eq!(racks_of(&train.wait_bound(MINUTE).await), BTreeSet::from(["r1"]));
    assert_eq!(world.audit().await.evicted().len(), 8, "although there is free room without the label");
    // Nobody has this label.
    let blocks = world.gang("blocks", 2).priority("high");
    let blocks =
        blocks.spec(|spec| spec.scheduling_constraints = Some(SchedulingConstraints::topology("example.com/block")));
    let blocks = blocks.create().await;
    let message = blocks.wait_condition(SCHEDULED, "False", "Unschedulable", MINUTE).await;
    assert!(message.starts_with("2 pods needed, 0 fit now."), "{message}");
    assert_eq!(world.audit().await.evicted().len(), 8, "nobody more");
    world.kubectl(&["label", "node", "bare-000", "example.com/block=b1"]).await.unwrap();
    assert_eq!(blocks.wait_bound(MINUTE).await, ["bare-000", "bare-000"]);
    world.check_promises().await;
}

async fn when_its_rack_is_cordoned_under_way_a_plan_is_dropped_and_the_next_one_takes_another(world: &World) {
    classes(world).await;
    let (r1, r2) = (rack(world, "r1", 4).await, rack(world, "r2", 4).await);
    // Of two that cost the same those go that started last, and then the name decides.
    for (name, nodes) in [("second", &r2), ("first", &r1)] {
        world.fill(nodes).priority("low").prefix(name).grace_seconds(4).whole().groups_of(4).await;
    }
    let train = gang(world, "train", 8).create().await;
    let plan = train.wait_plan(PlanState::WaitingForVictims, MINUTE).await;
    assert_eq!(domain(&plan), "example.com/rack=r1");
    told(&train, SCHEDULED, "False WaitingForPreemption", "8 pods wait for room in example.com/rack=r1: ").await;
    for node in &r1 {
        world.kubectl(&["cordon", node]).await.unwrap();
    }
    assert_eq!(racks_of(&train.wait_bound(MINUTE).await), BTreeSet::from(["r2"]));
    selects(&train, "r2").await;
    let next = train.wait_plan(PlanState::Completed, MINUTE).await;
    assert_eq!((domain(&next).as_str(), next.id == plan.id), ("example.com/rack=r2", false));
    let message = train.wait_event("Cancelled", MINUTE).await;
    assert!(message.starts_with("The place was taken while victims left: "), "{message}");
    world.check_promises().await;
}

async fn the_next_leader_keeps_the_rack_of_the_plan() {
    let mut world = World::start().await;
    classes(&world).await;
    let (r1, r2) = (rack(&world, "r1", 2).await, rack(&world, "r2", 2).await);
    // Of two that cost the same those go that started last, and then the name decides.
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
    selects(&train, "r1").await;
    assert_eq!(world.audit().await.evicted().len(), 4);
    world.check_promises().await;
}

async fn who_was_released_into_a_rack_waits_there_although_there_is_room_elsewhere() {
    let mut world = World::start().await;
    classes(&world).await;
    let (r1, _) = (rack(&world, "r1", 2).await, rack(&world, "r2", 2).await);
    // Nobody binds what is released.
    world.plane().process("kube-scheduler").unwrap().kill();
    let train = gang(&world, "train", 4).create().await;
    wait_for("all are released", MINUTE, async || {
        let members = train.members().await.map_err(|error| error.to_string())?;
        let held = members.iter().filter(|pod| !scheduling_gates(pod).is_empty()).count();
        if held == 0 { Ok(()) } else { Err(format!("{held} are held")) }
    })
    .await;
    selects(&train, "r1").await;
    for node in &r1 {
        world.kubectl(&["cordon", node]).await.unwrap();
    }
    world.plane().restart("kube-scheduler").unwrap();
    train.wait_event("Failed", MINUTE).await;
    let message = train.wait_condition(SCHEDULED, "False", "Unschedulable", MINUTE).await;
    assert!(message.starts_with("4 pods needed, 0 fit now."), "{message}");
    for node in &r1 {
        world.kubectl(&["uncordon", node]).await.unwrap();
    }
    assert_eq!(racks_of(&train.wait_bound(MINUTE).await), BTreeSet::from(["r1"]));
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}

async fn who_asks_for_a_rack_himself_gets_that_one_and_for_two_none(world: &World) {
    classes(world).await;
    let (_, r2) = (rack(world, "r1", 4).await, rack(world, "r2", 4).await);
    world.fill(&r2).priority("low").singles().await;
    // One of four members asks for the full rack; the others follow it there.
    let mut train = gang(world, "train", 4).create_group().await;
    train.add_pods(3).await;
    let asking = world.pod("asks").priority("high").label(giveway_crds::keys::LABEL_POD_GROUP, "train");
    let asking = asking.node_selector(RACK, "r2").create().await;
    let mut nodes = train.wait_bound(MINUTE).await;
    nodes.push(asking.wait_bound(MINUTE).await);
    assert_eq!(racks_of(&nodes), BTreeSet::from(["r2"]));
    assert_eq!(world.audit().await.evicted().len(), 4);
    selects(&train, "r2").await;
    // Two members ask for two racks: that can never be.
    let torn = gang(world, "torn", 2).create_group().await;
    for (name, rack) in [("torn-a", "r1"), ("torn-b", "r2")] {
        let pod = world.pod(name).priority("high").label(giveway_crds::keys::LABEL_POD_GROUP, "torn");
        pod.node_selector(RACK, rack).create().await;
    }
    let message = torn.wait_condition(SCHEDULED, "False", "Unschedulable", MINUTE).await;
    let why = "Its pods cannot be within one value of example.com/rack: pod torn-a asks for r1 in its nodeSelector, pod \
               torn-b asks for r2 in its nodeSelector.";
    assert!(message.starts_with("2 pods needed, 1 fit now.") && message.contains(why), "{message}");
    torn.wait_event("Unschedulable", MINUTE).await;
    // Whatever happens afterwards, it is not said again.
    world.pod("other").priority("low").create().await.wait_bound(MINUTE).await;
    assert_eq!(torn.events().await.iter().filter(|event| event.reason == "Unschedulable").count(), 1, "said once");
    assert_eq!(world.audit().await.evicted().len(), 4, "nobody goes for it");
    world.check_promises().await;
}

async fn a_group_of_a_template_asks_for_what_the_template_asks(world: &World) {
    classes(world).await;
    rack(world, "r1", 1).await;
    rack(world, "r2", 1).await;
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
    assert!(racks.iter().all(|racks| racks.len() == 1) && racks[0] != racks[1], "a rack for each replica: {racks:?}");
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

async fn the_command_line_tells_the_rack_and_with_explain_those_that_were_tried(world: &mut World) {
    classes(world).await;
    let (r1, r2) = (rack(world, "r1", 2).await, rack(world, "r2", 2).await);
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
    for part in
        ["It fits in example.com/rack=r2 once its victims are gone: 4 pods", "- example.com/rack=r2: 4 members, 4 pods"]
    {
        assert!(table.ok().contains(part), "{part} is not in:\n{}", table.out);
    }
    // A domain that can only be dearer need not be searched, and is counted.
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

/// A gang as a user submits it.
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

//! Gangs with constraints between their members (spread, affinity, ports) are bound by the real kube-scheduler without delay,
//! with and without preemption: kube-scheduler accepts the placements that Giveway planned.

use futures::future::join_all;
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::{FillBuilder, GroupBuilder, Shaped as _, remove_pods};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            evenly_spread_members_on_shared_nodes_are_bound_without_delay;
        release_shared:
            gangs_with_constraints_are_bound_without_delay_with_and_without_preemption,
            evenly_spread_members_are_bound_while_pods_of_lower_priority_are_pending;
    ]
}

/// Deadline that is shorter than the time after which Giveway replaces a plan that kube-scheduler does not bind.
pub const SOON: Duration = Duration::from_secs(25);
pub const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

fn like(app: &str) -> Value {
    json!({"matchLabels": {"app": app}})
}

/// Returns spread constraints over these topology keys, each with its `maxSkew`, for pods with label `app`.
pub fn spread(app: &str, over: &[(&str, usize)]) -> Value {
    let constraint = |(key, skew): &(&str, usize)| json!({"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": like(app)});
    json!({"topologySpreadConstraints": over.iter().map(constraint).collect::<Vec<_>>()})
}

/// Returns a required term of `podAffinity` or `podAntiAffinity` (`kind`) to pods with label `app`.
fn affinity(kind: &str, app: &str, key: &str) -> Value {
    let term = json!({"topologyKey": key, "labelSelector": like(app)});
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn both(mut one: Value, other: &Value) -> Value {
    json_patch::merge(&mut one, other);
    one
}

/// Returns name, size and pod spec of each gang. All fit on six nodes of 4 CPUs in three zones.
fn gangs() -> Vec<(&'static str, usize, Value)> {
    let port = json!([{"name": "main", "image": "i", "ports": [{"containerPort": 80, "hostPort": 8080}],
        "resources": {"requests": {"cpu": "1"}}}]);
    let near = |app| affinity("podAffinity", app, ZONE);
    vec![
        ("zones", 18, spread("zones", &[(ZONE, 1)])),
        ("hosts", 12, spread("hosts", &[(HOST, 1)])),
        ("two-a-host", 16, spread("two-a-host", &[(HOST, 2)])),
        ("zones-and-hosts", 18, spread("zones-and-hosts", &[(ZONE, 1), (HOST, 1)])),
        ("apart", 6, affinity("podAntiAffinity", "apart", HOST)),
        ("a-zone-each", 3, affinity("podAntiAffinity", "a-zone-each", ZONE)),
        ("near", 8, near("near")),
        ("one-host", 4, affinity("podAffinity", "one-host", HOST)),
        ("near-and-apart", 2, both(near("near-and-apart"), &affinity("podAntiAffinity", "near-and-apart", HOST))),
        ("near-and-spread", 8, both(near("near-and-spread"), &spread("near-and-spread", &[(HOST, 4)]))),
        ("ports", 6, json!({"containers": port})),
    ]
}

async fn gangs_with_constraints_are_bound_without_delay_with_and_without_preemption(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let mut nodes = Vec::new();
    for zone in ["a", "b", "c"] {
        nodes.extend(world.nodes(2).cpus(4).prefix(zone).label(ZONE, zone).create().await);
    }
    for (name, size, spec) in gangs() {
        for full in [false, true] {
            let kit = world.namespace(&format!("{name}-{}", if full { "full" } else { "free" })).await;
            if full {
                FillBuilder::new(kit.clone(), &nodes).prefix("low").priority("low").singles().await;
            }
            let gang = GroupBuilder::new(kit.clone(), name, size).priority("high").label("app", name);
            gang.pod_spec(spec.clone()).create().await.wait_bound(SOON).await;
            remove_pods(&kit).await;
        }
    }
    world.check_promises().await;
}

/// kube-scheduler counts nominated pods as running on their node, so the nominations of seven evenly spread members on one node
/// would make each other unschedulable. Giveway withdraws the nominations when all members are ungated. Until then no pending pod of
/// lower priority is bound, and afterwards they are scheduled after the members. Only if kube-scheduler tried a member too early
/// and backs off (docs/limits.md), such a pod can be bound first; it is then evicted.
async fn evenly_spread_members_are_bound_while_pods_of_lower_priority_are_pending(world: &World) {
    for (name, priority) in [("low", 10), ("mid", 100), ("high", 1000)] {
        world.class(name, priority).managed().create().await;
    }
    let nodes = world.nodes(2).cpus(8).create().await;
    world.fill(&nodes).priority("mid").grace_seconds(2).singles().await;
    let pending =
        join_all((0..30).map(|number| world.pod(&format!("pending-{number}")).priority("low").create())).await;
    for pod in &pending {
        pod.wait_condition("PodScheduled", "False", "Unschedulable", SOON).await;
    }
    let gang =
        world.gang("g", 14).priority("high").label("app", "g").pod_spec(spread("g", &[(HOST, 1)])).create().await;
    let bound = gang.wait_bound(2 * SOON).await;
    assert_eq!(bound.iter().filter(|node| **node == nodes[0]).count(), 7, "{bound:?}");
    let plan = gang.wait_plan(PlanState::Completed, SOON).await;
    let history = world.audit().await;
    let was_pending = |name: &str| name.starts_with("pending-");
    let (others, victims): (Vec<String>, Vec<String>) =
        history.evicted_names().into_iter().partition(|name| was_pending(name));
    assert_eq!(victims.len(), 14, "{victims:?}");
    let first = history.plans.iter().find(|record| record.plan.preemptor.name == "g").unwrap();
    assert_eq!(first.plan.cost.victim_pods, 14, "{}", first.plan.message);
    if others.is_empty() {
        assert_eq!(plan.cost.victim_pods, 14, "{}", plan.message);
    }
    // All other evictions are of pods that were pending and were bound after the last member had been ungated.
    let ungated = gang.pods.iter().filter_map(|pod| history.pods.get(&pod.uid)?.released).max().unwrap();
    let mut early = BTreeSet::new();
    for binding in history.bindings.iter().filter(|binding| was_pending(&binding.pod.1)) {
        let (pod, at) = (&binding.pod.1, binding.at);
        assert!(at > ungated, "pod {pod} was bound at {at}, before the gang was ungated at {ungated}");
        early.insert(pod.clone());
    }
    assert_eq!(early, BTreeSet::from_iter(others), "each pending pod that was bound early is evicted, and no other");
    world.check_promises().await;
}

/// kube-scheduler counts nominated pods as running on their node, so the nominations of three of the six members would violate
/// the spread constraint of the others.
async fn evenly_spread_members_on_shared_nodes_are_bound_without_delay(world: &World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).cpus(4).create().await;
    let even = |name: &str, class: &str, size| {
        world.gang(name, size).priority(class).label("app", name).pod_spec(spread(name, &[(HOST, 1)]))
    };
    even("free", "low", 4).create().await.wait_bound(SOON).await;
    let bound = even("train", "high", 6).create().await.wait_bound(SOON).await;
    assert_eq!(bound.iter().filter(|node| **node == nodes[0]).count(), 3, "{bound:?}");
    assert_eq!(world.audit().await.evicted().len(), 2);
    world.check_promises().await;
}

//! Decisions do not depend on earlier requests and events: a model that has decided, changed, and decided
//! again decides as one that was built from the same objects alone, in whatever order they came.

use crate::common::numbers::Numbers;
use crate::common::world::{LARGER, TINY, World, for_all, worlds};
use crate::common::*;
use giveway_planner::{Cluster, Context, Decision, Preemptor, Reservation, Respect, Strategy};
use proptest::prelude::any;
use proptest::test_runner::TestCaseError;
use serde_json::json;
use std::collections::BTreeMap;

fn priority(numbers: &mut Numbers) -> i32 {
    i32::try_from(numbers.below(7) * 10).unwrap()
}

/// Objects by kind and name.
type Objects = BTreeMap<(String, String), Built>;

fn name(object: &Built) -> (String, String) {
    let text = |path: &str| object.0.pointer(path).unwrap().as_str().unwrap().to_owned();
    let kind = object.0["kind"].as_str().unwrap_or("PodDisruptionBudget").to_owned();
    (kind, text("/metadata/name"))
}

fn remove(cluster: &mut Cluster, (kind, name): &(String, String)) {
    match kind.as_str() {
        "Node" => cluster.remove_node(name),
        "Pod" => cluster.remove_pod(&key(name)),
        "PodGroup" => cluster.remove_group(&key(name)),
        _ => cluster.remove_budget(&key(name)),
    };
}

/// An event for an object; `None` if the object is deleted.
fn changed(numbers: &mut Numbers, object: &Built, nodes: usize) -> Option<Built> {
    let object = object.clone();
    let bound = !object.0["spec"]["nodeName"].is_null();
    match object.0["kind"].as_str().unwrap_or_default() {
        "Node" if numbers.one_in(3) => None,
        "Node" if numbers.one_in(2) => Some(object.set("/spec/unschedulable", json!(numbers.one_in(2)))),
        "Node" => Some(object.offers("cpu", &(1 + numbers.below(8)).to_string())),
        "Namespace" => Some(default_namespace(numbers.one_in(3))),
        "PodGroup" if numbers.one_in(5) => None,
        "PodGroup" if numbers.one_in(2) => Some(object.set("/spec/priority", json!(priority(numbers)))),
        "PodGroup" if numbers.one_in(2) => Some(object.whole()),
        "PodGroup" => Some(object.set("/spec/disruptionMode", json!("Pod"))),
        "Pod" if !bound && numbers.one_in(2) => Some(object.nominated(&format!("node-{:02}", numbers.below(nodes)))),
        "Pod" if numbers.one_in(3) => None,
        "Pod" if numbers.one_in(3) && bound => Some(object.terminating()),
        "Pod" if numbers.one_in(3) => Some(object.label("app", &numbers.below(4).to_string())),
        "Pod" if numbers.one_in(4) => {
            let ready = json!([{"type": "Ready", "status": if numbers.one_in(2) { "True" } else { "False" }}]);
            Some(object.set("/status/conditions", ready))
        }
        "Pod" if numbers.one_in(2) => Some(object.priority(priority(numbers))),
        "Pod" if bound => Some(object.on(&format!("node-{:02}", numbers.below(nodes)))),
        "Pod" => Some(object.asks("cpu", &(1 + numbers.below(3)).to_string())),
        _ if numbers.one_in(4) => None,
        _ if numbers.one_in(4) => Some(object.set("/spec/unhealthyPodEvictionPolicy", json!("AlwaysAllow"))),
        _ if numbers.one_in(3) => Some(object.set("/status/disruptedPods", json!({"p-01": "2026-01-01T00:00:00Z"}))),
        _ => Some(object.set("/status/disruptionsAllowed", json!(numbers.below(3)))),
    }
}

/// Decisions in flight, for any pods.
fn context(numbers: &mut Numbers, objects: &Objects) -> Context {
    let respect = [Respect::SameOrHigher, Respect::StartedOrHigher, Respect::AllPlanned][numbers.below(3)];
    let mut context = Context { strategy: Strategy::ALL[numbers.below(2)], respect, ..Context::default() };
    if numbers.one_in(2) {
        return context;
    }
    for (kind, name) in objects.keys().filter(|(kind, _)| kind == "Pod") {
        let _ = kind;
        match numbers.below(10) {
            0 => drop(context.departing.insert(format!("uid-{name}").into())),
            1 => drop(context.exempt.insert(format!("uid-{name}").into())),
            _ => {}
        }
    }
    context
}

/// The reservations of plans, by UID of the pod.
type Reservations = BTreeMap<String, (String, Reservation)>;

/// Adds, replaces or ends the reservation of a plan for a pod, which may be bound.
fn change_reservation(numbers: &mut Numbers, objects: &Objects, nodes: usize, reservations: &mut Reservations) {
    let pods: Vec<&String> = objects.keys().filter(|(kind, _)| kind == "Pod").map(|(_, name)| name).collect();
    let Some(name) = pods.get(numbers.below(pods.len().max(1))) else { return };
    let priority = if numbers.one_in(2) { 60 } else { 40 };
    let reservation = match numbers.below(5) {
        0 | 1 => Reservation::Started(priority),
        2 => Reservation::Planned(priority),
        3 => Reservation::Withdrawn,
        _ => return drop(reservations.remove(&format!("uid-{name}"))),
    };
    reservations.insert(format!("uid-{name}"), (format!("node-{:02}", numbers.below(nodes)), reservation));
}

/// Makes the reservations of a model the same as these.
fn reserve(cluster: &mut Cluster, reservations: &Reservations, before: &Reservations) {
    for uid in before.keys().filter(|uid| !reservations.contains_key(*uid)) {
        assert!(cluster.unreserve(uid));
    }
    for (uid, (node, reservation)) in reservations {
        cluster.reserve(uid, node, *reservation);
    }
}

fn build(numbers: &mut Numbers, objects: &Objects) -> Cluster {
    let mut list: Vec<&Built> = objects.values().collect();
    numbers.shuffle(&mut list);
    cluster(list)
}

/// Applies random events to a world, with decisions in between. Returns whether any decision had victims.
fn live(world: &World, seed: u64, events: usize) -> Result<bool, TestCaseError> {
    let mut numbers = Numbers(seed);
    let nodes = world.nodes.len();
    let mut objects: Objects = world.objects().into_iter().map(|object| (name(&object), object)).collect();
    let spares: Vec<Built> = objects.values().cloned().collect();
    for (pod_name, priority) in [("solo-low", 20), ("solo-high", 50)] {
        let solo = pod(pod_name).priority(priority);
        objects.insert(name(&solo), solo);
    }
    let namespace = default_namespace(false);
    objects.insert(name(&namespace), namespace);
    let mut warm = build(&mut numbers, &objects);
    let (mut preemptions, mut reservations) = (0, Reservations::new());
    for event in 0..events {
        // A few events between decisions, some of which bring an object back as it was.
        for _ in 0..1 + numbers.below(3) {
            let at = numbers.below(objects.len());
            let (id, object) = objects.iter().nth(at).map(|(id, object)| (id.clone(), object.clone())).unwrap();
            let back = spares[numbers.below(spares.len())].clone();
            let (id, object) = match changed(&mut numbers, &object, nodes) {
                _ if numbers.one_in(2) => (name(&back), Some(back)),
                object => (id, object),
            };
            match object {
                Some(object) => {
                    add(&mut warm, &object);
                    objects.insert(id, object);
                }
                None => {
                    remove(&mut warm, &id);
                    objects.remove(&id);
                }
            }
        }
        let before = reservations.clone();
        (0..numbers.below(3)).for_each(|_| change_reservation(&mut numbers, &objects, nodes, &mut reservations));
        reserve(&mut warm, &reservations, &before);
        let mut fresh = build(&mut numbers, &objects);
        reserve(&mut fresh, &reservations, &Reservations::new());
        let context = context(&mut numbers, &objects);
        let preemptors: [Preemptor; 4] =
            [world.preemptor(), for_pod("solo-low"), for_pod("solo-high"), world.preemptor()];
        for preemptor in preemptors {
            let (now, anew) = (plan(&warm, &preemptor, &context), plan(&fresh, &preemptor, &context));
            let evicts = matches!(now, Decision::Preempt(_));
            proptest::prop_assert_eq!(now, anew, "event {}: {}, {:?}", event, preemptor, context);
            preemptions += usize::from(evicts);
        }
    }
    Ok(preemptions > 0)
}

#[test]
fn small_clusters_answer_as_if_nothing_had_happened_before() {
    let meant = for_all(1000, 1, (worlds(TINY), any::<u64>()), |(world, seed)| live(&world, seed, 12));
    assert!(meant > 500, "{meant}");
}

#[test]
fn larger_clusters_answer_as_if_nothing_had_happened_before() {
    let meant = for_all(120, 2, (worlds(LARGER), any::<u64>()), |(world, seed)| live(&world, seed, 8));
    assert!(meant > 40, "{meant}");
}

/// Resources are numbered as they are first seen, and nothing may depend on the numbers.
#[test]
fn the_order_in_which_resources_are_first_seen_makes_no_difference() {
    let names = ["example.com/c", "example.com/a", "example.com/b"];
    let rich = |n: usize| names.iter().fold(node(&format!("node-{n}"), 8), |built, name| built.offers(name, "4"));
    let low = |n: usize, name: &str| {
        let built = pod(&format!("low-{n}-{}", &name[12..])).priority(10).on(&format!("node-{n}"));
        built.asks(name, "4").asks("cpu", "2")
    };
    for amount in ["1", "3", "9"] {
        let mut all: Vec<Built> = (0..3).map(rich).collect();
        all.extend((0..3).flat_map(|n| names.map(|name| low(n, name))));
        all.push(gang("g", 50, 3));
        all.extend((0..3).map(|m| {
            let built = pod(&format!("g-{m}")).group("g").priority(50);
            names
                .iter()
                .fold(built, |built, name| if m == 0 { built } else { built.asks(name, amount) })
                .asks(names[m], "2")
        }));
        all.push(names.iter().fold(pod("alone").priority(50), |built, name| built.asks(name, amount)));
        let mut numbers = Numbers(3);
        let first = cluster(&all);
        for _ in 0..20 {
            numbers.shuffle(&mut all);
            let other = cluster(&all);
            for preemptor in [for_group("g"), for_pod("alone")] {
                let (a, b) = (decide(&first, &preemptor), decide(&other, &preemptor));
                assert_eq!(format!("{a:?}"), format!("{b:?}"));
            }
        }
    }
}

#[test]
fn a_group_is_not_evicted_once_it_has_grown_on_another_node() {
    let mut all = vec![node("a", 1), node("b", 1), node("c", 2), gang("low", 1, 1).whole(), pod("p").priority(10)];
    all.push(pod("low-0").group("low").on("a"));
    all.extend(["x", "y"].map(|name| pod(name).priority(1).asks("cpu", "500m").on("b")));
    all.push(pod("high").priority(99).asks("cpu", "2").on("c"));
    for strategy in Strategy::ALL {
        let context = Context { strategy, ..Context::default() };
        let mut cluster = cluster(&all);
        assert_eq!(victims(&planned(plan(&cluster, &for_pod("p"), &context))), ["low"], "{}", strategy.as_str());
        for name in ["low-1", "low-2"] {
            add(&mut cluster, &pod(name).group("low").asks("cpu", "0").on("c"));
        }
        let grown = planned(plan(&cluster, &for_pod("p"), &context));
        assert_eq!(
            victims(&grown),
            ["x", "y"],
            "{}: one pod was evicted before, three would be now",
            strategy.as_str()
        );
    }
}

#[test]
fn a_pod_is_not_evicted_once_its_budget_allows_no_disruption() {
    let guarded = |name: &str, priority: i32| pod(name).priority(priority).label("app", "db").on(&name[3..]);
    let all = [
        node("a", 1),
        node("b", 1),
        node("c", 1),
        guarded("db-a", 5),
        guarded("db-b", 1),
        pod("other").priority(3).on("c"),
        budget("db", "db", 1),
        pod("p").priority(10),
    ];
    let mut cluster = cluster(&all);
    assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), ["db-b"]);
    add(&mut cluster, &budget("db", "db", 0));
    assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), ["other"]);
}

/// Nodes where the least that evictions cost is known only after a search: 2,000 with units that free one resource each, of which four must
/// be evicted, and on the last ones by name two are enough. No decision has the effort to search all of them.
fn hard_to_compare(members: usize) -> Vec<Built> {
    let mut all = Vec::new();
    for number in 0..2000 {
        let name = format!("node-{number:04}");
        all.push(node(&name, 15).offers("memory", "15Gi"));
        let unit = |at: usize, cpu: &str, memory: &str| {
            let built = pod(&format!("low-{number:04}-{at}")).asks("cpu", cpu).asks("memory", memory);
            built.priority(1).on(&name)
        };
        match number {
            1990.. => all.extend((0..3).map(|at| unit(at, "5", "5Gi"))),
            _ => all.extend((0..6).map(|at| if at < 3 { unit(at, "5", "0") } else { unit(at, "0", "5Gi") })),
        }
    }
    all.extend((0..members).map(|n| pod(&format!("p-{n:02}")).priority(50).asks("cpu", "10").asks("memory", "10Gi")));
    all
}

/// Another leader has answered other questions before.
#[test]
fn a_plan_does_not_depend_on_what_was_decided_before() {
    let all = hard_to_compare(51);
    for strategy in Strategy::ALL {
        let context = Context { strategy, ..Context::default() };
        let answers = [0, 1, 50].map(|others| {
            let cluster = cluster(&all);
            for other in 1..=others {
                plan(&cluster, &for_pod(&format!("p-{other:02}")), &context);
            }
            plan(&cluster, &for_pod("p-00"), &context)
        });
        assert!(matches!(answers[0], Decision::Preempt(_)), "{:?}", answers[0]);
        assert_eq!(answers[0], answers[1], "{strategy:?} after one");
        assert_eq!(answers[0], answers[2], "{strategy:?} after fifty");
    }
}

/// What is searched once is not searched again, and a node that has changed is.
#[test]
fn after_a_change_the_plan_is_that_of_a_new_model() {
    let mut all = hard_to_compare(2);
    let mut warm = cluster(&all);
    decide(&warm, &for_pod("p-01"));
    for number in [3usize, 700, 1400, 1995] {
        let change = pod(&format!("low-{number:04}-0")).asks("cpu", "5").asks("memory", "5Gi").priority(0);
        let change = change.on(&format!("node-{number:04}"));
        let at = all.iter().position(|object| object.0["metadata"]["name"] == change.0["metadata"]["name"]).unwrap();
        add(&mut warm, &change);
        all[at] = change;
        assert_eq!(decide(&warm, &for_pod("p-00")), decide(&cluster(&all), &for_pod("p-00")), "{number}");
    }
}

//! Gangs whose members all differ. What fits by a plain greedy placement is found in clusters of thousands of nodes; a decision that reaches its
//! limit of effort says so, and neither that the members fit nor that they do not.

use crate::common::*;
use giveway_planner::{Cluster, Context, Decision, Shortfall, still_fits};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Instant;

fn name(number: usize) -> String {
    format!("node-{number:04}")
}

fn empty(nodes: usize, cpus: usize) -> Cluster {
    let labelled = |number: usize| node(&name(number), cpus).label("zone", &name(number));
    cluster(&(0..nodes).map(labelled).collect::<Vec<_>>())
}

/// A gang of members that request a different amount of memory each.
fn differing(size: usize) -> Vec<Built> {
    let differs = |(number, object): (usize, Built)| match object.0["kind"] == "Pod" {
        true => object.asks("memory", &format!("{}Mi", 100 + number)),
        false => object,
    };
    waiting_gang("g", 10, size).into_iter().enumerate().map(differs).collect()
}

/// A gang with a local volume each, on these nodes; also the claims and the volumes.
fn with_local_volumes(on: &[usize]) -> Vec<Built> {
    let mut all = Vec::new();
    for (number, object) in waiting_gang("g", 10, on.len()).into_iter().enumerate() {
        let Some(place) = number.checked_sub(1) else {
            all.push(object);
            continue;
        };
        let (claim, volume) = (format!("claim-{place}"), format!("volume-{place}"));
        all.extend([bound_claim(&claim, &volume), pinned_volume(&volume, &claim, &name(on[place]))]);
        all.push(object.set("/spec/volumes", json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}])));
    }
    all
}

fn put(mut cluster: Cluster, objects: &[Built]) -> Cluster {
    objects.iter().for_each(|object| add(&mut cluster, object));
    cluster
}

/// The nodes of the placements of the gang, all of whose members fit.
fn fits(cluster: &Cluster, size: usize, what: &str) -> BTreeSet<String> {
    let start = Instant::now();
    let decision = decide(cluster, &for_group("g"));
    println!("{what}: {:?}", start.elapsed());
    let Decision::Fits { placements, left, .. } = decision else { panic!("{what}: {decision:?}") };
    assert_eq!((placements.len(), left), (size, 0), "{what}");
    let holds = still_fits(cluster, &placements, 10, &Context::default(), &BTreeSet::new());
    assert_eq!(holds, Ok(()), "{what}");
    let pods: BTreeSet<_> = placements.iter().map(|place| &place.pod).collect();
    assert_eq!(pods.len(), size, "{what}");
    placements.iter().map(|place| place.node.to_string()).collect()
}

#[test]
fn a_gang_of_many_classes_fits_an_empty_cluster_of_thousands_of_nodes() {
    for (size, nodes) in [(80, 4096), (161, 2000), (1000, 5000), (333, 15_000)] {
        let cluster = put(empty(nodes, 8), &differing(size));
        fits(&cluster, size, &format!("{size} classes on {nodes} nodes"));
    }
}

#[test]
fn a_gang_of_many_classes_fits_a_cluster_that_is_nearly_full() {
    let busy = |number: usize| pod(&format!("busy-{number}")).priority(90).asks("cpu", "8").on(&name(number));
    let busy: Vec<Built> = (0..4900).map(busy).collect();
    let cluster = put(put(empty(5000, 8), &busy), &differing(700));
    fits(&cluster, 700, "700 classes on the last 100 of 5,000 nodes");
}

#[test]
fn members_with_a_local_volume_each_are_placed_there_however_large_the_cluster() {
    for (nodes, on) in [(5000, [7, 1234, 4097, 4998, 4999]), (9000, [8995, 8996, 8997, 8998, 8999])] {
        let all = with_local_volumes(&on);
        let places = fits(&put(empty(nodes, 8), &all), 5, &format!("{nodes} nodes"));
        assert_eq!(places, on.map(name).into());
        // The same if pods have to be evicted there.
        let low = |number: usize| pod(&format!("low-{number}")).priority(1).asks("cpu", "8").on(&name(number));
        let full = put(empty(nodes, 8), &(0..nodes).map(low).collect::<Vec<_>>());
        let plan = planned(decide(&put(full, &all), &for_group("g")));
        let evicted: BTreeSet<String> = victims(&plan).into_iter().map(|low| low.replace("low-", "")).collect();
        assert_eq!(evicted, on.map(|number| number.to_string()).into(), "{nodes} nodes");
    }
}

/// A thousand, each with its own node.
#[test]
fn a_thousand_members_with_a_local_volume_each_are_placed() {
    let on: Vec<usize> = (0..1000).map(|number| 5 * number + 3).collect();
    let places = fits(&put(empty(5000, 8), &with_local_volumes(&on)), 1000, "1,000 volumes on 5,000 nodes");
    assert_eq!(places, on.into_iter().map(name).collect());
}

#[test]
fn members_that_can_use_few_nodes_are_placed_before_those_that_can_use_any() {
    let mut all = with_local_volumes(&[0]);
    all[0] = gang("g", 10, 70);
    let last = all.pop().unwrap();
    all.push(last.asks("memory", "35Mi"));
    // Some of the others are larger and some smaller, and together they leave none of 70 nodes free.
    let other =
        |number: usize| pod(&format!("other-{number}")).group("g").priority(10).asks("memory", &format!("{number}Mi"));
    all.extend((1..70).map(other));
    assert_eq!(fits(&put(empty(70, 1), &all), 70, "70 nodes").len(), 70);
}

#[test]
fn members_of_many_classes_are_kept_apart_by_the_constraints_among_them() {
    let spread = json!([{"topologyKey": "hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "train"}}}]);
    let constrained = |object: Built| match object.0["kind"] == "Pod" {
        true => object.label("app", "train").set("/spec/topologySpreadConstraints", spread.clone()),
        false => object,
    };
    let all: Vec<Built> = differing(120).into_iter().map(constrained).collect();
    assert_eq!(fits(&put(empty(4096, 8), &all), 120, "spread over nodes").len(), 120);
}

#[test]
fn a_decision_that_reaches_its_limit_of_effort_says_so_and_does_not_say_that_nothing_fits() {
    let low = |number: usize| pod(&format!("low-{number}")).priority(1).asks("cpu", "8").on(&name(number));
    let full = put(empty(5000, 8), &(0..5000).map(low).collect::<Vec<_>>());
    let cluster = put(full, &differing(600));
    let start = Instant::now();
    let Decision::Unschedulable(why) = decide(&cluster, &for_group("g")) else { panic!("it takes too much effort") };
    println!("{:?}", start.elapsed());
    assert!(why.is_exhausted());
    let words = "600 pods needed. The search reached its limit of effort, so it is not known whether they fit, now or after evictions. \
        No pod is evicted or ungated for them, and they are planned for again.";
    assert_eq!(why.to_string(), words);
    assert!(!Shortfall::default().is_exhausted());
}

#[test]
fn a_gang_with_unknown_requirements_stays_gated_if_the_search_reaches_its_limit() {
    let busy = |number: usize| pod(&format!("busy-{number}")).priority(90).asks("cpu", "8").on(&name(number));
    let full = put(empty(6000, 8), &(0..6000).map(busy).collect::<Vec<_>>());
    let unknown = |object: Built| match object.0["kind"] == "Pod" {
        true => object.set("/spec/resourceClaims", json!([{"name": "device"}])),
        false => object,
    };
    let few: Vec<Built> = differing(3).into_iter().map(unknown).collect();
    assert!(matches!(decide(&put(full.clone(), &few), &for_group("g")), Decision::Unknown(_)));
    // One of 1,000 fits now, so that upper bounds exclude nothing, and there are more classes × nodes than the effort allows.
    let mut many: Vec<Built> = differing(1000).into_iter().map(unknown).collect();
    many[0] = gang("g", 10, 996);
    let Decision::Unschedulable(why) = decide(&put(full, &many), &for_group("g")) else { panic!("it is not known") };
    assert!(why.is_exhausted(), "{why}");
}

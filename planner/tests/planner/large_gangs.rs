//! Gangs of many members on many nodes, as Jobs make them: each pod with its own index among its labels, spread over zones, away
//! from others, or together in one domain of very many.

use crate::common::*;
use giveway_planner::{Cluster, Context, Decision, Strategy};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Where the members of a gang are placed, and how many on each node.
fn placed(decision: Decision) -> BTreeMap<String, usize> {
    let Decision::Fits { placements, .. } = decision else { panic!("{decision:?}") };
    let mut nodes = BTreeMap::new();
    placements.iter().for_each(|placement| *nodes.entry(placement.node.to_string()).or_default() += 1);
    nodes
}

fn name(number: usize) -> String {
    format!("node-{number:04}")
}

/// Nodes, zone after zone.
fn zoned(nodes: usize, zones: usize, cpus: usize) -> Vec<Built> {
    let of_zone = nodes.div_ceil(zones);
    (0..nodes).map(|number| node(&name(number), cpus).label("zone", &format!("z{}", number / of_zone))).collect()
}

fn spread(key: &str) -> Value {
    json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "train"}}})
}

fn apart(selector: Value) -> Value {
    let term = json!({"topologyKey": "hostname", "labelSelector": selector});
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
}

/// A gang whose pods are numbered, made by `change`.
fn numbered(size: usize, change: impl Fn(Built) -> Built) -> Vec<Built> {
    let member = |object: (usize, Built)| match object.1.0["kind"] == "Pod" {
        true => change(object.1.label("app", "train").label(INDEX, &object.0.to_string())),
        false => object.1,
    };
    waiting_gang("g", 10, size).into_iter().enumerate().map(member).collect()
}

fn world(nodes: &[Built], others: &[Built]) -> Cluster {
    cluster(nodes.iter().chain(others))
}

#[test]
fn members_that_differ_in_their_number_only_are_spread_like_others() {
    let gang = numbered(96, |pod| pod.set("/spec/topologySpreadConstraints", json!([spread("zone")])));
    let places = placed(decide(&world(&zoned(30, 3, 8), &gang), &for_group("g")));
    let mut zones: BTreeMap<usize, usize> = BTreeMap::new();
    for (node, count) in places {
        *zones.entry(node["node-".len()..].parse::<usize>().unwrap() / 10).or_default() += count;
    }
    assert_eq!(zones, BTreeMap::from([(0, 32), (1, 32), (2, 32)]));
}

#[test]
fn one_pod_with_anti_affinity_to_all_pods_stops_no_gang_with_numbered_members() {
    let mut all = numbered(96, |pod| pod);
    let term = json!({"topologyKey": "hostname", "labelSelector": {}, "namespaceSelector": {}});
    let lone = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    all.push(pod("lone").priority(90).set("/spec/affinity", lone).on(&name(0)));
    let places = placed(decide(&world(&zoned(30, 3, 8), &all), &for_group("g")));
    assert_eq!(places.values().sum::<usize>(), 96);
    assert_eq!(places.get(&name(0)), None);
}

#[test]
fn a_selector_on_the_number_itself_parts_the_members_that_it_is_about_and_no_others() {
    let mut all = numbered(96, |pod| pod);
    let selector = json!({"matchExpressions": [{"key": INDEX, "operator": "In", "values": ["3", "4", "5"]}]});
    all.push(pod("lone").priority(90).set("/spec/affinity", apart(selector)).on(&name(0)));
    let cluster = world(&zoned(13, 1, 8), &all);
    let Decision::Fits { placements, .. } = decide(&cluster, &for_group("g")) else { panic!("it fits") };
    assert_eq!(placements.len(), 96);
    let beside = placements.iter().filter(|placement| placement.node == name(0));
    let numbers: Vec<String> = beside.map(|placement| placement.pod.name.to_string()).collect();
    assert!(
        !numbers.is_empty() && !numbers.iter().any(|pod| ["g-3", "g-4", "g-5"].contains(&pod.as_str())),
        "{numbers:?}"
    );
}

#[test]
fn members_that_keep_away_from_others_share_their_nodes_also_in_a_large_cluster() {
    let inference = json!({"matchLabels": {"app": "inference"}});
    let mut all = numbered(256, |pod| pod.set("/spec/affinity", apart(inference.clone())));
    all.push(pod("inference").priority(90).label("app", "inference").on(&name(7)));
    let places = placed(decide(&world(&zoned(100, 4, 8), &all), &for_group("g")));
    assert_eq!(places.values().sum::<usize>(), 256);
    assert_eq!(places.get(&name(7)), None);
}

#[test]
fn members_that_keep_away_from_all_but_their_job_share_their_nodes_also_in_a_large_cluster() {
    let others = json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["train"]}]});
    let mut all = numbered(256, |pod| pod.set("/spec/affinity", apart(others.clone())));
    all.push(pod("other").priority(90).on(&name(7)));
    let places = placed(decide(&world(&zoned(100, 4, 8), &all), &for_group("g")));
    assert_eq!(places.values().sum::<usize>(), 256);
    assert_eq!(places.get(&name(7)), None);
}

#[test]
fn members_that_keep_away_from_each_other_still_need_a_node_each() {
    let train = json!({"matchLabels": {"app": "train"}});
    let all = numbered(101, |pod| pod.set("/spec/affinity", apart(train.clone())));
    let cluster = world(&zoned(100, 4, 8), &all);
    assert!(matches!(decide(&cluster, &for_group("g")), Decision::Unschedulable(_)));
    let all = numbered(100, |pod| pod.set("/spec/affinity", apart(train.clone())));
    let places = placed(decide(&world(&zoned(100, 4, 8), &all), &for_group("g")));
    assert_eq!(places.len(), 100);
}

/// A gang within one domain.
fn together(key: &str, size: usize, cpus: &str) -> Vec<Built> {
    let topology = json!({"topology": [{"key": key}]});
    let part = |object: Built| match object.0["kind"] == "Pod" {
        true => object.asks("cpu", cpus),
        false => object.set("/spec/schedulingConstraints", topology.clone()),
    };
    waiting_gang("g", 10, size).into_iter().map(part).collect()
}

/// Nodes that are domains of their own, full of pods of a priority but for one.
fn full_but_for(empty: usize, nodes: usize, priority: i32) -> Vec<Built> {
    let busy = (0..nodes).filter(|number| *number != empty);
    busy.map(|number| pod(&format!("busy-{number}")).priority(priority).asks("cpu", "8").on(&name(number))).collect()
}

#[test]
fn the_only_empty_domain_is_found_among_very_many_wherever_it_stands() {
    for (nodes, empty) in [(40, 35), (64, 63), (200, 150)] {
        for priority in [5, 50] {
            let mut all = together("hostname", 4, "2");
            all.extend(full_but_for(empty, nodes, priority));
            let places = placed(decide(&world(&zoned(nodes, 2, 8), &all), &for_group("g")));
            assert_eq!(places, BTreeMap::from([(name(empty), 4)]), "{nodes} nodes, priority {priority}");
        }
    }
}

#[test]
fn an_empty_rack_is_found_behind_many_that_only_seem_feasible() {
    // Half-used racks of two nodes on which the port is taken come first, because they have least capacity. No pod there may be evicted.
    let racks = |number: usize| node(&name(number), 8).label("rack", &format!("r{:02}", number / 2));
    let nodes: Vec<Built> = (0..128).map(racks).collect();
    let ports = json!([{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]);
    let with_port = |object: Built| match object.0["kind"] == "Pod" {
        true => object.set("/spec/containers", ports.clone()),
        false => object,
    };
    for priority in [5, 50] {
        let mut all: Vec<Built> = together("rack", 2, "2").into_iter().map(with_port).collect();
        let taken = (0..128).filter(|number| !(80..84).contains(number));
        all.extend(taken.map(|number| {
            with_port(pod(&format!("busy-{number}")).priority(priority)).asks("cpu", "4").on(&name(number))
        }));
        let places = placed(decide(&world(&nodes, &all), &for_group("g")));
        assert_eq!(places.keys().collect::<Vec<_>>(), [&name(80), &name(81)], "priority {priority}");
    }
}

#[test]
fn of_thousands_of_nodes_those_are_looked_at_that_the_pods_around_allow() {
    let nodes = zoned(3000, 3, 8);
    let constraints = json!([spread("zone")]);
    let mut all = numbered(64, |pod| pod.set("/spec/topologySpreadConstraints", constraints.clone()));
    let places = placed(decide(&world(&nodes, &all), &for_group("g")));
    assert_eq!(places.values().sum::<usize>(), 64);
    // Also where each node is a domain of its own besides.
    let constraints = json!([spread("zone"), spread("hostname")]);
    all = numbered(64, |pod| pod.set("/spec/topologySpreadConstraints", constraints.clone()));
    let places = placed(decide(&world(&nodes, &all), &for_group("g")));
    assert_eq!(places.values().sum::<usize>(), 64);
    // A pod with affinity to another one, on one of the last nodes.
    let term = json!({"topologyKey": "hostname", "labelSelector": {"matchLabels": {"app": "db"}}});
    let near = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let pair = [
        pod("db-0").label("app", "db").priority(90).on(&name(2900)),
        pod("p").priority(10).set("/spec/affinity", near),
    ];
    let places = placed(decide(&world(&nodes, &pair), &for_pod("p")));
    assert_eq!(places, BTreeMap::from([(name(2900), 1)]));
}

/// Constraints of members in an empty cluster: none, a node or a rack each, a spread over nodes, zones, racks.
fn shapes() -> Vec<(&'static str, Value)> {
    let train = json!({"matchLabels": {"app": "train"}});
    let by_rack = json!({"topologyKey": "rack", "labelSelector": train});
    let racks = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [by_rack]}});
    let spreads = |keys: &[&str]| json!(keys.iter().map(|key| spread(key)).collect::<Vec<_>>());
    vec![
        ("/spec/affinity", json!({})),
        ("/spec/affinity", apart(train)),
        ("/spec/affinity", racks),
        ("/spec/topologySpreadConstraints", spreads(&["hostname"])),
        ("/spec/topologySpreadConstraints", spreads(&["zone", "hostname"])),
        ("/spec/topologySpreadConstraints", spreads(&["rack", "hostname"])),
    ]
}

/// 2,500 nodes of 8 CPUs in 250 racks and 10 zones.
#[test]
fn hundreds_of_members_of_any_sizes_fit_an_empty_cluster_of_thousands_of_nodes() {
    let racked = |(number, node): (usize, Built)| node.label("rack", &format!("r{:03}", number / 10));
    let nodes: Vec<Built> = zoned(2500, 10, 8).into_iter().enumerate().map(racked).collect();
    let empty = cluster(&nodes);
    let sizes: [fn(usize) -> &'static str; 3] =
        [|_| "1", |number| if number % 2 == 0 { "1" } else { "2" }, |number| if number == 0 { "500m" } else { "2" }];
    for (path, value) in shapes() {
        for size in [200, 700] {
            let racks = value.to_string().contains("rack") && path == "/spec/affinity";
            for (kind, asks) in sizes.iter().enumerate().filter(|_| size <= 250 || !racks) {
                let mut cluster = empty.clone();
                add(&mut cluster, &gang("g", 100, size));
                for number in 0..size {
                    let member = pod(&format!("g-{number:03}")).group("g").priority(100).label("app", "train");
                    let member = member.label(INDEX, &number.to_string()).asks("cpu", asks(number));
                    add(&mut cluster, &member.set(path, value.clone()));
                }
                let places = placed(decide(&cluster, &for_group("g")));
                assert_eq!(places.values().sum::<usize>(), size, "sizes {kind}, {value}");
            }
        }
    }
}

/// Nodes that are full of one pod each, the first four of priority 2 and the others of 4; ten members of priority 10, of which four are
/// needed, alike or of two sizes.
fn more_than_needed(nodes: usize, alike: bool, rack: Option<usize>, for_all: bool) -> Cluster {
    let mut all: Vec<Built> = (0..nodes)
        .map(|number| node(&name(number), 2).label("rack", &format!("r{}", number / rack.unwrap_or(nodes))))
        .collect();
    let low = |number: usize| pod(&format!("low-{number}")).priority(if number < 4 { 2 } else { 4 }).asks("cpu", "2");
    all.extend((0..nodes).map(|number| low(number).on(&name(number))));
    let group = gang("g", 10, 4);
    let group = if for_all { group.for_all() } else { group };
    all.push(match rack {
        Some(_) => group.set("/spec/schedulingConstraints", json!({"topology": [{"key": "rack"}]})),
        None => group,
    });
    let cpus = |number: usize| if alike || number < 5 { "2" } else { "1900m" };
    all.extend((0..10).map(|n| pod(&format!("g-{n}")).group("g").priority(10).asks("cpu", cpus(n))));
    cluster(&all)
}

const MORE_THAN_NEEDED: [(usize, bool, Option<usize>); 5] =
    [(60, false, None), (100, false, None), (100, true, None), (100, true, Some(50)), (200, true, Some(100))];

/// Design, section 4, step 4: with `preemptFor: AllMembers` the most members that can be placed, and not only as many as are needed.
#[test]
fn as_many_members_are_placed_as_fit_on_any_number_of_nodes() {
    for strategy in Strategy::ALL {
        let context = Context { strategy, ..Context::default() };
        for (nodes, alike, rack) in MORE_THAN_NEEDED {
            let plan = planned(plan(&more_than_needed(nodes, alike, rack, true), &for_group("g"), &context));
            let found = (plan.placements.len(), plan.cost.victim_pods);
            assert_eq!(found, (10, 10), "{strategy:?}, {nodes} nodes, alike: {alike}, racks of {rack:?}");
        }
    }
}

#[test]
fn by_default_units_are_evicted_for_as_many_as_are_needed_on_any_number_of_nodes() {
    for (nodes, alike, rack) in MORE_THAN_NEEDED {
        let plan = planned(decide(&more_than_needed(nodes, alike, rack, false), &for_group("g")));
        let found = (plan.placements.len(), plan.cost.victim_pods, plan.cost.highest_priority);
        assert_eq!(found, (4, 4, Some(2)), "{nodes} nodes, alike: {alike}, racks of {rack:?}");
    }
}

/// A gang of these members: the pool that each may use only, and how many of them.
fn pooled(pools: &[(&str, usize)]) -> Vec<Built> {
    let size: usize = pools.iter().map(|(_, count)| count).sum();
    let pools: Vec<&str> = pools.iter().flat_map(|(pool, count)| vec![*pool; *count]).collect();
    let mut pools = pools.into_iter();
    let member = |object: Built| match object.0["kind"] == "Pod" {
        true => object.set("/spec/nodeSelector", json!({"pool": pools.next().unwrap()})),
        false => object,
    };
    waiting_gang("g", 10, size).into_iter().map(member).collect()
}

/// Nodes of a pool.
fn pool(pool: &str, nodes: usize, cpus: usize) -> Vec<Built> {
    (0..nodes).map(|number| node(&format!("{pool}-{number:04}"), cpus).label("pool", pool)).collect()
}

#[test]
fn each_of_five_kinds_of_members_has_its_own_nodes() {
    let pools = ["p0", "p1", "p2", "p3", "p4"];
    let nodes: Vec<Built> = pools.iter().flat_map(|name| pool(name, 14, 4)).collect();
    let gang = pooled(&pools.map(|name| (name, 1)));
    let places = placed(decide(&world(&nodes, &gang), &for_group("g")));
    let of: Vec<&str> = places.keys().map(|node| &node[..2]).collect();
    assert_eq!(of, pools);
}

#[test]
fn the_few_nodes_of_a_pool_are_not_left_out_for_the_many_of_another() {
    let nodes: Vec<Built> = [pool("worker", 1200, 8), pool("head", 10, 1)].concat();
    let gang = pooled(&[("head", 1), ("worker", 8)]);
    let places = placed(decide(&world(&nodes, &gang), &for_group("g")));
    assert_eq!(places.iter().filter(|(node, _)| node.starts_with("head")).map(|(_, count)| count).sum::<usize>(), 1);
    // The same if a pod has to be evicted there, and the many nodes are free.
    let low = (0..10).map(|number| pod(&format!("low-{number}")).priority(1).on(&format!("head-{number:04}")));
    let Decision::Preempt(plan) = decide(&world(&nodes, &[gang, low.collect()].concat()), &for_group("g")) else {
        panic!("a pod of the heads' nodes is evicted")
    };
    assert_eq!((plan.victims.len(), plan.placements.len()), (1, 9));
}

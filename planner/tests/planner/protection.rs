//! Protected namespaces: none of their pods is ever a victim, and the decision says so.

use crate::common::world::{TINY, World, for_all, worlds};
use crate::common::*;
use giveway_planner::rescue::Terms;
use giveway_planner::{Cluster, Context, Rescue, rescue, spared};
use serde_json::json;

fn in_namespace(object: Built, namespace: &str) -> Built {
    object.set("/metadata/namespace", json!(namespace))
}

/// A namespace with this value of the annotation.
fn annotated(namespace: &str, value: &str) -> Built {
    default_namespace(false)
        .set("/metadata/name", json!(namespace))
        .annotation("scheduling.giveway.dev/never-evict", value)
}

fn listed(objects: &[Built], namespace: &str) -> Cluster {
    let mut cluster = cluster(objects);
    cluster.protect_namespaces([namespace.to_owned()].into());
    cluster
}

/// Node a with a pod of namespace `db`, node b with a pod of `default` that is more important; pod p needs one of them.
fn town() -> Vec<Built> {
    vec![
        node("a", 1),
        node("b", 1),
        in_namespace(pod("db"), "db").on("a"),
        pod("web").priority(5).on("b"),
        pod("p").priority(10),
    ]
}

#[test]
fn a_more_important_pod_is_evicted_instead_and_the_explanation_names_the_reason() {
    assert_eq!(victims(&planned(decide(&cluster(&town()), &for_pod("p")))), ["db"]);
    let by_list = listed(&town(), "db");
    let plan = planned(decide(&by_list, &for_pod("p")));
    assert_eq!(victims(&plan), ["web"]);

    let mut objects = town();
    objects.push(in_namespace(pod("db-too"), "db").on("b").asks("cpu", "0"));
    objects.push(annotated("db", "true"));
    let by_annotation = cluster(&objects);
    let plan = planned(decide(&by_annotation, &for_pod("p")));
    assert_eq!(victims(&plan), ["web"]);
    let sparing = spared(&by_annotation, &for_pod("p"), &Context::default(), &plan);
    let why: Vec<&str> = sparing.units.iter().map(|unit| unit.why.as_str()).collect();
    let words = "No pod of its namespace is evicted: its namespace is protected (scheduling.giveway.dev/never-evict: \"true\").";
    assert_eq!(why, [words]);
    let words = "its namespace is protected (victims.protectedNamespaces)";
    assert_eq!(by_list.protection("db").unwrap().to_string(), words);
}

#[test]
fn a_pod_is_a_potential_victim_of_higher_priorities_unless_it_is_protected_or_has_no_node() {
    let (open, protected) = (cluster(&town()), listed(&town(), "db"));
    let is = |cluster: &Cluster, namespace: &str, name: &str, priority: i32| {
        let key = giveway_planner::ObjectKey::new(namespace, name);
        cluster.is_potential_victim(cluster.pod(&key).unwrap(), priority)
    };
    assert_eq!([5, 6].map(|priority| is(&open, "default", "web", priority)), [false, true]);
    assert_eq!([&open, &protected].map(|cluster| is(cluster, "db", "db", 10)), [true, false]);
    assert!(!is(&open, "default", "p", 11));
    let offered: Vec<&str> = open.resources().map(|(_, name)| name).collect();
    assert!(offered.contains(&"cpu") && !offered.contains(&""), "{offered:?}");
}

#[test]
fn only_the_value_true_protects_and_what_is_taken_back_protects_no_more() {
    let mut world = cluster(&town());
    for (value, goes) in [("true", "web"), ("false", "db"), ("true", "web"), ("yes", "db"), ("", "db")] {
        add(&mut world, &annotated("db", value));
        assert_eq!(victims(&planned(decide(&world, &for_pod("p")))), [goes], "{value:?}");
    }
    add(&mut world, &annotated("db", "true"));
    world.remove_namespace("db");
    assert_eq!(victims(&planned(decide(&world, &for_pod("p")))), ["db"]);
    // The list counts also for a namespace that is not annotated, or not known at all.
    world.protect_namespaces(["db".to_owned()].into());
    add(&mut world, &annotated("db", "false"));
    assert_eq!(victims(&planned(decide(&world, &for_pod("p")))), ["web"]);
    world.protect_namespaces([].into());
    assert_eq!(victims(&planned(decide(&world, &for_pod("p")))), ["db"]);
}

#[test]
fn the_answer_says_protected_where_that_is_why() {
    let only = [
        node("a", 2),
        in_namespace(pod("x"), "db").on("a"),
        in_namespace(pod("y"), "db").on("a"),
        pod("p").priority(10),
    ];
    let words = "1 pod needed, 0 fit now. Missing 1 cpu. 2 pods below priority 10 are protected: no pod in their namespaces is evicted.";
    assert_eq!(shortfall(decide(&listed(&only, "db"), &for_pod("p"))), words);

    let mut group = only.to_vec();
    group.pop();
    group.extend(waiting_gang("g", 10, 2));
    group.push(pod("z").on("a").asks("cpu", "0"));
    let words = "2 pods needed, 0 fit now. Missing 2 cpu. Evicting every workload below priority 10 would not help. 2 \
                 pods below priority 10 are protected: no pod in their namespaces is evicted.";
    assert_eq!(shortfall(decide(&listed(&group, "db"), &for_group("g"))), words);

    let never = [node("a", 1), in_namespace(pod("x"), "db").on("a"), gang("g", 10, 1).never(), pod("g-0").group("g")];
    let words = shortfall(decide(&listed(&never, "db"), &for_group("g")));
    assert!(!words.contains("protected"), "no pod would be evicted anyway: {words}");
}

#[test]
fn a_whole_group_in_a_protected_namespace_stays_with_all_its_pods() {
    let mut objects = vec![node("a", 1), node("b", 1), in_namespace(gang("low", 0, 2).whole(), "db")];
    for (name, on) in [("low-0", "a"), ("low-1", "b")] {
        objects.push(in_namespace(pod(name), "db").group("low").on(on));
    }
    objects.push(pod("p").priority(10));
    assert_eq!(victims(&planned(decide(&cluster(&objects), &for_pod("p")))), ["low"]);
    let mut world = listed(&objects, "db");
    let words = "2 pods below priority 10 are protected: no pod in their namespaces is evicted.";
    assert!(shortfall(decide(&world, &for_pod("p"))).ends_with(words));
    // A member that is created later is protected as well, and all of them can be evicted when the protection ends.
    add(&mut world, &node("c", 1));
    add(&mut world, &in_namespace(pod("low-2"), "db").group("low").on("c"));
    assert!(shortfall(decide(&world, &for_pod("p"))).contains("3 pods below priority 10 are protected"));
    world.protect_namespaces([].into());
    assert_eq!(planned(decide(&world, &for_pod("p"))).victims[0].pods.len(), 3);
}

#[test]
fn no_protected_pod_is_evicted_for_a_critical_add_on() {
    let terms = Terms { namespaces: ["default".to_owned()].into(), stranded: false };
    let objects = [
        node("a", 1),
        in_namespace(pod("db"), "db").on("a"),
        pod("dns").annotation("scheduling.giveway.dev/critical-addon", "true"),
    ];
    let answer = |cluster: &Cluster| rescue(cluster, &key("dns"), &terms, &Context::default());
    assert!(matches!(answer(&cluster(&objects)), Rescue::Evict(_)));
    let Rescue::Hopeless(why) = answer(&listed(&objects, "db")) else { panic!("a protected pod is evicted") };
    let words = "1 pod there cannot be evicted, 1 of them because no pod of a protected namespace is evicted.";
    assert!(why.to_string().ends_with(words), "{why}");
}

/// Whatever happened before, a cluster whose namespace is protected has no victims, and answers afterwards as it did before.
#[test]
fn protection_is_added_and_removed_without_a_trace() {
    let property = |world: World| {
        let (objects, preemptor) = (world.objects(), world.preemptor());
        let mut known = cluster(&objects);
        let before = decide(&known, &preemptor);
        let evicts = matches!(&before, giveway_planner::Decision::Preempt(plan) if !plan.victims.is_empty());
        add(&mut known, &default_namespace(true));
        let fresh = cluster(std::iter::once(&default_namespace(true)).chain(&objects));
        let then = decide(&known, &preemptor);
        if let giveway_planner::Decision::Preempt(plan) = &then {
            proptest::prop_assert!(plan.victims.is_empty());
        }
        proptest::prop_assert_eq!(then, decide(&fresh, &preemptor));
        add(&mut known, &default_namespace(false));
        proptest::prop_assert_eq!(decide(&known, &preemptor), before);
        Ok(evicts)
    };
    let meant = for_all(400, 7, worlds(TINY), property);
    assert!(meant > 100, "{meant}");
}

#[test]
fn groups_are_served_where_the_selector_says_so_and_where_nothing_is_known() {
    let mut cluster = Cluster::default();
    let label = |value: &str| default_namespace(false).set("/metadata/labels", json!({"team": value}));
    let selector = json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["strange"]}]});
    assert!(cluster.serves_all_namespaces());
    cluster.serve_groups_in(Some(&serde_json::from_value(json!({})).unwrap()));
    assert!(cluster.serves_all_namespaces(), "an empty selector selects all");
    cluster.serve_groups_in(Some(&serde_json::from_value(selector).unwrap()));
    assert!(cluster.serves_groups_in("default"), "it is not known");
    for (team, served) in [("strange", false), ("ml", true), ("strange", false)] {
        add(&mut cluster, &label(team));
        assert_eq!(cluster.serves_groups_in("default"), served, "{team}");
    }
    cluster.serve_groups_in(None);
    assert!(cluster.serves_groups_in("default"));
}

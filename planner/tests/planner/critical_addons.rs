//! Critical add-ons are not victims of ordinary plans. Victims for a critical add-on are tested in `rescue`.

use crate::common::*;
use giveway_planner::rescue::Terms;
use giveway_planner::{Cluster, Context, Rescue, Strategy, rescue, spared};
use serde_json::json;

fn addon(name: &str) -> Built {
    pod(name).annotation("scheduling.giveway.dev/critical-addon", "true")
}

/// The cluster while critical add-ons are enabled in the namespace of all these pods.
fn enabled(objects: &[Built]) -> Cluster {
    let mut cluster = cluster(objects);
    cluster.protect_critical_addons(Some([NAMESPACE.to_owned()].into()));
    cluster
}

/// Node a with an add-on of priority 0, node b with a pod of priority 5; pod p of priority 10 needs one of them.
fn objects() -> Vec<Built> {
    vec![node("a", 1), node("b", 1), addon("dns").on("a"), pod("web").priority(5).on("b"), pod("p").priority(10)]
}

#[test]
fn a_pod_of_higher_priority_is_evicted_instead_of_a_critical_addon_in_both_strategies() {
    let sparing = enabled(&objects());
    for strategy in Strategy::ALL {
        let context = Context { strategy, ..Context::default() };
        let chosen = |cluster: &Cluster| victims(&planned(plan(cluster, &for_pod("p"), &context))).join(" ");
        assert_eq!(chosen(&cluster(&objects())), "dns", "{strategy:?}: critical add-ons are not enabled");
        assert_eq!(chosen(&sparing), "web", "{strategy:?}");
    }
}

#[test]
fn a_pod_becomes_and_ceases_to_be_a_critical_addon_with_its_annotation_and_the_setting() {
    let mut cluster = enabled(&objects());
    let chosen = |cluster: &Cluster| victims(&planned(decide(cluster, &for_pod("p")))).join(" ");
    add(&mut cluster, &pod("dns").on("a"));
    assert_eq!(chosen(&cluster), "dns");
    add(&mut cluster, &addon("dns").on("a"));
    assert_eq!(chosen(&cluster), "web");
    cluster.protect_critical_addons(Some(["elsewhere".to_owned()].into()));
    assert_eq!(chosen(&cluster), "dns", "the annotation does not count in this namespace");
    cluster.protect_critical_addons(Some([NAMESPACE.to_owned()].into()));
    assert_eq!(chosen(&cluster), "web");
    cluster.protect_critical_addons(None);
    assert_eq!(chosen(&cluster), "dns");
}

#[test]
fn a_pod_of_a_system_priority_class_is_no_victim_of_a_preemptor_of_a_higher_one() {
    let objects = [node("a", 1), pod("dns").priority(2_000_000_000).on("a"), pod("p").priority(2_000_001_000)];
    assert_eq!(victims(&planned(decide(&cluster(&objects), &for_pod("p")))), ["dns"]);
    let words = "1 pod needed, 0 fit now. Missing 1 cpu. 1 pod below priority 2000001000 is a critical add-on, which is not evicted.";
    assert_eq!(shortfall(decide(&enabled(&objects), &for_pod("p"))), words);
}

#[test]
fn pods_are_evicted_for_a_critical_pod_only_in_the_namespaces_of_critical_addons() {
    let cluster = cluster(&[addon("dns"), pod("system").priority(2_000_000_000), pod("plain").priority(1_999_999_999)]);
    let in_namespace = |name: &str| Terms { namespaces: [name.to_owned()].into(), stranded: false };
    let (here, elsewhere) = (in_namespace(NAMESPACE), in_namespace("kube-system"));
    for (name, critical) in [("dns", true), ("system", true), ("plain", false)] {
        let pod = cluster.pod(&key(name)).unwrap();
        assert_eq!((here.evicts_for(pod), elsewhere.evicts_for(pod)), (critical, false), "{name}");
    }
    // It is protected from ordinary plans in every namespace.
    assert!(elsewhere.is_critical(cluster.pod(&key("system")).unwrap()));
}

#[test]
fn a_group_that_is_disrupted_together_is_no_victim_if_a_member_is_a_critical_addon() {
    let member = |name: &str, on: &str| pod(name).group("low").on(on);
    let mut objects = vec![node("a", 1), node("b", 1), gang("low", 0, 2).whole(), member("low-1", "b")];
    objects.extend([addon("low-0").group("low").on("a"), pod("p").priority(10)]);
    assert_eq!(victims(&planned(decide(&cluster(&objects), &for_pod("p")))), ["low"]);
    let mut world = enabled(&objects);
    let words = shortfall(decide(&world, &for_pod("p")));
    assert!(words.contains("none of them can be evicted now"), "{words}");
    // All members are potential victims again when the critical add-on is none any more.
    add(&mut world, &member("low-0", "a"));
    assert_eq!(planned(decide(&world, &for_pod("p"))).victims[0].pods.len(), 2);
}

#[test]
fn the_explanation_of_a_plan_says_that_a_critical_addon_is_not_evicted() {
    let mut objects = objects();
    objects.push(addon("dns-too").on("b").asks("cpu", "0"));
    let cluster = enabled(&objects);
    let plan = planned(decide(&cluster, &for_pod("p")));
    let sparing = spared(&cluster, &for_pod("p"), &Context::default(), &plan);
    let why: Vec<&str> = sparing.units.iter().map(|unit| unit.why.as_str()).collect();
    assert_eq!(why, ["It is a critical add-on, which is not evicted for other workloads."]);
}

#[test]
fn a_critical_addon_that_can_run_on_one_node_only_still_displaces_another_one() {
    let terms = Terms { namespaces: [NAMESPACE.to_owned()].into(), stranded: true };
    let only_a =
        json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]});
    let affinity = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let objects = [node("a", 1), node("b", 1), addon("dns").on("a"), addon("local").set(affinity, only_a)];
    let cluster = enabled(&objects);
    let answer = |context: &Context| rescue(&cluster, &key("local"), &terms, context);
    let Rescue::Evict(eviction) = answer(&Context::default()) else { panic!("it is displaced") };
    assert_eq!(victims(&eviction.plan), ["dns"]);
    let refused = cluster.pod(&key("dns")).unwrap().uid.clone();
    let context = Context { exempt: [refused].into(), ..Context::default() };
    assert!(matches!(answer(&context), Rescue::Hopeless(_)), "an eviction that was refused is not tried again");
}

//! Feasibility with inter-pod constraints: affinity, anti-affinity, topology spread, and nominated pods.

use crate::common::*;
use giveway_planner::{Cluster, Decision, Placement};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Names of the nodes on which the pod fits.
fn fits_on(cluster: &Cluster, pod: &Built) -> Vec<String> {
    let nodes: Vec<String> = cluster.nodes().map(|node| node.name.to_string()).collect();
    let fits = |node: &String| {
        let mut cluster = cluster.clone();
        add(&mut cluster, pod);
        let key = key(pod.0["metadata"]["name"].as_str().unwrap());
        let uid = format!("uid-{}", key.name);
        let placement = giveway_planner::Placement { pod: key, uid: uid.into(), node: node.into() };
        let priority = pod.0["spec"]["priority"].as_i64().unwrap_or(0) as i32;
        giveway_planner::still_fits(&cluster, &[placement], priority, &Default::default(), &Default::default()).is_ok()
    };
    nodes.into_iter().filter(fits).collect()
}

/// Nodes `a1`, `a2` in zone `a`, `b1` in zone `b`, and `none` without a zone.
fn zones() -> Vec<Built> {
    let zoned = |name: &str, zone: &str| node(name, 8).label("zone", zone);
    vec![zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b"), node("none", 8)]
}

fn with(others: &[Built]) -> Cluster {
    cluster(zones().iter().chain(others))
}

fn app(name: &str, app: &str) -> Built {
    pod(name).label("app", app)
}

fn term(kind: &str, extra: Value) -> Value {
    let mut term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}});
    for (key, value) in extra.as_object().unwrap() {
        term[key] = value.clone();
    }
    json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
}

fn near(extra: Value) -> Built {
    pod("p").set("/spec/affinity", term("podAffinity", extra))
}

fn far(extra: Value) -> Built {
    pod("p").set("/spec/affinity", term("podAntiAffinity", extra))
}

fn in_namespace(namespace: &str, pod: Built) -> Built {
    pod.set("/metadata/namespace", json!(namespace))
}

fn namespace(cluster: &mut Cluster, name: &str, labels: Value) {
    let object = json!({"metadata": {"name": name, "labels": labels}});
    assert!(cluster.upsert_namespace(&serde_json::from_value(object).unwrap()));
}

#[test]
fn affinity_is_about_the_pods_own_namespace_unless_it_names_others() {
    let cluster = with(&[in_namespace("other", app("db", "db")).on("a1")]);
    assert_eq!(fits_on(&cluster, &far(json!({}))), ["a1", "a2", "b1", "none"]);
    assert_eq!(fits_on(&cluster, &far(json!({"namespaces": ["other"]}))), ["b1", "none"]);
    assert_eq!(fits_on(&cluster, &far(json!({"namespaceSelector": {}}))), ["b1", "none"]);
    assert_eq!(fits_on(&cluster, &near(json!({"namespaces": ["other"]}))), ["a1", "a2"]);
}

#[test]
fn a_namespace_selector_asks_for_the_labels_of_namespaces() {
    let mut cluster = with(&[in_namespace("other", app("db", "db")).on("a1")]);
    namespace(&mut cluster, "other", json!({"team": "red"}));
    let team = |team: &str| far(json!({"namespaceSelector": {"matchLabels": {"team": team}}}));
    assert_eq!(fits_on(&cluster, &team("red")), ["b1", "none"]);
    assert_eq!(fits_on(&cluster, &team("blue")), ["a1", "a2", "b1", "none"]);
    let union = far(json!({"namespaces": ["other"], "namespaceSelector": {"matchLabels": {"team": "blue"}}}));
    assert_eq!(fits_on(&cluster, &union), ["b1", "none"], "named, or selected");
    namespace(&mut cluster, "other", json!({"team": "blue"}));
    assert_eq!(fits_on(&cluster, &team("blue")), ["b1", "none"]);
    assert!(cluster.remove_namespace("other") && !cluster.remove_namespace("other"));
}

#[test]
fn without_knowledge_of_namespaces_a_selector_of_their_labels_is_not_modeled() {
    let cluster = with(&[in_namespace("other", app("db", "db")).on("a1")]);
    let by = |labels: Value| far(json!({"namespaceSelector": {"matchLabels": labels}}));
    assert_eq!(fits_on(&cluster, &by(json!({"team": "red"}))), ["b1", "none"], "any namespace may have the label");
    assert_eq!(fits_on(&cluster, &by(json!({"kubernetes.io/metadata.name": "other"}))), ["b1", "none"]);
    assert_eq!(fits_on(&cluster, &by(json!({"kubernetes.io/metadata.name": "default"}))).len(), 4);
    let not_modeled = |pod: Built, known: bool| {
        let mut cluster = with(&[pod]);
        if known {
            namespace(&mut cluster, "default", json!({}));
        }
        cluster.not_modeled(cluster.pod(&key("p")).unwrap())
    };
    let sentence = "the namespaceSelector of its pod affinity, because no namespaces are known";
    assert_eq!(not_modeled(by(json!({"team": "red"})), false), [sentence]);
    assert!(not_modeled(by(json!({"team": "red"})), true).is_empty());
    assert!(not_modeled(by(json!({"kubernetes.io/metadata.name": "x"})), false).is_empty());
    assert!(not_modeled(far(json!({"namespaceSelector": {}})), false).is_empty());
}

#[test]
fn anti_affinity_of_pods_that_are_there_counts_in_their_terms() {
    let guard = in_namespace("other", app("guard", "db")).on("a1");
    let guarding = |extra: Value| vec![guard.clone().set("/spec/affinity", term("podAntiAffinity", extra))];
    let db = app("p", "db");
    assert_eq!(fits_on(&with(&guarding(json!({}))), &db).len(), 4, "its own namespace");
    assert_eq!(fits_on(&with(&guarding(json!({"namespaces": ["default"]}))), &db), ["b1", "none"]);
    let mut cluster = with(&guarding(json!({"namespaceSelector": {"matchLabels": {"team": "red"}}})));
    namespace(&mut cluster, "default", json!({"team": "blue"}));
    assert_eq!(fits_on(&cluster, &db).len(), 4);
    namespace(&mut cluster, "default", json!({"team": "red"}));
    assert_eq!(fits_on(&cluster, &db), ["b1", "none"]);
}

#[test]
fn match_label_keys_narrow_a_term_to_pods_with_the_pods_own_value() {
    let others = [app("one", "db").label("tier", "x").on("a1"), app("two", "db").label("tier", "y").on("b1")];
    let cluster = with(&others);
    let with_tier = |pod: Built| pod.label("tier", "x");
    let (matching, mismatching) = (json!({"matchLabelKeys": ["tier"]}), json!({"mismatchLabelKeys": ["tier"]}));
    assert_eq!(fits_on(&cluster, &with_tier(far(matching.clone()))), ["b1", "none"]);
    assert_eq!(fits_on(&cluster, &with_tier(far(mismatching))), ["a1", "a2", "none"]);
    assert_eq!(fits_on(&cluster, &far(matching)), ["none"], "a key that the pod has no label for says nothing");
}

#[test]
fn one_pod_must_satisfy_all_affinity_terms_at_once() {
    let two = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}},
        {"topologyKey": "hostname", "labelSelector": {"matchLabels": {"tier": "x"}}}
    ]}});
    let wanting = pod("p").set("/spec/affinity", two);
    let apart = [app("one", "db").on("a1"), pod("two").label("tier", "x").on("a1")];
    assert!(fits_on(&with(&apart), &wanting).is_empty());
    assert_eq!(fits_on(&with(&[app("one", "db").label("tier", "x").on("a1")]), &wanting), ["a1"]);
}

#[test]
fn the_first_of_a_set_fits_anywhere_when_the_others_are_in_no_domain() {
    let first = near(json!({})).label("app", "db");
    assert_eq!(fits_on(&with(&[]), &first), ["a1", "a2", "b1"]);
    assert_eq!(fits_on(&with(&[app("db", "db").on("b1")]), &first), ["b1"]);
    assert_eq!(fits_on(&with(&[app("db", "db").on("none")]), &first), ["a1", "a2", "b1"], "it is in no zone");
}

fn spread(extra: Value) -> Built {
    let mut constraint = json!({"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}}});
    for (key, value) in extra.as_object().unwrap() {
        constraint[key] = value.clone();
    }
    app("p", "db").set("/spec/topologySpreadConstraints", json!([constraint]))
}

#[test]
fn spread_keeps_the_domains_even() {
    let one = || app("one", "db").on("a1");
    assert_eq!(fits_on(&with(&[one()]), &spread(json!({}))), ["b1"]);
    assert_eq!(fits_on(&with(&[one()]), &spread(json!({"maxSkew": 2}))), ["a1", "a2", "b1"]);
    assert_eq!(fits_on(&with(&[one(), app("two", "db").on("b1")]), &spread(json!({}))), ["a1", "a2", "b1"]);
    let soft = spread(json!({"whenUnsatisfiable": "ScheduleAnyway"}));
    assert_eq!(fits_on(&with(&[one()]), &soft), ["a1", "a2", "b1", "none"]);
    assert_eq!(fits_on(&with(&[one().terminating()]), &spread(json!({}))), ["a1", "a2", "b1"], "it leaves");
    assert_eq!(fits_on(&with(&[in_namespace("other", one())]), &spread(json!({}))), ["a1", "a2", "b1"]);
    assert_eq!(
        fits_on(&with(&[one()]), &spread(json!({"labelSelector": {}}))),
        ["a1", "a2", "b1"],
        "it matches no pod"
    );
}

#[test]
fn too_few_domains_count_as_one_that_has_none() {
    let even = [app("one", "db").on("a1"), app("two", "db").on("b1")];
    assert_eq!(fits_on(&with(&even), &spread(json!({"minDomains": 2}))), ["a1", "a2", "b1"]);
    assert!(fits_on(&with(&even), &spread(json!({"minDomains": 3}))).is_empty());
}

#[test]
fn policies_say_whether_nodes_count_where_the_pod_cannot_go() {
    let one = [app("one", "db").on("a1")];
    let in_zone_a = |extra: Value| spread(extra).set("/spec/nodeSelector", json!({"zone": "a"}));
    assert_eq!(fits_on(&with(&one), &in_zone_a(json!({}))), ["a1", "a2"], "zone b does not count");
    assert!(fits_on(&with(&one), &in_zone_a(json!({"nodeAffinityPolicy": "Ignore"}))).is_empty());
    let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    let mut tainted = with(&one);
    add(&mut tainted, &node("b1", 8).label("zone", "b").set("/spec/taints", taint));
    assert!(fits_on(&tainted, &spread(json!({}))).is_empty());
    assert_eq!(fits_on(&tainted, &spread(json!({"nodeTaintsPolicy": "Honor"}))), ["a1", "a2"]);
}

#[test]
fn match_label_keys_count_only_pods_with_the_pods_own_value() {
    let others = [app("one", "db").label("version", "1").on("a1")];
    let keyed = |version: &str| spread(json!({"matchLabelKeys": ["version"]})).label("version", version);
    assert_eq!(fits_on(&with(&others), &keyed("1")), ["b1"]);
    assert_eq!(fits_on(&with(&others), &keyed("2")), ["a1", "a2", "b1"]);
}

#[test]
fn a_nomination_counts_against_a_pod_and_never_for_it() {
    let nominated = |priority: i32| app("nominated", "db").priority(priority).nominated("a1");
    let five = |pod: Built| pod.priority(5);
    assert_eq!(fits_on(&with(&[nominated(5)]), &five(far(json!({})))), ["b1", "none"]);
    assert_eq!(fits_on(&with(&[nominated(4)]), &five(far(json!({})))).len(), 4, "a lower priority holds nothing");
    assert!(fits_on(&with(&[nominated(5)]), &five(near(json!({})))).is_empty(), "it may never come");
    let bound = app("one", "db").on("b1");
    assert!(fits_on(&with(&[nominated(5), bound]), &five(spread(json!({})))).contains(&"a1".to_owned()));
    let twice = [nominated(5), app("one", "db").on("a2"), app("two", "db").on("b1")];
    assert_eq!(fits_on(&with(&twice), &five(spread(json!({})))), ["b1"]);
}

#[test]
fn host_network_takes_ports_of_the_node_also_in_a_template() {
    let on_node = |name: &str| {
        let containers = json!([{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]);
        pod(name).set("/spec/hostNetwork", json!(true)).set("/spec/containers", containers)
    };
    assert_eq!(fits_on(&with(&[on_node("other").on("a1")]), &on_node("p")), ["a2", "b1", "none"]);
}

#[test]
fn members_of_a_gang_are_spread_one_after_the_other() {
    let mut objects = zones();
    objects.push(gang("g", 5, 4));
    objects.extend((0..4).map(|i| {
        let mut member = spread(json!({})).group("g");
        member.0["metadata"]["name"] = json!(format!("g-{i}"));
        member.0["metadata"]["uid"] = json!(format!("uid-g-{i}"));
        member
    }));
    match decide(&cluster(&objects), &for_group("g")) {
        Decision::Fits { placements, left: 0, .. } => {
            let in_b = placements.iter().filter(|placement| placement.node == "b1").count();
            assert_eq!((placements.len(), in_b), (4, 2));
        }
        other => panic!("{other:?}"),
    }
}

/// What Giveway does not know about the placement of the gang.
fn unknown(objects: &[Built]) -> Vec<String> {
    match decide(&cluster(objects), &for_group("g")) {
        Decision::Unknown(unknown) => unknown.why,
        other => panic!("{other:?}"),
    }
}

/// It takes no longer than others.
#[test]
fn no_pod_is_evicted_for_members_with_more_constraints_together_than_are_evaluated() {
    let term = |key: usize| json!({"topologyKey": format!("key-{key}"), "labelSelector": {"matchLabels": {"a": "b"}}});
    let affinity = |member: usize| {
        let terms: Vec<Value> = (0..16).map(|number| term(16 * member + number)).collect();
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    };
    let member = |n: usize| pod(&format!("g-{n}")).group("g").priority(10).set("/spec/affinity", affinity(n));
    let mut all = vec![node("a", 9), gang("g", 10, 9)];
    all.extend((0..9).map(|n| pod(&format!("low-{n}")).on("a")));
    all.extend((0..9).map(member));
    assert_eq!(
        unknown(&all),
        ["its pods have 144 different rules about other pods, more than the 128 that Giveway evaluates"]
    );
}

/// Returns a node and a gang that fits there. Each member has a label of its own, and topology spread constraints for pods with that label.
fn of_many_classes(size: usize, constraints: usize) -> Vec<Built> {
    let constrained = |object: Built| {
        if object.0["kind"] != "Pod" {
            return object;
        }
        let name = object.0["metadata"]["name"].as_str().unwrap().to_owned();
        let constraint = |key: usize| {
            json!({"topologyKey": format!("key-{key}"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": name}}})
        };
        let spread: Vec<Value> = (0..constraints).map(constraint).collect();
        object.label("app", &name).set("/spec/topologySpreadConstraints", json!(spread))
    };
    let mut all: Vec<Built> = waiting_gang("g", 10, size).into_iter().map(constrained).collect();
    all.push((0..constraints).fold(node("a", 100), |node, key| node.label(&format!("key-{key}"), "a")));
    all
}

#[test]
fn it_is_not_known_where_a_gang_fits_whose_classes_or_counters_exceed_the_limits() {
    for (size, constraints) in [(64, 1), (32, 4)] {
        let decision = decide(&cluster(&of_many_classes(size, constraints)), &for_group("g"));
        assert!(matches!(decision, Decision::Fits { left: 0, .. }), "{decision:?}");
    }
    let counters = "its pods have 132 different rules about other pods, more than the 128 that Giveway evaluates";
    assert_eq!(unknown(&of_many_classes(33, 4)), [counters]);
    let classes =
        "its pods are in 65 equivalence classes with rules about other pods, more than the 64 that Giveway evaluates";
    let mut all = of_many_classes(65, 1);
    assert_eq!(unknown(&all), [classes]);
    // kube-scheduler would not keep it within one domain.
    all[0] = all[0].clone().set("/spec/schedulingConstraints", json!({"topology": [{"key": "key-0"}]}));
    assert_eq!(
        shortfall(decide(&cluster(&all), &for_group("g"))),
        format!(
            "65 pods needed, 0 fit now. Where it can run depends on what Giveway does not know: {classes}. No pod is evicted for it, and \
             it stays gated until it fits within one domain."
        )
    );
}

#[test]
fn members_without_rules_about_other_pods_do_not_count_for_the_limit_of_classes() {
    let term = json!({"topologyKey": "hostname", "labelSelector": {"matchLabels": {"app": "apart"}}});
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let not = |n: usize| json!({"matchExpressions": [{"key": "k", "operator": "NotIn", "values": [n.to_string()]}]});
    let required = |n: usize| json!({"nodeSelectorTerms": [not(n)]});
    let of_node = |n: usize| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required(n)}});
    let member = |name: &str| pod(name).group("g").priority(10);
    // The classes are evaluated in the order of the names of their members.
    for first in ["a", "z"] {
        let mut all = vec![node("n1", 100), node("n2", 100), gang("g", 10, 72)];
        all.extend((0..70).map(|n| member(&format!("m-{n:03}")).set("/spec/affinity", of_node(n))));
        let two = (0..2).map(|n| member(&format!("{first}-{n}")).label("app", "apart"));
        all.extend(two.map(|pod| pod.set("/spec/affinity", apart.clone())));
        let decision = decide(&cluster(&all), &for_group("g"));
        let Decision::Fits { placements, left: 0, .. } = decision else { panic!("{first}: {decision:?}") };
        let of_two = placements.iter().filter(|placement| placement.pod.name.starts_with(first));
        let nodes: BTreeSet<&str> = of_two.map(|placement| placement.node.as_str()).collect();
        assert_eq!(nodes, BTreeSet::from(["n1", "n2"]), "{first}");
    }
}

/// They would fit in the other rack without an eviction.
#[test]
fn the_domain_of_a_bound_member_is_that_of_the_others() {
    let topology = json!({"topology": [{"key": "rack"}]});
    let mut cluster = cluster(&[
        node("a", 2).label("rack", "r1"),
        node("b", 2).label("rack", "r2"),
        gang("g", 10, 2).set("/spec/schedulingConstraints", topology),
        pod("g-0").group("g").priority(10).on("a"),
        pod("low").on("a"),
        pod("g-1").group("g").priority(10),
    ]);
    let plan = planned(decide(&cluster, &for_group("g")));
    assert_eq!((victims(&plan), plan.placements[0].node.as_str()), (vec!["low"], "a"));
    assert_eq!(plan.domain.unwrap().to_string(), "rack=r1");
    add(&mut cluster, &pod("low").priority(10).on("a"));
    assert!(matches!(decide(&cluster, &for_group("g")), Decision::Unschedulable(_)));
}

/// Racks `r1` of two nodes and `r2` of one, and a gang in one rack whose members are spread over the nodes.
fn spread_in_a_rack(members: usize, extra: Value, others: &[Built]) -> Cluster {
    let in_rack = |name: &str, rack: &str| node(name, 4).label("rack", rack).label("hostname", name);
    let mut objects = vec![in_rack("a", "r1"), in_rack("b", "r1"), in_rack("c", "r2")];
    objects.push(gang("g", 10, members).set("/spec/schedulingConstraints", json!({"topology": [{"key": "rack"}]})));
    objects.extend((0..members).map(|i| {
        let mut member = spread(json!({"topologyKey": "hostname"})).group("g").priority(10);
        let constraint = &mut member.0["spec"]["topologySpreadConstraints"][0];
        extra.as_object().unwrap().iter().for_each(|(key, value)| constraint[key] = value.clone());
        member.0["metadata"]["name"] = json!(format!("g-{i}"));
        member.0["metadata"]["uid"] = json!(format!("uid-g-{i}"));
        member
    }));
    cluster(objects.iter().chain(others))
}

/// It is kept within the rack by a node selector, and so kube-scheduler counts the nodes of the rack.
#[test]
fn a_gang_within_a_domain_is_spread_over_the_nodes_of_that_domain_alone() {
    let decided = spread_in_a_rack(6, json!({}), &[]);
    match decide(&decided, &for_group("g")) {
        Decision::Fits { placements, left: 0, domain: Some(domain) } => {
            let on_a = placements.iter().filter(|placement| placement.node == "a").count();
            assert_eq!((placements.len(), on_a, domain.to_string().as_str()), (6, 3, "rack=r1"));
            let still = |placements: &[Placement]| {
                giveway_planner::still_fits(&decided, placements, 10, &Default::default(), &Default::default())
            };
            assert_eq!(still(&placements), Ok(()));
            let uneven: Vec<Placement> = placements.iter().filter(|placement| placement.node == "a").cloned().collect();
            let why =
                "Pod default/g-2 does not fit on node a any more: its topology spread constraints do not allow it.";
            assert_eq!(still(&uneven), Err(why.to_owned()));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_runs_in_other_domains_is_nothing_to_its_spread() {
    let others: Vec<Built> = (0..2).map(|i| app(&format!("c-{i}"), "db").on("c")).collect();
    assert!(matches!(decide(&spread_in_a_rack(6, json!({}), &others), &for_group("g")), Decision::Fits { .. }));
    // In the domain it counts, and so does a nominated pod there, once: one more than on b is admitted on a.
    let bound = app("a-0", "db").on("a");
    let placements = match decide(&spread_in_a_rack(5, json!({}), &[bound]), &for_group("g")) {
        Decision::Fits { placements, left: 0, .. } => placements,
        other => panic!("{other:?}"),
    };
    let on_a = placements.iter().filter(|placement| placement.node == "a").count();
    assert!((2..=3).contains(&on_a), "{placements:?}");
}

#[test]
fn a_spread_that_ignores_node_selectors_counts_all_nodes_also_within_a_domain() {
    let ignore = json!({"nodeAffinityPolicy": "Ignore"});
    assert!(matches!(decide(&spread_in_a_rack(2, ignore.clone(), &[]), &for_group("g")), Decision::Fits { .. }));
    let decision = decide(&spread_in_a_rack(3, ignore, &[]), &for_group("g"));
    assert!(matches!(decision, Decision::Unschedulable(_)), "c has none: {decision:?}");
}

/// No pod is evicted without benefit: kube-scheduler would admit one member per node.
#[test]
fn a_domain_with_fewer_nodes_than_a_spread_wants_counts_as_one_with_an_empty_node() {
    let low: Vec<Built> =
        ["a", "b", "c"].iter().flat_map(|on| (0..4).map(move |i| pod(&format!("{on}-{i}")).on(on))).collect();
    let three = json!({"minDomains": 3});
    let plan = planned(decide(&spread_in_a_rack(2, three.clone(), &low), &for_group("g")));
    assert_eq!(victims(&plan).len(), 2);
    let decision = decide(&spread_in_a_rack(3, three, &low), &for_group("g"));
    assert!(matches!(decision, Decision::Unschedulable(_)), "{decision:?}");
}

#[test]
fn more_members_on_a_node_than_their_spread_allows_at_first_keep_each_other_out() {
    let decided = |members, extra: Value| {
        let cluster = spread_in_a_rack(members, extra, &[]);
        match decide(&cluster, &for_group("g")) {
            Decision::Fits { placements, .. } => {
                (giveway_planner::mutually_exclusive(&cluster, &placements), cluster, placements)
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(decided(2, json!({})).0.len(), 0, "one a node");
    assert_eq!(decided(2, json!({"maxSkew": 2})).0.len(), 0, "two a node, and two may be");
    assert_eq!(decided(4, json!({"labelSelector": {"matchLabels": {"app": "web"}}})).0.len(), 0, "it counts others");
    let (mutual_exclusion, mut cluster, placements) = decided(4, json!({}));
    assert_eq!(mutual_exclusion.into_iter().collect::<Vec<_>>(), ["uid-g-0", "uid-g-1", "uid-g-2", "uid-g-3"]);
    // A bound pod is no longer nominated.
    let first = placements.iter().find(|placement| placement.node == "a").unwrap();
    let bound = app(&first.pod.name, "db").group("g").priority(10).on("a");
    add(&mut cluster, &bound);
    assert_eq!(giveway_planner::mutually_exclusive(&cluster, &placements).len(), 2, "those on b");
}

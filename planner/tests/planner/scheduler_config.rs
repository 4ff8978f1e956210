//! The configuration of schedulers: added node affinity, ignored resources, and default topology spread constraints.

use crate::common::*;
use giveway_crds::scheduler_config::SchedulerConfig;
use giveway_planner::{Cluster, Context, Decision, Strategy};
use serde_json::{Value, json};

const LEFT: &str = "No pod is evicted for it; kube-scheduler places it.";

/// Gives the scheduler `batch` these arguments of a plugin.
fn configure(cluster: &mut Cluster, plugin: &str, args: &Value) {
    let profile = json!({"schedulerName": "batch", "pluginConfig": [{"name": plugin, "args": args}]});
    let config = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}, profile]});
    cluster.configure_schedulers(&SchedulerConfig::parse(&config.to_string()).unwrap());
}

fn of_batch(name: &str) -> Built {
    pod(name).priority(9).set("/spec/schedulerName", json!("batch"))
}

/// Nodes `a` and `b` of one CPU each, with a pod of priority 0 on each.
fn full(pods: &[Built]) -> Cluster {
    let nodes = [node("a", 1).label("pool", "default"), node("b", 1).label("pool", "batch")];
    let low = [pod("on-a").on("a"), pod("on-b").on("b")];
    cluster(&[&nodes[..], &low[..], pods].concat())
}

fn unknown(decision: Decision) -> String {
    match decision {
        Decision::Unknown(unknown) => unknown.to_string(),
        other => panic!("{other:?}"),
    }
}

fn added(pool: &str) -> Value {
    let rule = json!({"key": "pool", "operator": "In", "values": [pool]});
    json!({"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}})
}

#[test]
fn added_affinity_restricts_the_pods_of_its_scheduler_only() {
    for is_configured_first in [true, false] {
        let mut cluster = full(&[]);
        let pods = [of_batch("p"), pod("q").priority(9)];
        if is_configured_first {
            configure(&mut cluster, "NodeAffinity", &added("batch"));
        }
        pods.iter().for_each(|pod| add(&mut cluster, pod));
        configure(&mut cluster, "NodeAffinity", &added("batch"));
        for strategy in Strategy::ALL {
            let context = Context { strategy, ..Context::default() };
            let of = |name: &str| planned(plan(&cluster, &for_pod(name), &context));
            assert_eq!((victims(&of("p")), victims(&of("q"))), (vec!["on-b"], vec!["on-a"]));
        }
    }
}

#[test]
fn a_node_that_added_affinity_excludes_is_named_in_the_words_of_kube_scheduler() {
    let mut cluster = full(&[of_batch("p")]);
    configure(&mut cluster, "NodeAffinity", &added("nowhere"));
    let sentence = shortfall(decide(&cluster, &for_pod("p")));
    assert!(sentence.contains("2 node(s) didn't match scheduler-enforced node affinity."), "{sentence}");
    cluster.configure_schedulers(&SchedulerConfig::default());
    assert_eq!(planned(decide(&cluster, &for_pod("p"))).victims.len(), 1, "the configuration was removed");
}

#[test]
fn a_gang_of_many_classes_is_placed_where_added_affinity_allows() {
    let mut objects: Vec<Built> = (0..70).map(|n| node(&format!("n-{n:02}"), 1).label("pool", "default")).collect();
    objects.extend([node("x", 2).label("pool", "batch"), node("y", 2).label("pool", "batch")]);
    objects.push(gang("g", 9, 3));
    for (name, memory) in [("g-0", "1Gi"), ("g-1", "2Gi"), ("g-2", "3Gi")] {
        objects.push(of_batch(name).group("g").asks("memory", memory));
    }
    let mut cluster = cluster(&objects);
    configure(&mut cluster, "NodeAffinity", &added("batch"));
    match decide(&cluster, &for_group("g")) {
        Decision::Fits { placements, .. } => {
            let nodes: Vec<&str> = placements.iter().map(|placement| placement.node.as_str()).collect();
            assert!(nodes.len() == 3 && nodes.iter().all(|node| ["x", "y"].contains(node)), "{nodes:?}");
        }
        other => panic!("{other:?}"),
    }
}

fn ignoring() -> Value {
    json!({"ignoredResources": ["example.com/fpga"]})
}

#[test]
fn no_pod_is_evicted_for_a_resource_that_the_scheduler_ignores_and_free_capacity_is_used() {
    let asks = |pod: Built| pod.asks("example.com/fpga", "2");
    let mut cluster = full(&[asks(of_batch("p")), asks(pod("q").priority(9))]);
    assert!(shortfall(decide(&cluster, &for_pod("p"))).contains("Missing 1 cpu, 2 example.com/fpga."));
    configure(&mut cluster, "NodeResourcesFit", &ignoring());
    let what = "resource example.com/fpga, which the configuration of batch ignores";
    let sentence = format!("Where it can run depends on what Giveway does not know: {what}. {LEFT}");
    assert_eq!(unknown(decide(&cluster, &for_pod("p"))), sentence);
    assert!(shortfall(decide(&cluster, &for_pod("q"))).contains("2 example.com/fpga"), "another scheduler compares it");
    cluster.remove_pod(&key("on-b"));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }));
    // Also on a node that offers less of it.
    add(&mut cluster, &node("b", 1).offers("example.com/fpga", "1"));
    assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }));
}

#[test]
fn a_pod_on_a_node_uses_what_its_scheduler_ignores_for_the_pods_of_other_schedulers() {
    let mut cluster = cluster(&[node("a", 4).offers("example.com/fpga", "2")]);
    configure(&mut cluster, "NodeResourcesFit", &ignoring());
    let asks = |pod: Built| pod.asks("example.com/fpga", "2");
    add(&mut cluster, &asks(of_batch("p")));
    add(&mut cluster, &asks(pod("q").priority(5)));
    assert!(matches!(decide(&cluster, &for_pod("q")), Decision::Fits { .. }));
    add(&mut cluster, &asks(of_batch("p")).on("a"));
    assert!(shortfall(decide(&cluster, &for_pod("q"))).contains("Missing 2 example.com/fpga."));
    add(&mut cluster, &asks(of_batch("other")));
    assert!(matches!(decide(&cluster, &for_pod("other")), Decision::Fits { .. }));
}

#[test]
fn no_pod_is_evicted_under_default_spread_constraints_that_must_hold_unless_a_pod_has_its_own() {
    let constraint = |when: &str| json!({"maxSkew": 1, "topologyKey": "pool", "whenUnsatisfiable": when});
    let list = |when: &str| json!({"defaultingType": "List", "defaultConstraints": [constraint(when)]});
    let own = of_batch("own").set("/spec/topologySpreadConstraints", json!([constraint("ScheduleAnyway")]));
    let mut cluster = full(&[of_batch("p"), own]);
    configure(&mut cluster, "PodTopologySpread", &list("DoNotSchedule"));
    let what = "the default topology spread constraints of batch, whose selectors come from Services and controllers";
    let sentence = format!("Where it can run depends on what Giveway does not know: {what}. {LEFT}");
    assert_eq!(unknown(decide(&cluster, &for_pod("p"))), sentence);
    assert_eq!(planned(decide(&cluster, &for_pod("own"))).victims.len(), 1);
    configure(&mut cluster, "PodTopologySpread", &list("ScheduleAnyway"));
    assert_eq!(planned(decide(&cluster, &for_pod("p"))).victims.len(), 1);
}

//! Expectations of kube-scheduler's unit tests (`tests/cases/units.yaml`), applied to whole plans.
//!
//! Other kinds of that file are tested beside their counterpart: `more_important_victim` and `pdb_split` inside the
//! planner, `effective_priority` beside the cases, classes in `crds` and `webhook`, `webhook_reinvocation`,
//! `async_preemption` and `nominated_node_name` end to end. There is no counterpart of `pod_terminating_by_preemption`,
//! because every terminating pod frees capacity here, for whatever reason; or of policies that are read from the members of a group.

use crate::common::*;
use giveway_planner::{Cluster, Context, Decision, Plan, Preemptor, Strategy};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn cases(kind: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_yaml_ng::from_str(include_str!("../../../tests/cases/units.yaml")).unwrap();
    all.into_iter().filter(|case| case["kind"] == kind).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn priority(value: &Value) -> i32 {
    i32::try_from(value["priority"].as_i64().unwrap_or(0)).unwrap()
}

/// The pods and groups of a case. Every pod requests one CPU.
fn occupied(case: &Value) -> Cluster {
    let mut cluster = Cluster::default();
    for data in list(&case["podGroups"]) {
        let group = gang(text(&data["name"]), priority(data), 1);
        add(&mut cluster, &if data["disruptionMode"] == "All" { group.whole() } else { group });
    }
    for data in list(&case["pods"]) {
        let mut built = pod(text(&data["name"])).on(text(&data["node"])).priority(priority(data));
        if let Some(group) = data["podGroup"].as_str() {
            built = built.group(group);
        }
        for (label, value) in data["labels"].as_object().into_iter().flatten() {
            built = built.label(label, text(value));
        }
        add(&mut cluster, &if data["terminating"] == true { built.terminating() } else { built });
    }
    for (at, data) in list(&case["pdbs"]).iter().enumerate() {
        let allowed = i32::try_from(data["disruptionsAllowed"].as_i64().unwrap()).unwrap();
        add(&mut cluster, &budget(&format!("b{at}"), text(&data["matchLabels"]["app"]), allowed));
    }
    cluster
}

fn decide(cluster: &Cluster, strategy: Strategy) -> Decision {
    plan(cluster, &Preemptor::Group(key("preemptor")), &Context { strategy, ..Context::default() })
}

fn victims(plan: &Plan) -> BTreeSet<String> {
    plan.victims.iter().flat_map(|victim| &victim.pods).map(|pod| pod.key.name.to_string()).collect()
}

/// A preemptor that needs the capacity of the first units in kube-scheduler's order evicts exactly these, by the strategy that is compared
/// with it.
#[test]
fn units_are_evicted_in_the_order_of_kube_scheduler() {
    let mut compared = 0;
    for case in cases("generate_victims") {
        let expected = list(&case["expect"]["victimsInOrder"]);
        let on_first = |name: &str| list(&case["pods"]).iter().any(|p| p["name"] == name && p["node"] == "node1");
        let used = list(&case["pods"]).iter().filter(|pod| pod["node"] == "node1").count();
        let (mut gone, mut cpus, mut violations) = (BTreeSet::new(), 0, 0);
        for unit in expected {
            let pods: Vec<&str> = list(&unit["pods"]).iter().map(text).collect();
            cpus += pods.iter().filter(|name| on_first(name)).count();
            gone.extend(pods.iter().map(|name| (*name).to_owned()));
            violations += usize::try_from(unit["pdbViolations"].as_u64().unwrap()).unwrap();

            let mut cluster = occupied(&case);
            add(&mut cluster, &node("node1", used));
            add(&mut cluster, &node("node2", 1));
            add(&mut cluster, &gang("preemptor", 1000, 1));
            add(
                &mut cluster,
                &pod("p")
                    .group("preemptor")
                    .asks("cpu", &cpus.to_string())
                    .set("/spec/nodeSelector", json!({"hostname": "node1"})),
            );
            let Decision::Preempt(plan) = decide(&cluster, Strategy::Kep5710) else { panic!("{}", case["source"]) };
            assert_eq!(victims(&plan), gone, "{}", case["source"]);
            assert_eq!(plan.cost.budget_violations, violations, "{}", case["source"]);
        }
        compared += usize::from(!expected.is_empty());
    }
    assert_eq!(compared, 8);
}

/// A terminating pod frees capacity, whether it was preempted or not: no pods are evicted beyond those that kube-scheduler would
/// evict, and none where it only waits.
#[test]
fn terminating_victims_are_waited_for_and_not_joined_by_others() {
    let cases = cases("podgroup_preempt");
    assert_eq!(cases.len(), 6);
    for case in cases {
        let mut cluster = occupied(&case);
        for data in list(&case["nodes"]) {
            let capacity = usize::try_from(data["capacity"].as_u64().unwrap_or(1)).unwrap();
            add(&mut cluster, &node(text(&data["name"]), capacity));
        }
        let members = list(&case["preemptor"]["pods"]);
        let waits = case["expect"]["schedulingFuncCalled"] == false;
        add(
            &mut cluster,
            &gang("preemptor", priority(&case["preemptor"]["podGroup"]), if waits { 1 } else { members.len() }),
        );
        for data in members {
            let built = pod(text(&data["name"])).group("preemptor");
            let node = data["nominatedNodeName"].as_str();
            add(&mut cluster, &node.map_or(built.clone(), |node| built.nominated(node)));
        }
        let allowed: BTreeSet<String> =
            list(&case["expect"]["victims"]).iter().map(|name| text(name).to_owned()).collect();
        for strategy in Strategy::ALL {
            match decide(&cluster, strategy) {
                Decision::Preempt(plan) => {
                    assert!(victims(&plan).is_subset(&allowed), "{}: {plan:?}", case["source"]);
                    let terminating = list(&case["pods"]).iter().filter(|pod| pod["terminating"] == true);
                    terminating
                        .for_each(|pod| assert!(!victims(&plan).contains(text(&pod["name"])), "{}", case["source"]));
                }
                Decision::Fits { .. } => {}
                other => panic!("{}: {other:?}", case["source"]),
            }
        }
    }
}

#[test]
fn the_policy_of_the_group_counts_and_not_that_of_its_members() {
    let cases = cases("preemption_policy");
    for case in cases.iter().filter(|case| text(&case["source"]).ends_with("with PodGroupPreemptionPolicy enabled")) {
        let group = gang("preemptor", 1000, 1);
        let never = case["group"]["preemptionPolicy"] == "Never";
        assert_eq!(case["expect"]["policy"] == "Never", never);
        let mut cluster = Cluster::default();
        add(&mut cluster, &node("node1", 1));
        add(&mut cluster, &pod("victim").on("node1"));
        add(&mut cluster, &if never { group.never() } else { group });
        for (at, policy) in list(&case["podPreemptionPolicies"]).iter().enumerate() {
            let member = pod(&format!("p{at}")).group("preemptor");
            add(
                &mut cluster,
                &if policy.is_null() { member } else { member.set("/spec/preemptionPolicy", policy.clone()) },
            );
        }
        let preempts = matches!(decide(&cluster, Strategy::LeastCost), Decision::Preempt(_));
        assert_eq!(preempts, !never, "{}", case["source"]);
    }
}

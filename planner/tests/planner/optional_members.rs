//! Members beyond `minCount`: units are evicted for them only if the group says so (`spec.preemptFor`).

use crate::common::*;
use giveway_planner::{Context, Decision, Plan, Strategy};
use serde_json::json;

/// A free node of one CPU, and others that are full of a pod of priority 1 and more.
fn nodes(count: usize) -> Vec<Built> {
    let mut all = vec![node("free", 1)];
    for n in 0..count {
        let name = format!("n{n:02}");
        all.push(node(&name, 1));
        all.push(pod(&format!("low-{n:02}")).priority(1 + i32::try_from(n).unwrap()).on(&name));
    }
    all
}

fn members(group: &str, count: usize) -> impl Iterator<Item = Built> {
    (0..count).map(move |m| pod(&format!("{group}-{m:02}")).group(group))
}

fn by(strategy: Strategy, objects: &[Built]) -> Plan {
    let cluster = cluster(objects);
    let plan = planned(plan(&cluster, &for_group("g"), &Context { strategy, ..Context::default() }));
    assert_eq!(check_plan(&cluster, &for_group("g"), &plan), Ok(()));
    plan
}

#[test]
fn by_default_no_unit_is_evicted_for_members_beyond_min_count() {
    let mut all = nodes(20);
    all.push(gang("g", 50, 4));
    all.extend(members("g", 16));
    let plan = by(Strategy::LeastCost, &all);
    assert_eq!(victims(&plan), ["low-02", "low-01", "low-00"], "one of the four fits without evictions");
    assert_eq!(plan.placements.len(), 4);
    assert!(plan.trace[0].starts_with("4 of the 4 members of minCount would fit"), "{:?}", plan.trace);
    for other in [by(Strategy::Kep5710, &all), {
        all[41] = gang("g", 50, 4).for_all();
        by(Strategy::LeastCost, &all)
    }] {
        assert_eq!((other.placements.len(), other.victims.len()), (16, 15), "{}", other.strategy);
    }
}

#[test]
fn members_beyond_min_count_use_capacity_that_is_free_after_the_plan() {
    // The whole group is evicted for two members; it frees capacity for a third one.
    let mut all = vec![node("a", 3), node("b", 1), gang("low", 1, 3).whole(), gang("g", 50, 2)];
    all.extend((0..3).map(|p| pod(&format!("low-{p}")).group("low").on("a")));
    all.push(pod("high").priority(60).on("b"));
    all.extend(members("g", 5));
    let plan = by(Strategy::LeastCost, &all);
    assert_eq!((victims(&plan), plan.placements.len()), (vec!["low"], 3));
}

#[test]
fn members_of_several_classes_evict_only_for_min_count_as_well() {
    let mut all = nodes(12);
    all.push(gang("g", 50, 3));
    all.extend(members("g", 6).enumerate().map(
        |(m, member)| {
            if m % 2 == 0 { member } else { member.asks("memory", "1Gi") }
        },
    ));
    let plan = by(Strategy::LeastCost, &all);
    assert_eq!((victims(&plan), plan.placements.len()), (vec!["low-01", "low-00"], 3));
}

#[test]
fn while_min_count_members_are_bound_no_unit_is_evicted_for_a_further_one() {
    let mut all = nodes(3);
    all.push(gang("g", 50, 1));
    all.extend(members("g", 3));
    let bound = all.len() - 3;
    all[bound] = all[bound].clone().on("free");
    let said = "1 pod needed, 0 fit now. Missing 1 cpu. minCount pods are bound: for further pods, which use free capacity \
                only, no pod is evicted (spec.preemptFor: MinCount).";
    assert_eq!(shortfall(decide(&cluster(&all), &for_group("g"))), said);
    // A member that minCount needs evicts.
    all[bound - 1] = gang("g", 50, 2);
    assert_eq!(victims(&by(Strategy::LeastCost, &all)), ["low-00"]);
    all[bound - 1] = gang("g", 50, 1).for_all();
    assert_eq!(victims(&by(Strategy::LeastCost, &all)), ["low-01", "low-00"]);
}

#[test]
fn a_basic_group_evicts_for_every_member_as_before() {
    let mut all = nodes(4);
    all.push(gang("g", 50, 1).set("/spec/schedulingPolicy", json!({"basic": {}})));
    all.extend(members("g", 4));
    let decision = decide(&cluster(&all), &for_group("g"));
    assert!(matches!(decision, Decision::Fits { left: 3, .. }), "{decision:?}");
    all.remove(0);
    assert_eq!(by(Strategy::LeastCost, &all).victims.len(), 4);
}

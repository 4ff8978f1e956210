//! The two strategies by name, and what `kep5710` does step by step where `least-cost` would not show it.

use crate::common::*;
use giveway_planner::{Cluster, Context, Plan, Preemptor, Strategy};

fn by(strategy: Strategy, objects: &[Built], preemptor: &Preemptor) -> Plan {
    let cluster: Cluster = cluster(objects);
    let plan = planned(plan(&cluster, preemptor, &Context { strategy, ..Context::default() }));
    assert_eq!(check_plan(&cluster, preemptor, &plan), Ok(()));
    assert_eq!(plan.strategy, strategy.as_str());
    plan
}

#[test]
fn strategies_are_known_by_name_and_least_cost_is_the_default() {
    assert_eq!(Strategy::ALL.map(Strategy::as_str), ["least-cost", "kep5710"]);
    assert_eq!(Strategy::ALL.map(|strategy| Strategy::parse(strategy.as_str())), Strategy::ALL.map(Some));
    assert_eq!(Strategy::parse("cheapest"), None);
    assert_eq!(Context::default().strategy, Strategy::LeastCost);
}

#[test]
fn kep5710_reprieves_the_most_important_first() {
    let mut all = vec![node("a", 3), pod("p").priority(10)];
    all.extend((1..=3).map(|i| pod(&format!("p{i}")).priority(i).on("a")));
    assert_eq!(victims(&by(Strategy::Kep5710, &all, &for_pod("p"))), ["p1"]);
    all.extend(waiting_gang("g", 10, 2));
    assert_eq!(victims(&by(Strategy::Kep5710, &all, &for_group("g"))), ["p2", "p1"]);
}

#[test]
fn kep5710_evicts_many_of_low_priority_rather_than_one_of_high_priority() {
    let mut all = vec![node("a", 2), node("b", 2), pod("high").priority(5).asks("cpu", "2").on("a")];
    all.extend((0..2).map(|i| pod(&format!("low-{i}")).priority(1).on("b")));
    all.extend(waiting_gang("g", 10, 2));
    let plan = by(Strategy::Kep5710, &all, &for_group("g"));
    assert_eq!(victims(&plan), ["low-0", "low-1"]);
    assert!(plan.trace.contains(&"No unit above priority 1 has to be evicted.".to_owned()), "{:?}", plan.trace);
}

#[test]
fn a_single_pod_is_placed_where_the_highest_victim_priority_is_lowest_also_with_more_victims() {
    let mut all = vec![node("a", 2), node("b", 2), pod("high").priority(5).asks("cpu", "2").on("a")];
    all.extend((0..2).map(|i| pod(&format!("low-{i}")).priority(1).on("b")));
    all.push(pod("p").priority(10).asks("cpu", "2"));
    for strategy in Strategy::ALL {
        assert_eq!(victims(&by(strategy, &all, &for_pod("p"))), ["low-0", "low-1"], "{}", strategy.as_str());
    }
}

/// Two pairs of groups share two nodes each; greedily, any two groups look alike.
#[test]
fn least_cost_evicts_groups_that_together_free_enough() {
    let mut all: Vec<Built> = (0..4).map(|n| node(&format!("n{n}"), 2)).collect();
    for (g, places) in ["n0 n1", "n1 n0", "n2 n3", "n3 n2"].iter().enumerate() {
        all.push(gang(&format!("low-{g}"), 1, 2).whole());
        for (p, place) in places.split(' ').enumerate() {
            all.push(pod(&format!("low-{g}-{p}")).group(&format!("low-{g}")).on(place));
        }
    }
    all.push(gang("g", 10, 2));
    all.extend((0..2).map(|i| pod(&format!("g-{i}")).group("g").asks("cpu", "2")));
    let plan = by(Strategy::LeastCost, &all, &for_group("g"));
    assert_eq!(victims(&plan), ["low-0", "low-1"]);
    assert_eq!(plan.trace.last().map(String::as_str), Some("Nothing cheaper exists."));
}

#[test]
fn of_plans_that_evict_as_many_pods_least_cost_finds_the_one_without_the_whole_group() {
    let mut all = vec![node("a", 1), node("b", 1), gang("whole", 1, 1).whole()];
    all.extend([pod("whole-0").group("whole").on("a"), pod("single").priority(1).on("b")]);
    all.extend(waiting_gang("g", 10, 1));
    assert_eq!(victims(&by(Strategy::Kep5710, &all, &for_group("g"))), ["whole"], "the first node by name");
    let plan = by(Strategy::LeastCost, &all, &for_group("g"));
    assert_eq!(victims(&plan), ["single"]);
    assert_eq!(plan.trace.last().map(String::as_str), Some("Nothing cheaper exists."));
}

#[test]
fn a_plan_is_called_the_cheapest_only_where_every_choice_was_tried() {
    let sentences = ["Nothing cheaper exists.", "Nothing cheaper was found; a cheaper plan may exist."];
    for (pods, sentence) in [3, 60].into_iter().zip(sentences) {
        // One and a half of them would suffice, if they could be evicted in part.
        let mut all = vec![node("a", pods), pod("p").priority(10).asks("cpu", "1500m")];
        all.extend((0..pods).map(|i| pod(&format!("low-{i:02}")).priority(1).on("a")));
        let plan = by(Strategy::LeastCost, &all, &for_pod("p"));
        assert_eq!(plan.victims.len(), 2);
        assert_eq!(plan.trace.last().map(String::as_str), Some(sentence), "{pods} pods");
    }
}

/// Members of several classes among many units are placed by a bounded search, and each of them needs more than the bound says.
#[test]
fn a_plan_in_a_rack_that_was_not_searched_to_the_end_is_not_called_the_cheapest() {
    let name = |number: usize| format!("node-{number:02}");
    let place = |number: usize| node(&name(number), 4).label("rack", &format!("r{}", number / 40));
    let mut all: Vec<Built> = (0..80).map(place).collect();
    let low = |number: usize| pod(&format!("low-{number:03}")).asks("cpu", "2").on(&name(number / 2));
    all.extend((0..160).map(low));
    for (number, object) in waiting_gang("g", 50, 3).into_iter().enumerate() {
        all.push(match object.0["kind"] == "Pod" {
            true => object.asks("cpu", "3").asks("memory", &format!("{number}Mi")),
            false => object.set("/spec/schedulingConstraints", serde_json::json!({"topology": [{"key": "rack"}]})),
        });
    }
    let plan = planned(decide(&cluster(&all), &for_group("g")));
    assert_eq!(plan.cost.victim_pods, 6);
    let last = plan.trace.last().map(String::as_str);
    // 9 CPUs are asked for, and each pod frees 2.
    let words =
        "Nothing cheaper was found; a cheaper plan may exist. At least 5 pods of priority 0 and below must be evicted.";
    assert_eq!(last, Some(words), "{:?}", plan.trace);
}

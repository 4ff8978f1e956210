//! Guaranteed budgets (KEP-3280): below its threshold a budget is a law, not a preference.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::*;

fn guarded(name: &str, node: &str) -> Built {
    pod(name).on(node).label("app", "db").threshold(1000)
}

#[test]
fn a_preemptor_below_the_threshold_cannot_violate_the_budget() {
    let all = [node("a", 1), guarded("db", "a"), budget("db", "db", 0), pod("p").priority(999)];
    assert_eq!(
        shortfall(decide(&cluster(&all), &for_pod("p"))),
        "1 pod needed, 0 fit now. Missing 1 cpu. Evicting every workload below priority 999 would free 1. \
         That would violate a guaranteed budget: default/db."
    );
}

#[test]
fn a_preemptor_that_reaches_the_threshold_can() {
    let all = [node("a", 1), guarded("db", "a"), budget("db", "db", 0), pod("p").priority(1000)];
    let plan = planned(decide(&cluster(&all), &for_pod("p")));
    assert_eq!(victims(&plan), ["db"]);
    assert_eq!(plan.cost.budget_violations, 1);
}

#[test]
fn what_the_budget_allows_may_go() {
    let mut all = vec![node("a", 1), guarded("db", "a"), budget("db", "db", 1), pod("p").priority(999)];
    assert_eq!(victims(&planned(decide(&cluster(&all), &for_pod("p")))), ["db"]);
    all[3] = pod("p").priority(999).asks("cpu", "2");
    assert!(shortfall(decide(&cluster(&all), &for_pod("p"))).contains("No node offers as much as one pod asks for."));
}

#[test]
fn the_victims_of_one_plan_are_counted_together() {
    let mut all = vec![node("a", 1), node("b", 1), guarded("db-a", "a"), guarded("db-b", "b"), budget("db", "db", 1)];
    all.extend(waiting_gang("g", 999, 2));
    let sentence = shortfall(decide(&cluster(&all), &for_group("g")));
    assert!(sentence.ends_with("That would violate a guaranteed budget: default/db."), "{sentence}");
    all.extend([node("c", 1), pod("free").priority(998).on("c")]);
    let plan = planned(decide(&cluster(&all), &for_group("g")));
    assert_eq!(plan.victims.iter().filter(|victim| victim.key.name.starts_with("db")).count(), 1);
    assert_eq!(plan.cost.budget_violations, 0);
}

#[test]
fn an_unguarded_victim_uses_the_budget_up_as_well() {
    let mut all = vec![node("a", 1), node("b", 1), guarded("db-a", "a"), budget("db", "db", 1)];
    all.push(pod("db-b").on("b").label("app", "db"));
    all.extend(waiting_gang("g", 999, 2));
    assert!(shortfall(decide(&cluster(&all), &for_group("g"))).contains("guaranteed budget"));
    all[3] = budget("db", "db", 2);
    assert_eq!(planned(decide(&cluster(&all), &for_group("g"))).victims.len(), 2);
}

#[test]
fn every_budget_that_matches_a_pod_counts() {
    let mut all = vec![node("a", 1), guarded("db", "a"), budget("db", "db", 1), pod("p").priority(999)];
    all.push(budget("db-again", "db", 0));
    let sentence = shortfall(decide(&cluster(&all), &for_pod("p")));
    assert!(sentence.ends_with("guaranteed budget: default/db, default/db-again."), "{sentence}");
}

#[test]
fn another_node_is_taken_when_the_cheapest_is_guaranteed() {
    let all = [
        node("a", 2),
        node("b", 2),
        guarded("db-1", "a"),
        guarded("db-2", "a"),
        budget("db", "db", 1),
        pod("x").priority(500).on("b"),
        pod("y").priority(500).on("b"),
        pod("p").priority(999).asks("cpu", "2"),
    ];
    assert_eq!(victims(&planned(decide(&cluster(&all), &for_pod("p")))), ["x", "y"]);
}

#[test]
fn of_the_pods_on_one_node_as_many_guarded_ones_go_as_are_allowed() {
    let all = [
        node("a", 3),
        guarded("db-1", "a"),
        guarded("db-2", "a"),
        budget("db", "db", 1),
        pod("other").priority(500).on("a"),
        pod("p").priority(999).asks("cpu", "2"),
    ];
    let plan = planned(decide(&cluster(&all), &for_pod("p")));
    assert_eq!(plan.victims.len(), 2);
    assert_eq!(victims(&plan)[0], "other");
    assert_eq!(plan.cost.budget_violations, 0);
}

#[test]
fn a_threshold_that_cannot_be_read_protects_as_much_as_any_can() {
    let name = "scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal";
    let all = [
        node("a", 1),
        pod("db").on("a").label("app", "db").annotation(name, "many"),
        budget("db", "db", 0),
        pod("p").priority(1_000_000_000),
    ];
    assert!(shortfall(decide(&cluster(&all), &for_pod("p"))).contains("guaranteed budget"));
}

#[test]
fn a_whole_group_is_protected_by_one_guarded_pod() {
    let mut all = vec![node("a", 2), gang("low", 0, 2).whole(), guarded("low-0", "a").group("low")];
    all.extend([pod("low-1").group("low").on("a"), budget("db", "db", 0), pod("p").priority(10)]);
    assert!(shortfall(decide(&cluster(&all), &for_pod("p"))).contains("guaranteed budget"));
}

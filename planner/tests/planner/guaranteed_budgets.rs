//! Guaranteed budgets (KEP-3280): below its threshold a budget is a law, not a preference.

use crate::common::*;
use giveway_planner::{Context, Decision, Reservation};
use serde_json::json;

fn guarded(name: &str, node: &str) -> Built {
    pod(name).on(node).label("app", "db").threshold(1000)
}

#[test]
fn a_preemptor_below_the_threshold_cannot_violate_the_budget() {
    let all = [node("a", 1), guarded("db", "a"), budget("db", "db", 0), pod("p").priority(999)];
    assert_eq!(
        shortfall(decide(&cluster(&all), &for_pod("p"))),
        "1 pod needed, 0 fit now. Missing 1 cpu. Evicting every workload below priority 999 would free 1. \
         1 of 1 place would need pods of budget default/db, which allows 0 more disruptions to preemptors below 1000."
    );
}

/// A user can create any number of budgets for the same pods.
#[test]
fn of_a_thousand_budgets_on_one_pod_eight_are_named() {
    let mut all = vec![node("a", 1), guarded("db", "a"), pod("p").priority(999)];
    all.extend((0..1000).map(|number| budget(&format!("b{number:03}"), "db", 0)));
    let text = shortfall(decide(&cluster(&all), &for_pod("p")));
    assert!(text.contains("1 of 1 place would need pods of budget default/b000, which allows 0 more"), "{text}");
    assert!(
        text.ends_with("default/b007, which allows 0 more disruptions to preemptors below 1000, or of 992 more."),
        "{text}"
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
fn what_the_budget_allows_may_be_evicted() {
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
    let words =
        "1 of 2 places would need pods of budget default/db, which allows 1 more disruption to preemptors below 1000.";
    assert!(sentence.ends_with(words), "{sentence}");
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
    assert!(
        shortfall(decide(&cluster(&all), &for_group("g")))
            .contains("would need pods of budget default/db, which allows")
    );
    all[3] = budget("db", "db", 2);
    assert_eq!(planned(decide(&cluster(&all), &for_group("g"))).victims.len(), 2);
}

#[test]
fn every_budget_that_matches_a_pod_counts() {
    let mut all = vec![node("a", 1), guarded("db", "a"), budget("db", "db", 1), pod("p").priority(999)];
    all.push(budget("db-again", "db", 0));
    let sentence = shortfall(decide(&cluster(&all), &for_pod("p")));
    let words = "1 of 1 place would need pods of budget default/db-again, which allows 0 more disruptions to preemptors below 1000.";
    assert!(sentence.ends_with(words), "the budget that allows it is no reason: {sentence}");
    all[2] = budget("db", "db", 0);
    let sentence = shortfall(decide(&cluster(&all), &for_pod("p")));
    let words = "would need pods of budget default/db, which allows 0 more disruptions to preemptors below 1000, or of budget default/db-again, which allows 0 more disruptions to preemptors below 1000.";
    assert!(sentence.ends_with(words), "{sentence}");
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
    assert!(
        shortfall(decide(&cluster(&all), &for_pod("p"))).contains("would need pods of budget default/db, which allows")
    );
}

#[test]
fn a_whole_group_is_protected_by_one_guarded_pod() {
    let mut all = vec![node("a", 2), gang("low", 0, 2).whole(), guarded("low-0", "a").group("low")];
    all.extend([pod("low-1").group("low").on("a"), budget("db", "db", 0), pod("p").priority(10)]);
    assert!(
        shortfall(decide(&cluster(&all), &for_pod("p"))).contains("would need pods of budget default/db, which allows")
    );
}

#[test]
fn a_whole_group_is_as_guarded_as_its_most_guarded_pod() {
    let mut all = vec![node("a", 2), gang("low", 0, 2).whole(), guarded("low-0", "a").group("low")];
    all.push(pod("low-1").group("low").on("a").label("app", "db").threshold(2000));
    all.extend([budget("db", "db", 1), pod("p").priority(1500)]);
    let sentence = shortfall(decide(&cluster(&all), &for_pod("p")));
    assert!(sentence.ends_with("which allows 1 more disruption to preemptors below 2000."), "{sentence}");
    all[5] = pod("p").priority(2000);
    assert_eq!(victims(&planned(decide(&cluster(&all), &for_pod("p")))), ["low"]);
}

#[test]
fn two_decisions_cannot_spend_one_allowance() {
    let all = [
        node("a", 1),
        node("b", 1),
        guarded("db-a", "a"),
        guarded("db-b", "b"),
        budget("db", "db", 1),
        pod("p").priority(999),
    ];
    let context = Context { departing: ["uid-db-a".into()].into(), ..Context::default() };
    let mut cluster = cluster(&all);
    add(&mut cluster, &pod("other").priority(999));
    cluster.reserve("uid-other", "a", Reservation::Begun(999));
    let sentence = shortfall(plan(&cluster, &for_pod("p"), &context));
    assert!(sentence.ends_with("which allows 0 more disruptions to preemptors below 1000."), "{sentence}");
    // Once the eviction is in the budget's status it is not counted twice.
    add(&mut cluster, &budget("db", "db", 1).set("/status/disruptedPods", json!({"db-a": "2026-01-01T00:00:00Z"})));
    assert!(matches!(plan(&cluster, &for_pod("p"), &context), Decision::Preempt(plan) if victims(&plan) == ["db-b"]));
}

#[test]
fn pods_that_the_eviction_api_lets_go_violate_nothing() {
    let healthy = |policy: &str| {
        budget("db", "db", 0)
            .set("/spec/unhealthyPodEvictionPolicy", json!(policy))
            .set("/status/currentHealthy", json!(2))
            .set("/status/desiredHealthy", json!(2))
    };
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let mut all = vec![node("a", 1), guarded("db", "a"), healthy("IfHealthyBudget"), pod("p").priority(999)];
    assert_eq!(victims(&planned(decide(&cluster(&all), &for_pod("p")))), ["db"], "unready, and enough are healthy");
    all[2] = healthy("IfHealthyBudget").set("/status/currentHealthy", json!(1));
    shortfall(decide(&cluster(&all), &for_pod("p")));
    all[2] = healthy("AlwaysAllow").set("/status/currentHealthy", json!(1));
    assert_eq!(victims(&planned(decide(&cluster(&all), &for_pod("p")))), ["db"], "unready pods always may");
    all[1] = guarded("db", "a").set("/status/conditions", ready);
    shortfall(decide(&cluster(&all), &for_pod("p")));
    all[1] = guarded("db", "a").set("/status/phase", json!("Pending"));
    assert_eq!(victims(&planned(decide(&cluster(&all), &for_pod("p")))), ["db"], "it has not started");
}

#[test]
fn a_status_that_is_older_than_the_budget_allows_nothing() {
    let stale = budget("db", "db", 1).set("/metadata/generation", json!(2)).set("/status/observedGeneration", json!(1));
    let all = [node("a", 1), guarded("db", "a"), stale, pod("p").priority(999)];
    assert!(shortfall(decide(&cluster(&all), &for_pod("p"))).contains("which allows 0 more disruptions"));
}

//! Guaranteed budgets (KEP-3280): below its threshold a budget is a law, not a preference.

use crate::common::*;
use giveway_planner::{Cluster, Context, Decision, Reservation, Strategy, spared};
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
         1 of 1 pod would fit only after evictions of pods of budget default/db, which allows 0 more disruptions to preemptors below 1000."
    );
}

/// A user can create any number of budgets.
#[test]
fn of_a_thousand_budgets_eight_are_named() {
    let mut all = vec![node("a", 1000).offers("pods", "2000"), pod("p").priority(999).asks("cpu", "1000")];
    all.extend((0..1000).map(|n| pod(&format!("db-{n:03}")).on("a").label("app", &format!("db-{n}")).threshold(1000)));
    all.extend((0..1000).map(|number| budget(&format!("b{number:03}"), &format!("db-{number}"), 0)));
    let text = shortfall(decide(&cluster(&all), &for_pod("p")));
    assert!(
        text.contains("1 of 1 pod would fit only after evictions of pods of budget default/b000, which allows 0 more"),
        "{text}"
    );
    assert!(
        text.ends_with("default/b007, which allows 0 more disruptions to preemptors below 1000, or of 992 more."),
        "{text}"
    );
}

/// A user can create any number of budgets for the same pods.
#[test]
fn of_a_thousand_budgets_on_one_pod_none_is_named() {
    let mut all = vec![node("a", 1), guarded("db", "a"), pod("p").priority(999)];
    all.extend((0..1000).map(|number| budget(&format!("b{number:03}"), "db", 0)));
    let text = shortfall(decide(&cluster(&all), &for_pod("p")));
    assert_eq!(text, format!("1 pod needed, 0 fit now. Missing 1 cpu. {SEVERAL}"));
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
    let words = "1 of 2 pods would fit only after evictions of pods of budget default/db, which allows 1 more disruption to preemptors below 1000.";
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
            .contains("would fit only after evictions of pods of budget default/db, which allows")
    );
    all[3] = budget("db", "db", 2);
    assert_eq!(planned(decide(&cluster(&all), &for_group("g"))).victims.len(), 2);
}

/// What a preemptor of priority 999 is told of a pod with threshold 1000 under several budgets.
const SEVERAL: &str = "1 pod below priority 999 is not evicted: several budgets select it or a pod of its group, which the \
    Eviction API rejects, and its threshold is above 999.";

/// Two budgets of the pods of app `db`, both of which allow an eviction.
fn two_open() -> [Built; 2] {
    ["db", "db-again"].map(|name| budget(name, "db", 1))
}

/// Each preemptor with its strategy: a single pod and a gang of one, on few nodes and on many.
fn asked_in_every_way(objects: &[Built], priority: i32, check: impl Fn(Decision)) {
    for more in [0, 100] {
        let closed = (0..more).map(|n| node(&format!("closed-{n}"), 1).set("/spec/unschedulable", json!(true)));
        let mut all: Vec<Built> = objects.iter().cloned().chain(closed).collect();
        all.push(pod("p").priority(priority));
        all.extend(waiting_gang("g", priority, 1));
        let mut differing = waiting_gang("h", priority, 2);
        differing[2] = differing[2].clone().asks("cpu", "5m");
        all.extend(differing);
        let cluster = cluster(&all);
        for strategy in Strategy::ALL {
            let context = Context { strategy, ..Context::default() };
            for preemptor in [for_pod("p"), for_group("g"), for_group("h")] {
                check(plan(&cluster, &preemptor, &context));
            }
        }
    }
}

/// The Eviction API answers 500 for a pod that several budgets select, whatever they allow.
#[test]
fn a_guarded_pod_under_two_open_budgets_is_no_victim_below_its_threshold() {
    let mut all = vec![node("a", 2), node("b", 2), guarded("db", "a").asks("cpu", "2")];
    all.push(pod("other").priority(500).asks("cpu", "2").on("b"));
    all.extend(two_open());
    asked_in_every_way(&all, 999, |decision| assert_eq!(victims(&planned(decision)), ["other"]));
    asked_in_every_way(&all, 1000, |decision| assert_eq!(victims(&planned(decision)), ["db"]));
    all[2] = pod("db").label("app", "db").on("a").asks("cpu", "2");
    asked_in_every_way(&all, 999, |decision| assert_eq!(victims(&planned(decision)), ["db"], "it is not guarded"));
    all[2] = guarded("db", "a").asks("cpu", "2").set("/status/phase", json!("Pending"));
    asked_in_every_way(&all, 999, |decision| {
        assert_eq!(
            victims(&planned(decision)),
            ["db"],
            "the Eviction API asks no budget for a pod that has not started"
        );
    });
}

#[test]
fn what_stands_under_several_budgets_is_told() {
    let mut all = vec![node("a", 1), guarded("db", "a"), pod("p").priority(999)];
    all.extend(two_open());
    assert_eq!(
        shortfall(decide(&cluster(&all), &for_pod("p"))),
        format!("1 pod needed, 0 fit now. Missing 1 cpu. {SEVERAL}")
    );
    all[2] = pod("p").priority(999).asks("cpu", "10m");
    all.extend([node("b", 1), pod("other").priority(500).on("b"), guarded("db-b", "b").asks("cpu", "0")]);
    let (cluster, context) = (cluster(&all), Context::default());
    let plan = planned(decide(&cluster, &for_pod("p")));
    let told = spared(&cluster, &for_pod("p"), &context, &plan);
    let why: Vec<(&str, &str)> = told.units.iter().map(|unit| (unit.key.name.as_str(), unit.why.as_str())).collect();
    let words = "Several budgets select it, which the Eviction API rejects, and only a preemptor of priority 1000 or higher may evict it.";
    assert_eq!(why, [("db-b", words)]);
}

#[test]
fn a_whole_group_with_a_pod_under_two_budgets_is_no_victim_below_its_threshold() {
    let mut all = vec![node("a", 2), node("b", 2), gang("low", 0, 2).whole()];
    all.push(pod("low-0").group("low").label("app", "db").on("a"));
    all.push(pod("low-1").group("low").threshold(1000).on("a"));
    all.push(pod("other").priority(500).asks("cpu", "2").on("b"));
    all.extend(two_open());
    asked_in_every_way(&all, 999, |decision| assert_eq!(victims(&planned(decision)), ["other"]));
    asked_in_every_way(&all, 1000, |decision| assert_eq!(victims(&planned(decision)), ["low"]));
}

/// A budget that comes and goes bars the pods of a group, and a model that has decided before knows.
#[test]
fn a_second_budget_that_comes_and_goes_bars_and_frees_the_whole_group() {
    let mut all = vec![node("a", 2), node("b", 2), gang("low", 0, 2).whole()];
    all.push(pod("low-0").group("low").label("app", "db").on("a"));
    all.push(pod("low-1").group("low").threshold(1000).on("a"));
    all.push(pod("other").priority(500).asks("cpu", "2").on("b"));
    let [first, second] = two_open();
    all.extend([first, pod("p").priority(999)]);
    let mut cluster = cluster(&all);
    let decided = |cluster: &Cluster| victims(&planned(decide(cluster, &for_pod("p")))).join(" ");
    assert_eq!(decided(&cluster), "low");
    add(&mut cluster, &second);
    assert_eq!(decided(&cluster), "other");
    assert!(cluster.remove_budget(&key("db")));
    assert_eq!(decided(&cluster), "low");
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
fn of_the_pods_on_one_node_as_many_guarded_ones_are_evicted_as_are_allowed() {
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
        shortfall(decide(&cluster(&all), &for_pod("p")))
            .contains("would fit only after evictions of pods of budget default/db, which allows")
    );
}

#[test]
fn a_whole_group_is_protected_by_one_guarded_pod() {
    let mut all = vec![node("a", 2), gang("low", 0, 2).whole(), guarded("low-0", "a").group("low")];
    all.extend([pod("low-1").group("low").on("a"), budget("db", "db", 0), pod("p").priority(10)]);
    assert!(
        shortfall(decide(&cluster(&all), &for_pod("p")))
            .contains("would fit only after evictions of pods of budget default/db, which allows")
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
    cluster.reserve("uid-other", "a", Reservation::Started(999));
    let sentence = shortfall(plan(&cluster, &for_pod("p"), &context));
    assert!(sentence.ends_with("which allows 0 more disruptions to preemptors below 1000."), "{sentence}");
    // Once the eviction is in the budget's status it is not counted twice.
    add(&mut cluster, &budget("db", "db", 1).set("/status/disruptedPods", json!({"db-a": "2026-01-01T00:00:00Z"})));
    assert!(matches!(plan(&cluster, &for_pod("p"), &context), Decision::Preempt(plan) if victims(&plan) == ["db-b"]));
}

#[test]
fn pods_that_the_eviction_api_does_not_check_violate_nothing() {
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

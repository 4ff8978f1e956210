//! Circuit breakers, driven step by step: a preemptor whose evictions lead to no binding, and a namespace or a cluster in which none does,
//! evict no more pods for a while, also under the next leader, and use free capacity meanwhile.

use crate::driven::{Driven, Kind, gang, member, running};
use crate::scheduler::unschedulable;
use giveway_crds::condition::types::SCHEDULED;
use giveway_crds::plan::PlanState;
use serde_json::json;
use std::time::Duration;

const FIVE: [&str; 5] = ["n1", "n2", "n3", "n4", "n5"];
/// The namespaces of the five gangs: of each at most two count for the cluster.
const TEAMS: [&str; 5] = ["team-a", "team-a", "team-b", "team-b", "team-c"];
const WHY: &str = "Plans for 5 preemptors in a row evicted pods, and none of these preemptors was bound.";

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Returns a cluster in which a pod of lower priority fills each of these nodes.
fn full(nodes: &[&str]) -> Driven {
    let mut driven = Driven::new(&["--critical-addons-namespaces=default"]);
    for node in nodes {
        driven.node(node, 1);
        driven.apply(Kind::Pod, running(&format!("low-{node}"), 10, node, None));
    }
    driven
}

/// Lets the victims terminate, and lets another pod of low priority take the capacity of each of these nodes at once.
fn take_capacity(driven: &mut Driven, nodes: &[&str]) {
    driven.terminate();
    let count = driven.evictions().len();
    for node in nodes {
        assert_eq!(driven.pods_on(node), Vec::<String>::new(), "a pod was evicted from {node}");
        driven.apply(Kind::Pod, running(&format!("low-{node}-{count}"), 10, node, None));
    }
    driven.settle();
}

/// Returns a cluster in which three plans for PodGroup `train`, which runs on the only node, evicted a pod without effect.
fn three_failed_plans() -> Driven {
    let mut driven = full(&["n1"]);
    driven.submit(gang("train", 1, 1_000), 1);
    driven.settle();
    for _ in 0..3 {
        take_capacity(&mut driven, &["n1"]);
        driven.run(seconds(5));
    }
    assert_eq!(driven.evicted().len(), 3, "{:#?}", driven.stored());
    driven
}

/// Creates a gang for each of the five nodes, in these namespaces.
fn submit_five(driven: &mut Driven, namespaces: [&str; 5]) {
    for (namespace, node) in namespaces.into_iter().zip(FIVE) {
        driven.submit_in(namespace, node, &format!("train-{node}"), 1_000);
    }
}

/// Returns a cluster with a sixth node, in which plans for five gangs in these namespaces evicted pods without effect.
fn five_failed_preemptors(namespaces: [&str; 5]) -> Driven {
    let mut driven = full(&["n1", "n2", "n3", "n4", "n5", "n6"]);
    submit_five(&mut driven, namespaces);
    driven.settle();
    take_capacity(&mut driven, &FIVE);
    driven
}

/// Expects that this number of breakers of each kind are open: of preemptors, of namespaces, and of the cluster.
fn expect_open(driven: &Driven, preemptors: usize, namespaces: usize, cluster: usize) {
    let metrics = driven.metrics();
    for (kind, number) in [("preemptor", preemptors), ("namespace", namespaces), ("cluster", cluster)] {
        let line = format!("giveway_operator_breakers_open{{kind=\"{kind}\"}} {number}");
        assert!(metrics.lines().any(|there| there == line), "{line} is not in:\n{metrics}");
    }
}

#[test]
fn a_preemptor_that_is_not_bound_after_three_plans_evicts_no_pod_for_ten_minutes() {
    let mut driven = three_failed_plans();
    let message = driven.condition("train", SCHEDULED);
    let begin = "False CircuitBreakerOpen: 3 plans in a row evicted pods for this preemptor, and it was not bound. No pod is \
                 evicted for it until 2027-01-15T08:10:";
    assert!(message.starts_with(begin), "{message}");
    let events = driven.events.iter().filter(|event| event.starts_with("PodGroup default/train CircuitBreakerOpen: "));
    assert_eq!(events.count(), 1, "{:#?}", driven.events);
    expect_open(&driven, 1, 0, 0);
    driven.run(seconds(290));
    // The next leader.
    driven.next_leader();
    driven.run(seconds(290));
    assert_eq!(driven.evicted().len(), 3, "{:#?}", driven.stored());
    assert_eq!(driven.condition("train", SCHEDULED), message);
    expect_open(&driven, 1, 0, 0);
    driven.run(seconds(30));
    assert_eq!(driven.evicted().len(), 4, "it closed by itself: {}", driven.condition("train", SCHEDULED));
    expect_open(&driven, 0, 0, 0);
}

#[test]
fn each_further_failed_plan_doubles_the_time_without_evictions_up_to_an_hour() {
    let mut driven = three_failed_plans();
    for (plans, minutes) in [(4, 10), (5, 20), (6, 40), (7, 60), (8, 60)] {
        driven.next_leader();
        driven.run(seconds(minutes * 60 - 30));
        assert_eq!(driven.evicted().len(), plans - 1, "{}", driven.condition("train", SCHEDULED));
        driven.run(seconds(60));
        assert_eq!(driven.evicted().len(), plans, "{}", driven.condition("train", SCHEDULED));
        take_capacity(&mut driven, &["n1"]);
        let message = driven.condition("train", SCHEDULED);
        let begin = format!("False CircuitBreakerOpen: {plans} plans in a row evicted pods for this preemptor, ");
        assert!(message.starts_with(&begin), "{message}");
    }
}

/// The users of a namespace can make plans fail: for example they take the capacity of the victims with pods of their own.
#[test]
fn a_namespace_in_which_all_preemptors_fail_stops_no_evictions_for_other_namespaces() {
    let mut driven = five_failed_preemptors(["team-a"; 5]);
    driven.run(seconds(5));
    expect_open(&driven, 0, 1, 0);
    let dump = driven.dump();
    assert_eq!(dump["operator"]["breakers"], json!({"preemptors": 0, "namespaces": 1, "cluster": false}));
    driven.next_leader();
    driven.submit_in("team-a", "n6", "own", 1_000);
    driven.run(seconds(5));
    assert_eq!(driven.evicted().len(), 5, "{:#?}", driven.stored());
    for group in ["own", "train-n1"] {
        let message = driven.condition(group, SCHEDULED);
        let begin = "False CircuitBreakerOpen: Plans for 5 preemptors of this namespace in a row evicted pods, and none of these preemptors was bound. No pod is evicted for any preemptor of the namespace until 2027-01-15T08:10:00Z: ";
        assert!(message.starts_with(begin), "{message}");
    }
    driven.submit_in("team-b", "n6", "other", 1_000);
    driven.run(seconds(5));
    driven.terminate();
    driven.settle();
    driven.bind();
    driven.run(seconds(5));
    assert_eq!(driven.bound("other"), ["other-0"], "{:#?}", driven.stored());
    assert_eq!(driven.evicted().len(), 6);
    expect_open(&driven, 0, 1, 0);
}

/// A plan that has evicted no pod is cancelled only in the namespace whose breaker opens.
#[test]
fn a_delayed_plan_of_another_namespace_is_kept_when_the_breaker_of_a_namespace_opens() {
    let mut driven = full(&["n1", "n2", "n3", "n4", "n5", "n6", "n7"]);
    submit_five(&mut driven, ["team-a"; 5]);
    for (namespace, node, name) in [("team-a", "n6", "own"), ("team-b", "n7", "other")] {
        driven.submit_in(namespace, node, name, 1_000);
        driven.change(Kind::Group, name, |group| group["spec"]["preemptionDelaySeconds"] = json!(30)).unwrap();
    }
    driven.settle();
    assert_eq!(driven.plans().len(), 7);
    take_capacity(&mut driven, &FIVE);
    driven.run(seconds(60));
    let evicted = driven.evicted();
    assert!(evicted.contains(&"low-n7") && !evicted.contains(&"low-n6"), "{evicted:?}");
    assert!(driven.condition("own", SCHEDULED).starts_with("False CircuitBreakerOpen: "));
}

#[test]
fn a_preemptor_with_an_open_breaker_uses_free_capacity() {
    let mut driven = three_failed_plans();
    driven.node("n2", 1);
    driven.run(seconds(5));
    driven.bind();
    driven.run(seconds(3));
    assert_eq!(driven.bound("train"), ["train-0"]);
    assert_eq!(driven.evicted().len(), 3);
    expect_open(&driven, 0, 0, 0);
}

#[test]
fn a_breaker_closes_when_the_preemptions_are_deleted() {
    let mut driven = three_failed_plans();
    let plans: Vec<String> = driven.plans().into_iter().filter_map(|plan| plan.metadata.name).collect();
    plans.iter().for_each(|plan| driven.delete(Kind::Preemption, plan));
    driven.run(seconds(5));
    assert_eq!(driven.evicted().len(), 4, "{}", driven.condition("train", SCHEDULED));
}

#[test]
fn after_five_preemptors_in_a_row_no_pod_is_evicted_for_any_preemptor_until_a_trial_completes() {
    let mut driven = five_failed_preemptors(TEAMS);
    driven.run(seconds(5));
    driven.submit_for("n6", "other", 1_000);
    driven.run(seconds(5));
    assert_eq!(driven.evicted().len(), 5, "{:#?}", driven.stored());
    for group in ["other", "train-n1", "train-n5"] {
        let message = driven.condition(group, SCHEDULED);
        let stopped = "No pod is evicted for any preemptor until 2027-01-15T08:10:00Z: ";
        assert!(message.starts_with(&format!("False CircuitBreakerOpen: {WHY} {stopped}")), "{message}");
    }
    expect_open(&driven, 0, 0, 1);
    driven.next_leader();
    driven.run(seconds(580));
    assert_eq!(driven.evicted().len(), 5, "{:#?}", driven.stored());
    driven.run(seconds(15));
    assert_eq!(
        driven.evictions().last().map(|eviction| eviction.pod.as_str()),
        Some("low-n6"),
        "it has not failed yet"
    );
    driven.run(seconds(300));
    assert_eq!(driven.evicted().len(), 6, "one at a time: {:#?}", driven.stored());
    let message = driven.condition("train-n1", SCHEDULED);
    let next = "One plan with evictions is made at a time until one completes: this preemptor is considered after the current plan";
    assert!(message.starts_with(&format!("False CircuitBreakerOpen: {WHY} {next}")), "{message}");
    driven.terminate();
    driven.settle();
    driven.bind();
    driven.run(seconds(5));
    assert_eq!(driven.bound("other"), ["other-0"]);
    assert_eq!(driven.evicted().len(), 11, "each of the five: {:#?}", driven.stored());
    expect_open(&driven, 0, 0, 0);
}

#[test]
fn a_trial_that_fails_opens_the_breaker_again_and_the_next_one_is_for_another_preemptor() {
    let mut driven = five_failed_preemptors(TEAMS);
    driven.run(seconds(655));
    assert_eq!(driven.evicted().len(), 5, "those that failed wait for their turn: {:#?}", driven.stored());
    driven.run(seconds(10));
    assert_eq!(driven.evictions()[5..].iter().map(|it| it.pod.as_str()).collect::<Vec<_>>(), ["low-n1-5"]);
    take_capacity(&mut driven, &["n1"]);
    driven.run(seconds(650));
    assert_eq!(driven.evicted().len(), 6, "{:#?}", driven.stored());
    driven.run(seconds(20));
    let next: Vec<&str> = driven.evictions()[6..].iter().map(|eviction| eviction.pod.as_str()).collect();
    assert_eq!(next, ["low-n3-5"], "it is for a namespace without a failed trial");
}

#[test]
fn deleted_preemptors_do_not_keep_the_breaker_of_the_cluster_open() {
    let mut driven = five_failed_preemptors(TEAMS);
    driven.run(seconds(5));
    driven.delete(Kind::Pod, "train-n1-0");
    driven.delete(Kind::Group, "train-n1");
    driven.run(seconds(5));
    assert_eq!(driven.evicted().len(), 9, "the four others: {:#?}", driven.stored());
}

#[test]
fn a_plan_that_has_evicted_no_pod_is_cancelled_when_the_breaker_of_the_cluster_opens() {
    let mut driven = full(&["n1", "n2", "n3", "n4", "n5", "n6"]);
    submit_five(&mut driven, TEAMS);
    let mut late = gang("late", 1, 1_000);
    late["spec"]["preemptionDelaySeconds"] = json!(30);
    driven.apply(Kind::Group, late);
    let mut pod = member("late-0", 1_000, "late", 1);
    pod["spec"]["nodeSelector"] = json!({"pool": "n6"});
    driven.apply(Kind::Pod, pod);
    driven.settle();
    assert_eq!(driven.plans().len(), 6);
    take_capacity(&mut driven, &FIVE);
    driven.run(seconds(60));
    assert_eq!(driven.evicted().len(), 5, "{:#?}", driven.stored());
    let cancelled = format!("Preemptor Cancelled: No pod was evicted for this plan: {WHY}");
    assert!(driven.stored().contains(&cancelled), "{:#?}", driven.stored());
    assert!(driven.condition("late", SCHEDULED).starts_with("False CircuitBreakerOpen: "));
}

#[test]
fn pods_are_evicted_for_a_critical_add_on_although_the_breaker_of_the_cluster_is_open() {
    let mut driven = five_failed_preemptors(TEAMS);
    driven.apply(Kind::Pod, unschedulable("dns", 2_000_000_000));
    driven.apply(Kind::Pod, unschedulable("other", 0));
    driven.run(seconds(25));
    // kube-scheduler runs.
    driven.report_unbound("other", "Unschedulable", "0/6 nodes are available: 6 Insufficient memory.");
    driven.run(seconds(10));
    expect_open(&driven, 0, 0, 1);
    assert_eq!(driven.evicted().len(), 6, "{:#?}", driven.stored());
}

#[test]
fn victims_that_left_by_themselves_are_no_evictions() {
    let mut driven = full(&["n1"]);
    let mut late = gang("late", 1, 1_000);
    late["spec"]["preemptionDelaySeconds"] = json!(600);
    driven.submit(late, 1);
    driven.settle();
    for number in 0..3 {
        let before = driven.pods_on("n1");
        before.iter().for_each(|pod| driven.delete(Kind::Pod, pod));
        driven.apply(Kind::Pod, running(&format!("other-{number}"), 10, "n1", None));
        driven.run(seconds(5));
    }
    let ended = driven.plans().into_iter().filter_map(|plan| plan.status).filter(|status| !status.state.in_flight());
    let ended: Vec<(PlanState, i32)> = ended.map(|status| (status.state, status.evicted)).collect();
    assert_eq!(ended, [(PlanState::Cancelled, 0); 3], "{:#?}", driven.stored());
    assert!(!driven.condition("late", SCHEDULED).contains("CircuitBreakerOpen"), "no pod was evicted");
}

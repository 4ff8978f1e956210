//! Each promise is broken once, in a log written by hand: the oracle must report it.

use super::super::handwritten::{Log, broken, reference, two_gangs};
use super::super::preemptors::outcomes;
use super::super::{OPERATOR, SCHEDULER};
use super::*;
use serde_json::{Value, json};

fn finish(log: &mut Log) {
    log.bind("high-0");
    log.bind("high-1");
}

#[test]
fn a_correct_preemption_breaks_no_promise() {
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 429);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    assert_eq!(broken(&log), Vec::<String>::new());
    let history = log.history();
    assert_eq!(history.evicted_names(), ["low-0", "low-1"]);
    assert_eq!((partial_disruption_count(&history), unplanned_count(&history)), (0, 0));
}

#[test]
fn a_partial_disruption_by_any_component_is_reported() {
    for user in [OPERATOR, SCHEDULER] {
        let mut log = two_gangs();
        log.plan(&["low-0", "low-1"]);
        log.evict(user, "low-0", 201);
        finish(&mut log);
        assert_eq!(broken(&log), ["PodGroup low was partially disrupted: 1 of 2 pods evicted, but not low-1"]);
    }
}

#[test]
fn a_pod_created_after_the_evictions_is_not_part_of_the_disruption() {
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    log.pod("low-2", "low", "n");
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn a_second_accepted_eviction_of_a_pod_is_reported() {
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    for pod in ["low-0", "low-1", "low-1"] {
        log.evict(OPERATOR, pod, 201);
    }
    finish(&mut log);
    assert_eq!(broken(&log), ["pod low-1 was evicted 2 times"]);
}

#[test]
fn an_eviction_before_the_plan_is_stored_is_reported() {
    let mut log = two_gangs();
    log.evict(OPERATOR, "low-0", 201);
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    let broken = broken(&log);
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].contains("pod low-0 was evicted at") && broken[0].contains("without a plan"), "{broken:?}");
}

#[test]
fn a_victim_of_equal_priority_is_reported() {
    let mut log = two_gangs();
    log.group("low", 9, "PodGroup", Value::Null);
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    let broken = broken(&log);
    assert_eq!(broken.len(), 2, "{broken:?}");
    assert!(broken[0].starts_with("pod low-0 of priority 9 was evicted for"), "{broken:?}");
}

#[test]
fn an_incompletely_bound_preemptor_is_reported_without_an_excuse() {
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    log.bind("high-0");
    assert_eq!(broken(&log), ["2 pods were evicted for high, which has 1 of 2 pods bound"]);
    let excused = Promises::new().excuse_unbound("high", 2).broken(&log.history());
    assert_eq!(excused, Vec::<String>::new());
}

#[test]
fn pods_of_a_deleted_group_are_disrupted_one_by_one() {
    let mut log = two_gangs();
    log.delete_group("low");
    log.plan(&["low-0"]);
    log.evict(OPERATOR, "low-0", 201);
    finish(&mut log);
    let partial = |log: &Log| broken(log).iter().any(|breach| breach.contains("partially disrupted"));
    assert!(!partial(&log), "{:?}", broken(&log));
    let mut log = two_gangs();
    log.plan(&["low-0"]);
    log.evict(OPERATOR, "low-0", 201);
    log.delete_group("low");
    finish(&mut log);
    assert!(partial(&log), "it existed at that time");
}

#[test]
fn a_deletion_by_the_test_hides_no_partial_disruption() {
    let partial = ["PodGroup low was partially disrupted: 1 of 2 pods evicted, but not low-1"];
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    finish(&mut log);
    log.delete("admin", "low-1");
    assert_eq!(broken(&log), partial);
    assert_eq!(Promises::new().allow_partial_disruptions(1).broken(&log.history()), Vec::<String>::new());
    // Evictions after the rest do not count, by any user.
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    finish(&mut log);
    log.rest();
    log.evict(OPERATOR, "low-1", 201);
    assert_eq!(broken(&log), partial);
}

#[test]
fn a_pod_deleted_by_its_owner_during_the_evictions_counts_as_disrupted() {
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.delete("admin", "low-0");
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn an_unanswered_eviction_counts_if_a_kubelet_completes_the_termination() {
    for (user, breaches) in [("kwok", 0), ("admin", 1)] {
        let mut log = two_gangs();
        log.plan(&["low-0", "low-1"]);
        log.evict(OPERATOR, "low-0", 201);
        log.evict(OPERATOR, "low-1", 504);
        finish(&mut log);
        log.delete(user, "low-1");
        assert_eq!(broken(&log).len(), breaches, "{user}: {:?}", broken(&log));
    }
}

#[test]
fn a_deleted_preemptor_excuses_no_eviction() {
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    log.delete("admin", "high-0");
    log.delete("admin", "high-1");
    log.delete_group("high");
    let message = "2 pods were evicted for high, which has 0 of 2 pods bound";
    assert_eq!(broken(&log), [message]);
    assert_eq!(Promises::new().excuse_unbound("high", 1).broken(&log.history()), [message]);
    assert_eq!(Promises::new().allow_evictions_for_unbound(1).broken(&log.history()), [message]);
    assert_eq!(Promises::new().allow_evictions_for_unbound(2).broken(&log.history()), Vec::<String>::new());
}

#[test]
fn a_limit_applies_only_to_the_names_with_its_prefixes() {
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    let messages = [
        "PodGroup low was partially disrupted: 1 of 2 pods evicted, but not low-1",
        "1 pod was evicted for high, which has 0 of 2 pods bound",
    ];
    let broken = |prefixes: &[&str]| {
        let promises = Promises::new().allow_evictions_for_unbound(1).allow_partial_disruptions(1);
        promises.only_for(prefixes.iter().map(|prefix| (*prefix).to_owned())).broken(&log.history())
    };
    assert_eq!(broken(&["lo", "hi"]), Vec::<String>::new());
    assert_eq!(broken(&["hi"]), messages[..1]);
    assert_eq!(broken(&["lo"]), messages[1..]);
    assert_eq!(broken(&[]), messages);
}

#[test]
fn a_preemptor_must_be_bound_before_the_rest() {
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    log.rest();
    log.delete("admin", "high-0");
    assert_eq!(broken(&log), Vec::<String>::new());
    // A binding after the rest is too late.
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    log.rest();
    finish(&mut log);
    assert_eq!(broken(&log), ["2 pods were evicted for high, which has 0 of 2 pods bound"]);
}

#[test]
fn placements_beyond_min_count_must_be_bound_too() {
    let mut log = two_gangs();
    log.pod("high-2", "high", "");
    log.plan_placing("high", 9, "Evicting", &["low-0", "low-1"], &["high-0", "high-1", "high-2"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    assert_eq!(broken(&log), ["2 pods were evicted for high, which has 2 of 3 pods bound"]);
    log.bind("high-2");
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn members_bound_before_do_not_count_as_placements() {
    let mut log = two_gangs();
    finish(&mut log);
    log.pod("high-2", "high", "");
    log.pod("high-3", "high", "");
    log.plan_placing("high", 9, "Evicting", &["low-0", "low-1"], &["high-2", "high-3"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    assert_eq!(broken(&log), ["2 pods were evicted for high, which has 2 of 4 pods bound"]);
    log.bind("high-2");
    assert_eq!(broken(&log), ["2 pods were evicted for high, which has 3 of 4 pods bound"]);
    log.bind("high-3");
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn a_placed_member_bound_before_the_last_eviction_counts_once() {
    let mut log = two_gangs();
    log.plan_placing("high", 9, "Evicting", &["low-0", "low-1"], &["high-0", "high-1"]);
    log.evict(OPERATOR, "low-0", 201);
    finish(&mut log);
    log.evict(OPERATOR, "low-1", 201);
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn pods_of_a_recreated_preemptor_excuse_no_eviction() {
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    log.delete("admin", "high-0");
    log.delete("admin", "high-1");
    log.delete_group("high");
    log.another_group("high", "another", "PreemptLowerPriority");
    log.pod("high-2", "high", "n");
    log.pod("high-3", "high", "n");
    assert_eq!(broken(&log), ["2 pods were evicted for high, which has 0 of 2 pods bound"]);
}

#[test]
fn an_eviction_for_a_plan_of_another_term_is_reported() {
    let mut log = two_gangs();
    log.lease("t");
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.lease("new");
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    assert_eq!(broken(&log), ["pod low-1 was evicted for plan high of term t while new held the Lease"]);
}

#[test]
fn an_eviction_for_an_ended_plan_is_reported_unless_its_unit_was_already_disrupted() {
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.plan_for("high", 9, "Cancelled", &["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    let message = |pod: &str| format!("pod {pod} was evicted for plan high, which was already Cancelled");
    assert_eq!(broken(&log), [message("low-0"), message("low-1")]);
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict_for("low-0", "high", 201);
    log.plan_for("high", 9, "Cancelled", &["low-0", "low-1"]);
    log.evict_for("low-1", "high", 201);
    finish(&mut log);
    assert_eq!(broken(&log), Vec::<String>::new());
}

/// Returns a log in which a plan is deleted, and both of its victims are evicted for it some seconds later.
fn evictions_after_the_plan_was_deleted(seconds: usize) -> Log {
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.delete_plan("high");
    log.pass("t", seconds);
    log.evict_for("low-0", "high", 201);
    log.evict_for("low-1", "high", 201);
    finish(&mut log);
    log
}

#[test]
fn an_eviction_for_a_deleted_plan_is_reported_unless_it_was_in_transit() {
    let log = evictions_after_the_plan_was_deleted(0);
    assert_eq!(broken(&log), Vec::<String>::new());
    let log = evictions_after_the_plan_was_deleted(5);
    let message = |pod: &str| format!("pod {pod} was evicted for plan high, which was already deleted");
    assert_eq!(broken(&log), [message("low-0"), message("low-1")]);
    // The unit was already disrupted.
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict_for("low-0", "high", 201);
    log.delete_plan("high");
    log.pass("t", 5);
    log.evict_for("low-1", "high", 201);
    finish(&mut log);
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn an_eviction_for_an_unknown_plan_is_reported_even_if_another_plan_has_the_victim() {
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict_for("low-0", "high", 201);
    log.evict_for("low-1", "unknown", 201);
    finish(&mut log);
    let broken = broken(&log);
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].starts_with("pod low-1 was evicted at ") && broken[0].contains("without a plan"), "{broken:?}");
}

#[test]
fn a_deletion_for_another_preemptor_does_not_belong_to_this_plan() {
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict_for("low-0", "high", 201);
    log.mark("low-1", "other", 9);
    log.delete(OPERATOR, "low-1");
    finish(&mut log);
    let broken = broken(&log);
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].starts_with("pod low-1 was evicted at ") && broken[0].contains("without a plan"), "{broken:?}");
}

#[test]
fn a_plan_write_by_an_earlier_leader_is_reported() {
    let mut log = two_gangs();
    log.lease("t");
    log.plan(&["low-0", "low-1"]);
    log.pass("new", 5);
    log.plan_for("high", 9, "Cancelled", &["low-0", "low-1"]);
    assert_eq!(broken(&log), ["plan high was written as Cancelled in term t while new held the Lease"]);
    // A write in transit is carried out.
    let mut log = two_gangs();
    log.lease("t");
    log.plan(&["low-0", "low-1"]);
    log.lease("new");
    log.plan_for("high", 9, "Cancelled", &["low-0", "low-1"]);
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn after_a_preemption_by_the_scheduler_the_others_are_evicted_for_a_stored_departure_and_never_deleted() {
    let mut log = two_gangs();
    log.evict(SCHEDULER, "low-0", 201);
    log.departure("d-1", "MemberPreempted", &["low-1"]);
    log.evict_for("low-1", "d-1", 201);
    assert_eq!(broken(&log), Vec::<String>::new());
    let mut unplanned = two_gangs();
    unplanned.evict(SCHEDULER, "low-0", 201);
    unplanned.evict(OPERATOR, "low-1", 201);
    let broken = broken(&unplanned);
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].starts_with("pod low-1 was evicted at ") && broken[0].contains("without a plan"), "{broken:?}");
    let mut deleted = two_gangs();
    deleted.evict(SCHEDULER, "low-0", 201);
    deleted.departure("d-1", "MemberPreempted", &["low-1"]);
    deleted.delete(OPERATOR, "low-1");
    let message = "pod low-1 was deleted, but not evicted, with cause MemberPreempted";
    assert_eq!(self::broken(&deleted), [message]);
}

#[test]
fn an_eviction_belongs_to_the_plan_in_flight() {
    let mut log = two_gangs();
    log.plan_for("high", 9, "Evicting", &["low-0", "low-1"]);
    log.plan_for("vip", 99, "Cancelled", &["low-0"]);
    log.evict(OPERATOR, "low-0", 201);
    let history = log.history();
    let plan = history.plan_of(history.evicted()[0]).map(|record| record.plan.id.as_str());
    assert_eq!(plan, Some("high"), "plan vip was cancelled");
}

#[test]
fn an_eviction_belongs_to_the_plan_that_it_names() {
    for plan in ["vip", "high"] {
        let mut log = two_gangs();
        log.plan_for("vip", 99, "Evicting", &["low-0"]);
        log.plan_for("high", 9, "Cancelled", &["low-0", "low-1"]);
        log.evict_for("low-0", plan, 201);
        let history = log.history();
        let found = history.plan_of(history.evicted()[0]).map(|record| record.plan.id.as_str());
        assert_eq!(found, Some(plan));
    }
}

#[test]
fn a_dry_run_evicts_no_pod() {
    let mut log = two_gangs();
    let request = json!({"deleteOptions": {"dryRun": ["All"]}});
    log.line(OPERATOR, "create", reference("eviction", "low-0"), (request, Value::Null), 201);
    assert!(log.history().evicted().is_empty());
}

#[test]
fn the_time_at_which_a_preemptor_was_completely_bound_is_known() {
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    log.bind("high-0");
    let found = outcomes(&log.history());
    assert_eq!((found[0].name.as_str(), found[0].evictions, found[0].bound, found[0].complete), ("high", 2, 1, None));
    log.bind("high-1");
    let history = log.history();
    let found = outcomes(&history);
    assert_eq!((found[0].first, found[0].needed), (history.removals[0].at, 2));
    assert_eq!(found[0].complete, history.bindings.last().map(|binding| binding.at));
}

#[test]
fn a_breach_has_the_facts_for_an_excuse() {
    let kinds = |log: &Log| -> Vec<BreachKind> {
        Promises::new().breaches(&log.history()).into_iter().map(|breach| breach.kind).collect()
    };
    let mut log = two_gangs();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    let group = ("default".to_owned(), "low".to_owned());
    let partial = BreachKind::PartialDisruption { group, first: log.history().removals[0].at };
    let unbound = BreachKind::Unbound { preemptor: "high".to_owned(), evictions: 1 };
    assert_eq!(kinds(&log), [partial, unbound]);

    let log = evictions_after_the_plan_was_deleted(5);
    let deleted = BreachKind::DeletedPlan { plan: "high".to_owned() };
    assert_eq!(kinds(&log), [deleted.clone(), deleted]);
}

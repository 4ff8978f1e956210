//! An oracle that cannot say no proves nothing: each promise is broken once, in a log written for it.

use super::super::handwritten::{Log, reference};
use super::*;
use serde_json::{Value, json};

/// A whole group of two pods that run, and a gang of two that waits.
fn start() -> Log {
    let mut log = Log::default();
    log.group("low", 1, "PodGroup", Value::Null);
    log.group("high", 9, "Pod", Value::Null);
    log.pod("low-0", "low", "n");
    log.pod("low-1", "low", "n");
    log.pod("high-0", "high", "");
    log.pod("high-1", "high", "");
    log
}

fn broken(log: &Log) -> Vec<String> {
    Promises::new().broken(&log.history())
}

fn finish(log: &mut Log) {
    log.bind("high-0");
    log.bind("high-1");
}

#[test]
fn a_preemption_by_the_book_breaks_nothing() {
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 429);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    assert_eq!(broken(&log), Vec::<String>::new());
    let history = log.history();
    assert_eq!(history.evicted_names(), ["low-0", "low-1"]);
    assert_eq!((torn_count(&history), unplanned_count(&history)), (0, 0));
}

#[test]
fn a_group_that_loses_one_pod_is_torn_whoever_took_it() {
    for user in [OPERATOR, SCHEDULER] {
        let mut log = start();
        log.plan(&["low-0", "low-1"]);
        log.evict(user, "low-0", 201);
        finish(&mut log);
        assert_eq!(broken(&log), ["group low was torn apart: 1 of its 2 pods were evicted, low-1 stayed"]);
    }
}

#[test]
fn a_pod_that_was_created_after_the_eviction_is_not_part_of_the_torn_group() {
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    log.pod("low-2", "low", "n");
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn a_second_accepted_eviction_of_a_pod_is_told() {
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    for pod in ["low-0", "low-1", "low-1"] {
        log.evict(OPERATOR, pod, 201);
    }
    finish(&mut log);
    assert_eq!(broken(&log), ["low-1 was evicted 2 times"]);
}

#[test]
fn an_eviction_before_the_plan_is_stored_is_told() {
    let mut log = start();
    log.evict(OPERATOR, "low-0", 201);
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    let broken = broken(&log);
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].contains("low-0 was evicted at") && broken[0].contains("without a plan"), "{broken:?}");
}

#[test]
fn a_victim_of_equal_priority_is_told() {
    let mut log = start();
    log.group("low", 9, "PodGroup", Value::Null);
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    let broken = broken(&log);
    assert_eq!(broken.len(), 2, "{broken:?}");
    assert!(broken[0].starts_with("low-0 of priority Some(9) was evicted for"), "{broken:?}");
}

#[test]
fn a_preemptor_that_is_not_wholly_bound_is_told_unless_it_is_excused() {
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    log.bind("high-0");
    assert_eq!(broken(&log), ["2 pods were evicted for high, which has 1 of 2 pods bound"]);
    let excused = Promises::new().excuse_unbound("high", 2).broken(&log.history());
    assert_eq!(excused, Vec::<String>::new());
}

#[test]
fn what_a_test_cleans_up_hides_no_torn_group() {
    let torn = ["group low was torn apart: 1 of its 2 pods were evicted, low-1 stayed"];
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    finish(&mut log);
    log.delete("admin", "low-1");
    assert_eq!(broken(&log), torn);
    assert_eq!(Promises::new().excuse_torn("low").broken(&log.history()), Vec::<String>::new());
    assert_eq!(Promises::new().allow_torn(1).broken(&log.history()), Vec::<String>::new());
    // What comes after the rest is judged no more, by whomever it is done.
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    finish(&mut log);
    log.rest();
    log.evict(OPERATOR, "low-1", 201);
    assert_eq!(broken(&log), torn);
}

#[test]
fn a_pod_that_its_owner_deletes_while_the_others_are_evicted_is_gone() {
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.delete("admin", "low-0");
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn an_eviction_that_was_carried_out_unheard_counts_when_the_kubelet_ends_the_pod() {
    for (user, torn) in [("kwok", 0), ("admin", 1)] {
        let mut log = start();
        log.plan(&["low-0", "low-1"]);
        log.evict(OPERATOR, "low-0", 201);
        log.evict(OPERATOR, "low-1", 504);
        finish(&mut log);
        log.delete(user, "low-1");
        assert_eq!(broken(&log).len(), torn, "{user}: {:?}", broken(&log));
    }
}

#[test]
fn a_preemptor_that_is_gone_excuses_nothing() {
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    log.delete("admin", "high-0");
    log.delete("admin", "high-1");
    log.delete_group("high");
    let told = "2 pods were evicted for high, which has 0 of 2 pods bound";
    assert_eq!(broken(&log), [told]);
    assert_eq!(Promises::new().excuse_unbound("high", 1).broken(&log.history()), [told]);
    assert_eq!(Promises::new().allow_in_vain(1).broken(&log.history()), [told]);
    assert_eq!(Promises::new().allow_in_vain(2).broken(&log.history()), Vec::<String>::new());
}

#[test]
fn what_is_allowed_is_so_only_for_those_whom_it_names() {
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    let told = [
        "group low was torn apart: 1 of its 2 pods were evicted, low-1 stayed",
        "1 pods were evicted for high, which has 0 of 2 pods bound",
    ];
    let broken = |prefixes: &[&str]| {
        let promises = Promises::new().allow_in_vain(1).allow_torn(1);
        promises.only_for(prefixes.iter().map(|prefix| (*prefix).to_owned())).broken(&log.history())
    };
    assert_eq!(broken(&["lo", "hi"]), Vec::<String>::new());
    assert_eq!(broken(&["hi"]), told[..1]);
    assert_eq!(broken(&["lo"]), told[1..]);
    assert_eq!(broken(&[]), told);
}

#[test]
fn a_preemptor_that_was_bound_before_the_rest_had_its_place() {
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    log.rest();
    log.delete("admin", "high-0");
    assert_eq!(broken(&log), Vec::<String>::new());
    // Bound after the rest is too late.
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    log.rest();
    finish(&mut log);
    assert_eq!(broken(&log), ["2 pods were evicted for high, which has 0 of 2 pods bound"]);
}

#[test]
fn members_beyond_those_that_are_needed_count_where_somebody_went_for_them() {
    let mut log = start();
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
fn members_that_were_bound_before_are_none_of_those_who_were_placed() {
    let mut log = start();
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
fn who_was_placed_and_bound_before_the_last_eviction_counts_once() {
    let mut log = start();
    log.plan_placing("high", 9, "Evicting", &["low-0", "low-1"], &["high-0", "high-1"]);
    log.evict(OPERATOR, "low-0", 201);
    finish(&mut log);
    log.evict(OPERATOR, "low-1", 201);
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn a_namesake_of_the_preemptor_excuses_nothing() {
    let mut log = start();
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
fn an_eviction_for_a_plan_of_another_term_is_told() {
    let mut log = start();
    log.lease("t");
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.lease("new");
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    assert_eq!(broken(&log), ["low-1 was evicted for plan high of the term t, while new held the lease"]);
}

#[test]
fn an_eviction_for_a_plan_that_is_over_is_told_unless_it_finishes_what_was_begun() {
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.plan_for("high", 9, "Cancelled", &["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    finish(&mut log);
    let told = |pod: &str| format!("{pod} was evicted for plan high, which was Cancelled by then");
    assert_eq!(broken(&log), [told("low-0"), told("low-1")]);
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.evict_for("low-0", "high", 201);
    log.plan_for("high", 9, "Cancelled", &["low-0", "low-1"]);
    log.evict_for("low-1", "high", 201);
    finish(&mut log);
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn an_eviction_for_a_plan_that_somebody_deleted_is_told_unless_it_was_on_the_wire() {
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.delete_plan("high");
    log.evict_for("low-0", "high", 201);
    log.evict_for("low-1", "high", 201);
    finish(&mut log);
    assert_eq!(broken(&log), Vec::<String>::new());
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.delete_plan("high");
    log.pass("t", 5);
    log.evict_for("low-0", "high", 201);
    log.evict_for("low-1", "high", 201);
    finish(&mut log);
    let told = |pod: &str| format!("{pod} was evicted for plan high, which somebody had deleted by then");
    assert_eq!(broken(&log), [told("low-0"), told("low-1")]);
    // What was begun is finished.
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.evict_for("low-0", "high", 201);
    log.delete_plan("high");
    log.pass("t", 5);
    log.evict_for("low-1", "high", 201);
    finish(&mut log);
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn an_eviction_that_names_a_plan_that_nobody_stored_is_told_whatever_other_plans_say() {
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.evict_for("low-0", "high", 201);
    log.evict_for("low-1", "unknown", 201);
    finish(&mut log);
    let broken = broken(&log);
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].starts_with("low-1 was evicted at ") && broken[0].contains("without a plan"), "{broken:?}");
}

#[test]
fn a_pod_that_was_told_of_somebody_else_did_not_go_for_this_plan() {
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.evict_for("low-0", "high", 201);
    log.mark("low-1", "other", 9);
    log.delete(OPERATOR, "low-1");
    finish(&mut log);
    let broken = broken(&log);
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].starts_with("low-1 was evicted at ") && broken[0].contains("without a plan"), "{broken:?}");
}

#[test]
fn a_leader_of_an_old_term_stores_and_changes_no_plan() {
    let mut log = start();
    log.lease("t");
    log.plan(&["low-0", "low-1"]);
    log.pass("new", 5);
    log.plan_for("high", 9, "Cancelled", &["low-0", "low-1"]);
    assert_eq!(broken(&log), ["plan high was written as Cancelled in the term t, while new held the lease"]);
    // What was on the wire is carried out.
    let mut log = start();
    log.lease("t");
    log.plan(&["low-0", "low-1"]);
    log.lease("new");
    log.plan_for("high", 9, "Cancelled", &["low-0", "low-1"]);
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn what_the_scheduler_began_excuses_the_rest_of_that_group_and_not_the_pods_that_come_instead() {
    let mut log = start();
    log.evict(SCHEDULER, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    assert_eq!(broken(&log), Vec::<String>::new());
    log.pod("low-2", "low", "n");
    log.evict(OPERATOR, "low-2", 201);
    let broken = broken(&log);
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].starts_with("low-2 was evicted at ") && broken[0].contains("without a plan"), "{broken:?}");
}

#[test]
fn a_plan_that_is_over_takes_nobody() {
    let mut log = start();
    log.plan_for("high", 9, "Evicting", &["low-0", "low-1"]);
    log.plan_for("vip", 99, "Cancelled", &["low-0"]);
    log.evict(OPERATOR, "low-0", 201);
    let history = log.history();
    let taker = history.plan_of(history.evicted()[0]).map(|record| record.plan.id.as_str());
    assert_eq!(taker, Some("high"), "whose end was written later");
}

#[test]
fn of_two_plans_that_name_a_pod_the_one_that_its_eviction_names_took_it() {
    for plan in ["vip", "high"] {
        let mut log = start();
        log.plan_for("vip", 99, "Evicting", &["low-0"]);
        log.plan_for("high", 9, "Cancelled", &["low-0", "low-1"]);
        log.evict_for("low-0", plan, 201);
        let history = log.history();
        let taker = history.plan_of(history.evicted()[0]).map(|record| record.plan.id.as_str());
        assert_eq!(taker, Some(plan));
    }
}

#[test]
fn dry_runs_remove_nobody() {
    let mut log = start();
    let request = json!({"deleteOptions": {"dryRun": ["All"]}});
    log.line(OPERATOR, "create", reference("eviction", "low-0"), (request, Value::Null), 201);
    assert!(log.history().evicted().is_empty());
}

#[test]
fn it_is_told_when_a_preemptor_was_whole() {
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    log.bind("high-0");
    let found = helped(&log.history());
    assert_eq!((found[0].name.as_str(), found[0].victims, found[0].bound, found[0].whole), ("high", 2, 1, None));
    log.bind("high-1");
    let history = log.history();
    let found = helped(&history);
    assert_eq!((found[0].first, found[0].needed), (history.removals[0].at, 2));
    assert_eq!(found[0].whole, history.bindings.last().map(|binding| binding.at));
}

#[test]
fn a_tear_is_excused_by_its_group_and_its_time() {
    let mut log = start();
    log.plan(&["low-0", "low-1"]);
    log.evict(OPERATOR, "low-0", 201);
    finish(&mut log);
    let history = log.history();
    let at = history.removals[0].at;
    let broken = |group: &str, at: Timestamp| Promises::new().excuse_torn_at(group, at).broken(&history).len();
    assert_eq!((broken("low", at), broken("high", at)), (0, 1));
    assert_eq!(broken("low", at.saturating_add(2 * UNDER_WAY).unwrap()), 1, "another time");
    assert_eq!(broken("low", at.saturating_sub(2 * UNDER_WAY).unwrap()), 1, "another time");
}

#[test]
fn what_is_late_needs_no_plan() {
    let mut log = start();
    log.evict(OPERATOR, "low-0", 201);
    log.evict(OPERATOR, "low-1", 201);
    let broken = |promises: Promises| promises.broken(&log.history()).len();
    assert_eq!((broken(Promises::new()), broken(Promises::new().excuse_late("low-0"))), (2, 1));
}

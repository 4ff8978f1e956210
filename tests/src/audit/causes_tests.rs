//! Each cause of a `Preemption` is stored once without what justifies it, in a log written by hand: the oracle must report it.

use super::super::handwritten::{Log, broken, two_gangs};
use super::super::{BreachKind, Promises, SCHEDULER};
use serde_json::{Value, json};

/// Returns a log with a gang of two pods in mode `PodGroup`, one of which is bound.
fn start_partially_scheduled() -> Log {
    let mut log = Log::default();
    log.group("low", 1, "PodGroup", Value::Null);
    log.pod("low-0", "low", "n");
    log.pod("low-1", "low", "");
    log
}

/// Evicts these pods for a `Preemption`.
fn evict(log: &mut Log, plan: &str, pods: &[&str]) {
    for pod in pods {
        log.evict_for(pod, plan, 201);
    }
}

/// Creates PodGroup `other` in mode `PodGroup` with one bound pod.
fn create_other_group(log: &mut Log) {
    log.group("other", 1, "PodGroup", Value::Null);
    log.pod("other-0", "other", "n");
}

/// Creates another PodGroup with the name `low`.
fn recreate_group(log: &mut Log) {
    let object = json!({
        "kind": "PodGroup", "metadata": {"namespace": "default", "name": "low", "uid": "another"},
        "spec": {"priority": 1, "disruptionMode": "PodGroup", "schedulingPolicy": {"gang": {"minCount": 2}}}
    });
    let reference =
        json!({"apiGroup": "scheduling.giveway.dev", "resource": "podgroups", "namespace": "default", "name": "low"});
    log.line("admin", "create", reference, (Value::Null, object), 201);
}

/// Writes what happens before a departure into a log.
type Disturb = fn(&mut Log);

#[test]
fn after_a_preemption_by_kube_scheduler_the_other_bound_pods_are_evicted() {
    let mut log = two_gangs();
    log.delete(SCHEDULER, "low-0");
    log.departure("d-1", "MemberPreempted", &["low-1"]);
    evict(&mut log, "d-1", &["low-1"]);
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn cause_member_preempted_without_a_preemption_by_kube_scheduler_is_reported() {
    let message =
        "Preemption d-1 has cause MemberPreempted, but kube-scheduler had preempted no other pod of PodGroup low";
    let cases: [(&str, Disturb, &[&str]); 6] = [
        ("no pod was removed", |_| {}, &["low-0", "low-1"]),
        ("a user deleted the other pod", |log| log.delete("admin", "low-0"), &["low-1"]),
        ("the guard denied the deletion", |log| log.evict(SCHEDULER, "low-0", 403), &["low-0", "low-1"]),
        (
            "kube-scheduler preempted a pod of another PodGroup",
            |log| {
                create_other_group(log);
                log.delete(SCHEDULER, "other-0");
            },
            &["low-0", "low-1"],
        ),
        (
            "kube-scheduler preempted a pod of an earlier PodGroup of this name",
            |log| {
                log.delete(SCHEDULER, "low-0");
                recreate_group(log);
            },
            &["low-1"],
        ),
        (
            "the mode is not PodGroup",
            |log| {
                log.delete(SCHEDULER, "low-0");
                log.group("low", 1, "Pod", Value::Null);
            },
            &["low-1"],
        ),
    ];
    for (what, before, victims) in cases {
        let mut log = two_gangs();
        before(&mut log);
        log.departure("d-1", "MemberPreempted", victims);
        evict(&mut log, "d-1", victims);
        assert_eq!(broken(&log), [message], "{what}");
    }
    // A preemption after the Preemption was stored is too late.
    let mut log = two_gangs();
    log.departure("d-1", "MemberPreempted", &["low-1"]);
    log.delete(SCHEDULER, "low-0");
    evict(&mut log, "d-1", &["low-1"]);
    assert_eq!(broken(&log), [message]);
}

#[test]
fn cause_member_preempted_with_a_replacement_pod_is_reported() {
    let message = |id: &str| {
        format!(
            "Preemption {id} evicts pod low-2, but it was not a bound pod of PodGroup low when kube-scheduler preempted pod low-0"
        )
    };
    let mut log = two_gangs();
    log.delete(SCHEDULER, "low-0");
    log.departure("d-1", "MemberPreempted", &["low-1"]);
    evict(&mut log, "d-1", &["low-1"]);
    log.pod("low-2", "low", "n");
    log.departure("d-2", "MemberPreempted", &["low-2"]);
    evict(&mut log, "d-2", &["low-2"]);
    assert_eq!(broken(&log), [message("d-2")]);
    // It must not even be stored as a victim.
    let mut log = two_gangs();
    log.delete(SCHEDULER, "low-0");
    log.pod("low-2", "low", "n");
    log.departure("d-1", "MemberPreempted", &["low-1", "low-2"]);
    evict(&mut log, "d-1", &["low-1"]);
    assert_eq!(broken(&log), [message("d-1")]);
    // A pod that existed may have been bound a moment later, but not after some seconds.
    for (seconds, expected) in [(0, vec![]), (5, vec![message("d-1")])] {
        let mut log = two_gangs();
        log.pod("low-2", "low", "");
        log.delete(SCHEDULER, "low-0");
        log.pass("t", seconds);
        log.bind("low-2");
        log.departure("d-1", "MemberPreempted", &["low-1", "low-2"]);
        evict(&mut log, "d-1", &["low-1", "low-2"]);
        assert_eq!(broken(&log), expected, "{seconds} s");
    }
}

#[test]
fn cause_partially_scheduled_is_reported_unless_the_test_declares_it_for_the_gang() {
    let mut log = start_partially_scheduled();
    log.departure("d-1", "PartiallyScheduled", &["low-0", "low-1"]);
    evict(&mut log, "d-1", &["low-0", "low-1"]);
    let message = [
        "2 pods of PodGroup low were evicted with cause PartiallyScheduled, which the test does not declare as expected",
    ];
    assert_eq!(broken(&log), message);
    let excused = |gang: &str, evictions: usize| {
        Promises::new().excuse_partially_scheduled(gang, evictions).broken(&log.history())
    };
    assert_eq!(excused("low", 2), Vec::<String>::new());
    assert_eq!(excused("low", 1), message);
    assert_eq!(excused("high", 2), message);
}

#[test]
fn cause_partially_scheduled_for_a_complete_gang_is_reported() {
    let excused = |log: &Log| Promises::new().excuse_partially_scheduled("low", 2).broken(&log.history());
    let mut log = two_gangs();
    log.pass("t", 5);
    log.departure("d-1", "PartiallyScheduled", &["low-0", "low-1"]);
    evict(&mut log, "d-1", &["low-0", "low-1"]);
    let message = "1 pod of PodGroup low was evicted with cause PartiallyScheduled, although the gang had as many bound pods as it \
                   needs";
    assert_eq!(excused(&log), [message], "the first eviction");
    // The eviction was in transit when the last pod was bound.
    let mut log = start_partially_scheduled();
    log.departure("d-1", "PartiallyScheduled", &["low-0", "low-1"]);
    log.bind("low-1");
    evict(&mut log, "d-1", &["low-0", "low-1"]);
    assert_eq!(excused(&log), Vec::<String>::new());
}

/// Returns a log in which a plan of gang `high` in this state evicts some pods, and a departure after it the pods that are `left`. Pod
/// `low-2` is created between both if it is one of them.
fn after_a_plan(state: &str, evicted: &[&str], preemptor: &str, left: &[&str]) -> Log {
    let mut log = two_gangs();
    create_other_group(&mut log);
    log.plan_for("high", 9, state, &["low-0", "low-1", "other-0"]);
    evict(&mut log, "high", evicted);
    if left.contains(&"low-2") {
        log.pod("low-2", "low", "n");
    }
    log.departure_after("d-1", preemptor, left);
    log.plan_for("high", 9, "Cancelled", &["low-0", "low-1", "other-0"]);
    evict(&mut log, "d-1", left);
    log.bind("high-0");
    log.bind("high-1");
    log
}

#[test]
fn after_a_cancelled_plan_the_remaining_pods_of_its_victims_are_evicted() {
    assert_eq!(broken(&after_a_plan("Evicting", &["low-0"], "high", &["low-1"])), Vec::<String>::new());
}

#[test]
fn cause_partially_disrupted_without_an_eviction_for_the_plan_is_reported() {
    let message = ["Preemption d-1 has cause PartiallyDisrupted, but plan high had evicted no pod of PodGroup low"];
    let log = after_a_plan("Evicting", &[], "high", &["low-0", "low-1"]);
    assert_eq!(broken(&log), message);
    let history = log.history();
    let kinds: Vec<BreachKind> = Promises::new().breaches(&history).into_iter().map(|breach| breach.kind).collect();
    let pods = ["low-0", "low-1"].map(str::to_owned).to_vec();
    assert_eq!(kinds, [BreachKind::NotPartiallyDisrupted { at: history.plans[1].asked, pods }]);
    let log = after_a_plan("Evicting", &["other-0"], "high", &["low-0", "low-1"]);
    assert_eq!(broken(&log), message, "a pod of another PodGroup was evicted");
}

#[test]
fn cause_partially_disrupted_without_a_plan_for_these_pods_is_reported() {
    let message =
        ["Preemption d-1 has cause PartiallyDisrupted, but no plan of its preemptor with these pods of PodGroup low \
                    had started to evict"];
    for (what, log) in [
        ("the plan had not started", after_a_plan("Planned", &[], "high", &["low-0", "low-1"])),
        ("the plan of another preemptor", after_a_plan("Evicting", &["low-0"], "other", &["low-1"])),
        ("a replacement pod", after_a_plan("Evicting", &["low-0"], "high", &["low-1", "low-2"])),
    ] {
        assert_eq!(broken(&log), message, "{what}");
    }
    let mut log = two_gangs();
    log.departure("d-1", "PartiallyDisrupted", &["low-0", "low-1"]);
    evict(&mut log, "d-1", &["low-0", "low-1"]);
    assert_eq!(broken(&log), message, "without a preemptor");
}

//! Requests without a response: later requests show whether they were carried out.

use super::super::handwritten::{Log, reference};
use super::super::promises::Promises;
use super::*;
use serde_json::{Value, json};

fn start() -> Log {
    let mut log = Log::default();
    log.single("default", "a", json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 5}}));
    log.single("kube-system", "dns", json!({"spec": {"priority": 2_000_000_000}}));
    log.rescue(1, &["a"]);
    log
}

/// Adds a write of these taints by the operator, which is killed before the response.
fn asks(log: &mut Log, node: &str, values: &[&str]) {
    let taint = |value: &&str| json!({"key": "CriticalAddonsOnly", "value": value, "effect": "NoSchedule"});
    let taints: Vec<Value> = values.iter().map(taint).collect();
    let request = json!({"spec": {"taints": taints}});
    log.line(OPERATOR, "patch", json!({"resource": "nodes", "name": node}), (request, Value::Null), GATEWAY_TIMEOUT);
}

fn broken(log: &mut Log) -> Vec<String> {
    let object_ref = json!({"resource": "pods", "subresource": "binding", "namespace": "kube-system", "name": "dns"});
    log.line(SCHEDULER, "create", object_ref, (json!({"target": {"name": "n"}}), Value::Null), 201);
    Promises::new().broken(&log.history())
}

#[test]
fn a_taint_that_is_removed_later_was_written() {
    let mut log = start();
    asks(&mut log, "n", &["dns"]);
    log.evict(OPERATOR, "a", 201);
    log.taint(OPERATOR, "n", &[]);
    assert_eq!(broken(&mut log), Vec::<String>::new());
}

#[test]
fn a_taint_that_is_written_again_was_not_written_before() {
    let mut log = start();
    asks(&mut log, "n", &["dns"]);
    log.evict(OPERATOR, "a", 201);
    log.taint(OPERATOR, "n", &["dns"]);
    log.taint(OPERATOR, "n", &[]);
    assert_eq!(broken(&mut log), ["pod a was evicted before the node was tainted"]);
}

#[test]
fn a_taint_that_is_never_removed_counts_as_lost_and_is_looked_up() {
    let mut log = start();
    asks(&mut log, "n", &["dns"]);
    log.evict(OPERATOR, "a", 201);
    assert_eq!(broken(&mut log), ["pod a was evicted before the node was tainted"]);
    assert!(log.history().tainted_with("dns") && !log.history().tainted_with("other"));
}

#[test]
fn an_unanswered_removal_of_a_taint_counts_as_carried_out() {
    let mut log = start();
    log.taint(OPERATOR, "n", &["dns"]);
    log.evict(OPERATOR, "a", 201);
    asks(&mut log, "n", &[]);
    assert_eq!(broken(&mut log), Vec::<String>::new());
    log.taint(OPERATOR, "m", &["dns"]);
    log.taint(OPERATOR, "m", &[]);
    assert_eq!(broken(&mut log), Vec::<String>::new());
}

#[test]
fn an_eviction_counts_once_whichever_request_was_carried_out() {
    let taint = |log: &mut Log| log.taint(OPERATOR, "n", &["dns"]);
    let evicted = |log: &Log| log.history().evicted().iter().map(|removal| removal.code).collect::<Vec<_>>();
    // The first request is lost, and the next leader repeats it.
    let mut log = start();
    taint(&mut log);
    log.evict(OPERATOR, "a", GATEWAY_TIMEOUT);
    assert_eq!(perhaps_removed(&log.history()), BTreeSet::from(["a".to_owned()]));
    assert_eq!(evicted(&log), Vec::<u16>::new(), "no kubelet completed the termination");
    log.evict(OPERATOR, "a", 201);
    log.delete("kwok", "a");
    assert_eq!(evicted(&log), [201]);
    assert_eq!(perhaps_removed(&log.history()), BTreeSet::new());
    // Two requests without a response, one of them carried out.
    let mut log = start();
    taint(&mut log);
    log.evict(OPERATOR, "a", GATEWAY_TIMEOUT);
    log.evict(OPERATOR, "a", GATEWAY_TIMEOUT);
    log.delete("kwok", "a");
    assert_eq!(evicted(&log), [GATEWAY_TIMEOUT]);
}

#[test]
fn a_pod_without_a_kubelet_counts_as_evicted_if_it_is_looked_up_and_no_other_user_deleted_it() {
    let mut log = start();
    log.taint(OPERATOR, "n", &["dns"]);
    log.evict(OPERATOR, "a", GATEWAY_TIMEOUT);
    let mut history = log.history();
    let perhaps = perhaps_removed(&history);
    accept(&mut history, &perhaps);
    assert_eq!(history.evicted_names(), ["a"]);
    assert!(history.pods["a"].preempted.is_some());
    log.line("admin", "delete", reference("", "a"), (json!({"preconditions": {"uid": "a"}}), Value::Null), 200);
    assert_eq!(perhaps_removed(&log.history()), BTreeSet::new(), "another user deleted it");
}

#[test]
fn a_pod_deleted_by_another_user_was_evicted_only_if_it_was_terminating_before() {
    for (earlier, evicted) in [(0, 0), (4, 1)] {
        let mut log = start();
        log.taint(OPERATOR, "n", &["dns"]);
        log.evict(OPERATOR, "a", GATEWAY_TIMEOUT);
        log.pass("t", 4);
        let since = log.time(earlier);
        log.delete_answered("admin", "a", &since);
        let perhaps = perhaps_removed(&log.history()).len();
        assert_eq!(perhaps, evicted, "terminating since {since}");
        log.delete("kwok", "a");
        assert_eq!(log.history().evicted().len(), evicted, "terminating since {since}");
    }
}

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

/// The operator asks for these taints, and is killed.
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
fn a_taint_that_is_taken_away_later_had_been_written() {
    let mut log = start();
    asks(&mut log, "n", &["dns"]);
    log.evict(OPERATOR, "a", 201);
    log.taint(OPERATOR, "n", &[]);
    assert_eq!(broken(&mut log), Vec::<String>::new());
}

#[test]
fn a_taint_that_is_written_again_had_been_lost() {
    let mut log = start();
    asks(&mut log, "n", &["dns"]);
    log.evict(OPERATOR, "a", 201);
    log.taint(OPERATOR, "n", &["dns"]);
    log.taint(OPERATOR, "n", &[]);
    assert_eq!(broken(&mut log), ["a was evicted before the node was tainted"]);
}

#[test]
fn a_taint_that_nobody_takes_away_is_not_believed_and_looked_for() {
    let mut log = start();
    asks(&mut log, "n", &["dns"]);
    log.evict(OPERATOR, "a", 201);
    assert_eq!(broken(&mut log), ["a was evicted before the node was tainted"]);
    assert!(log.history().tainted_with("dns") && !log.history().tainted_with("other"));
}

#[test]
fn a_taint_that_was_asked_away_is_gone_for_the_next_node() {
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
fn an_eviction_counts_once_whether_the_first_or_the_second_request_was_carried_out() {
    let taint = |log: &mut Log| log.taint(OPERATOR, "n", &["dns"]);
    let evicted = |log: &Log| log.history().evicted().iter().map(|removal| removal.code).collect::<Vec<_>>();
    // Asked in vain, and again by the next leader.
    let mut log = start();
    taint(&mut log);
    log.evict(OPERATOR, "a", GATEWAY_TIMEOUT);
    assert_eq!(perhaps_removed(&log.history()), BTreeSet::from(["a".to_owned()]));
    assert_eq!(evicted(&log), Vec::<u16>::new(), "nobody has seen it go");
    log.evict(OPERATOR, "a", 201);
    log.delete("kwok", "a");
    assert_eq!(evicted(&log), [201]);
    assert_eq!(perhaps_removed(&log.history()), BTreeSet::new());
    // Carried out, twice asked, and never answered.
    let mut log = start();
    taint(&mut log);
    log.evict(OPERATOR, "a", GATEWAY_TIMEOUT);
    log.evict(OPERATOR, "a", GATEWAY_TIMEOUT);
    log.delete("kwok", "a");
    assert_eq!(evicted(&log), [GATEWAY_TIMEOUT]);
}

#[test]
fn a_pod_that_is_gone_at_once_counts_when_it_is_looked_up_and_nobody_else_took_it() {
    let mut log = start();
    log.taint(OPERATOR, "n", &["dns"]);
    log.evict(OPERATOR, "a", GATEWAY_TIMEOUT);
    let mut history = log.history();
    let perhaps = perhaps_removed(&history);
    accept(&mut history, &perhaps);
    assert_eq!(history.evicted_names(), ["a"]);
    assert!(history.pods["a"].preempted.is_some());
    log.line("admin", "delete", reference("", "a"), (json!({"preconditions": {"uid": "a"}}), Value::Null), 200);
    assert_eq!(perhaps_removed(&log.history()), BTreeSet::new(), "somebody else deleted it");
}

#[test]
fn what_somebody_else_deleted_was_evicted_only_if_it_was_on_its_way_before() {
    for (earlier, evicted) in [(0, 0), (4, 1)] {
        let mut log = start();
        log.taint(OPERATOR, "n", &["dns"]);
        log.evict(OPERATOR, "a", GATEWAY_TIMEOUT);
        log.pass("t", 4);
        let begun = log.time(earlier);
        log.delete_answered("admin", "a", &begun);
        let perhaps = perhaps_removed(&log.history()).len();
        assert_eq!(perhaps, evicted, "begun at {begun}");
        log.delete("kwok", "a");
        assert_eq!(log.history().evicted().len(), evicted, "begun at {begun}");
    }
}

//! Each promise about critical add-ons is broken once, in a log written by hand.

use super::super::handwritten::{Log, reference};
use super::*;
use crate::audit::Promises;
use serde_json::json;

/// Returns a log with a pending critical add-on, and pods `a` (grace period 5 s) and `b` (grace period 3600 s) on its
/// node.
fn start() -> Log {
    let mut log = Log::default();
    let critical = json!({"annotations": {"scheduling.giveway.dev/critical-addon": "true"}});
    log.single("kube-system", "dns", json!({"metadata": critical}));
    log.single("default", "a", json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 5}}));
    log.single("default", "b", json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 3600}}));
    log.taint("admin", "n", &[]);
    log
}

fn finish(log: &mut Log) -> Vec<String> {
    let request = json!({"target": {"name": "n"}});
    let binding = json!({"resource": "pods", "subresource": "binding", "namespace": "kube-system", "name": "dns"});
    log.line(crate::audit::SCHEDULER, "create", binding, (request, Value::Null), 201);
    log.taint(OPERATOR, "n", &[]);
    Promises::new().broken(&log.history())
}

fn delete(log: &mut Log, pod: &str, seconds: i64) {
    let request = json!({"preconditions": {"uid": pod}, "gracePeriodSeconds": seconds});
    log.line(OPERATOR, "delete", reference("", pod), (request, Value::Null), 200);
}

#[test]
fn a_correct_eviction_for_a_critical_add_on_breaks_no_promise() {
    let mut log = start();
    log.rescue(3, &["a", "b"]);
    log.taint(OPERATOR, "n", &["dns"]);
    log.evict(OPERATOR, "a", 201);
    log.evict_within("b", 10, 429);
    delete(&mut log, "b", 10);
    assert_eq!(finish(&mut log), Vec::<String>::new());
}

#[test]
fn a_wrong_victim_is_reported() {
    let mut log = start();
    let daemon = json!({"ownerReferences": [{"kind": "DaemonSet"}]});
    log.single("default", "agent", json!({"metadata": daemon, "spec": {"nodeName": "n"}}));
    log.single("default", "system", json!({"spec": {"nodeName": "n", "priority": 2_000_000_000}}));
    log.rescue(2, &["agent", "system"]);
    log.taint(OPERATOR, "n", &["dns"]);
    log.evict_within("agent", 10, 201);
    log.evict_within("system", 10, 201);
    let words = [
        "pod agent was evicted for a critical add-on although it is static or owned by a DaemonSet",
        "pod system was evicted for a critical add-on although it is critical itself",
    ];
    assert_eq!(finish(&mut log), words);
    let mut log = start();
    log.single("kube-system", "dns", json!({}));
    log.rescue(2, &["a"]);
    log.taint(OPERATOR, "n", &["dns"]);
    log.evict(OPERATOR, "a", 201);
    assert_eq!(finish(&mut log), ["pod a was evicted for dns, which is not a critical add-on"]);
}

#[test]
fn a_wrong_grace_period_or_request_is_reported() {
    let broken = |step: i32, act: fn(&mut Log)| {
        let mut log = start();
        log.rescue(step, &["a", "b"]);
        log.taint(OPERATOR, "n", &["dns"]);
        act(&mut log);
        finish(&mut log)
    };
    let long = broken(2, |log| log.evict(OPERATOR, "b", 201));
    assert_eq!(long, ["pod b was evicted with a grace period of 3600 s; at most 10 s are allowed"]);
    let short = broken(2, |log| log.evict_within("a", 0, 201));
    assert_eq!(short, ["pod a was evicted with a grace period of 0 s instead of its own 5 s"]);
    let gentle = broken(1, |log| log.evict_within("b", 10, 201));
    assert_eq!(gentle, ["the grace period of pod b was shortened in step 1"]);
    assert_eq!(broken(2, |log| delete(log, "a", 5)), ["pod a was deleted in step 2"]);
    assert_eq!(
        broken(3, |log| delete(log, "a", 5)),
        ["pod a was deleted before the Eviction API refused its eviction"]
    );
}

#[test]
fn the_remaining_pods_of_a_group_keep_their_grace_period_after_the_plan_was_cancelled() {
    let broken = |act: fn(&mut Log)| {
        let mut log = start();
        log.group("low", 1, "PodGroup", Value::Null);
        log.pod("low-0", "low", "n");
        log.pod("low-1", "low", "n");
        log.rescue(2, &["low-0", "low-1"]);
        log.taint(OPERATOR, "n", &["dns"]);
        log.evict_within("low-0", 10, 201);
        log.departure_after("d-1", "dns", &["low-1"]);
        log.taint(OPERATOR, "n", &[]);
        act(&mut log);
        finish(&mut log)
    };
    assert_eq!(broken(|log| log.evict_for("low-1", "d-1", 201)), Vec::<String>::new());
    let short = ["pod low-1 was evicted with a grace period of 5 s instead of its own 30 s"];
    assert_eq!(broken(|log| log.evict_within("low-1", 5, 201)), short);
}

#[test]
fn a_failed_request_and_a_refusal_for_another_plan_permit_no_deletion() {
    for (code, message, plan, breaches) in [
        (429, "Cannot evict pod as it would violate the pod's disruption budget.", "rescue", 0),
        (429, "Cannot evict pod as it would violate the pod's disruption budget.", "earlier", 1),
        (429, "Too many requests, please try again later.", "rescue", 1),
        (503, "the server is currently unable to handle the request", "rescue", 1),
    ] {
        let mut log = start();
        log.rescue(3, &["a", "b"]);
        log.taint(OPERATOR, "n", &["dns"]);
        let request = json!({
            "metadata": {"annotations": {"scheduling.giveway.dev/preemption-plan": plan}},
            "deleteOptions": {"preconditions": {"uid": "a"}}
        });
        let bodies = (request, serde_json::Value::Null);
        log.answered(OPERATOR, "create", reference("eviction", "a"), bodies, (code, message));
        delete(&mut log, "a", 5);
        let broken = finish(&mut log);
        assert_eq!(broken.len(), breaches, "{code} {message}: {broken:?}");
        assert!(
            broken.iter().all(|message| message == "pod a was deleted before the Eviction API refused its eviction"),
            "{broken:?}"
        );
    }
}

#[test]
fn late_remaining_and_foreign_taints_are_reported() {
    let mut log = start();
    log.rescue(1, &["a"]);
    log.evict(OPERATOR, "a", 201);
    log.taint(OPERATOR, "n", &["dns"]);
    assert_eq!(finish(&mut log), ["pod a was evicted before the node was tainted"]);
    let mut log = start();
    log.rescue(1, &["a"]);
    log.taint(OPERATOR, "n", &["dns"]);
    log.taint(OPERATOR, "m", &["dns"]);
    let broken = finish(&mut log);
    assert!(broken[0].starts_with("2 nodes were tainted at the same time, at "), "{broken:?}");
    assert_eq!(broken[1], "node m is still tainted");
    let mut log = start();
    log.taint("admin", "n", &["true"]);
    assert_eq!(finish(&mut log), ["the operator changed taints of other users on node n"]);
}

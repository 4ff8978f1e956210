//! Each victim that no plan may take goes once, in a log written for it.

use super::super::handwritten::Log;
use crate::audit::{OPERATOR, Promises};
use serde_json::{Value, json};

/// A pod of priority 0 in a namespace, and a gang of two that takes it.
fn story(namespace: &str, more: Value, before: impl FnOnce(&mut Log)) -> Log {
    let mut log = Log::default();
    log.group("high", 9, "Pod", Value::Null);
    log.pod("high-0", "high", "");
    log.pod("high-1", "high", "");
    log.single(namespace, "victim", more);
    log.plan(&["victim"]);
    before(&mut log);
    let object = json!({"resource": "pods", "subresource": "eviction", "namespace": namespace, "name": "victim"});
    let request = json!({"deleteOptions": {"preconditions": {"uid": "victim"}}});
    log.line(OPERATOR, "create", object, (request, Value::Null), 201);
    log.bind("high-0");
    log.bind("high-1");
    log
}

fn running() -> Value {
    json!({"spec": {"nodeName": "n"}})
}

fn broken(log: &Log) -> Vec<String> {
    Promises::new().broken(&log.history())
}

#[test]
fn a_static_pod_is_no_victim() {
    let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": {"nodeName": "n"}});
    assert_eq!(broken(&story("default", running(), |_| {})), Vec::<String>::new());
    assert_eq!(broken(&story("default", mirror, |_| {})), ["victim was evicted, and is static"]);
}

#[test]
fn nobody_in_a_protected_namespace_is_a_victim() {
    let told = ["victim was evicted in namespace vault, which is protected"];
    let log = story("vault", running(), |_| {});
    assert_eq!(broken(&log), Vec::<String>::new());
    assert_eq!(Promises::new().protecting(["vault".to_owned()]).broken(&log.history()), told);
    let protect = |value: &str| json!({"scheduling.giveway.dev/never-evict": value});
    let log = story("vault", running(), |log| {
        log.annotate_namespace("vault", protect("true"));
        log.pass("t", 5);
    });
    assert_eq!(broken(&log), told);
    // A call that is on the wire is carried out, and what is protected no more may go.
    let log = story("vault", running(), |log| log.annotate_namespace("vault", protect("true")));
    assert_eq!(broken(&log), Vec::<String>::new());
    let log = story("vault", running(), |log| {
        log.annotate_namespace("vault", protect("true"));
        log.pass("t", 5);
        log.annotate_namespace("vault", json!({}));
    });
    assert_eq!(broken(&log), Vec::<String>::new());
}

#[test]
fn nobody_goes_for_who_preempts_never() {
    let log = story("default", running(), |log| log.another_group("high", "high", "Never"));
    assert_eq!(broken(&log), ["victim was evicted for high, which preempts nobody"]);
    // A single pod preempts only where its class had Giveway do it.
    for (annotations, told) in [
        (json!({}), vec!["victim was evicted for taker, which preempts nobody"]),
        (
            json!({"scheduling.giveway.dev/preemption-policy": "Never"}),
            vec!["victim was evicted for taker, which preempts nobody"],
        ),
        (json!({"scheduling.giveway.dev/preemption-policy": "PreemptLowerPriority"}), vec![]),
    ] {
        let mut log = Log::default();
        log.single("default", "victim", running());
        log.single("default", "taker", json!({"metadata": {"annotations": annotations}, "spec": {"priority": 9}}));
        log.plan_for_pod("taker", 9, &["victim"]);
        log.evict_for("victim", "taker", 201);
        log.bind("taker");
        assert_eq!(broken(&log), told);
    }
}

#[test]
fn a_victim_of_equal_effective_priority_is_told() {
    for (priority, victims) in [(8, 0), (9, 1)] {
        let log = story("default", json!({"spec": {"nodeName": "n", "priority": priority}}), |_| {});
        let broken = broken(&log);
        assert_eq!(broken.len(), victims, "{broken:?}");
        let told = broken.iter().all(|told| told.starts_with("victim of priority Some(9) was evicted for"));
        assert!(told, "{broken:?}");
    }
}

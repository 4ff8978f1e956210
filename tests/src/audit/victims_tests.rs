//! Each pod that must not be a victim is evicted once, in a log written by hand.

use super::super::handwritten::{Log, broken};
use crate::audit::{OPERATOR, Promises};
use serde_json::{Value, json};

/// Returns a log in which a pod of priority 0 in a namespace is evicted for a gang of two.
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

#[test]
fn the_eviction_of_a_static_pod_is_reported() {
    let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": {"nodeName": "n"}});
    assert_eq!(broken(&story("default", running(), |_| {})), Vec::<String>::new());
    assert_eq!(broken(&story("default", mirror, |_| {})), ["pod victim was evicted although it is a static pod"]);
}

#[test]
fn the_eviction_of_a_critical_addon_for_an_ordinary_plan_is_reported() {
    let addon = |namespace: &str| {
        let annotations = json!({"scheduling.giveway.dev/critical-addon": "true"});
        story(namespace, json!({"metadata": {"annotations": annotations}, "spec": {"nodeName": "n"}}), |_| {})
    };
    assert_eq!(broken(&addon("default")), Vec::<String>::new(), "the annotation does not count in this namespace");
    assert_eq!(broken(&addon("kube-system")), ["pod victim was evicted although it is a critical add-on"]);
}

#[test]
fn an_eviction_in_a_protected_namespace_is_reported() {
    let message = ["pod victim was evicted in namespace vault, which is protected"];
    let log = story("vault", running(), |_| {});
    assert_eq!(broken(&log), Vec::<String>::new());
    assert_eq!(Promises::new().protecting(["vault".to_owned()]).broken(&log.history()), message);
    let protect = |value: &str| json!({"scheduling.giveway.dev/never-evict": value});
    let log = story("vault", running(), |log| {
        log.annotate_namespace("vault", protect("true"));
        log.pass("t", 5);
    });
    assert_eq!(broken(&log), message);
    // A request in transit is carried out, and the protection may be removed.
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
fn an_eviction_for_a_preemptor_with_policy_never_is_reported() {
    let log = story("default", running(), |log| log.another_group("high", "high", "Never"));
    assert_eq!(broken(&log), ["pod victim was evicted for high, whose preemption policy is Never"]);
    // A pod without a PodGroup preempts only with the annotation of a managed class.
    for (annotations, expected) in [
        (json!({}), vec!["pod victim was evicted for single, whose preemption policy is Never"]),
        (
            json!({"scheduling.giveway.dev/preemption-policy": "Never"}),
            vec!["pod victim was evicted for single, whose preemption policy is Never"],
        ),
        (json!({"scheduling.giveway.dev/preemption-policy": "PreemptLowerPriority"}), vec![]),
    ] {
        let mut log = Log::default();
        log.single("default", "victim", running());
        log.single("default", "single", json!({"metadata": {"annotations": annotations}, "spec": {"priority": 9}}));
        log.plan_for_pod("single", 9, &["victim"]);
        log.evict_for("victim", "single", 201);
        log.bind("single");
        assert_eq!(broken(&log), expected);
    }
}

#[test]
fn the_rules_of_a_cancelled_plan_apply_to_the_remaining_pods_of_its_victims() {
    let broken = |before: fn(&mut Log)| {
        let mut log = Log::default();
        log.group("high", 9, "Pod", Value::Null);
        log.group("low", 1, "PodGroup", Value::Null);
        for (pod, group, node) in
            [("high-0", "high", ""), ("high-1", "high", ""), ("low-0", "low", "n"), ("low-1", "low", "n")]
        {
            log.pod(pod, group, node);
        }
        log.plan_for("high", 9, "Evicting", &["low-0", "low-1"]);
        log.evict_for("low-0", "high", 201);
        log.departure_after("d-1", "high", &["low-1"]);
        before(&mut log);
        log.evict_for("low-1", "d-1", 201);
        log.bind("high-0");
        log.bind("high-1");
        broken(&log)
    };
    assert_eq!(broken(|_| {}), Vec::<String>::new());
    let equal = |pod: &str| format!("pod {pod} of priority 9 was evicted for high of priority 9");
    assert_eq!(broken(|log| log.group("low", 9, "PodGroup", Value::Null)), [equal("low-0"), equal("low-1")]);
    let never = |pod: &str| format!("pod {pod} was evicted for high, whose preemption policy is Never");
    assert_eq!(broken(|log| log.another_group("high", "high", "Never")), [never("low-0"), never("low-1")]);
}

#[test]
fn a_victim_of_equal_effective_priority_is_reported() {
    for (priority, victims) in [(8, 0), (9, 1)] {
        let log = story("default", json!({"spec": {"nodeName": "n", "priority": priority}}), |_| {});
        let broken = broken(&log);
        assert_eq!(broken.len(), victims, "{broken:?}");
        let equal = "pod victim of priority 9 was evicted for high of priority 9";
        assert!(broken.iter().all(|message| message == equal), "{broken:?}");
    }
}

//! Objects of each kind that promise 5 checks, with a reason to exist at rest and without.

use super::super::SCHEDULER;
use super::super::handwritten::Log;
use super::*;
use giveway_crds::plan::{StoredPlacement, StoredVictim, StoredVictimPod};
use serde_json::{Value, json};

fn pod(name: &str, more: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"namespace": "default", "name": name, "uid": name, "labels": {keys::LABEL_POD_GROUP: "g"}},
        "spec": {"containers": []}
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        match pod[field].as_object_mut() {
            Some(known) => known.extend(value.as_object().unwrap().clone()),
            None => pod[field] = value.clone(),
        }
    }
    serde_json::from_value(pod).unwrap()
}

fn gated(name: &str) -> Pod {
    pod(name, json!({"spec": {"schedulingGates": [{"name": keys::GATE}]}}))
}

fn group(policy: Value, message: Option<&str>) -> PodGroup {
    let condition = message.map(|message| {
        json!({"type": types::INITIALLY_SCHEDULED, "status": "False", "reason": "Unschedulable", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    });
    let conditions: Vec<Value> = condition.into_iter().collect();
    serde_json::from_value(json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": "g"},
        "spec": {"schedulingPolicy": policy, "disruptionMode": "Pod"}, "status": {"conditions": conditions}
    }))
    .unwrap()
}

fn plan(state: PlanState) -> StoredPlan {
    let place = StoredPlacement { pod: "m".into(), uid: "m".into(), node: "n".into() };
    let victim = StoredVictimPod { name: "v".into(), uid: "v".into(), ..StoredVictimPod::default() };
    let victims = vec![StoredVictim { pods: vec![victim], ..StoredVictim::default() }];
    StoredPlan { id: "p".into(), state, placements: vec![place], victims, ..StoredPlan::default() }
}

fn left(objects: &Objects) -> Vec<String> {
    objects.left_over(&Log::default().history())
}

#[test]
fn a_gated_pod_needs_a_gang_with_a_reason() {
    let gang = json!({"gang": {"minCount": 2}});
    let with = |group| Objects { pods: vec![gated("m")], groups: vec![group], ..Objects::default() };
    assert_eq!(left(&with(group(gang.clone(), Some("2 pods needed, 1 exists.")))), Vec::<String>::new());
    assert_eq!(
        left(&with(group(gang, None))),
        ["pod default/m has the scheduling gate, and its PodGroup reports no reason"]
    );
    let basic = group(json!({"basic": {}}), Some("Pods are scheduled one by one."));
    assert_eq!(left(&with(basic)), ["pod default/m has the scheduling gate, but its PodGroup is not a gang"]);
}

#[test]
fn a_gated_pod_without_a_pod_group_needs_an_event() {
    let event = |uid: &str, reason: &str| -> Event {
        let about = json!({"kind": "Pod", "namespace": "default", "name": "m", "uid": uid});
        serde_json::from_value(json!({"metadata": {}, "involvedObject": about, "reason": reason})).unwrap()
    };
    let mut alone = Objects { pods: vec![gated("m")], ..Objects::default() };
    let message = ["pod default/m has the scheduling gate, its PodGroup does not exist, and no event reports that"];
    assert_eq!(left(&alone), message);
    alone.events = vec![event("another-uid", "PodGroupNotFound"), event("m", "Protected")];
    assert_eq!(left(&alone), message);
    alone.events.push(event("m", "PodGroupNotFound"));
    assert_eq!(left(&alone), Vec::<String>::new());
}

#[test]
fn a_pod_below_the_priority_of_its_group_stays_gated_and_excuses_no_other_pod() {
    let mut mismatch = group(json!({"gang": {"minCount": 2}}), Some("1 pod has a lower priority."));
    mismatch.spec.priority = Some(100);
    let condition = &mut mismatch.status.as_mut().unwrap().conditions[0];
    (condition.type_, condition.status) = (types::PODS_NOT_MATCHING_PRIORITY.to_owned(), "True".to_owned());
    let cheap = pod("cheap", json!({"spec": {"priority": 99, "schedulingGates": [{"name": keys::GATE}]}}));
    let fair = pod("fair", json!({"spec": {"priority": 100, "schedulingGates": [{"name": keys::GATE}]}}));
    let with = |pods| Objects { pods, groups: vec![mismatch.clone()], ..Objects::default() };
    assert_eq!(left(&with(vec![cheap.clone()])), Vec::<String>::new());
    let message = ["pod default/fair has the scheduling gate, and its PodGroup reports no reason"];
    assert_eq!(left(&with(vec![cheap, fair])), message);
}

#[test]
fn a_condition_that_is_true_explains_a_gate_only_if_the_group_is_pending_again() {
    let mut scheduled = group(json!({"gang": {"minCount": 2}}), Some("2 pods have a node, 2 needed."));
    let condition = &mut scheduled.status.as_mut().unwrap().conditions[0];
    (condition.status, condition.reason) = ("True".to_owned(), "Scheduled".to_owned());
    let mut objects = Objects { pods: vec![gated("m")], groups: vec![scheduled], ..Objects::default() };
    assert_eq!(left(&objects), ["pod default/m has the scheduling gate, and its PodGroup reports no reason"]);
    let condition = &mut objects.groups[0].status.as_mut().unwrap().conditions[0];
    condition.message = format!("{PENDING_AGAIN} 2 pods needed, 1 exists.");
    assert_eq!(left(&objects), Vec::<String>::new(), "scheduled once, and pending again");
}

#[test]
fn a_plan_in_flight_needs_a_pending_member_and_an_existing_victim() {
    let (member, victim) = (gated("m"), pod("v", json!({"spec": {"nodeName": "n"}})));
    let groups = vec![group(json!({"gang": {"minCount": 1}}), Some("The pods are pending."))];
    for state in [PlanState::Planned, PlanState::Evicting, PlanState::WaitingForVictims, PlanState::Ungating] {
        let mut objects = Objects { plans: vec![plan(state)], groups: groups.clone(), ..Objects::default() };
        assert_eq!(
            left(&objects),
            [format!("plan p is still {} without a pending member or a victim: ", state.as_str())]
        );
        objects.pods = vec![member.clone(), victim.clone()];
        assert_eq!(left(&objects), Vec::<String>::new());
        objects.pods = vec![pod("m", json!({"spec": {"nodeName": "n"}})), victim.clone()];
        assert_eq!(left(&objects).len(), 1, "the member is bound: {state:?}");
    }
    let ended = Objects { plans: vec![plan(PlanState::Cancelled)], ..Objects::default() };
    assert_eq!(left(&ended), Vec::<String>::new());
}

#[test]
fn a_nomination_by_the_operator_or_an_unknown_user_needs_a_plan() {
    let nominate = |log: &mut Log, user: &str, node: &str| {
        let request = json!({"status": {"nominatedNodeName": node}});
        log.line(user, "patch", super::super::handwritten::reference("status", "m"), (request, Value::Null), 200);
    };
    let mut log = Log::default();
    nominate(&mut log, OPERATOR, "n");
    let nominated = pod("m", json!({"status": {"nominatedNodeName": "n"}}));
    let mut objects = Objects { pods: vec![nominated], ..Objects::default() };
    let message = ["pod m is nominated to n without a plan in flight"];
    assert_eq!(objects.left_over(&log.history()), message);
    assert_eq!(left(&objects), message, "the user is unknown");
    nominate(&mut log, SCHEDULER, "other");
    assert_eq!(objects.left_over(&log.history()), message, "the scheduler nominated another node");
    nominate(&mut log, SCHEDULER, "n");
    assert_eq!(objects.left_over(&log.history()), Vec::<String>::new(), "a nomination by the scheduler");
    // Another pod of this name had the nomination.
    log.single("default", "m", json!({}));
    assert_eq!(objects.left_over(&log.history()), message);
    objects.plans = vec![plan(PlanState::Ungating)];
    assert_eq!(objects.left_over(&log.history()), Vec::<String>::new());
}

#[test]
fn a_finalizer_needs_a_member() {
    let mut group = group(json!({"gang": {"minCount": 2}}), None);
    group.metadata.finalizers = Some(vec![keys::FINALIZER_PROTECTION.to_owned()]);
    let mut objects = Objects { groups: vec![group], ..Objects::default() };
    assert_eq!(left(&objects), ["PodGroup g has a finalizer but no member"]);
    objects.pods = vec![pod("m", json!({"spec": {"nodeName": "n"}}))];
    assert_eq!(left(&objects), Vec::<String>::new());
}

#[test]
fn a_taint_by_the_operator_needs_a_plan_for_the_pod_in_its_value() {
    let taint = json!({"key": keys::TAINT_CRITICAL, "value": "dns", "effect": "NoSchedule"});
    let node = json!({"metadata": {"name": "n"}, "spec": {"taints": [taint]}});
    let mut objects = Objects { nodes: vec![serde_json::from_value(node).unwrap()], ..Objects::default() };
    let mut log = Log::default();
    log.taint("admin", "n", &["dns"]);
    assert_eq!(objects.left_over(&log.history()), Vec::<String>::new(), "a taint by another user");
    log.taint(OPERATOR, "n", &["dns"]);
    assert_eq!(objects.left_over(&log.history()), ["node n has a taint for dns without a plan in flight"]);
    objects.plans = vec![plan(PlanState::Evicting)];
    objects.plans[0].preemptor.uid = "dns".into();
    objects.pods = vec![gated("m"), pod("v", json!({}))];
    objects.groups = vec![group(json!({"gang": {"minCount": 1}}), Some("The pods are pending."))];
    assert_eq!(objects.left_over(&log.history()), Vec::<String>::new());
}

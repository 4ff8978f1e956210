//! Each kind of thing that may be left over, with a reason and without.

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

fn held(name: &str) -> Pod {
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
fn a_held_pod_needs_a_gang_that_says_for_what() {
    let gang = json!({"gang": {"minCount": 2}});
    let with = |group| Objects { pods: vec![held("m")], groups: vec![group], ..Objects::default() };
    assert_eq!(left(&with(group(gang.clone(), Some("2 pods needed, 1 exist.")))), Vec::<String>::new());
    assert_eq!(left(&with(group(gang, None))), ["pod default/m is held, and its group does not say for what"]);
    let basic = group(json!({"basic": {}}), Some("Pods are scheduled one by one."));
    assert_eq!(left(&with(basic)), ["pod default/m is held, and its group is no gang"]);
}

#[test]
fn a_held_pod_of_no_group_was_told_so() {
    let event = |uid: &str, reason: &str| -> Event {
        let about = json!({"kind": "Pod", "namespace": "default", "name": "m", "uid": uid});
        serde_json::from_value(json!({"metadata": {}, "involvedObject": about, "reason": reason})).unwrap()
    };
    let mut alone = Objects { pods: vec![held("m")], ..Objects::default() };
    let told = ["pod default/m is held, its group does not exist, and no event says so"];
    assert_eq!(left(&alone), told);
    alone.events = vec![event("its-namesake", "PodGroupNotFound"), event("m", "Protected")];
    assert_eq!(left(&alone), told);
    alone.events.push(event("m", "PodGroupNotFound"));
    assert_eq!(left(&alone), Vec::<String>::new());
}

#[test]
fn a_pod_that_does_not_pay_is_held_for_good_and_excuses_no_other() {
    let mut mismatch = group(json!({"gang": {"minCount": 2}}), Some("1 pod is held for good."));
    mismatch.spec.priority = Some(100);
    let condition = &mut mismatch.status.as_mut().unwrap().conditions[0];
    (condition.type_, condition.status) = (types::PODS_NOT_MATCHING_PRIORITY.to_owned(), "True".to_owned());
    let cheap = pod("cheap", json!({"spec": {"priority": 99, "schedulingGates": [{"name": keys::GATE}]}}));
    let fair = pod("fair", json!({"spec": {"priority": 100, "schedulingGates": [{"name": keys::GATE}]}}));
    let with = |pods| Objects { pods, groups: vec![mismatch.clone()], ..Objects::default() };
    assert_eq!(left(&with(vec![cheap.clone()])), Vec::<String>::new());
    let told = ["pod default/fair is held, and its group does not say for what"];
    assert_eq!(left(&with(vec![cheap, fair])), told);
}

#[test]
fn that_a_gang_was_scheduled_is_no_word_on_who_is_still_held() {
    let mut scheduled = group(json!({"gang": {"minCount": 2}}), Some("2 pods have a node, 2 needed."));
    let condition = &mut scheduled.status.as_mut().unwrap().conditions[0];
    (condition.status, condition.reason) = ("True".to_owned(), "Scheduled".to_owned());
    let mut objects = Objects { pods: vec![held("m")], groups: vec![scheduled], ..Objects::default() };
    assert_eq!(left(&objects), ["pod default/m is held, and its group does not say for what"]);
    let condition = &mut objects.groups[0].status.as_mut().unwrap().conditions[0];
    condition.reason = "WaitingForPods".to_owned();
    assert_eq!(left(&objects), Vec::<String>::new(), "it was scheduled, and waits again");
}

#[test]
fn a_plan_in_flight_needs_a_member_that_waits_and_a_victim_that_is_there() {
    let (member, victim) = (held("m"), pod("v", json!({"spec": {"nodeName": "n"}})));
    let groups = vec![group(json!({"gang": {"minCount": 1}}), Some("waits"))];
    for state in [PlanState::Planned, PlanState::Evicting, PlanState::WaitingForVictims, PlanState::Releasing] {
        let mut objects = Objects { plans: vec![plan(state)], groups: groups.clone(), ..Objects::default() };
        assert_eq!(left(&objects), [format!("plan p is {}, and nobody waits for it: ", state.as_str())]);
        objects.pods = vec![member.clone(), victim.clone()];
        assert_eq!(left(&objects), Vec::<String>::new());
        objects.pods = vec![pod("m", json!({"spec": {"nodeName": "n"}})), victim.clone()];
        assert_eq!(left(&objects).len(), 1, "bound already: {state:?}");
    }
    let over = Objects { plans: vec![plan(PlanState::Cancelled)], ..Objects::default() };
    assert_eq!(left(&over), Vec::<String>::new());
}

#[test]
fn a_nomination_of_the_operator_or_of_nobody_needs_a_plan() {
    let nominate = |log: &mut Log, user: &str, node: &str| {
        let request = json!({"status": {"nominatedNodeName": node}});
        log.line(user, "patch", super::super::handwritten::reference("status", "m"), (request, Value::Null), 200);
    };
    let mut log = Log::default();
    nominate(&mut log, OPERATOR, "n");
    let nominated = pod("m", json!({"status": {"nominatedNodeName": "n"}}));
    let mut objects = Objects { pods: vec![nominated], ..Objects::default() };
    let told = ["pod m is nominated for n, and no plan is in flight for it"];
    assert_eq!(objects.left_over(&log.history()), told);
    assert_eq!(left(&objects), told, "nobody is known who wrote it");
    nominate(&mut log, SCHEDULER, "other");
    assert_eq!(objects.left_over(&log.history()), told, "the scheduler wrote another one");
    nominate(&mut log, SCHEDULER, "n");
    assert_eq!(objects.left_over(&log.history()), Vec::<String>::new(), "the scheduler's own");
    // It was that of another pod of this name.
    log.single("default", "m", json!({}));
    assert_eq!(objects.left_over(&log.history()), told);
    objects.plans = vec![plan(PlanState::Releasing)];
    assert_eq!(objects.left_over(&log.history()), Vec::<String>::new());
}

#[test]
fn a_finalizer_needs_a_member() {
    let mut group = group(json!({"gang": {"minCount": 2}}), None);
    group.metadata.finalizers = Some(vec![keys::FINALIZER_PROTECTION.to_owned()]);
    let mut objects = Objects { groups: vec![group], ..Objects::default() };
    assert_eq!(left(&objects), ["group g has a finalizer, and no member"]);
    objects.pods = vec![pod("m", json!({"spec": {"nodeName": "n"}}))];
    assert_eq!(left(&objects), Vec::<String>::new());
}

#[test]
fn a_taint_of_the_operator_needs_a_plan_for_the_pod_that_it_names() {
    let taint = json!({"key": keys::TAINT_CRITICAL, "value": "dns", "effect": "NoSchedule"});
    let node = json!({"metadata": {"name": "n"}, "spec": {"taints": [taint]}});
    let mut objects = Objects { nodes: vec![serde_json::from_value(node).unwrap()], ..Objects::default() };
    let mut log = Log::default();
    log.taint("admin", "n", &["dns"]);
    assert_eq!(objects.left_over(&log.history()), Vec::<String>::new(), "somebody else's");
    log.taint(OPERATOR, "n", &["dns"]);
    assert_eq!(objects.left_over(&log.history()), ["node n is tainted for dns, and no plan is in flight for it"]);
    objects.plans = vec![plan(PlanState::Evicting)];
    objects.plans[0].preemptor.uid = "dns".into();
    objects.pods = vec![held("m"), pod("v", json!({}))];
    objects.groups = vec![group(json!({"gang": {"minCount": 1}}), Some("waits"))];
    assert_eq!(objects.left_over(&log.history()), Vec::<String>::new());
}

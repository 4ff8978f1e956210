//! Departures, driven step by step: across a change of the leader, and in mode `observe`.

use crate::driven::{Answer, Driven, Kind, gang, member, running};
use giveway_crds::condition::types::SCHEDULED;
use giveway_crds::keys;
use giveway_crds::plan::PlanState;
use giveway_operator::messages::command::Command;
use serde_json::{Value, json};
use std::time::Duration;

/// Returns a ready pod of application `db`, whose budget only preemptors of priority 5000 may violate.
pub fn guarded(name: &str, node: &str, group: Option<&str>) -> Value {
    let mut pod = running(name, 10, node, group);
    pod["metadata"]["labels"]["app"] = json!("db");
    pod["metadata"]["annotations"] = json!({keys::ANNOTATION_THRESHOLD: "5000"});
    pod["spec"]["priorityClassName"] = json!("guarded");
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    pod
}

/// Sets the budget of these pods, which requires this number of healthy pods.
pub fn set_budget(driven: &mut Driven, healthy: i32) {
    let budget = json!({
        "metadata": {"name": "db", "namespace": "default", "uid": "uid-db"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": healthy, "expectedPods": 3}
    });
    driven.apply(Kind::Budget, budget);
}

/// Returns a cluster with PodGroup `db` of three pods.
pub fn database() -> Driven {
    database_with(&[])
}

/// The same with an operator with these flags.
fn database_with(flags: &[&'static str]) -> Driven {
    let mut driven = Driven::new(flags);
    driven.node("n1", 4);
    driven.apply(Kind::Group, gang("db", 3, 10));
    for number in 0..3 {
        driven.apply(Kind::Pod, guarded(&format!("db-{number}"), "n1", Some("db")));
    }
    driven
}

/// Lets kube-scheduler preempt a pod.
pub fn preempt(driven: &mut Driven, name: &str) {
    let at = jiff::Timestamp::from_second(driven.second()).unwrap().to_string();
    driven
        .change(Kind::Pod, name, |pod| {
            pod["status"]["conditions"] = json!([{
                "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                "message": "default-scheduler: preempting to accommodate a higher priority pod", "lastTransitionTime": at
            }]);
            pod["metadata"]["deletionTimestamp"] = json!(at);
        })
        .unwrap();
}

#[test]
fn a_new_leader_evicts_the_rest_of_a_group_when_the_budget_that_refused_allows_it() {
    let mut driven = database();
    set_budget(&mut driven, 3);
    driven.settle();
    preempt(&mut driven, "db-0");
    driven.settle();
    driven.run(Duration::from_secs(5));
    assert_eq!(driven.evicted(), Vec::<&str>::new());
    let stored = driven.stored();
    assert_eq!(stored.len(), 1, "{stored:?}");
    let words = "MemberPreempted Evicting: Preempted by kube-scheduler: it preempted pod db-0, so the 2 other pods of the PodGroup are \
                 evicted. The eviction of pod default/db-";
    let why = " was refused and is retried: The disruption budget db needs 3 healthy pods and has ";
    assert!(stored[0].starts_with(words) && stored[0].contains(why), "{}", stored[0]);
    driven.terminate();
    let term = driven.next_leader();
    driven.settle();
    driven.run(Duration::from_secs(5));
    assert_eq!(driven.evicted(), Vec::<&str>::new(), "the budget allows no eviction");
    let status = driven.plans()[0].status.clone().unwrap();
    assert_eq!((status.state, status.term), (PlanState::Evicting, term));
    set_budget(&mut driven, 0);
    driven.settle();
    // A refused eviction is retried after a delay.
    driven.run(Duration::from_secs(10));
    assert_eq!(driven.evicted(), ["db-1", "db-2"]);
    assert_eq!(driven.stored(), ["MemberPreempted Completed: The 2 pods that this Preemption evicts have terminated."]);
}

#[test]
fn after_a_preemption_by_kube_scheduler_the_rest_of_a_group_waits_for_no_limit_on_evictions() {
    let evicted = |flag| {
        let mut driven = database_with(&[flag]);
        driven.settle();
        preempt(&mut driven, "db-0");
        driven.settle();
        driven.run(Duration::from_secs(5));
        driven.evicted().len()
    };
    assert_eq!(evicted("--evictions-per-minute-per-cluster=1"), 2);
    assert_eq!(evicted("--evictions-per-minute-per-cluster=0"), 0, "0 permits no eviction");
}

/// Sets the controller of a pod, which replaces it.
pub fn own(driven: &mut Driven, pod: &str) {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "uid-rs", "controller": true});
    driven.change(Kind::Pod, pod, |pod| pod["metadata"]["ownerReferences"] = json!([owner])).unwrap();
}

/// The leader ends before it has written that the gang is scheduled, and the gang loses a pod.
#[test]
fn a_new_leader_knows_from_a_completed_plan_that_a_gang_was_scheduled_and_does_not_evict_the_rest() {
    let mut driven = Driven::new(&["--partially-scheduled-timeout=20s"]);
    for node in ["n1", "n2"] {
        driven.node(node, 2);
        driven.apply(Kind::Pod, running(&format!("low-{node}"), 10, node, None));
    }
    driven.submit(gang("train", 2, 1_000), 2);
    own(&mut driven, "train-0");
    own(&mut driven, "train-1");
    driven.settle();
    driven.answer(|command| match command {
        Command::WriteGroupStatus { .. } => Answer::Hold,
        _ => Answer::Succeed,
    });
    driven.terminate();
    driven.settle();
    driven.bind();
    let at = jiff::Timestamp::from_second(driven.second()).unwrap().to_string();
    for pod in driven.bound("train") {
        let bound = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]);
        driven.change(Kind::Pod, &pod, |pod| pod["status"]["conditions"] = bound).unwrap();
    }
    driven.settle();
    let plan = driven.plans().remove(0);
    assert_eq!(plan.status.map(|status| status.state), Some(PlanState::Completed), "{:#?}", driven.stored());
    let condition = driven.condition("train", SCHEDULED);
    assert!(condition.starts_with("False "), "the last status was not written: {condition}");
    // The replacement pod does not fit beside a pod of higher priority.
    let place = plan.spec.placements.into_iter().find(|place| place.pod == "train-1").unwrap();
    driven.delete(Kind::Pod, "train-1");
    driven.apply(Kind::Pod, running("urgent", 2_000, &place.node, None));
    driven.apply(Kind::Pod, member("train-2", 1_000, "train", 2));
    own(&mut driven, "train-2");
    driven.next_leader();
    driven.answer(|_| Answer::Succeed);
    driven.settle();
    driven.run(Duration::from_secs(30));
    assert_eq!(driven.evicted(), ["low-n1", "low-n2"], "{:#?}", driven.stored());
}

/// Users choose the delay: up to a day, for which a partially scheduled gang would keep its nodes.
#[test]
fn a_delayed_plan_does_not_postpone_the_disruption_of_a_partially_scheduled_gang() {
    let mut driven = Driven::new(&["--partially-scheduled-timeout=20s"]);
    driven.node("n1", 2);
    driven.node("n2", 2);
    let mut train = gang("train", 2, 1_000);
    train["spec"]["preemptionDelaySeconds"] = json!(86_400);
    driven.submit(train, 2);
    own(&mut driven, "train-0");
    own(&mut driven, "train-1");
    driven.settle();
    let node = driven.nominated_node("train-1").unwrap();
    driven.bind_pod("train-0");
    let at = jiff::Timestamp::from_second(driven.second()).unwrap().to_string();
    let bound = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]);
    driven.change(Kind::Pod, "train-0", |pod| pod["status"]["conditions"] = bound).unwrap();
    // kube-scheduler has bound another pod to the node of the second member.
    driven.apply(Kind::Pod, running("low", 10, &node, None));
    driven.report_unbound("train-1", "Unschedulable", "0/2 nodes are available");
    driven.settle();
    driven.run(Duration::from_secs(15));
    let stored = driven.stored();
    assert!(stored.len() == 1 && stored[0].starts_with("Preemptor Planned: "), "the plan is delayed: {stored:#?}");
    assert_eq!(driven.evicted(), Vec::<&str>::new());
    driven.run(Duration::from_secs(10));
    assert_eq!(driven.evicted(), ["train-0", "train-1"], "{:#?}", driven.stored());
}

#[test]
fn observe_and_off_begin_no_departure_and_an_event_says_why() {
    let observes = "Giveway is in mode observe and evicts no pods";
    let off = "Giveway is switched off: it gates no pods and evicts none";
    for (mode, reason, words) in [("observe", "Observing", observes), ("off", "SwitchedOff", off)] {
        let mut driven = database();
        driven.switch(mode);
        driven.settle();
        preempt(&mut driven, "db-0");
        driven.settle();
        driven.run(Duration::from_secs(5));
        assert_eq!(driven.evicted(), Vec::<&str>::new(), "{mode}");
        assert_eq!(driven.stored(), Vec::<String>::new(), "{mode}");
        let event = format!(
            "PodGroup default/db {reason}: kube-scheduler preempted pod db-0. The 2 other pods of the PodGroup are not evicted: {words}."
        );
        assert!(driven.events.contains(&event), "{mode}: {:#?}", driven.events);
    }
}

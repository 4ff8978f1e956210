//! Calls for a plan that admission rejects, driven step by step: no pod is evicted needlessly, the status has the words of the rejecting
//! component, and the rejected call is tried again until it is accepted.

use crate::departures::{database, preempt};
use crate::driven::{Answer, Driven, Kind, gang, running};
use giveway_crds::condition::types::{DISRUPTION_TARGET, INITIALLY_SCHEDULED, SCHEDULED};
use giveway_crds::plan::PlanState;
use giveway_operator::messages::command::Command;
use serde_json::json;
use std::time::Duration;

const WORDS: &str =
    "ValidatingAdmissionPolicy 'no-change' with binding 'no-change' denied request: not during the trading day";

/// Returns a full cluster of two nodes.
fn full_cluster() -> Driven {
    let mut driven = Driven::new(&[]);
    for node in ["n1", "n2"] {
        driven.node(node, 1);
        driven.apply(Kind::Pod, running(&format!("low-{node}"), 10, node, None));
    }
    driven
}

/// Returns the full cluster with a gang of two. The API server rejects the status that is stored before the plan's first eviction.
fn gang_with_a_rejected_plan_status() -> Driven {
    let mut driven = full_cluster();
    driven.answer(|command| match command {
        Command::WritePlan { status, .. } if status.state == PlanState::Evicting => Answer::Reject(WORDS),
        _ => Answer::Succeed,
    });
    driven.submit(gang("train", 2, 1_000), 1);
    driven.settle();
    driven
}

fn rejects_ungating(command: &Command) -> Answer {
    match command {
        Command::Ungate { .. } => Answer::Reject(WORDS),
        _ => Answer::Succeed,
    }
}

#[test]
fn if_the_removal_of_the_gate_is_rejected_no_pod_is_evicted_until_its_dry_run_succeeds() {
    let mut driven = full_cluster();
    driven.answer(rejects_ungating);
    driven.submit(gang("train", 2, 1_000), 1);
    driven.settle();
    let calls = driven.run(Duration::from_secs(75));
    let dry_runs = calls.iter().filter(|call| call.starts_with("rehearse the ungating of train-")).count();
    assert_eq!(dry_runs, 3, "after 10, 30 and 70 s: {calls:?}");
    assert_eq!(driven.evicted(), Vec::<&str>::new());
    let condition = driven.condition("train", INITIALLY_SCHEDULED);
    let words =
        format!("The removal of the scheduling gate of pod default/train-0 was rejected: {WORDS}. No pod is evicted");
    assert!(condition.starts_with("False Rejected: ") && condition.contains(&words), "{condition}");
    let plans = driven.plans();
    assert_eq!(plans.len(), 1, "only the dry run is repeated");
    let status = plans[0].status.clone().unwrap();
    assert_eq!((status.state, status.evicted), (PlanState::Cancelled, 0));
    assert!(status.message.ends_with(WORDS), "{}", status.message);

    driven.answer(|_| Answer::Succeed);
    driven.run(Duration::from_secs(90));
    assert_eq!(driven.evicted(), ["low-n1", "low-n2"]);
    driven.terminate();
    driven.settle();
    driven.bind();
    driven.settle();
    assert_eq!(driven.bound("train"), ["train-0", "train-1"]);
}

#[test]
fn if_a_nomination_is_rejected_no_pod_is_evicted() {
    let mut driven = full_cluster();
    driven.answer(|command| match command {
        Command::Nominate { node: Some(_), .. } => Answer::Reject(WORDS),
        _ => Answer::Succeed,
    });
    driven.submit(gang("train", 2, 1_000), 1);
    driven.settle();
    driven.run(Duration::from_secs(30));
    assert_eq!(driven.evicted(), Vec::<&str>::new());
    let condition = driven.condition("train", INITIALLY_SCHEDULED);
    let words = format!("The nomination of a node for pod default/train-0 was rejected: {WORDS}");
    assert!(condition.contains(&words), "{condition}");
}

#[test]
fn a_gang_that_fits_reports_that_removing_its_gates_is_rejected() {
    let mut driven = Driven::new(&[]);
    driven.node("n1", 2);
    driven.answer(rejects_ungating);
    driven.submit(gang("train", 2, 1_000), 1);
    driven.settle();
    let condition = driven.condition("train", INITIALLY_SCHEDULED);
    assert!(condition.starts_with("False Rejected: ") && condition.contains(WORDS), "{condition}");
    driven.answer(|_| Answer::Succeed);
    driven.run(Duration::from_secs(11));
    driven.bind();
    driven.settle();
    assert_eq!(driven.bound("train"), ["train-0", "train-1"]);
}

#[test]
fn a_victim_is_left_out_for_ten_minutes_after_its_eviction_was_rejected_and_another_one_is_evicted() {
    let mut driven = full_cluster();
    driven.answer(|command| match command {
        Command::Evict(call) if call.pod.name == "low-n1" => Answer::Reject(WORDS),
        _ => Answer::Succeed,
    });
    driven.submit(gang("train", 1, 1_000), 1);
    driven.settle();
    assert_eq!(driven.evicted(), ["low-n2"]);
    driven.terminate();
    driven.settle();
    driven.bind();
    driven.settle();
    driven.submit(gang("second", 1, 500), 1);
    let asked = |calls: &[String]| calls.iter().filter(|call| *call == "rehearse low-n1").count();
    let mut calls = driven.settle();
    calls.extend(driven.run(Duration::from_secs(300)));
    driven.next_leader();
    calls.extend(driven.settle());
    calls.extend(driven.run(Duration::from_secs(290)));
    assert_eq!(asked(&calls), 0, "{calls:?}");
    let calls = driven.run(Duration::from_secs(30));
    assert_eq!(asked(&calls), 1, "{calls:?}");
    assert_eq!(driven.evicted(), ["low-n2"]);
}

/// Returns a full cluster of one node with an operator with these flags: the eviction of the pod on it is rejected, and the gang `train`
/// has been pending for a minute.
fn rejected_victim(flags: &[&'static str]) -> Driven {
    let mut driven = Driven::new(flags);
    driven.node("n1", 1);
    driven.apply(Kind::Pod, running("low-n1", 10, "n1", None));
    driven.answer(|command| match command {
        Command::Evict(_) => Answer::Reject(WORDS),
        _ => Answer::Succeed,
    });
    driven.submit(gang("train", 1, 1_000), 1);
    let mut calls = driven.settle();
    calls.extend(driven.run(Duration::from_secs(60)));
    assert_eq!(rehearsals(&calls), 1, "{calls:?}");
    driven
}

/// Returns the number of dry runs of the eviction of the pod on the node.
fn rehearsals(calls: &[String]) -> usize {
    calls.iter().filter(|call| *call == "rehearse low-n1").count()
}

#[test]
fn every_preemptor_reports_the_rejected_eviction_also_under_the_next_leader() {
    let mut driven = rejected_victim(&[]);
    driven.submit(gang("second", 1, 500), 1);
    driven.settle();
    driven.next_leader();
    driven.run(Duration::from_secs(5));
    for gang in ["train", "second"] {
        let condition = driven.condition(gang, SCHEDULED);
        let what =
            "The eviction of pod default/low-n1 was rejected, and the pod is not evicted until 2027-01-15T08:10:00Z: ";
        assert!(condition.starts_with("False Unschedulable: "), "{condition}");
        assert!(condition.ends_with(&format!("{what}{WORDS}")), "{condition}");
    }
    // A preemptor that may not evict the pod in any case.
    driven.submit(gang("third", 1, 10), 1);
    driven.settle();
    let condition = driven.condition("third", SCHEDULED);
    assert!(condition.starts_with("False Unschedulable: ") && !condition.contains(WORDS), "{condition}");
}

#[test]
fn a_rejected_victim_is_evicted_for_the_same_preemptor_when_the_preemption_is_deleted() {
    let mut driven = rejected_victim(&[]);
    driven.answer(|_| Answer::Succeed);
    let plans: Vec<String> = driven.plans().into_iter().filter_map(|plan| plan.metadata.name).collect();
    plans.iter().for_each(|plan| driven.delete(Kind::Preemption, plan));
    driven.run(Duration::from_secs(5));
    assert_eq!(driven.evicted(), ["low-n1"]);
}

#[test]
fn a_rejected_victim_is_left_out_although_the_history_keeps_no_preemption() {
    let mut driven = rejected_victim(&["--preemption-history-limit=0"]);
    assert_eq!(driven.plans().len(), 0);
    driven.submit(gang("second", 1, 500), 1);
    let calls = driven.run(Duration::from_secs(500));
    assert_eq!(rehearsals(&calls), 0, "{calls:?}");
    let calls = driven.run(Duration::from_secs(60));
    assert!(rehearsals(&calls) > 0, "{calls:?}");
    assert_eq!(driven.evicted(), Vec::<&str>::new());
}

/// Returns the end of the condition of a PodGroup whose evictions wait because their `Preemption` cannot be stored.
fn not_stored() -> String {
    format!(
        " No pod is evicted until the Preemption can be stored, which the operator retries. The last answer: {WORDS}"
    )
}

#[test]
fn a_plan_that_cannot_be_stored_reports_the_rejection_while_it_is_tried_again() {
    let mut driven = full_cluster();
    driven.answer(|command| match command {
        Command::StorePlan { .. } => Answer::Reject(WORDS),
        _ => Answer::Succeed,
    });
    driven.submit(gang("train", 2, 1_000), 1);
    driven.settle();
    driven.run(Duration::from_secs(2));
    let condition = driven.condition("train", INITIALLY_SCHEDULED);
    assert!(condition.starts_with("False WaitingForPreemption: ") && condition.ends_with(&not_stored()), "{condition}");
    assert_eq!(driven.evicted(), Vec::<&str>::new());
    driven.answer(|_| Answer::Succeed);
    driven.run(Duration::from_secs(10));
    assert_eq!(driven.evicted(), ["low-n1", "low-n2"]);
}

#[test]
fn a_plan_reports_that_storing_its_state_before_the_first_eviction_is_rejected() {
    let mut driven = gang_with_a_rejected_plan_status();
    driven.run(Duration::from_secs(60));
    assert_eq!(driven.evicted(), Vec::<&str>::new());
    let condition = driven.condition("train", INITIALLY_SCHEDULED);
    assert!(condition.starts_with("False WaitingForPreemption: ") && condition.ends_with(&not_stored()), "{condition}");
    driven.answer(|_| Answer::Succeed);
    driven.run(Duration::from_secs(10));
    assert_eq!(driven.evicted(), ["low-n1", "low-n2"]);
    let condition = driven.condition("train", INITIALLY_SCHEDULED);
    assert!(!condition.contains(WORDS), "{condition}");
}

#[test]
fn a_gang_uses_capacity_that_becomes_free_while_the_state_of_its_plan_cannot_be_stored() {
    let mut driven = gang_with_a_rejected_plan_status();
    driven.run(Duration::from_secs(20));
    for node in ["n3", "n4"] {
        driven.node(node, 1);
    }
    // The end of the plan is written after the delay of its last write, too.
    driven.run(Duration::from_secs(10));
    driven.bind();
    driven.settle();
    assert_eq!(driven.bound("train"), ["train-0", "train-1"], "{:#?}", driven.stored());
    assert_eq!(driven.evicted(), Vec::<&str>::new());
    assert_eq!(driven.stored(), ["Preemptor Cancelled: Capacity became free; no pod was evicted."]);
}

#[test]
fn a_resumed_plan_that_cannot_be_stored_again_reports_the_rejection() {
    let mut driven = full_cluster();
    driven.answer(|command| match command {
        Command::Evict(call) if !call.rehearsal => Answer::Hold,
        _ => Answer::Succeed,
    });
    driven.submit(gang("train", 2, 1_000), 1);
    driven.settle();
    driven.answer(|command| match command {
        Command::WritePlan { .. } => Answer::Reject(WORDS),
        _ => Answer::Succeed,
    });
    driven.next_leader();
    driven.settle();
    driven.run(Duration::from_secs(2));
    let condition = driven.condition("train", INITIALLY_SCHEDULED);
    assert!(condition.ends_with(&not_stored()), "{condition}");
    assert_eq!(driven.evicted(), Vec::<&str>::new());
}

#[test]
fn a_departure_that_cannot_be_stored_reports_the_rejection() {
    let mut driven = database();
    driven.answer(|command| match command {
        Command::StorePlan { .. } => Answer::Reject(WORDS),
        _ => Answer::Succeed,
    });
    driven.settle();
    preempt(&mut driven, "db-0");
    driven.settle();
    driven.run(Duration::from_secs(20));
    assert_eq!(driven.evicted(), Vec::<&str>::new());
    let condition = driven.condition("db", DISRUPTION_TARGET);
    let begin = "True PreemptionByScheduler: Preempted by kube-scheduler: it preempted pod db-0, so the 2 other pods";
    assert!(condition.starts_with(begin) && condition.ends_with(&not_stored()), "{condition}");
    driven.answer(|_| Answer::Succeed);
    driven.run(Duration::from_secs(10));
    assert_eq!(driven.evicted(), ["db-1", "db-2"]);
    let condition = driven.condition("db", DISRUPTION_TARGET);
    assert!(!condition.contains(WORDS), "{condition}");
}

/// A user can create any number of budgets for the same pods.
#[test]
fn at_most_eight_budgets_of_a_victim_get_an_event_about_its_rejected_eviction() {
    let mut driven = Driven::new(&[]);
    driven.node("n1", 1);
    let mut victim = running("low-n1", 10, "n1", None);
    victim["metadata"]["labels"] = json!({"app": "db"});
    driven.apply(Kind::Pod, victim);
    for number in 0..20 {
        let name = format!("b{number:02}");
        let budget = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
            "spec": {"selector": {"matchLabels": {"app": "db"}}},
            "status": {"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1}
        });
        driven.apply(Kind::Budget, budget);
    }
    driven.answer(|command| match command {
        Command::Evict(_) => Answer::Reject(WORDS),
        _ => Answer::Succeed,
    });
    driven.submit(gang("train", 1, 1_000), 1);
    driven.settle();
    driven.run(Duration::from_secs(5));
    let events = |of: &str| driven.events.iter().filter(|event| event.starts_with(of)).count();
    assert_eq!(events("Pod default/low-n1 EvictionRefused: "), 1, "{:#?}", driven.events);
    assert_eq!(events("PodDisruptionBudget default/b"), 8, "{:#?}", driven.events);
}

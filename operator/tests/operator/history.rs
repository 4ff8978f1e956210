//! The limits of the history of `Preemption` objects, with more preemptors than the history may have objects.

use crate::driven::{Answer, Driven, Kind, gang, running};
use giveway_crds::plan::PlanState;
use giveway_operator::messages::command::Command;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// Number of preemptors, and of `Preemption` objects that an earlier operator left.
const MANY: usize = 1_500;
/// Number of plans that Giveway stores in a minute while it observes.
const A_MINUTE: usize = 60;
/// Number of deletions in flight.
const IN_FLIGHT: usize = 100;
/// The number of finished plans that are kept.
const LIMIT: usize = 50;
const FLAGS: [&str; 2] = ["--preemption-history-limit=50", "--preemption-history=168h"];

/// Returns a cluster with one full node and 1,500 gangs of one pod that are pending for it, while Giveway observes.
fn crowd() -> Driven {
    let mut driven = Driven::new(&FLAGS);
    driven.switch("observe");
    driven.node("n1", 1);
    driven.apply(Kind::Pod, running("victim-0", 1, "n1", None));
    for number in 0..MANY {
        driven.submit(gang(&format!("g{number:04}"), 1, 100), 1);
    }
    driven
}

#[test]
fn a_crowd_of_observed_preemptors_never_exceeds_the_limit_of_the_history_by_more_than_a_minutes_plans() {
    let mut driven = crowd();
    let (mut most, mut names) = (0, BTreeSet::new());
    for minute in 0..5 {
        for _ in 0..12 {
            driven.skip(Duration::from_secs(5));
            let stored = driven.plans();
            most = most.max(stored.len());
            names.extend(stored.into_iter().filter_map(|plan| plan.metadata.name));
        }
        // Every preemptor would preempt another pod now.
        driven.delete(Kind::Pod, &format!("victim-{minute}"));
        driven.apply(Kind::Pod, running(&format!("victim-{}", minute + 1), 1, "n1", None));
    }
    assert!(most <= LIMIT + A_MINUTE, "{most} objects at once");
    assert!((5 * A_MINUTE - 10..=6 * A_MINUTE).contains(&names.len()), "{} plans were stored", names.len());
    driven.run(Duration::from_secs(11));
    assert!(driven.plans().len() <= LIMIT + A_MINUTE);
    assert!(driven.plans().iter().all(|plan| plan.status.clone().unwrap().state == PlanState::Observed));
}

#[test]
fn a_condition_says_whether_the_observed_plan_is_stored_and_a_status_names_only_stored_ones() {
    let mut driven = crowd();
    // No Preemption can be created.
    driven.answer(|command| match command {
        Command::StorePlan { .. } => Answer::Hold,
        _ => Answer::Succeed,
    });
    driven.skip(Duration::from_secs(5));
    let observes = "False Observing: Giveway is in mode observe and evicts no pods: it would evict 1 pod of priority 1 or less for 1 pod.";
    let later = " No Preemption is stored for this plan yet: Giveway stores at most 60 per minute while it observes.";
    let condition = |driven: &Driven, group: &str| driven.condition(group, "PodGroupInitiallyScheduled");
    assert_eq!(condition(&driven, "g0000"), observes);
    assert_eq!(condition(&driven, "g1499"), format!("{observes}{later}"));
    assert_eq!(driven.condition("g0000", "Preempting"), "", "its Preemption does not exist");
    assert_eq!(driven.plans().len(), 0);
    driven.answer(|_| Answer::Succeed);
    driven.answer_unanswered(|_| true);
    driven.settle();
    let message = "False Observing: Giveway is in mode observe and evicts no pods. What would be done: ";
    assert!(
        driven.condition("g0000", "Preempting").starts_with(message),
        "{}",
        driven.condition("g0000", "Preempting")
    );
    assert_eq!(driven.condition("g1499", "Preempting"), "");
    assert_eq!(condition(&driven, "g0060"), format!("{observes}{later}"));
    driven.skip(Duration::from_secs(60));
    driven.skip(Duration::from_secs(5));
    assert_eq!(condition(&driven, "g0060"), observes, "its turn has come");
    assert!(driven.condition("g0060", "Preempting").starts_with(message));
}

#[test]
fn the_objects_above_the_limit_are_deleted_and_a_bounded_number_of_deletions_is_in_flight() {
    let mut driven = Driven::new(&FLAGS);
    let ended = jiff::Timestamp::from_second(driven.second() - 600).unwrap().to_string();
    for number in 0..MANY {
        let name = format!("old-{number:04}");
        let preemption = json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": ended},
            "spec": {"preemptor": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u", "priority": 1},
                     "strategy": "least-cost"},
            "status": {"state": "Observed", "term": "t", "finishedAt": ended}
        });
        driven.apply(Kind::Preemption, preemption);
    }
    let is_deletion = |command: &Command| matches!(command, Command::ForgetPlan { .. });
    driven.answer(move |command| if is_deletion(command) { Answer::Hold } else { Answer::Succeed });
    driven.run(Duration::from_secs(30));
    assert_eq!(driven.unanswered().len(), IN_FLIGHT, "none was answered");
    driven.answer_unanswered(|_| true);
    driven.settle();
    assert_eq!(driven.unanswered().len(), IN_FLIGHT, "the next ones, at once");
    driven.answer(|_| Answer::Succeed);
    driven.answer_unanswered(|_| true);
    driven.settle();
    let left: Vec<String> = driven.plans().into_iter().filter_map(|plan| plan.metadata.name).collect();
    assert_eq!((left.len(), left[0].as_str()), (LIMIT, "old-1450"), "the latest are kept");
}

//! Guaranteed budgets with several plans in flight, driven step by step.

use crate::departures::{guarded, set_budget};
use crate::driven::{Answer, Driven, Kind};
use giveway_crds::plan::PlanState;
use giveway_operator::messages::command::Command;
use serde_json::json;

/// Returns a cluster with three pods of application `db`, each on a node of its own. The budget allows one disruption.
fn database() -> Driven {
    let mut driven = Driven::new(&[]);
    for number in 1..=3 {
        let node = format!("n{number}");
        driven.node(&node, 1);
        driven.apply(Kind::Pod, guarded(&format!("db-{number}"), &node, None));
    }
    set_budget(&mut driven, 2);
    driven.change(Kind::Budget, "db", |budget| budget["status"]["disruptionsAllowed"] = json!(1)).unwrap();
    driven
}

#[test]
fn before_its_first_eviction_a_plan_leaves_the_last_disruption_of_a_budget_to_a_later_plan_of_higher_priority() {
    let mut driven = database();
    driven.answer(|command| match command {
        Command::WritePlan { status, .. } if status.state == PlanState::Evicting => Answer::Hold,
        _ => Answer::Succeed,
    });
    driven.submit_for("n1", "lower", 500);
    driven.settle();
    driven.submit_for("n2", "higher", 1_000);
    driven.settle();
    let states: Vec<PlanState> = driven.plans().into_iter().filter_map(|plan| Some(plan.status?.state)).collect();
    assert_eq!(
        states,
        [PlanState::Planned, PlanState::Planned],
        "both may begin their evictions: {:#?}",
        driven.stored()
    );
    driven.answer(|_| Answer::Succeed);
    driven.answer_unanswered(|_| true);
    driven.settle();
    assert_eq!(driven.evicted(), ["db-2"], "{:#?}", driven.stored());
    let why = "Preemptor Cancelled: The eviction of pod default/db-1 was refused: The disruption budget db needs 2 healthy pods and has 3 \
               currently, of which plans of higher priority evict 1";
    assert!(driven.stored().contains(&why.to_owned()), "{:#?}", driven.stored());
    driven.terminate();
    driven.settle();
    driven.bind();
    driven.settle();
    assert_eq!(driven.bound("higher"), ["higher-0"]);
}

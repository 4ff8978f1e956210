//! Members whose nominations exclude each other.

use super::*;
use giveway_crds::keys;

/// Returns a gated member with a topology spread constraint over the nodes.
fn spread(name: &str) -> TestPod {
    started(name).gated()
}

fn started(name: &str) -> TestPod {
    let constraint = serde_json::json!({
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {keys::LABEL_POD_GROUP: "gang"}},
    });
    TestPod::new(name, 100).of("gang").spec("topologySpreadConstraints", serde_json::json!([constraint]))
}

/// Returns a run in which both members are placed on one empty node, are nominated, and are about to be ungated.
fn both_on_one_node() -> Run {
    let mut run = Run::new();
    run.world.remove_pod("l1").remove_pod("l2").labelled_node("n1", 2, "kubernetes.io/hostname", "n1");
    run.world.pod(spread("g1")).pod(spread("g2"));
    let mut plan = run.flight.plan.clone();
    plan.victims.clear();
    plan.placements = vec![placement("g1", "n1"), placement("g2", "n1")];
    run.flight = Flight::new(gang(), 100, plan, run.now);
    assert_eq!(names(&run.step()), ["nominate g1 n1", "nominate g2 n1"]);
    for name in ["g1", "g2"] {
        run.answered(&format!("uid-{name}"), false, true);
        run.world.pod(spread(name).nominated("n1"));
    }
    run
}

#[test]
fn blocking_nominations_are_withdrawn_when_all_members_are_ungated_and_not_repeated() {
    let mut run = both_on_one_node();
    assert_eq!(names(&run.step()), ["ungate g1", "ungate g2"]);
    run.answered("uid-g1", true, true);
    run.world.pod(started("g1").nominated("n1"));
    assert!(names(&run.step()).is_empty(), "other pods would use the capacity of g2, which is gated");
    run.world.pod(started("g2").nominated("n1"));
    assert_eq!(names(&run.step()), ["withdraw g1", "withdraw g2"]);
    assert!(names(&run.step()).is_empty(), "the watch may lag");
    run.world.pod(started("g1"));
    run.later(1);
    assert_eq!(names(&run.step()), ["withdraw g2"]);
    run.world.pod(started("g2"));
    run.later(3);
    assert!(names(&run.step()).is_empty(), "no member is nominated again");
    run.world.pod(started("g1").on("n1")).pod(started("g2").on("n1"));
    assert_eq!(run.step().ended.unwrap().state, PlanState::Completed);
}

#[test]
fn a_member_that_does_not_fit_in_its_turn_is_planned_again_when_no_other_is_left() {
    let mut run = both_on_one_node();
    run.step();
    for name in ["g1", "g2"] {
        run.answered(&format!("uid-{name}"), true, true);
        run.world.pod(started(name).unschedulable());
    }
    assert!(run.step().ended.is_none(), "kube-scheduler tries them again");
    run.world.pod(started("g1").on("n1"));
    run.later(1);
    assert!(run.step().ended.is_none(), "there is capacity for g2");
    run.world.pod(TestPod::new("other", 100).on("n1"));
    assert!(run.step().ended.is_none(), "it is looked for once a second");
    run.later(1);
    let ended = run.step().ended.unwrap();
    assert_eq!(ended.state, PlanState::Failed);
    let why = "kube-scheduler could not bind every ungated pod: Pod default/g2 does not fit on node n1 any more: insufficient cpu.";
    assert_eq!(ended.message.to_string(), why);
}

//! Members that would keep each other out while they are nominated.

use super::*;
use giveway_crds::keys;

/// A member that is to be spread over the nodes with the other one.
fn spread(name: &str) -> TestPod {
    let constraint = serde_json::json!({
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {keys::LABEL_POD_GROUP: "gang"}},
    });
    TestPod::new(name, 100).of("gang").held().spec("topologySpreadConstraints", serde_json::json!([constraint]))
}

/// Both members have their places on one empty node, are nominated, and are about to start.
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
        run.flight.member_answered(&format!("uid-{name}"), false, true, run.now);
        run.world.pod(spread(name).nominated("n1"));
    }
    run
}

#[test]
fn their_nominations_go_before_they_start_and_do_not_come_back() {
    let mut run = both_on_one_node();
    assert_eq!(names(&run.step()), ["withdraw g1", "withdraw g2"]);
    assert!(names(&run.step()).is_empty(), "the watch may lag");
    run.world.pod(spread("g1"));
    assert!(names(&run.step()).is_empty(), "the other one shows still");
    run.later(1);
    assert_eq!(names(&run.step()), ["withdraw g2"]);
    run.world.pod(spread("g2"));
    assert_eq!(names(&run.step()), ["release g1", "release g2"]);
    run.later(3);
    assert!(names(&run.step()).iter().all(|name| name.starts_with("release")), "nobody is nominated again");
}

#[test]
fn a_nomination_that_stays_holds_nobody_up_for_long() {
    let mut run = both_on_one_node();
    assert_eq!(names(&run.step()), ["withdraw g1", "withdraw g2"]);
    run.later(5);
    assert_eq!(names(&run.step()), ["withdraw g1", "withdraw g2", "release g1", "release g2"]);
}

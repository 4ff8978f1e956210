//! Evictions that admission or authorization rejects: they are not retried, and the next plan makes no needless
//! evictions because of them.

use super::*;

const WHY: &str = "pods \"l1\" is forbidden: not on weekdays";

fn forbid(run: &mut Run, uid: &str) {
    run.flight.evicted(uid, &EvictOutcome::Forbidden(WHY.into()), run.now);
}

#[test]
fn a_group_whose_evictions_are_all_forbidden_is_not_begun() {
    let mut run = Run::evicting();
    ["uid-l1", "uid-l2"].iter().for_each(|uid| forbid(&mut run, uid));
    let advance = run.step();
    assert!(names(&advance).is_empty(), "not asked again, and the places are kept for the next plan");
    let ended = advance.ended.unwrap();
    assert_eq!(ended.state, PlanState::Cancelled);
    assert_eq!(ended.message.to_string(), format!("The eviction of pod default/l1 was refused: {WHY}"));
    assert!(run.flight.begun_units().is_empty());
    let refused: Vec<&str> = run.flight.refused.keys().map(SmolStr::as_str).collect();
    assert_eq!(refused, ["uid-l1", "uid-l2"], "the next plan spares them");
}

/// The authorizer of an API server that has just started may not know all roles yet, so a missing permission is final
/// only after some attempts.
#[test]
fn a_missing_right_is_believed_only_after_some_attempts() {
    let mut run = Run::evicting();
    run.flight.evicted("uid-l2", &EvictOutcome::Accepted, run.now);
    for _ in 0..4 {
        run.flight.evicted("uid-l1", &EvictOutcome::Unauthorized(WHY.into()), run.now);
        run.later(2);
        assert_eq!(names(&run.step()), ["evict l1"]);
    }
    run.flight.evicted("uid-l1", &EvictOutcome::Unauthorized(WHY.into()), run.now);
    assert_eq!(run.flight.ending.unwrap().state, PlanState::Cancelled);
}

#[test]
fn a_group_that_was_begun_goes_on_beside_the_next_plan() {
    let mut run = Run::evicting();
    run.flight.evicted("uid-l2", &EvictOutcome::Accepted, run.now);
    forbid(&mut run, "uid-l1");
    run.world.remove_pod("l2");
    let advance = run.step();
    assert_eq!(names(&advance), ["leave uid-l1"], "it is handed over");
    assert!(advance.ended.is_none(), "before that is stored the plan does not end");
    assert_eq!(advance.rest[0].group, ObjectKey::new("default", "low"));
    assert!(!advance.rest[0].guaranteed);
    run.flight.handed_over = true;
    assert_eq!(run.step().ended.unwrap().state, PlanState::Cancelled, "the preemptor does not wait for it");
}

#[test]
fn after_that_nobody_goes_before_all_may() {
    let mut run = Run::new();
    run.flight.careful = true;
    run.flight.stored = Some(PlanState::Evicting);
    run.step();
    run.nominated();
    assert_eq!(names(&run.step()), ["ask about l1", "ask about l2"]);
    run.flight.evicted("uid-l1", &EvictOutcome::Allowed, run.now);
    forbid(&mut run, "uid-l2");
    assert_eq!(run.step().ended.unwrap().state, PlanState::Cancelled);
    assert_eq!(run.flight.begun(), 0, "nobody was evicted");
}

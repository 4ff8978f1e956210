//! Calls that admission or authorization rejects: no pod is evicted needlessly because of them.

use super::*;

const WHY: &str = "pods \"l1\" is forbidden: not on weekdays";

fn forbid(run: &mut Run, uid: &str) {
    run.flight.evicted(uid, &EvictOutcome::Rejected(WHY.into()), run.now);
}

#[test]
fn a_group_whose_evictions_are_all_forbidden_is_not_disrupted() {
    let mut run = Run::evicting();
    ["uid-l1", "uid-l2"].iter().for_each(|uid| forbid(&mut run, uid));
    let advance = run.step();
    assert!(names(&advance).is_empty(), "not asked again, and the places are kept for the next plan");
    let ended = advance.ended.unwrap();
    assert_eq!(ended.state, PlanState::Cancelled);
    assert_eq!(ended.message.to_string(), format!("The eviction of pod default/l1 was rejected: {WHY}"));
    assert!(run.flight.units_with_evictions().is_empty());
    let refused: Vec<&str> = run.flight.refused.keys().map(SmolStr::as_str).collect();
    assert_eq!(refused, ["uid-l1", "uid-l2"], "the next plan excludes them");
}

/// The authorizer of an API server that has just started may not know all roles yet, so a missing permission is final
/// only after six attempts.
#[test]
fn an_eviction_that_fails_six_times_ends_the_plan_with_the_last_answer() {
    let mut run = Run::evicting();
    for attempt in 1..=6 {
        assert!(run.flight.ending.is_none(), "attempt {attempt}");
        run.flight.evicted("uid-l1", &EvictOutcome::Error(WHY.into()), run.now);
        run.flight.evicted("uid-l2", &EvictOutcome::Error(WHY.into()), run.now);
        run.later(10);
        run.step();
    }
    let ending = run.flight.ending.unwrap();
    assert_eq!(ending.state, PlanState::Cancelled);
    assert_eq!(ending.message.to_string(), format!("The eviction of pod default/l2 failed repeatedly: {WHY}"));
}

#[test]
fn a_partially_disrupted_group_is_finished_beside_the_next_plan() {
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

/// Returns a run whose plan is in state `Evicting`, with every dry run commanded.
fn rehearsing() -> Run {
    let mut run = Run::new();
    run.rehearsals_succeed = false;
    run.flight.stored = Some(PlanState::Evicting);
    let commands = ["nominate g1 n1", "nominate g2 n2", "rehearse l1", "rehearse l2", "rehearse ungating g1"];
    assert_eq!(names(&run.step()), commands, "of members without a controller that have one template one is rehearsed");
    run
}

#[test]
fn the_removal_of_the_gate_is_rehearsed_for_one_member_of_each_template() {
    let mut run = Run::new();
    run.rehearsals_succeed = false;
    run.flight.stored = Some(PlanState::Evicting);
    run.world.pod(TestPod::new("g2", 100).of("gang").gated().labelled("role", "worker"));
    let commands = names(&run.step());
    let rehearsed: Vec<&String> = commands.iter().filter(|call| call.starts_with("rehearse ungating ")).collect();
    assert_eq!(rehearsed, ["rehearse ungating g1", "rehearse ungating g2"], "{commands:?}");
}

#[test]
fn a_rejected_rehearsal_of_an_eviction_cancels_the_plan_without_an_eviction() {
    let mut run = rehearsing();
    run.nominated();
    run.flight.evicted("uid-l1", &EvictOutcome::Allowed, run.now);
    forbid(&mut run, "uid-l2");
    let ended = run.step().ended.unwrap();
    assert_eq!(ended.state, PlanState::Cancelled);
    assert_eq!(ended.message.to_string(), format!("The eviction of pod default/l2 was rejected: {WHY}"));
    assert_eq!(run.flight.requested_evictions(), 0, "no pod was evicted");
}

#[test]
fn a_rejected_rehearsal_of_the_removal_of_a_gate_cancels_the_plan_without_an_eviction() {
    let mut run = rehearsing();
    run.nominated();
    for uid in ["uid-l1", "uid-l2"] {
        run.flight.evicted(uid, &EvictOutcome::Allowed, run.now);
    }
    assert!(names(&run.step()).is_empty(), "one dry run has no answer");
    let words = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: not on weekdays";
    let rejected = Err(CallError::Rejected(words.into()));
    run.flight.member_answered("uid-g1", (MemberCall::Ungate, true), &rejected, run.now);
    let advance = run.step();
    assert_eq!(names(&advance), ["withdraw g1", "withdraw g2"]);
    let ended = advance.ended.unwrap();
    assert_eq!(ended.state, PlanState::Cancelled);
    assert_eq!(
        ended.message.to_string(),
        format!("The removal of the scheduling gate of pod default/g1 was rejected: {words}")
    );
    assert_eq!(run.flight.requested_evictions(), 0, "no pod was evicted");
    assert_eq!(run.flight.rejected.map(|call| call.uid), Some("uid-g1".into()));
}

/// The error of a call without an answer.
const LOST: &str = "no answer within 10.0 s";

/// Gives the removal of the gate of `g1`, or its dry run, no answer. Checks that it is repeated `times` times, as `command`, and gives the last
/// of these no answer either.
fn ungating_is_repeated(run: &mut Run, times: usize, is_dry_run: bool, command: &str) {
    let answer = |run: &mut Run| {
        let lost = Err(CallError::Unanswered(LOST.into()));
        run.flight.member_answered("uid-g1", (MemberCall::Ungate, is_dry_run), &lost, run.now);
    };
    for _ in 0..times {
        answer(run);
        assert!(run.flight.ending.is_none());
        run.later(10);
        assert_eq!(names(&run.step()), [command]);
    }
    answer(run);
}

/// A webhook that does not answer delays a call for longer than the operator waits, so each attempt ends without an answer.
#[test]
fn a_dry_run_without_an_answer_for_two_minutes_ends_the_plan() {
    let mut run = rehearsing();
    run.nominated();
    run.flight.evicted("uid-l1", &EvictOutcome::Allowed, run.now);
    run.ungating_rehearsed();
    for _ in 0..12 {
        run.flight.evicted("uid-l2", &EvictOutcome::Unanswered(LOST.into()), run.now);
        assert!(run.flight.ending.is_none());
        run.later(10);
        assert_eq!(names(&run.step()), ["rehearse l2"]);
    }
    run.flight.evicted("uid-l2", &EvictOutcome::Unanswered(LOST.into()), run.now);
    let ending = run.flight.ending.clone().unwrap();
    assert_eq!(ending.state, PlanState::Cancelled);
    assert_eq!(ending.message.to_string(), format!("The eviction of pod default/l2 failed repeatedly: {LOST}"));
    assert_eq!(run.flight.requested_evictions(), 0);
    assert!(run.flight.refused.contains_key("uid-l2"), "the next plan excludes it");

    let mut run = rehearsing();
    run.nominated();
    for uid in ["uid-l1", "uid-l2"] {
        run.flight.evicted(uid, &EvictOutcome::Allowed, run.now);
    }
    ungating_is_repeated(&mut run, 12, true, "rehearse ungating g1");
    let rejected = run.flight.rejected.unwrap();
    assert_eq!(
        (rejected.uid.as_str(), rejected.words.as_str()),
        ("uid-g1", LOST),
        "its dry run is repeated without a plan"
    );
}

#[test]
fn the_removal_of_a_gate_without_an_answer_for_ten_minutes_fails_the_plan() {
    let mut run = Run::evicting();
    for uid in ["uid-l1", "uid-l2"] {
        run.flight.evicted(uid, &EvictOutcome::Accepted, run.now);
    }
    run.world.remove_pod("l1").remove_pod("l2");
    assert_eq!(names(&run.step()), ["ungate g1", "ungate g2"]);
    run.answered("uid-g2", true, true);
    run.world.pod(TestPod::new("g2", 100).of("gang").nominated("n2"));
    ungating_is_repeated(&mut run, 60, false, "ungate g1");
    assert_eq!(run.flight.ending.as_ref().map(|ending| ending.state), Some(PlanState::Failed));
    assert_eq!(
        run.flight.rejected.map(|call| call.words).as_deref(),
        Some(LOST),
        "its dry run is repeated without a plan"
    );
}

#[test]
fn no_pod_is_evicted_before_a_nomination_is_accepted() {
    let mut run = rehearsing();
    for uid in ["uid-l1", "uid-l2"] {
        run.flight.evicted(uid, &EvictOutcome::Allowed, run.now);
    }
    run.ungating_rehearsed();
    assert!(names(&run.step()).is_empty());
    run.answered("uid-g1", false, true);
    assert!(names(&run.step()).is_empty(), "the PodGroup has a pod on the other node too");
    run.answered("uid-g2", false, true);
    assert_eq!(names(&run.step()), ["evict l1", "evict l2"]);
}

#[test]
fn an_unanswered_rehearsal_is_repeated_and_a_failing_one_is_a_rejection_after_six_times() {
    let mut run = rehearsing();
    run.nominated();
    for uid in ["uid-l1", "uid-l2"] {
        run.flight.evicted(uid, &EvictOutcome::Allowed, run.now);
    }
    for _ in 0..20 {
        let lost = Err(CallError::Unanswered("too many requests (429)".into()));
        run.flight.member_answered("uid-g1", (MemberCall::Ungate, true), &lost, run.now);
        run.later(1);
        assert_eq!(names(&run.step()), ["rehearse ungating g1"], "throttling is waited for");
    }
    for _ in 0..3 {
        let failed = Err(CallError::Failed("failed calling webhook \"w\" (500)".into()));
        run.flight.member_answered("uid-g1", (MemberCall::Ungate, true), &failed, run.now);
        run.later(10);
        run.step();
    }
    let message = run.flight.ending.unwrap().message.to_string();
    assert!(message.ends_with("was rejected: failed calling webhook \"w\" (500)"), "{message}");
}

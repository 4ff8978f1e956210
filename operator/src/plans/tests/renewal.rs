//! A postponed plan is replaced when it becomes due and a new plan has fewer victims.

use super::*;

/// Returns a run in which three single pods are to be evicted in ten seconds for a gang of three, and capacity for one
/// member becomes available.
fn postponed() -> Run {
    let mut run = rations::run(&[]);
    run.delayed(3, 10);
    assert!(names(&run.step()).is_empty());
    run.world.node("n4", 1);
    run.later(9);
    assert!(names(&run.step()).is_empty());
    assert!(run.flight.ending.is_none(), "more capacity may become free");
    run.later(1);
    run
}

#[test]
fn a_postponed_plan_is_replaced_by_one_with_fewer_victims() {
    let mut run = postponed();
    let ended = run.step().ended.unwrap();
    let why = "Capacity became free for some of the pods: a new plan evicts fewer pods.";
    assert_eq!((ended.state, ended.message.to_string().as_str()), (PlanState::Cancelled, why));
    assert!(run.flight.superseded);
}

#[test]
fn a_postponed_plan_is_replaced_once() {
    let mut run = postponed();
    run.flight.renewed = true;
    assert_eq!(names(&run.step()), ["nominate g1 n1", "nominate g2 n2", "nominate g3 n3"]);
}

#[test]
fn a_plan_that_evicts_no_more_pods_than_a_new_one_continues() {
    let mut run = postponed();
    run.world.pod(TestPod::new("other", 100).on("n4"));
    assert_eq!(names(&run.step()), ["nominate g1 n1", "nominate g2 n2", "nominate g3 n3"]);
    assert!(!run.flight.superseded);
}

#[test]
fn a_plan_that_waits_for_a_rate_is_also_replaced_by_one_with_fewer_victims() {
    let mut run = rations::run(&[]);
    run.delayed(3, 0);
    run.flight.ration = Some(BTreeSet::new());
    assert!(names(&run.step()).is_empty());
    run.world.node("n4", 1);
    run.flight.ration = Some(BTreeSet::from([0, 1, 2]));
    assert!(run.step().ended.is_some() && run.flight.superseded);
}

#[test]
fn a_plan_reserves_nothing_during_its_delay() {
    let mut run = rations::run(&[]);
    run.delayed(3, 10);
    let reserved = |run: &Run| {
        let reservation = |member: &&PlannedMember| run.flight.reservation(&run.world.model.cluster, member).is_some();
        run.flight.members.iter().filter(reservation).count()
    };
    let clock = Clock { now: run.now, epoch_seconds: run.epoch };
    run.flight.postpone_until_due(&run.world.model.cluster, clock);
    assert_eq!(reserved(&run), 0, "from its first moment");
    run.step();
    assert_eq!(reserved(&run), 0);
    run.later(10);
    run.step();
    assert_eq!(reserved(&run), 3);
}

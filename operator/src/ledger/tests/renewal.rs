//! A plan that was put off is made anew when its time comes and fewer would go.

use super::*;

/// Three single pods are to go for a gang of three, in ten seconds, and room for one of its members appears.
fn put_off() -> Run {
    let mut run = rations::run(&[]);
    run.delayed(3, 10);
    assert!(names(&run.step()).is_empty());
    run.world.node("n4", 1);
    run.later(9);
    assert!(names(&run.step()).is_empty());
    assert!(run.flight.ending.is_none(), "more room may come");
    run.later(1);
    run
}

#[test]
fn a_plan_that_was_put_off_gives_its_place_to_one_with_fewer_victims() {
    let mut run = put_off();
    let ended = run.step().ended.unwrap();
    let why = "Room for some of the pods appeared: a plan with fewer victims takes its place.";
    assert_eq!((ended.state, ended.message.to_string().as_str()), (PlanState::Cancelled, why));
    assert!(run.flight.superseded);
}

#[test]
fn it_does_so_once() {
    let mut run = put_off();
    run.flight.renewed = true;
    assert_eq!(names(&run.step()), ["nominate g1 n1", "nominate g2 n2", "nominate g3 n3"]);
}

#[test]
fn a_plan_as_good_as_a_new_one_goes_on() {
    let mut run = put_off();
    run.world.pod(TestPod::new("other", 100).on("n4"));
    assert_eq!(names(&run.step()), ["nominate g1 n1", "nominate g2 n2", "nominate g3 n3"]);
    assert!(!run.flight.superseded);
}

#[test]
fn who_waits_for_room_in_a_minute_spares_some_too() {
    let mut run = rations::run(&[]);
    run.delayed(3, 0);
    run.flight.ration = Some(BTreeSet::new());
    assert!(names(&run.step()).is_empty());
    run.world.node("n4", 1);
    run.flight.ration = Some(BTreeSet::from([0, 1, 2]));
    assert!(run.step().ended.is_some() && run.flight.superseded);
}

#[test]
fn a_plan_that_has_begun_is_not_given_up_for_the_place_of_one_whose_time_has_not_come() {
    let mut run = rations::run(&[]);
    run.delayed(3, 10);
    run.step();
    let flights = Flights::from([(gang(), run.flight)]);
    let places = |priority| without_waiting(context(&flights, priority), &flights, priority).reservations.len();
    assert_eq!((places(100), places(99)), (0, 3), "a more important one takes it");
}

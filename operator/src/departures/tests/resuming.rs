//! Departures of an earlier leader.

use super::*;

#[test]
fn a_new_leader_finishes_a_departure_after_it_was_stored_in_its_term() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    run.scheduler(&mut world, now);
    let plan = run.departures.all.values().next().unwrap().plan.clone();
    // A replacement pod that was created in the second of the preemption.
    world.remove_pod("l2").pod(member("again").created(200));
    let mut next = Run::of_next_leader(&world, plan, now);
    assert!(next.evictions(&world, now).is_empty(), "not stored in its term yet");
    next.departures.note_stored("d-1");
    assert_eq!(next.evictions(&world, now), ["l1 ask", "l3 ask"]);
}

#[test]
fn a_new_leader_evicts_no_replacement_pods_for_a_preemption_that_it_observed_as_a_standby() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    // The leader evicts the other pods, and replacement pods are created and bound within the same second.
    for name in ["l1", "l2", "l3"] {
        world.remove_pod(name).pod(member(&format!("{name}-again")).created(200));
    }
    run.scheduler(&mut world, now);
    assert!(run.departures.is_empty());
}

#[test]
fn a_new_leader_knows_the_members_of_all_departures_whatever_their_order() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 3, 10, "PodGroup").remove_pod("l2").remove_pod("l3");
    run.gang(&world, now).unwrap();
    world.pod(TestPod::new("l3", 10).of("low").created(200).unschedulable());
    run.gang(&world, now).unwrap();
    let mut plans: Vec<StoredPlan> = run.departures.all.values().map(|departure| departure.plan.clone()).collect();
    plans.reverse();
    let mut next = Run::default();
    for plan in plans {
        next.departures.resume(&world.model, &mut next.store, plan, now).unwrap();
    }
    next.departures.complete_resumption();
    assert!(next.pass(&world, now).ended.is_empty());
}

/// Another pod of the gang is bound while no operator leads: the gang may still become complete.
#[test]
fn a_new_leader_ends_the_departure_of_a_partially_scheduled_gang_of_which_another_pod_was_bound() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 5, 10, "PodGroup");
    world.pod(TestPod::new("l4", 10).of("low").created(100).unschedulable());
    run.gang(&world, now).unwrap();
    let plan = run.departures.all.values().next().unwrap().plan.clone();
    world.pod(member("l4"));
    let mut next = Run::of_next_leader(&world, plan, now);
    next.departures.complete_resumption();
    assert_eq!(next.pass(&world, now).ended, [world.key("low")]);
    assert_eq!(next.stored(now), ["Cancelled: No pod was evicted, because pod default/l4 has been bound."]);
}

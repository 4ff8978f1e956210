//! Which placements are reserved while victims are evicted, and which have to be reserved before the first eviction.

use super::*;

/// Replaces the victims of the run by two PodGroups of one pod each, disrupted as a whole: `a` on `n1` and `b` on `n2`.
fn two_groups() -> Run {
    let mut run = Run::new();
    run.world.remove_pod("l1").remove_pod("l2");
    let unit = |name: &str, node: &str| StoredVictim {
        kind: "PodGroup".into(),
        namespace: "default".into(),
        name: name.into(),
        priority: 10,
        pods: vec![victim(&format!("{name}-0"), node)],
        ..StoredVictim::default()
    };
    let mut plan = run.flight.plan.clone();
    plan.victims = vec![unit("a", "n1"), unit("b", "n2")];
    for (name, node) in [("a", "n1"), ("b", "n2")] {
        run.world.group(name, 1, 10, "PodGroup");
        run.world.pod(TestPod::new(&format!("{name}-0"), 10).of(name).on(node));
    }
    run.flight = Flight::new(gang(), 100, plan, run.now);
    run.flight.stored = Some(PlanState::Evicting);
    run
}

fn answered(run: &mut Run, member: &str, ok: bool) {
    run.answered(&format!("uid-{member}"), false, ok);
}

#[test]
fn victims_are_evicted_when_the_placements_on_their_own_nodes_are_reserved() {
    let mut run = two_groups();
    assert_eq!(names(&run.step()), ["nominate g1 n1", "nominate g2 n2"]);
    assert_eq!(run.flight.plan.state, PlanState::Planned, "no placement is reserved yet");
    answered(&mut run, "g1", true);
    assert_eq!(names(&run.step()), ["evict a-0"]);
    assert_eq!(run.flight.plan.state, PlanState::Evicting);
    answered(&mut run, "g2", true);
    assert_eq!(names(&run.step()), ["evict b-0"]);
}

#[test]
fn a_group_is_evicted_when_the_placements_on_all_of_its_nodes_are_reserved() {
    let mut run = Run::new();
    run.flight.stored = Some(PlanState::Evicting);
    run.step();
    answered(&mut run, "g1", true);
    assert!(names(&run.step()).is_empty(), "the other pod of the group is on n2");
    answered(&mut run, "g2", true);
    assert_eq!(names(&run.step()), ["evict l1", "evict l2"]);
}

#[test]
fn a_placement_on_free_capacity_is_reserved_before_the_first_eviction() {
    let mut run = two_groups();
    // b-0 is deleted by its owner, so another pod could use its capacity.
    run.world.remove_pod("b-0");
    run.step();
    answered(&mut run, "g1", true);
    assert!(names(&run.step()).is_empty(), "n2 is free");
    assert_eq!(run.flight.plan.state, PlanState::Planned);
    answered(&mut run, "g2", true);
    assert_eq!(names(&run.step()), ["evict a-0"]);
}

#[test]
fn no_further_pod_is_evicted_while_a_reservation_has_failed() {
    let mut run = two_groups();
    run.step();
    answered(&mut run, "g2", false);
    answered(&mut run, "g1", true);
    assert!(names(&run.step()).is_empty());
    run.later(1);
    assert_eq!(names(&run.step()), ["nominate g2 n2"], "it is tried again");
    assert!(names(&run.step()).is_empty(), "and has no answer yet");
    answered(&mut run, "g2", true);
    assert_eq!(names(&run.step()), ["evict a-0", "evict b-0"]);
}

#[test]
fn members_are_ungated_only_when_all_placements_are_reserved_although_every_victim_was_removed() {
    let mut run = two_groups();
    run.step();
    answered(&mut run, "g1", true);
    run.step();
    run.flight.evicted("uid-a-0", &EvictOutcome::Accepted, run.now);
    run.world.remove_pod("a-0").remove_pod("b-0");
    assert!(names(&run.step()).is_empty());
    assert_eq!(run.flight.plan.state, PlanState::WaitingForVictims);
    answered(&mut run, "g2", true);
    assert_eq!(names(&run.step()), ["ungate g1", "ungate g2"]);
}

#[test]
fn a_group_that_has_grown_is_not_partially_disrupted_by_a_plan_that_evicted_other_units() {
    let mut run = two_groups();
    run.step();
    answered(&mut run, "g1", true);
    assert_eq!(names(&run.step()), ["evict a-0"]);
    run.flight.evicted("uid-a-0", &EvictOutcome::Accepted, run.now);
    run.world.node("n3", 1).pod(TestPod::new("b-1", 10).of("b").on("n3"));
    answered(&mut run, "g2", true);
    // Checks both within the minimum interval between two checks of the plan and after it.
    assert!(names(&run.step()).iter().all(|name| !name.starts_with("evict")));
    run.later(1);
    let advance = run.step();
    assert!(names(&advance).iter().all(|name| !name.starts_with("evict")), "{:?}", names(&advance));
    let ending = run.flight.ending.as_ref().unwrap().message.to_string();
    let why = "The plan does not fit any more; no other pod is evicted: pod group default/b has more pods than when the plan was made.";
    assert_eq!(ending, why);
}

//! Evictions that budgets refuse, that admission rejects, or that fail.

use super::*;

#[test]
fn after_a_preemption_by_kube_scheduler_a_budget_is_asked_again_and_never_violated() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.budget("db", "db", 1).pod(member("l1").guarded("db", 5000)).pod(member("l3").guarded("db", 5000));
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    run.scheduler(&mut world, now);
    assert_eq!(run.evictions(&world, now), ["l1 ask"], "without l2 and l1 one is left, which has to stay");
    run.answer(&world, "l1", &EvictOutcome::Accepted, now);
    world.remove_pod("l1");
    let later = now + Duration::from_secs(1);
    let step = run.pass(&world, later);
    assert!(step.commands.is_empty(), "{:?}", step.commands);
    assert_eq!(step.refused[0].3, "The disruption budget db needs 1 healthy pods and has 1 currently");
    world.pod(TestPod::new("db-0", 500).on("n1").guarded("db", 5000));
    assert_eq!(run.evictions(&world, later + Duration::from_secs(1)), ["l3 ask"]);
    run.answer(&world, "l3", &EvictOutcome::Refused("0 allowed".into()), later);
    assert_eq!(run.evictions(&world, later + Duration::from_secs(9)), ["l3 ask"]);
}

#[test]
fn the_status_says_why_an_eviction_was_refused() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    run.scheduler(&mut world, now);
    run.stored(now);
    run.store.answered("d-1", PreemptionStatus::default(), Ok(()), now);
    run.evictions(&world, now);
    run.answer(&world, "l3", &EvictOutcome::Refused("0 allowed".into()), now);
    run.pass(&world, now);
    let words = "Preempted by kube-scheduler: it preempted pod l2, so the 2 other pods of the PodGroup are evicted. \
                 The eviction of pod default/l3 was refused and is retried: 0 allowed";
    assert_eq!(run.stored(now), [format!("Evicting: {words}")]);
}

#[test]
fn a_cancelled_plan_violates_budgets_that_are_not_guaranteed_against_its_preemptor() {
    for (threshold, how) in [(100, "force"), (101, "ask")] {
        let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
        world
            .budget("db", "db", 2)
            .pod(member("l2").guarded("db", threshold))
            .pod(member("l3").guarded("db", threshold));
        world.pod(TestPod::new("db-0", 500).on("n1").guarded("db", 5000));
        run.rest(&world, &rest(&world, ["l2"]), now);
        assert_eq!(run.evictions(&world, now), [format!("l2 {how}")], "threshold {threshold}");
    }
}

#[test]
fn a_guaranteed_budget_of_one_pod_protects_the_others_also_when_that_pod_has_terminated() {
    let (world, mut run, now) = (world(), Run::default(), Instant::now());
    run.rest(&world, &RemainingPods { guaranteed: true, ..rest(&world, ["l2", "l3"]) }, now);
    assert_eq!(run.evictions(&world, now), ["l2 ask", "l3 ask"]);
    // The next leader does the same.
    let plan = run.departures.all.values().next().unwrap().plan.clone();
    let mut next = Run::of_next_leader(&world, plan, now);
    next.departures.note_stored("d-1");
    assert_eq!(next.evictions(&world, now), ["l2 ask", "l3 ask"]);
}

#[test]
fn a_request_that_was_not_sent_does_not_change_that_the_one_before_was_refused() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 5, 10, "PodGroup");
    let id = run.gang(&world, now).unwrap();
    let later = now + Duration::from_secs(9);
    for (time, outcome) in [(now, EvictOutcome::Refused("0 allowed".into())), (later, EvictOutcome::Withdrawn)] {
        assert_eq!(run.evictions(&world, time).len(), 3, "{outcome:?}");
        for pod in ["l1", "l2", "l3"] {
            run.answer(&world, pod, &outcome, time);
        }
    }
    world.remove_pod("l1");
    run.departures.preemption_deleted(&mut run.store, &id);
    run.pass(&world, later);
    assert!(run.departures.is_empty(), "no pod was evicted");
}

#[test]
fn a_pod_counts_as_leaving_while_its_eviction_is_retried_but_not_after_a_refusal_or_six_failures() {
    let down = EvictOutcome::Unanswered("too many requests".into());
    let error = EvictOutcome::Error("500".into());
    let refused = EvictOutcome::Refused("0 allowed".into());
    for (outcome, times, leaves) in
        [(&down, 1, true), (&down, 20, true), (&error, 5, true), (&error, 6, false), (&refused, 1, false)]
    {
        let (world, mut run, mut now) = (world(), Run::default(), Instant::now());
        run.rest(&world, &rest(&world, ["l2"]), now);
        assert_eq!(run.departures.leaving().collect::<Vec<_>>(), ["uid-l2"]);
        for _ in 0..times {
            assert_eq!(run.evictions(&world, now), ["l2 force"]);
            run.answer(&world, "l2", outcome, now);
            now += Duration::from_secs(9);
        }
        assert_eq!(run.departures.leaving().count(), usize::from(leaves), "{outcome:?} {times} times");
    }
}

#[test]
fn an_eviction_that_a_policy_rejects_is_tried_again_after_a_minute() {
    let (mut world, mut run, mut now) = (world(), Run::default(), Instant::now());
    // A replacement pod that was bound before the plan ended.
    world.pod(member("l4"));
    run.rest(&world, &rest(&world, ["l1", "l2", "l3"]), now);
    assert_eq!(run.pass(&world, now).commands.len(), 3);
    for pod in ["l1", "l2", "l3"] {
        run.answer(&world, pod, &EvictOutcome::Rejected("not on weekdays".into()), now);
    }
    now += Duration::from_secs(59);
    assert_eq!(run.pass(&world, now).commands.len(), 0);
    now += Duration::from_secs(8);
    assert_eq!(run.pass(&world, now).commands.len(), 3);
}

#[test]
fn a_replacement_pod_is_evicted_while_a_budget_refuses_the_eviction_of_a_bound_member() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 3, 10, "PodGroup").remove_pod("l2").remove_pod("l3");
    world.pod(TestPod::new("l2", 10).of("low").created(100).unschedulable());
    let first = run.gang(&world, now).unwrap();
    run.evictions(&world, now);
    run.answer(&world, "l1", &EvictOutcome::Refused("it needs 1 healthy pod".into()), now);
    run.answer(&world, "l2", &EvictOutcome::Accepted, now);
    world.remove_pod("l2").pod(TestPod::new("l3", 10).of("low").created(200).unschedulable());
    let second = run.gang(&world, now).unwrap();
    assert_eq!(run.evictions(&world, now), ["l3 ask"], "l1 was bound before");
    assert!(run.departures.by_id(&first).is_some() && run.departures.by_id(&second).is_some());
}

#[test]
fn a_pod_that_leaves_after_its_eviction_was_refused_does_not_count_as_evicted() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 5, 10, "PodGroup");
    let id = run.gang(&world, now).unwrap();
    run.evictions(&world, now);
    for pod in ["l1", "l2", "l3"] {
        run.answer(&world, pod, &EvictOutcome::Refused("it needs 3 healthy pods".into()), now);
    }
    world.remove_pod("l1");
    run.pass(&world, now);
    run.departures.preemption_deleted(&mut run.store, &id);
    run.pass(&world, now);
    assert!(run.departures.is_empty(), "it is not committed, so it is not stored again");
}

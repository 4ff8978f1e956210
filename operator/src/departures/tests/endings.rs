//! What ends a departure, and what is stored then.

use super::*;
use std::collections::BTreeSet;

#[test]
fn a_departure_ends_when_the_gang_has_enough_bound_members_again() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    run.scheduler(&mut world, now);
    run.stored(now);
    run.store.answered("d-1", PreemptionStatus::default(), Ok(()), now);
    world.remove_pod("l2").pod(member("again").created(210));
    assert_eq!(run.evictions(&world, now), ["l1 ask", "l3 ask"], "every pod is tried");
    run.answer(&world, "l1", &EvictOutcome::Refused("0 allowed".into()), now);
    assert!(run.pass(&world, now).ended.is_empty(), "l3 may have been evicted");
    run.answer(&world, "l3", &EvictOutcome::Refused("0 allowed".into()), now);
    assert_eq!(run.pass(&world, now).ended, [world.key("low")]);
    let words = "2 of 2 pods are not evicted, because the PodGroup again has as many bound pods as it needs.";
    assert_eq!(run.stored(now), [format!("Completed: {words}")]);
}

#[test]
fn pods_do_not_count_as_bound_after_their_eviction_was_requested() {
    let (mut world, mut run, now) = (World::new(), Run::default(), Instant::now());
    world.node("n1", 8).group("low", 2, 10, "PodGroup");
    world.pod(member("g0"));
    world.pod(TestPod::new("g1", 10).of("low").created(100).unschedulable());
    run.gang(&world, now);
    assert_eq!(run.evictions(&world, now), ["g0 ask", "g1 ask"]);
    // The pod is bound before its eviction is answered, and the eviction of g0 is not answered either.
    world.pod(member("g1"));
    assert!(run.pass(&world, now).ended.is_empty(), "both may have been evicted");
}

#[test]
fn a_partially_scheduled_gang_keeps_its_pods_if_evictions_are_switched_off_before_the_first_one() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 5, 10, "PodGroup");
    run.gang(&world, now);
    let off = |run: &mut Run, world: &World| {
        run.departures.pass(&world.model, &mut run.store, Some("Giveway only observes"), at(now))
    };
    assert_eq!(off(&mut run, &world).ended, [world.key("low")]);
    run.gang(&world, now);
    run.evictions(&world, now);
    run.answer(&world, "l1", &EvictOutcome::Accepted, now);
    assert!(off(&mut run, &world).ended.is_empty(), "it is committed");
}

#[test]
fn a_partially_scheduled_gang_keeps_its_pods_if_another_one_is_bound_before_the_first_eviction() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 5, 10, "PodGroup");
    world.pod(TestPod::new("l4", 10).of("low").created(100).unschedulable());
    let request = partially_scheduled(&world.model, &world.key("low"), "Partially scheduled.".into());
    run.begin_unstored(&world, request, now);
    assert!(run.pass(&world, now).ended.is_empty());
    world.pod(member("l4"));
    assert_eq!(run.pass(&world, now).ended, [world.key("low")]);
}

#[test]
fn a_departure_whose_pods_another_one_takes_over_ends_when_its_evictions_are_answered() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 5, 10, "PodGroup");
    let id = run.gang(&world, now).unwrap();
    run.stored(now);
    let record = PreemptionStatus { state: PlanState::Evicting, ..PreemptionStatus::default() };
    run.store.answered(&id, record, Ok(()), now);
    let step = run.pass(&world, now);
    let permissions = step.commands.iter().map(|command| match command {
        Command::Evict(call) => call.permission.clone(),
        other => panic!("{other:?}"),
    });
    let permissions: Vec<_> = permissions.collect();
    assert_eq!(permissions.len(), 3);
    run.rest(&world, &rest(&world, ["l1", "l2", "l3"]), now);
    assert!(permissions.iter().all(|permission| permission.is_cancelled()), "it may end before they are sent");
    assert!(run.pass(&world, now).ended.is_empty(), "its evictions are in flight");
    for (pod, outcome) in
        [("l1", EvictOutcome::Withdrawn), ("l2", EvictOutcome::Accepted), ("l3", EvictOutcome::Withdrawn)]
    {
        run.answer(&world, pod, &outcome, now);
    }
    let step = run.pass(&world, now);
    assert_eq!(step.ended, [world.key("low")]);
    assert_eq!(step.commands.len(), 2, "the other departure evicts them: {:?}", step.commands);
    let stored = run.stored(now);
    assert!(
        stored.iter().any(|plan| plan == "Cancelled: Another Preemption evicts the pods of this one."),
        "{stored:?}"
    );
}

#[test]
fn no_pod_is_evicted_in_a_protected_namespace() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    world.model.cluster.protect_namespaces(["default".to_owned()].into());
    assert!(run.scheduler(&mut world, now).is_empty() && run.gang(&world, now).is_none());
    world.model.cluster.protect_namespaces(BTreeSet::new());
    run.rest(&world, &rest(&world, ["l1", "l2", "l3"]), now);
    let step = run.pass(&world, now);
    let Some(Command::Evict(call)) = step.commands.first() else { panic!("{:?}", step.commands) };
    world.model.cluster.protect_namespaces(["default".to_owned()].into());
    let step = run.pass(&world, now);
    assert!(step.commands.is_empty() && call.permission.is_cancelled());
    assert!(step.ended.is_empty(), "the answers are missing");
    for pod in ["l1", "l3"] {
        run.answer(&world, pod, &EvictOutcome::Withdrawn, now);
    }
    let step = run.pass(&world, now);
    assert!(step.commands.is_empty());
    assert_eq!(step.ended, [world.key("low")]);
}

/// Returns the number of evicted pods in the next write of the only stored departure.
fn stored_as_evicted(run: &mut Run, now: Instant) -> i32 {
    match run.store.pass(now).as_slice() {
        [Command::StorePlan { status, .. } | Command::WritePlan { status, .. }] => status.evicted,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_departure_that_ends_counts_the_answers_to_its_evictions_in_flight() {
    let protect = |world: &mut World| {
        world.model.cluster.protect_namespaces(["default".to_owned()].into());
    };
    let bind = |world: &mut World| {
        world.pods(["l1", "l2", "l3", "l4", "l5", "l6"].map(member));
    };
    for end in [protect as fn(&mut World), bind as fn(&mut World)] {
        let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
        world.group("low", 5, 10, "PodGroup");
        let id = run.gang(&world, now).unwrap();
        run.stored(now);
        let record = PreemptionStatus { state: PlanState::Evicting, ..PreemptionStatus::default() };
        run.store.answered(&id, record, Ok(()), now);
        assert_eq!(run.evictions(&world, now).len(), 3);
        run.answer(&world, "l2", &EvictOutcome::Refused("it needs 5 healthy pods".into()), now);
        run.answer(&world, "l3", &EvictOutcome::Refused("it needs 5 healthy pods".into()), now);
        end(&mut world);
        let later = now + Duration::from_secs(1);
        let step = run.pass(&world, later);
        assert!(step.ended.is_empty() && step.commands.is_empty(), "the eviction of l1 is in flight: {step:?}");
        run.answer(&world, "l1", &EvictOutcome::Accepted, later);
        assert_eq!(run.pass(&world, later).ended, [world.key("low")]);
        assert_eq!(stored_as_evicted(&mut run, later), 1);
    }
}

#[test]
fn a_departure_without_an_answer_to_an_eviction_is_committed() {
    let (unanswered, error) = (EvictOutcome::Unanswered("timeout".into()), EvictOutcome::Error("500".into()));
    let refused = EvictOutcome::Refused("it needs 5 healthy pods".into());
    for (outcome, goes_on) in [(unanswered, true), (error, true), (refused, false)] {
        let run_with_one_eviction = || {
            let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
            world.group("low", 5, 10, "PodGroup");
            let id = run.gang(&world, now).unwrap();
            run.evictions(&world, now);
            for pod in ["l1", "l2", "l3"] {
                run.answer(&world, pod, if pod == "l1" { &outcome } else { &EvictOutcome::Withdrawn }, now);
            }
            (world, run, id, now)
        };
        let (world, mut run, id, now) = run_with_one_eviction();
        run.departures.preemption_deleted(&mut run.store, &id);
        run.pass(&world, now);
        assert_eq!(run.departures.by_id(&id).is_some(), goes_on, "its Preemption is deleted: {outcome:?}");
        assert_eq!(run.store.contains(&id), goes_on, "it is stored again: {outcome:?}");
        let (world, mut run, id, now) = run_with_one_eviction();
        let observes = Some("Giveway only observes");
        run.departures.pass(&world.model, &mut run.store, observes, at(now));
        assert_eq!(run.departures.by_id(&id).is_some(), goes_on, "evictions are switched off: {outcome:?}");
    }
}

#[test]
fn evictions_are_withdrawn_if_they_are_switched_off_before_the_first_one_is_answered() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 5, 10, "PodGroup");
    run.gang(&world, now);
    let step = run.pass(&world, now);
    let Some(Command::Evict(call)) = step.commands.first() else { panic!("{:?}", step.commands) };
    let off = |run: &mut Run, world: &World| {
        run.departures.pass(&world.model, &mut run.store, Some("Giveway only observes"), at(now))
    };
    assert!(off(&mut run, &world).ended.is_empty(), "the answers are missing");
    assert!(call.permission.is_cancelled());
    for pod in ["l1", "l2", "l3"] {
        run.answer(&world, pod, &EvictOutcome::Withdrawn, now);
    }
    assert_eq!(off(&mut run, &world).ended, [world.key("low")]);
}

#[test]
fn a_committed_departure_is_stored_again_if_its_preemption_is_deleted_and_another_one_ends() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 5, 10, "PodGroup");
    let id = run.gang(&world, now).unwrap();
    assert_eq!(run.departures.preemption_deleted(&mut run.store, &id), Some(world.key("low")));
    assert!(run.evictions(&world, now).is_empty(), "no pod was evicted");
    assert!(run.departures.by_id(&id).is_none());
    assert!(!run.store.contains(&id), "it is not created again, although the answer to its creation is missing");
    let id = run.gang(&world, now).unwrap();
    run.evictions(&world, now);
    run.answer(&world, "l1", &EvictOutcome::Accepted, now);
    assert_eq!(run.departures.preemption_deleted(&mut run.store, &id), Some(world.key("low")));
    assert!(run.evictions(&world, now + Duration::from_secs(9)).is_empty(), "it is not stored");
    assert!(run.departures.by_id(&id).is_some());
    assert_eq!(run.departures.preemption_deleted(&mut run.store, "other"), None);
}

#[test]
fn a_departure_that_is_deleted_while_evictions_are_in_flight_ends_only_if_none_of_them_is_accepted() {
    for (outcome, goes_on) in [(EvictOutcome::Withdrawn, false), (EvictOutcome::Accepted, true)] {
        let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
        world.group("low", 5, 10, "PodGroup");
        let id = run.gang(&world, now).unwrap();
        run.evictions(&world, now);
        run.departures.preemption_deleted(&mut run.store, &id);
        assert!(run.evictions(&world, now).is_empty(), "no further eviction is requested");
        assert!(run.departures.by_id(&id).is_some(), "the answers are missing");
        for pod in ["l1", "l2", "l3"] {
            run.answer(&world, pod, if pod == "l1" { &outcome } else { &EvictOutcome::Withdrawn }, now);
        }
        run.evictions(&world, now);
        assert_eq!(run.departures.by_id(&id).is_some(), goes_on, "{outcome:?}");
        assert_eq!(run.store.contains(&id), goes_on, "{outcome:?}");
    }
}

#[test]
fn a_pod_that_leaves_before_its_eviction_is_answered_counts_as_evicted() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 5, 10, "PodGroup");
    let id = run.gang(&world, now).unwrap();
    run.stored(now);
    let record = PreemptionStatus { state: PlanState::Evicting, ..PreemptionStatus::default() };
    run.store.answered(&id, record, Ok(()), now);
    run.evictions(&world, now);
    run.answer(&world, "l1", &EvictOutcome::Unanswered("timeout".into()), now);
    for name in ["l1", "l2", "l3"] {
        world.remove_pod(name);
    }
    run.evictions(&world, now);
    assert!(!run.departures.is_empty(), "two answers are missing");
    run.answer(&world, "l2", &EvictOutcome::Gone, now);
    run.answer(&world, "l3", &EvictOutcome::Error("500".into()), now);
    run.evictions(&world, now);
    assert!(run.departures.is_empty());
    let writes = run.store.pass(now);
    let evicted = writes.iter().map(|command| match command {
        Command::StorePlan { status, .. } | Command::WritePlan { status, .. } => status.evicted,
        other => panic!("{other:?}"),
    });
    assert_eq!(evicted.collect::<Vec<_>>(), [3]);
}

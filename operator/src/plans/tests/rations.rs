//! Plans that are delayed by the limits on evictions per minute: when they start, in which order their units are
//! evicted, and their messages.

use super::*;
use crate::limits::rates::{EvictionLimits, MINUTE, Rates};
use giveway_crds::wording::Names;

/// Returns a run whose plan evicts pods `a`, `b` and `c` of namespace `default`, one on each of three nodes. Those in
/// `whole` form a PodGroup that is disrupted as a whole; the others are single pods.
pub(super) fn run(whole: &[&str]) -> Run {
    let mut run = Run::new();
    run.world
        .node("n3", 1)
        .remove_pod("l1")
        .remove_pod("l2")
        .group("w", 1, 10, "PodGroup")
        .group("gang", 3, 100, "Pod");
    run.world.pod(TestPod::new("g3", 100).of("gang").gated());
    let mut plan = run.flight.plan.clone();
    plan.reason = "3 pods are evicted.".to_owned();
    plan.message.clone_from(&plan.reason);
    plan.placements.push(placement("g3", "n3"));
    let unit = |kind: &str, name: &str, pods: Vec<StoredVictimPod>| StoredVictim {
        kind: kind.into(),
        namespace: "default".into(),
        name: name.into(),
        priority: 10,
        pods,
        ..StoredVictim::default()
    };
    let (mut together, mut units) = (Vec::new(), Vec::new());
    for (name, node) in [("a", "n1"), ("b", "n2"), ("c", "n3")] {
        let pod = TestPod::new(name, 10).on(node);
        if whole.contains(&name) {
            run.world.pod(pod.of("w"));
            together.push(victim(name, node));
        } else {
            run.world.pod(pod);
            units.push(unit("Pod", name, vec![victim(name, node)]));
        }
    }
    if !together.is_empty() {
        units.push(unit("PodGroup", "w", together));
    }
    plan.victims = units;
    run.flight = Flight::new(gang(), 100, plan, run.now);
    run.flight.message = Sentence::from("3 pods are evicted.");
    run.flight.stored = Some(PlanState::Evicting);
    run
}

/// Simulates a pass of the arbiter and returns the names of the pods whose eviction is commanded.
fn pass(run: &mut Run, rates: &mut Rates) -> Vec<String> {
    let mut evicted = Vec::new();
    // Two rounds, because a nomination is confirmed in between.
    for _ in 0..2 {
        let mut tally = rates.tally(run.now);
        let mut going = crate::limits::rates::NamespaceCounts::new();
        for (namespace, uid) in run.flight.evictions_under_way().filter(|(_, uid)| !rates.counts(uid)) {
            let _ = uid;
            *going.entry(namespace.clone()).or_default() += 1;
        }
        tally.add(&going, run.now);
        let clock = Clock { now: run.now, epoch_seconds: run.epoch };
        run.flight.ration(&run.world.model, clock, &mut tally);
        for command in run.step().commands {
            match command {
                Command::Nominate { uid, .. } => run.answered(&uid, false, true),
                Command::Evict(call) => {
                    rates.note(&call.pod.namespace, &call.uid, run.now);
                    evicted.push(call.pod.name.to_string());
                }
                _ => {}
            }
        }
    }
    evicted
}

fn accepted(run: &mut Run, pods: &[&str]) {
    for pod in pods {
        run.flight.evicted(&format!("uid-{pod}"), &EvictOutcome::Accepted, run.now);
        run.world.remove_pod(pod);
    }
}

fn per_namespace(most: u32) -> Rates {
    Rates::new(EvictionLimits { namespace: Some(most), cluster: None })
}

fn limit_message(run: &Run) -> String {
    run.flight.reached_limit.as_ref().map(|limit_message| limit_message.sentence().to_string()).unwrap_or_default()
}

#[test]
fn a_plan_waits_until_the_limit_allows_all_of_it_and_says_when() {
    let (mut run, mut rates) = (run(&[]), per_namespace(3));
    rates.note(&"default".into(), &"uid-other".into(), run.now);
    run.later(10);
    assert!(pass(&mut run, &mut rates).is_empty());
    assert_eq!(run.flight.plan.state, PlanState::Planned, "no placement is reserved, no pod is evicted");
    let words = "Evictions in namespace default are limited to 3 a minute; more are allowed at 1970-01-01T00:01:00Z.";
    assert_eq!(limit_message(&run), words);
    assert_eq!(run.flight.message_with_limit(), format!("3 pods are evicted. {words}"));
    run.later(49);
    assert!(pass(&mut run, &mut rates).is_empty());
    assert_eq!(limit_message(&run), words, "the announced time stays");
    run.later(1);
    assert_eq!(pass(&mut run, &mut rates), ["a", "b", "c"]);
    assert_eq!((limit_message(&run).as_str(), run.flight.message_with_limit().as_str()), ("", "3 pods are evicted."));
}

#[test]
fn a_plan_above_the_limit_starts_after_a_minute_without_evictions_and_evicts_unit_by_unit() {
    let (mut run, mut rates) = (run(&[]), per_namespace(2));
    rates.note(&"default".into(), &"uid-other".into(), run.now);
    run.later(59);
    assert!(pass(&mut run, &mut rates).is_empty(), "the limit allows one");
    run.later(1);
    assert_eq!(pass(&mut run, &mut rates), ["a", "b"]);
    assert_eq!(run.flight.plan.state, PlanState::Evicting);
    accepted(&mut run, &["a", "b"]);
    run.later(59);
    assert!(pass(&mut run, &mut rates).is_empty());
    assert!(limit_message(&run).contains("1970-01-01T00:02:00Z"), "{}", limit_message(&run));
    run.later(1);
    assert_eq!(pass(&mut run, &mut rates), ["c"]);
}

#[test]
fn a_group_larger_than_the_limit_is_disrupted_together_and_alone() {
    let (mut run, mut rates) = (run(&["a", "b"]), per_namespace(1));
    rates.note(&"default".into(), &"uid-other".into(), run.now);
    run.later(60);
    assert_eq!(pass(&mut run, &mut rates), ["c"]);
    accepted(&mut run, &["c"]);
    run.later(59);
    assert!(pass(&mut run, &mut rates).is_empty());
    run.later(1);
    assert_eq!(pass(&mut run, &mut rates), ["a", "b"], "both, though one is the limit");
}

#[test]
fn a_partially_disrupted_unit_is_finished_whatever_the_limits() {
    let (mut run, mut rates) = (run(&["a", "b", "c"]), per_namespace(3));
    assert_eq!(pass(&mut run, &mut rates), ["a", "b", "c"]);
    run.flight.evicted("uid-a", &EvictOutcome::Accepted, run.now);
    run.flight.evicted("uid-b", &EvictOutcome::Error("500".into()), run.now);
    run.flight.evicted("uid-c", &EvictOutcome::Accepted, run.now);
    for other in ["x", "y", "z"] {
        rates.note(&"default".into(), &other.into(), run.now);
    }
    run.later(1);
    assert_eq!(pass(&mut run, &mut rates), ["b"]);
}

#[test]
fn victims_that_a_budget_may_refuse_are_evicted_first_within_the_limit() {
    let (mut run, mut rates) = (run(&[]), per_namespace(1));
    run.world.budget("db", "db", 1).pod(TestPod::new("c", 10).on("n3").guarded("db", 5000));
    let mut tally = rates.tally(run.now);
    run.flight.ration(&run.world.model, Clock { now: run.now, epoch_seconds: 0 }, &mut tally);
    assert_eq!(run.flight.ration, Some(BTreeSet::from([2])), "the last one of the plan");
}

#[test]
fn the_namespace_of_a_victim_is_named_only_if_names_are_shown_across_namespaces() {
    let (mut run, mut rates) = (run(&[]), per_namespace(3));
    run.flight.plan.victims.iter_mut().for_each(|unit| unit.namespace = "theirs".into());
    rates.note(&"theirs".into(), &"uid-other".into(), run.now);
    let mut tally = rates.tally(run.now);
    run.flight.ration(&run.world.model, Clock { now: run.now, epoch_seconds: 0 }, &mut tally);
    let words = |names| run.flight.message_for_preemptor(names);
    assert!(words(Names { across: true }).contains("Evictions in namespace theirs are limited to 3 a minute"));
    assert!(words(Names::default()).contains("Evictions in a namespace of the victims are limited to 3 a minute"));
}

#[test]
fn the_more_important_of_two_plans_uses_the_limit_and_the_other_what_is_left() {
    let (mut first, mut second, mut rates) = (run(&[]), run(&[]), per_namespace(4));
    for other in ["x", "y"] {
        rates.note(&"default".into(), &other.into(), first.now);
    }
    let clock = Clock { now: first.now, epoch_seconds: 0 };
    let mut tally = rates.tally(clock.now);
    first.flight.ration(&first.world.model, clock, &mut tally);
    second.flight.ration(&second.world.model, clock, &mut tally);
    assert!(limit_message(&first).contains("00:01:00Z"), "{}", limit_message(&first));
    assert!(
        limit_message(&second).contains("00:02:00Z"),
        "the first plan has evicted by then: {}",
        limit_message(&second)
    );
    assert_eq!(MINUTE.as_secs(), 60);
}

#[test]
fn a_plan_that_waits_for_the_rates_reserves_nothing() {
    let (mut waiting, mut rates) = (run(&[]), per_namespace(3));
    rates.note(&"default".into(), &"uid-other".into(), waiting.now);
    pass(&mut waiting, &mut rates);
    assert!(waiting.flight.reached_limit.is_some());
    let (flight, cluster) = (&waiting.flight, &waiting.world.model.cluster);
    assert!(flight.members.iter().all(|member| flight.reservation(cluster, member).is_none()));
}

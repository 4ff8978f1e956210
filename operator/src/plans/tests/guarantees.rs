//! Victims with guaranteed budgets: their order, the effect of a refusal, and that no needless eviction is made.

use super::*;

/// Replaces the victims of the run by single pods, each on a node of its own: `(name, threshold)`.
fn singles(run: &mut Run, pods: &[(&str, Option<i32>)]) {
    let single = |(index, (name, _)): (usize, &(&str, Option<i32>))| StoredVictim {
        kind: "Pod".into(),
        namespace: "default".into(),
        name: (*name).to_owned(),
        priority: 10,
        pods: vec![victim(name, &format!("n{}", index + 1))],
        ..StoredVictim::default()
    };
    let mut plan = run.flight.plan.clone();
    plan.victims = pods.iter().enumerate().map(single).collect();
    run.flight = Flight::new(gang(), 100, plan, run.now);
    run.flight.stored = Some(PlanState::Evicting);
    // One of the three pods must stay healthy.
    run.world.node("n3", 1).budget("db", "db", 2).pod(TestPod::new("db-0", 500).on("n3").guarded("db", 5000));
    run.world.remove_pod("l1").remove_pod("l2");
    for (index, (name, threshold)) in pods.iter().enumerate() {
        let pod = TestPod::new(name, 10).on(&format!("n{}", index + 1));
        run.world.pod(match threshold {
            Some(threshold) => pod.guarded("db", *threshold),
            None => pod,
        });
    }
    run.step();
    run.nominated();
}

#[test]
fn a_victim_that_a_budget_can_refuse_is_evicted_first() {
    let mut run = Run::new();
    singles(&mut run, &[("plain", None), ("db", Some(5000))]);
    assert_eq!(names(&run.step()), ["evict db"]);
    run.flight.evicted("uid-db", &EvictOutcome::Accepted, run.now);
    assert_eq!(names(&run.step()), ["evict plain"]);
}

#[test]
fn after_a_refusal_no_other_pod_is_evicted_and_the_reservations_stay() {
    let mut run = Run::new();
    singles(&mut run, &[("plain", None), ("db", Some(5000))]);
    run.step();
    run.flight.evicted("uid-db", &EvictOutcome::Refused("it needs 2 healthy pods and has 2".into()), run.now);
    let advance = run.step();
    assert!(names(&advance).is_empty(), "{:?}", names(&advance));
    let ended = advance.ended.unwrap();
    assert_eq!(
        ended.message.to_string(),
        "The eviction of pod default/db was refused: it needs 2 healthy pods and has 2"
    );
    assert_eq!(run.flight.units_with_evictions().len(), 0);
}

#[test]
fn of_several_refusable_victims_none_is_evicted_before_all_are_allowed() {
    let mut run = Run::new();
    run.rehearsals_succeed = false;
    singles(&mut run, &[("db-1", Some(5000)), ("db-2", Some(5000))]);
    run.ungating_rehearsed();
    run.flight.evicted("uid-db-1", &EvictOutcome::Allowed, run.now);
    assert!(names(&run.step()).is_empty(), "one answer is missing");
    run.flight.evicted("uid-db-2", &EvictOutcome::Allowed, run.now);
    assert_eq!(names(&run.step()), ["evict db-1", "evict db-2"]);
    let mut other = Run::new();
    other.rehearsals_succeed = false;
    singles(&mut other, &[("db-1", Some(5000)), ("db-2", Some(5000))]);
    other.ungating_rehearsed();
    other.flight.evicted("uid-db-1", &EvictOutcome::Allowed, other.now);
    other.flight.evicted("uid-db-2", &EvictOutcome::Refused("two budgets".into()), other.now);
    assert_eq!(other.step().ended.unwrap().state, PlanState::Cancelled);
    assert_eq!(other.flight.requested_evictions(), 0, "no pod was evicted");
}

#[test]
fn a_preemptor_that_reaches_the_threshold_may_delete_after_a_refusal() {
    let mut run = Run::new();
    singles(&mut run, &[("plain", None), ("db", Some(100))]);
    let advance = run.step();
    assert_eq!(names(&advance), ["evict plain", "evict db"]);
    assert!(matches!(&advance.commands[1], Command::Evict(call) if call.budgeted && call.may_force));
}

#[test]
fn a_pod_with_a_threshold_is_not_deleted_although_no_budget_is_known() {
    let mut run = Run::new();
    run.flight.stored = Some(PlanState::Evicting);
    run.world.pod(TestPod::new("l1", 10).of("low").on("n1").guarded("db", 5000));
    run.world.pod(TestPod::new("l2", 10).of("low").on("n2"));
    run.step();
    run.nominated();
    let advance = run.step();
    assert_eq!(names(&advance), ["evict l1", "evict l2"]);
    let asks = |command: &Command| matches!(command, Command::Evict(call) if !call.may_force);
    assert!(advance.commands.iter().all(asks), "the budget may have been created a moment ago");
}

#[test]
fn a_group_is_as_guarded_as_its_most_guarded_pod_and_a_refusal_evicts_no_pod_of_it() {
    let mut run = Run::new();
    run.rehearsals_succeed = false;
    run.flight.stored = Some(PlanState::Evicting);
    run.world.node("n3", 1).budget("db", "db", 2).pod(TestPod::new("db-0", 500).on("n3").guarded("db", 5000));
    run.world.pod(TestPod::new("l1", 10).of("low").on("n1").guarded("db", 50));
    run.world.pod(TestPod::new("l2", 10).of("low").on("n2").guarded("db", 5000));
    let rehearsals = names(&run.step()).into_iter().filter(|name| name.starts_with("rehearse l"));
    assert_eq!(
        rehearsals.collect::<Vec<_>>(),
        ["rehearse l1", "rehearse l2"],
        "also the one whose own threshold is reached"
    );
    run.nominated();
    run.ungating_rehearsed();
    run.flight.evicted("uid-l1", &EvictOutcome::Allowed, run.now);
    run.flight.evicted("uid-l2", &EvictOutcome::Refused("none allowed".into()), run.now);
    let advance = run.step();
    assert!(names(&advance).is_empty() && advance.ended.is_some(), "{:?}", names(&advance));
}

#[test]
fn a_budget_status_that_lags_behind_deletions_is_not_used() {
    let mut run = Run::new();
    singles(&mut run, &[("plain", None), ("db", Some(5000))]);
    run.world.pod(TestPod::new("db-0", 500).on("n3").guarded("db", 5000).terminating());
    let advance = run.step();
    assert!(names(&advance).is_empty(), "{:?}", names(&advance));
    let words =
        "The eviction of pod default/db was refused: The disruption budget db needs 1 healthy pods and has 1 currently";
    assert_eq!(advance.ended.unwrap().message.to_string(), words);
    assert!(run.flight.refused.contains_key("uid-db"));
}

/// The budget of a PodGroup's pod is used up after the first pod of the PodGroup was evicted.
#[test]
fn pods_that_a_budget_keeps_are_handed_over() {
    let mut run = Run::new();
    run.flight.stored = Some(PlanState::Evicting);
    run.world.pod(TestPod::new("l1", 10).of("low").on("n1").guarded("db", 5000));
    run.step();
    run.nominated();
    assert_eq!(names(&run.step()), ["evict l1", "evict l2"]);
    run.flight.evicted("uid-l1", &EvictOutcome::Accepted, run.now);
    run.world.remove_pod("l1");
    run.flight.evicted("uid-l2", &EvictOutcome::Refused("0 allowed".into()), run.now);
    let advance = run.step();
    assert_eq!(names(&advance), ["leave uid-l2"]);
    assert!(advance.ended.is_none() && advance.rest[0].guaranteed, "by l1, which was deleted");
    run.flight.handed_over = true;
    let advance = run.step();
    assert!(names(&advance).is_empty(), "the reservations are kept for the next plan: {:?}", names(&advance));
    let ended = advance.ended.unwrap();
    assert_eq!((ended.state, run.flight.plan.state), (PlanState::Cancelled, PlanState::Cancelled));
    assert_eq!(ended.message.to_string(), "The eviction of pod default/l2 was refused: 0 allowed");
}

/// Returns a plan that may begin to evict these pods for a preemptor of this priority.
fn beginning(name: &str, priority: i32, pods: &[&str], now: Instant) -> Flight {
    let single = |name: &&str| StoredVictim {
        kind: "Pod".into(),
        namespace: "default".into(),
        name: (*name).to_owned(),
        priority: 10,
        pods: vec![victim(name, "n1")],
        ..StoredVictim::default()
    };
    let victims = pods.iter().map(single).collect();
    let plan = StoredPlan { id: name.into(), state: PlanState::Evicting, victims, ..StoredPlan::default() };
    Flight::new(Preemptor::Group(ObjectKey::new("default", name)), priority, plan, now)
}

#[test]
fn plans_of_strictly_higher_priority_claim_disruptions_of_the_budgets_of_a_plan_before_its_first_eviction() {
    let (mut world, now) = (World::new(), Instant::now());
    world.node("n1", 8).budget("db", "db", 2).budget("web", "web", 1);
    for name in ["db-1", "db-2", "db-3", "db-4"] {
        world.pod(TestPod::new(name, 10).on("n1").guarded("db", 5000));
    }
    world.pod(TestPod::new("web-1", 10).on("n1").guarded("web", 5000));
    let claimed = |change: &dyn Fn(&mut Flight, &mut Flight)| {
        let mut own = beginning("own", 100, &["db-1", "db-2"], now);
        let mut other = beginning("other", 200, &["db-2", "db-3", "db-4", "web-1"], now);
        change(&mut own, &mut other);
        let preemptor = own.preemptor.clone();
        Flights::from([own, other]).claimed_by_higher_plans(&preemptor, &world.model)
    };
    let none = BTreeMap::new();
    let two = BTreeMap::from([(ObjectKey::new("default", "db"), 2)]);
    assert_eq!(claimed(&|_, _| {}), two, "both plans evict db-2, and web-1 has another budget");
    assert_eq!(claimed(&|_, other| other.priority = 100), none, "the same priority");
    assert_eq!(claimed(&|own, _| own.victims[0].call.start()), none, "the first eviction is made");
    assert_eq!(claimed(&|own, _| own.plan.state = PlanState::Planned), none, "no eviction is due");
    let postpone = |_: &mut Flight, other: &mut Flight| {
        (other.plan.state, other.postponed) = (PlanState::Planned, true);
    };
    assert_eq!(claimed(&postpone), none, "the other plan is postponed");
    assert_eq!(claimed(&|_, other| other.drop_plan(PlanState::Cancelled, "Not needed any more.")), none);
}

#[test]
fn a_plan_is_cancelled_before_its_first_eviction_if_plans_of_higher_priority_need_the_disruptions() {
    let mut run = Run::new();
    singles(&mut run, &[("plain", None), ("db", Some(5000))]);
    let claimed = BTreeMap::from([(ObjectKey::new("default", "db"), 1)]);
    let advance = run.step_with(&Context::default(), PlanLimits { claimed: &claimed, ..LIMITS });
    assert!(names(&advance).is_empty(), "{:?}", names(&advance));
    let words = "The eviction of pod default/db was refused: The disruption budget db needs 1 healthy pods and has 2 currently, of which \
                 plans of higher priority evict 1";
    assert_eq!(advance.ended.unwrap().message.to_string(), words);
}

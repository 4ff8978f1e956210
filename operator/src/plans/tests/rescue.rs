//! Plans for critical add-ons: the taint is added before the first eviction and removed with the plan, whatever its
//! outcome.

use super::*;
use giveway_crds::keys;
use giveway_crds::plan::StoredRescue;
use giveway_planner::rescue::Terms;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;

fn addon() -> TestPod {
    addon_of(0)
}

fn addon_of(priority: i32) -> TestPod {
    let tolerates = json!([{"key": keys::TAINT_CRITICAL, "operator": "Exists"}]);
    let pod = TestPod::new("dns", priority).annotated(keys::ANNOTATION_CRITICAL, "true").unschedulable();
    pod.spec("tolerations", tolerates)
}

fn low(name: &str, grace: i64) -> TestPod {
    TestPod::new(name, 1000).on("n1").spec("terminationGracePeriodSeconds", json!(grace))
}

fn single(name: &str) -> StoredVictim {
    StoredVictim {
        kind: "Pod".into(),
        namespace: "default".into(),
        name: name.into(),
        priority: 1000,
        pods: vec![victim(name, "n1")],
        ..StoredVictim::default()
    }
}

fn key() -> Preemptor {
    Preemptor::Pod(ObjectKey::new("default", "dns"))
}

/// Returns a run with pods `a` and `b` of a higher priority on the only node, and a plan of this step that evicts `a`
/// for add-on `dns`.
fn run(step: i32, taint: bool) -> Run {
    let mut world = World::new();
    world.node("n1", 2).pod(low("a", 3600)).pod(low("b", 0)).pod(addon());
    let stored = StoredRescue { step, taint };
    let plan = StoredPlan {
        id: "p1".into(),
        placements: vec![placement("dns", "n1")],
        victims: vec![single("a")],
        preemptor: StoredPreemptor { kind: "Pod".into(), uid: "uid-dns".into(), ..StoredPreemptor::default() },
        cost: StoredCost { victim_pods: 1, ..StoredCost::default() },
        critical_addon: Some(stored),
        planned_at: Some(Time(Timestamp::UNIX_EPOCH)),
        ..StoredPlan::default()
    };
    let now = Instant::now();
    let terms = Arc::new(Terms { namespaces: BTreeSet::from(["default".to_owned()]), stranded: false });
    let mut flight = Flight::new(key(), 0, plan, now).rescuing(AddonRescue::new(stored, terms));
    flight.stored = Some(PlanState::Evicting);
    Run { world, flight, now, epoch: 0, rehearsals_succeed: true }
}

/// Returns the run after the node was tainted, with the commanded eviction.
fn tainted(step: i32) -> (Run, Box<crate::messages::command::EvictCall>) {
    let mut run = run(step, true);
    assert_eq!(names(&run.step()), ["taint n1", "nominate dns n1"], "before the first eviction");
    run.answered("uid-dns", false, true);
    assert!(names(&run.step()).is_empty(), "the other answer is awaited");
    run.flight.taint_answered(true, true, run.now);
    let mut advance = run.step();
    assert_eq!(names(&advance), ["evict a"]);
    let Some(Command::Evict(call)) = advance.commands.pop() else { panic!("no eviction") };
    (run, call)
}

impl Run {
    /// Simulates that the API server confirmed the nomination and the taint.
    fn kept(&mut self) {
        self.answered("uid-dns", false, true);
        self.flight.taint_answered(true, true, self.now);
    }
}

/// Advances the plan until the taint is removed; returns its final state and message.
fn ends(run: &mut Run) -> (PlanState, String) {
    let advance = run.step();
    assert_eq!(names(&advance), ["untaint n1"]);
    assert!(advance.ended.is_none(), "not before the taint is removed");
    run.flight.taint_answered(false, true, run.now);
    let ended = run.step().ended.unwrap();
    (ended.state, ended.message.to_string())
}

#[test]
fn a_plan_runs_from_the_taint_to_the_bound_pod_and_takes_the_taint_with_it() {
    let (mut run, call) = tainted(2);
    assert_eq!((call.grace, call.may_force), (Some(10), false));
    assert_eq!(
        call.message.to_string(),
        "Preempted by pod default/dns of priority 0, a critical add-on that needs its capacity. Its grace period of 3600 s is shortened to 10 s."
    );
    run.flight.evicted("uid-a", &EvictOutcome::Accepted, run.now);
    run.step();
    run.world.remove_pod("a");
    run.step();
    assert_eq!(run.flight.plan.state, PlanState::Ungating);
    run.later(59);
    // The taint and the nomination are set again if the model shows that they were removed.
    let again = ["taint n1", "nominate dns n1"];
    assert_eq!(names(&run.step()), again, "the binding timeout of gangs does not count");
    run.answered("uid-dns", false, true);
    run.flight.taint_answered(true, true, run.now);
    run.world.pod(TestPod::new("dns", 0).on("n1"));
    let words = "The critical add-on was bound to node n1; 1 of 1 pod was evicted.";
    assert_eq!(ends(&mut run), (PlanState::Completed, words.to_owned()));
}

/// Returns a run in which the victim has terminated and the pod could be bound.
fn fitting() -> Run {
    let (mut run, _) = tainted(2);
    run.flight.evicted("uid-a", &EvictOutcome::Accepted, run.now);
    run.world.remove_pod("a");
    run.world.node("n1", 2).pod(addon().nominated("n1"));
    run.step();
    assert_eq!(run.flight.plan.state, PlanState::Ungating);
    run
}

#[test]
fn a_pod_that_is_not_bound_within_a_minute_yields_to_the_next_one() {
    for is_down in [false, true] {
        let mut run = fitting();
        let limits = PlanLimits { scheduler: SchedulerPace { is_down, ..SchedulerPace::UNKNOWN }, ..LIMITS };
        run.later(59);
        run.step_with(&Context::default(), limits);
        assert!(run.flight.ending.is_none());
        run.later(1);
        run.step_with(&Context::default(), limits);
        let (state, why) = run.flight.ending.as_ref().map(|end| (end.state, end.message.to_string())).unwrap();
        assert_eq!(state, PlanState::Failed);
        assert!(
            why.starts_with("kube-scheduler did not bind every ungated pod within 60 s and says of pod dns: "),
            "{why}"
        );
        let banned = [(SmolStr::new("uid-dns"), SmolStr::new("n1"))];
        let expected = if is_down { &banned[..0] } else { &banned[..] };
        assert_eq!(run.flight.unbound, expected, "a scheduler that is down refuses nothing");
    }
}

#[test]
fn an_eviction_that_leads_nowhere_for_ten_minutes_is_not_repeated_on_that_node() {
    let (mut run, _) = tainted(2);
    run.flight.evicted("uid-a", &EvictOutcome::Accepted, run.now);
    run.world.pod(low("a", 3600).deleted(10_000));
    run.step();
    assert_eq!(run.flight.plan.state, PlanState::WaitingForVictims);
    run.later(600);
    run.step();
    assert_eq!(run.flight.ending.as_ref().map(|ending| ending.state), Some(PlanState::Failed));
    assert_eq!(run.flight.unbound, [(SmolStr::new("uid-dns"), SmolStr::new("n1"))]);
}

#[test]
fn only_the_third_step_deletes_what_a_budget_refuses() {
    assert!(!tainted(1).1.may_force);
    let (mut second, call) = tainted(2);
    assert!(!call.may_force);
    second.flight.evicted("uid-a", &EvictOutcome::Refused("it needs 1 healthy pod".into()), second.now);
    assert_eq!(ends(&mut second).0, PlanState::Cancelled);
    let (_, call) = tainted(3);
    assert!(call.may_force, "after the eviction API was asked");
}

#[test]
fn a_guaranteed_budget_holds_in_the_third_step_too() {
    let mut run = run(3, true);
    run.world.budget("db", "db", 1).pod(low("a", 0).guarded("db", 2_000_000_000));
    run.world.node("n2", 1).pod(TestPod::new("db-0", 1000).on("n2").guarded("db", 2_000_000_000));
    run.step();
    run.kept();
    let advance = run.step();
    assert!(matches!(&advance.commands[..], [Command::Evict(call)] if !call.may_force && call.refusable()));
    run.flight.plan.preemptor.priority = 2_000_000_000;
    run.world.pod(addon_of(2_000_000_000));
    run.flight.evicted("uid-a", &EvictOutcome::Error("timeout".into()), run.now);
    run.later(1);
    assert!(
        matches!(&run.step().commands[..], [Command::Evict(call)] if call.may_force),
        "a critical priority reaches it"
    );
}

#[test]
fn a_pod_that_does_not_tolerate_the_taint_is_nominated_instead() {
    let mut run = run(1, false);
    assert_eq!(names(&run.step()), ["nominate dns n1"]);
    run.answered("uid-dns", false, true);
    assert_eq!(names(&run.step()), ["evict a"]);
    run.world.remove_pod("dns");
    run.flight.evicted("uid-a", &EvictOutcome::Accepted, run.now);
    assert_eq!(
        run.step().ended.unwrap().message.to_string(),
        "Pod default/dns was deleted or has ended; 1 of 1 pod was evicted."
    );
}

#[test]
fn every_end_of_the_plan_removes_the_taint() {
    type Change = fn(&mut Run);
    let cases: [(Change, PlanState, &str); 5] = [
        (
            |run| {
                run.world.remove_pod("dns");
            },
            PlanState::Cancelled,
            "Pod default/dns was deleted or has ended; no pod was evicted.",
        ),
        (
            |run| {
                run.world.node("n2", 1).pod(addon().on("n2"));
            },
            PlanState::Cancelled,
            "kube-scheduler bound the critical add-on to node n2, not to the node of the plan; no pod was evicted.",
        ),
        (
            |run| {
                run.world.node("n2", 1);
            },
            PlanState::Cancelled,
            "Capacity became free; no pod was evicted.",
        ),
        (
            |run| {
                run.world.pod(low("a", 0).annotated(keys::ANNOTATION_CRITICAL, "true"));
            },
            PlanState::Cancelled,
            "No pod was evicted: pod default/a is a critical pod now, which is not evicted for a critical add-on.",
        ),
        (
            |run| run.later(600),
            PlanState::Failed,
            "kube-scheduler did not bind the critical add-on to node n1 within 10 minutes.",
        ),
    ];
    for (change, state, words) in cases {
        let mut run = run(1, true);
        run.step();
        run.kept();
        change(&mut run);
        assert_eq!(ends(&mut run), (state, words.to_owned()));
        assert_eq!(run.flight.requested_evictions(), 0);
    }
}

#[test]
fn a_cordoned_or_deleted_node_cancels_the_plan() {
    let (mut run, _) = tainted(1);
    run.flight.evicted("uid-a", &EvictOutcome::Accepted, run.now);
    run.world.remove_node("n1");
    let ended = run.step().ended.unwrap();
    assert_eq!(ended.state, PlanState::Cancelled);
    assert_eq!(
        ended.message.to_string(),
        "The plan became infeasible while victims terminated: Node n1, planned for pod default/dns, does not exist any more."
    );
}

#[test]
fn the_plan_is_checked_between_two_evictions() {
    let (mut run, _) = tainted(1);
    run.flight.evicted("uid-a", &EvictOutcome::Error("timeout".into()), run.now);
    run.world
        .model
        .apply(crate::messages::input::Input::Node(crate::messages::input::Update::Deleted(ObjectKey::new("", "n1"))));
    run.later(1);
    let ended = run.step().ended.unwrap();
    assert_eq!(
        ended.message.to_string(),
        "The plan is no longer valid: Node n1, planned for pod default/dns, does not exist any more."
    );
}

#[test]
fn what_is_left_of_a_group_is_handed_over_and_the_node_is_free_for_others_at_once() {
    let mut run = run(1, true);
    run.world.group("g", 2, 1000, "PodGroup");
    run.world.pod(low("a", 0).of("g")).pod(low("b", 0).of("g")).budget("all", "x", 2);
    let unit = StoredVictim {
        kind: "PodGroup".into(),
        name: "g".into(),
        pods: vec![victim("a", "n1"), victim("b", "n1")],
        ..single("g")
    };
    let mut plan = run.flight.plan.clone();
    plan.victims = vec![unit];
    let rescue = run.flight.rescue.clone().unwrap();
    run.flight = Flight::new(key(), 0, plan, run.now).rescuing(rescue);
    run.flight.stored = Some(PlanState::Evicting);
    run.step();
    run.kept();
    assert_eq!(names(&run.step()), ["evict a", "evict b"]);
    run.flight.evicted("uid-a", &EvictOutcome::Accepted, run.now);
    run.flight.evicted("uid-b", &EvictOutcome::Refused("the budget was changed".into()), run.now);
    assert_eq!(names(&run.step()), ["untaint n1", "leave uid-b"]);
    run.flight.taint_answered(false, true, run.now);
    let advance = run.step();
    assert!(!run.flight.keeps_node(), "others may have the node, and other add-ons their turn");
    let lets_node_go = |command: &Command| matches!(command, Command::ReleaseNode { plan } if plan == "p1");
    assert!(advance.commands.iter().any(lets_node_go), "{:?}", advance.commands);
    assert!(advance.ended.is_none() && !advance.rest[0].guaranteed);
    run.flight.handed_over = true;
    assert_eq!(run.step().ended.unwrap().state, PlanState::Cancelled);
}

#[test]
fn a_taint_that_cannot_be_removed_is_left_to_the_sweep_after_a_while() {
    let (mut run, _) = tainted(1);
    run.world.remove_pod("dns");
    run.flight.evicted("uid-a", &EvictOutcome::Accepted, run.now);
    for _ in 0..6 {
        assert_eq!(names(&run.step()), ["untaint n1"]);
        run.flight.taint_answered(false, false, run.now);
        run.later(10);
    }
    assert_eq!(run.step().ended.unwrap().state, PlanState::Cancelled);
}

#[test]
fn a_plan_of_an_earlier_leader_is_checked_by_its_own_rules() {
    let mut sound = run(2, true);
    sound.flight.resume();
    assert_eq!(sound.dropped(), "", "neither a higher priority of the victim nor policy Never matters");
    let mut ordinary = run(2, true);
    ordinary.flight.resume();
    ordinary.world.pod(TestPod::new("dns", 0).unschedulable());
    assert_eq!(ordinary.dropped(), "pod default/dns is not a critical add-on any more.");
}

//! Departures: which pods they evict.

mod endings;
mod refusals;
mod requests;
mod resuming;

use super::begin::{DepartureRequest, member_preempted, partially_disrupted, partially_scheduled};
use super::plan_store::PlanStore;
use super::{DepartureStep, Departures};
use crate::clock::Clock;
use crate::messages::command::{Command, EvictOutcome, EvictionCause};
use crate::plans::RemainingPods;
use crate::testing::{TestPod, World};
use giveway_crds::plan::{PlanState, StoredPlan, StoredPreemptor};
use giveway_crds::preemption::PreemptionStatus;
use giveway_planner::Preemptor;
use requests::call;
use std::time::{Duration, Instant};

const THEIRS: &str = "default-scheduler: preempting to accommodate a higher priority pod";

/// Returns a clock with this time.
fn at(now: Instant) -> Clock {
    Clock { now, epoch_seconds: 300 }
}

/// Returns a cluster with PodGroup `low` of three pods on one node.
fn world() -> World {
    let mut world = World::new();
    world.node("n1", 8).group("low", 3, 10, "PodGroup").group("loose", 1, 10, "Pod");
    for name in ["l1", "l2", "l3"] {
        world.pod(member(name));
    }
    world
}

fn member(name: &str) -> TestPod {
    TestPod::new(name, 10).of("low").on("n1").created(100)
}

/// Departures under test, with the store that they write to.
#[derive(Default)]
struct Run {
    departures: Departures,
    store: PlanStore,
    number: usize,
}

impl Run {
    /// Resumes a stored departure as a new leader does.
    fn of_next_leader(world: &World, plan: StoredPlan, now: Instant) -> Self {
        let mut run = Self::default();
        assert!(run.departures.resume(&world.model, &mut run.store, plan, now).is_some());
        run
    }

    /// Begins a departure and marks it as stored. Returns its name, or `None` if none began.
    fn begin(&mut self, world: &World, request: Option<DepartureRequest>, now: Instant) -> Option<String> {
        let id = self.begin_unstored(world, request, now)?;
        self.departures.note_stored(&id);
        Some(id)
    }

    fn begin_unstored(&mut self, world: &World, request: Option<DepartureRequest>, now: Instant) -> Option<String> {
        self.number += 1;
        let (request, id) = (request?, format!("d-{}", self.number));
        let is_new = self.departures.begin(&world.model, &mut self.store, request, (id.clone(), "term"), at(now));
        is_new.then_some(id)
    }

    /// Begins the departures after preemptions by kube-scheduler. Returns the messages.
    fn scheduler(&mut self, world: &mut World, now: Instant) -> Vec<String> {
        let mut messages = Vec::new();
        for preempted in world.model.take_preempted_by_scheduler().into_values() {
            let request = member_preempted(&world.model, &preempted);
            let message = request.as_ref().map(|request| request.message.to_string());
            if self.begin(world, request, now).is_some() {
                messages.extend(message);
            }
        }
        messages
    }

    fn gang(&mut self, world: &World, now: Instant) -> Option<String> {
        self.begin(world, partially_scheduled(&world.model, &world.key("low"), "Partially scheduled.".into()), now)
    }

    fn rest(&mut self, world: &World, rest: &RemainingPods, now: Instant) -> Option<String> {
        self.begin(world, partially_disrupted(&world.model, rest), now)
    }

    fn pass(&mut self, world: &World, now: Instant) -> DepartureStep {
        self.departures.pass(&world.model, &mut self.store, None, at(now))
    }

    /// Returns the evictions that are requested now; `force` if the pod is deleted where a budget refuses its eviction.
    fn evictions(&mut self, world: &World, now: Instant) -> Vec<String> {
        let call = |command: &Command| match command {
            Command::Evict(call) => format!("{} {}", call.pod.name, if call.may_force { "force" } else { "ask" }),
            other => format!("{other:?}"),
        };
        self.pass(world, now).commands.iter().map(call).collect()
    }

    fn answer(&mut self, world: &World, pod: &str, outcome: &EvictOutcome, now: Instant) {
        let (group, key, uid) = (world.key("low"), world.key(pod), format!("uid-{pod}"));
        self.departures.requests.answered(&uid.as_str().into(), outcome, now);
        self.departures.evicted(&group, &key, &uid, outcome, now).expect("it is a member");
    }

    /// Returns the state and message that are stored of the departures, in the order in which they began.
    fn stored(&mut self, now: Instant) -> Vec<String> {
        let status = |command: Command| match command {
            Command::StorePlan { plan, status, .. } => {
                format!("{} {}: {}", plan.cause.as_str(), status.state.as_str(), status.message)
            }
            Command::WritePlan { status, .. } => format!("{}: {}", status.state.as_str(), status.message),
            other => format!("{other:?}"),
        };
        self.store.pass(now).into_iter().map(status).collect()
    }
}

fn rest<const N: usize>(world: &World, pods: [&str; N]) -> RemainingPods {
    RemainingPods {
        plan: "p-1".into(),
        group: world.key("low"),
        pods: pods.map(|pod| format!("uid-{pod}").into()).into(),
        guaranteed: false,
        priority: 100,
        preemptor: StoredPreemptor { uid: "uid-high".into(), priority: 100, ..StoredPreemptor::default() },
    }
}

#[test]
fn the_other_pods_are_evicted_after_the_departure_was_stored() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS));
    assert!(run.scheduler(&mut world, now).is_empty(), "announced, but not deleted");
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    let preempted = world.model.take_preempted_by_scheduler().into_values().next().unwrap();
    let request = member_preempted(&world.model, &preempted);
    let id = run.begin_unstored(&world, request, now).unwrap();
    let words = "Preempted by kube-scheduler: it preempted pod l2, so the 2 other pods of the PodGroup are evicted.";
    assert_eq!(run.stored(now), [format!("MemberPreempted Evicting: {words}")]);
    assert!(run.evictions(&world, now).is_empty(), "it is not stored yet");
    run.departures.note_stored(&id);
    assert_eq!(run.evictions(&world, now), ["l1 ask", "l3 ask"]);
    assert!(run.evictions(&world, now).is_empty(), "no answers yet");
    run.answer(&world, "l1", &EvictOutcome::Accepted, now);
    run.answer(&world, "l3", &EvictOutcome::Error("down".into()), now);
    world.remove_pod("l1");
    assert_eq!(run.evictions(&world, now + Duration::from_secs(1)), ["l3 ask"]);
    world.remove_pod("l3");
    assert!(run.pass(&world, now).ended.is_empty(), "an answer is missing");
    run.answer(&world, "l3", &EvictOutcome::Gone, now);
    assert_eq!(run.pass(&world, now).ended, [world.key("low")]);
    assert!(!run.departures.has_departure_of(&world.key("low")));
    let record = PreemptionStatus { state: PlanState::Evicting, message: words.into(), ..PreemptionStatus::default() };
    run.store.answered(&id, record, Ok(()), now);
    assert_eq!(run.stored(now), ["Completed: The 2 pods that this Preemption evicts have terminated."]);
}

#[test]
fn a_pod_that_was_bound_in_the_second_of_the_preemption_is_evicted_only_if_it_can_not_be_a_replacement() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    // A new leader first sees the preempted pod while it is terminating.
    let preempted = member("l4").preempted(200, THEIRS).terminating();
    let bound_later = member("later").bound_at(201);
    world.pods([
        member("again").created(200),
        member("l1").bound_at(200),
        member("l2"),
        member("l3"),
        preempted,
        bound_later,
    ]);
    run.scheduler(&mut world, now);
    let mut evicted = run.evictions(&world, now);
    evicted.sort();
    assert_eq!(evicted, ["l1 ask", "l2 ask", "l3 ask"], "the others were not bound then");
    // The members of a gang are created together: if the preempted pod was created a moment before its preemption, pods
    // that were created in the same second are not replacements.
    let (mut world, mut run) = (World::new(), Run::default());
    world.node("n1", 8).group("low", 3, 10, "PodGroup");
    let preempted = member("l4").created(199).preempted(200, THEIRS).terminating();
    world.pods([preempted, member("l5").created(200)]);
    run.scheduler(&mut world, now);
    assert_eq!(run.evictions(&world, now), ["l5 ask"]);
}

#[test]
fn a_pod_without_a_grace_period_and_one_that_was_replaced_in_a_list_are_noticed() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS)).remove_pod("l2");
    assert_eq!(run.scheduler(&mut world, now).len(), 1);
    let (mut world, mut run) = (self::world(), Run::default());
    world.pod(member("l2").preempted(200, THEIRS));
    world.pod(TestPod::new("l2", 10).of("low").gated().created(201).uid("another"));
    assert_eq!(run.scheduler(&mut world, now).len(), 1);
}

#[test]
fn a_preemption_by_kube_scheduler_begins_one_departure() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    assert_eq!(run.scheduler(&mut world, now).len(), 1);
    world.pod(member("l2").preempted(200, THEIRS).terminating()).remove_pod("l2");
    assert!(world.model.preempted_by_scheduler.is_empty());
}

#[test]
fn evictions_by_giveway_by_users_and_by_drains_begin_nothing() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l1").preempted(200, "Preempted by pod group default/gang of priority 100.").terminating());
    world.pod(member("l2").terminating()).remove_pod("l3");
    world.pod(TestPod::new("p", 10).of("loose").on("n1").preempted(200, THEIRS).terminating());
    world.pod(TestPod::new("q", 10).on("n1").preempted(200, THEIRS).terminating());
    assert!(run.scheduler(&mut world, now).is_empty());
}

#[test]
fn a_native_group_is_left_to_kube_scheduler_but_the_rest_of_a_plan_is_evicted() {
    let (mut world, mut run, now) = (World::new(), Run::default(), Instant::now());
    world.node("n1", 8).native_group("low", 10, "all");
    let member = |name: &str| TestPod::new(name, 10).native("low").on("n1").created(100);
    world.pod(member("l1")).pod(member("l2")).pod(member("l3").preempted(200, THEIRS).terminating());
    assert!(run.scheduler(&mut world, now).is_empty());
    let rest = RemainingPods { group: world.key("scheduling.k8s.io/low"), ..rest(&world, ["l1", "l2", "l3"]) };
    run.rest(&world, &rest, now);
    assert_eq!(run.evictions(&world, now), ["l1 force", "l2 force"]);
}

#[test]
fn a_pod_that_a_plan_evicts_now_is_left_to_the_plan() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    run.scheduler(&mut world, now);
    let mut of_plan =
        call(EvictionCause::Plan { preemptor: Preemptor::Group(world.key("high")), id: "p-1".into() }, "l1");
    assert!(run.departures.requests.admit(&mut of_plan) && !of_plan.again);
    assert_eq!(run.evictions(&world, now), ["l3 ask"]);
    run.departures.requests.answered(&"uid-l1".into(), &EvictOutcome::Unanswered("no answer in time".into()), now);
    let step = run.pass(&world, now);
    let [Command::Evict(call)] = step.commands.as_slice() else { panic!("{:?}", step.commands) };
    assert!(call.pod.name == "l1" && call.again, "the request of the plan may still be carried out: {call:?}");
}

#[test]
fn replacement_pods_and_gated_pods_are_not_evicted() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(TestPod::new("l5", 10).of("low").gated().created(100));
    world.pod(member("l2").preempted(200, THEIRS).terminating()).pod(member("l4").created(200));
    run.scheduler(&mut world, now);
    world.pod(member("l6").created(200));
    assert_eq!(run.evictions(&world, now), ["l1 ask", "l3 ask"]);
}

#[test]
fn a_partially_scheduled_gang_is_evicted_with_its_ungated_members_and_no_budget_is_violated() {
    let (mut world, mut run, now) = (World::new(), Run::default(), Instant::now());
    world.node("n1", 8).group("low", 4, 10, "PodGroup");
    for name in ["g0", "g1"] {
        world.pod(member(name));
    }
    world.pod(TestPod::new("g2", 10).of("low").created(100).unschedulable());
    world.pod(TestPod::new("gated", 10).of("low").created(100).gated());
    run.gang(&world, now);
    assert_eq!(run.evictions(&world, now), ["g0 ask", "g1 ask", "g2 ask"]);
    assert_eq!(run.departures.pods_to_wait_for(&world.model, &world.key("low"), now), 0, "it may still be completed");
    for pod in ["g0", "g1", "g2"] {
        run.answer(&world, pod, &EvictOutcome::Refused("0 allowed".into()), now);
    }
    world.pod(member("gated"));
    let step = run.pass(&world, now + Duration::from_secs(60));
    assert!(step.commands.is_empty(), "{:?}", step.commands);
    assert_eq!(step.ended, [world.key("low")]);
}

#[test]
fn what_a_cancelled_plan_leaves_is_evicted_like_its_victims() {
    let (world, mut run, now) = (world(), Run::default(), Instant::now());
    assert!(run.rest(&world, &rest(&world, ["gone"]), now).is_none(), "no pod is left");
    run.rest(&world, &rest(&world, ["l2", "l3"]), now);
    let words = "Preempted by plan p-1, which was cancelled after it evicted a part of PodGroup default/low, so its 2 remaining pods are evicted too.";
    assert_eq!(run.stored(now), [format!("PartiallyDisrupted Evicting: {words}")]);
    assert_eq!(run.evictions(&world, now), ["l2 force", "l3 force"]);
    let Some(Command::Evict(call)) = run.pass(&world, now + Duration::from_secs(9)).commands.pop() else { return };
    assert_eq!(call.priority, 100, "the priority of the plan");
}

#[test]
fn a_pod_is_a_member_of_one_departure_and_of_the_one_that_may_violate_budgets() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 5, 10, "PodGroup");
    run.gang(&world, now);
    assert_eq!(run.evictions(&world, now), ["l1 ask", "l2 ask", "l3 ask"]);
    for pod in ["l1", "l2", "l3"] {
        run.answer(&world, pod, &EvictOutcome::Refused("0 allowed".into()), now);
    }
    world.pod(member("l4").created(160));
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    assert_eq!(run.scheduler(&mut world, now).len(), 1, "l4 is new");
    let later = now + Duration::from_secs(60);
    let mut evicted = run.evictions(&world, later);
    evicted.sort();
    assert_eq!(evicted, ["l1 ask", "l3 ask", "l4 ask"]);
    for pod in ["l1", "l3", "l4"] {
        run.answer(&world, pod, &EvictOutcome::Refused("0 allowed".into()), later);
    }
    run.rest(&world, &rest(&world, ["l1", "l3"]), now);
    let mut evicted = run.evictions(&world, later + Duration::from_secs(60));
    evicted.sort();
    assert_eq!(evicted, ["l1 force", "l3 force", "l4 ask"]);
}

#[test]
fn replacement_pods_wait_for_a_minute_at_most_until_the_others_are_terminating() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    run.scheduler(&mut world, now);
    let group = world.key("low");
    world.pod(TestPod::new("l4", 10).of("low").gated().created(201));
    let waits_for = |run: &Run, world: &World, after| {
        run.departures.pods_to_wait_for(&world.model, &group, now + Duration::from_secs(after))
    };
    assert_eq!(waits_for(&run, &world, 0), 2);
    run.evictions(&world, now);
    assert_eq!(waits_for(&run, &world, 59), 2);
    assert_eq!(waits_for(&run, &world, 60), 0, "a budget may refuse for ever");
    world.pod(member("l1").terminating()).pod(member("l3").terminating());
    assert_eq!(waits_for(&run, &world, 0), 0, "they are terminating");
}

#[test]
fn plans_and_preemptors_are_examined_again_when_a_pod_is_not_expected_to_terminate_any_more() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    run.scheduler(&mut world, now);
    let changed = |run: &mut Run, world: &World, at| run.departures.take_changed(&world.model, at);
    assert!(changed(&mut run, &world, now), "a departure began");
    run.evictions(&world, now);
    assert!(!changed(&mut run, &world, now));
    run.answer(&world, "l1", &EvictOutcome::Refused("0 allowed".into()), now);
    assert!(changed(&mut run, &world, now), "l1 does not terminate for now");
    run.answer(&world, "l3", &EvictOutcome::Accepted, now);
    world.pod(member("l3").terminating());
    assert!(!changed(&mut run, &world, now), "l3 was expected to terminate");
    let later = now + Duration::from_secs(60);
    assert_eq!(run.evictions(&world, later), ["l1 ask"]);
    run.answer(&world, "l1", &EvictOutcome::Refused("0 allowed".into()), later);
    assert!(!changed(&mut run, &world, later), "l1 was not expected to terminate");
}

#[test]
fn evictions_in_the_queue_are_withdrawn_and_requested_again() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    run.scheduler(&mut world, now);
    let step = run.pass(&world, now);
    let Some(Command::Evict(call)) = step.commands.first() else { panic!("{:?}", step.commands) };
    run.departures.withdraw_unsent_evictions();
    assert!(call.permission.is_cancelled());
    run.answer(&world, "l1", &EvictOutcome::Withdrawn, now);
    let step = run.pass(&world, now);
    let Some(Command::Evict(call)) = step.commands.first() else { panic!("{:?}", step.commands) };
    assert!(call.pod.name == "l1" && !call.permission.is_cancelled());
}

#[test]
fn a_departure_shows_how_far_it_is_and_what_was_refused() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 5, 10, "PodGroup");
    let request = partially_scheduled(&world.model, &world.key("low"), "Partially scheduled.".into());
    let id = run.begin_unstored(&world, request, now).unwrap();
    let shown = |run: &Run| {
        let views = run.departures.views();
        views.map(|view| (view.stage, view.pods, view.evicted, view.refused)).collect::<Vec<_>>()
    };
    assert_eq!(shown(&run), [(PlanState::Planned, 3, 0, 0)], "it is not stored yet");
    run.departures.note_stored(&id);
    run.evictions(&world, now);
    run.answer(&world, "l1", &EvictOutcome::Accepted, now);
    run.answer(&world, "l2", &EvictOutcome::Refused("it needs 3 healthy pods".into()), now);
    assert_eq!(shown(&run), [(PlanState::Evicting, 3, 1, 1)]);
    let refusal = run.departures.views().next().and_then(|view| view.refusal).unwrap();
    assert!(refusal.contains("it needs 3 healthy pods"), "{refusal}");
    run.answer(&world, "l2", &EvictOutcome::Accepted, now);
    run.answer(&world, "l3", &EvictOutcome::Gone, now);
    assert_eq!(shown(&run), [(PlanState::WaitingForVictims, 3, 3, 0)]);
}

//! Departures: which pods they evict, how they treat budgets, and when they end.

use super::begin::{member_preempted, partially_disrupted, partially_scheduled};
use super::plan_store::PlanStore;
use super::*;
use crate::plans::Rest;
use crate::testing::{TestPod, World};
use giveway_crds::plan::StoredPreemptor;
use giveway_crds::preemption::PreemptionStatus;
use std::time::Duration;

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
    begun: usize,
}

impl Run {
    /// Resumes a stored departure as a new leader does.
    fn of_next_leader(world: &World, plan: StoredPlan, now: Instant) -> Self {
        let mut run = Self::default();
        assert!(run.departures.resume(&world.model, &mut run.store, plan, now).is_some());
        run
    }

    /// Begins a departure and marks it as stored. Returns its name, or `None` if none began.
    fn begin(&mut self, world: &World, request: Option<Request>, now: Instant) -> Option<String> {
        let id = self.begin_unstored(world, request, now)?;
        self.departures.stored(&id);
        Some(id)
    }

    fn begin_unstored(&mut self, world: &World, request: Option<Request>, now: Instant) -> Option<String> {
        self.begun += 1;
        let (request, id) = (request?, format!("d-{}", self.begun));
        let begun = self.departures.begin(&world.model, &mut self.store, request, (id.clone(), "term"), at(now));
        begun.then_some(id)
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

    fn rest(&mut self, world: &World, rest: &Rest, now: Instant) -> Option<String> {
        self.begin(world, partially_disrupted(&world.model, rest), now)
    }

    fn pass(&mut self, world: &World, now: Instant) -> Step {
        self.departures.pass(&world.model, &mut self.store, |_| false, None, at(now))
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
        let (group, key) = (world.key("low"), world.key(pod));
        self.departures.evicted(&group, &key, &format!("uid-{pod}"), outcome, now).expect("it is a member");
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

fn rest<const N: usize>(world: &World, pods: [&str; N]) -> Rest {
    Rest {
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
    run.departures.stored(&id);
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
    assert!(!run.departures.holds(&world.key("low")));
    let record = PreemptionStatus { state: PlanState::Evicting, message: words.into(), ..PreemptionStatus::default() };
    run.store.answered(&id, record, plan_store::Written::Done, now);
    assert_eq!(run.stored(now), ["Completed: None of the 2 pods is left."]);
}

#[test]
fn a_pod_that_was_bound_in_the_second_of_the_preemption_is_evicted_only_if_it_can_not_be_a_replacement() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    // A new leader first sees the preempted pod while it is terminating.
    let preempted = member("l4").preempted(200, THEIRS).terminating();
    world.pods([member("again").created(200), member("l1"), member("l2"), member("l3"), preempted]);
    run.scheduler(&mut world, now);
    let mut evicted = run.evictions(&world, now);
    evicted.sort();
    assert_eq!(evicted, ["l1 ask", "l2 ask", "l3 ask"]);
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
    world.pod(TestPod::new("l2", 10).of("low").held().created(201).uid("another"));
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
    let rest = Rest { group: world.key("scheduling.k8s.io/low"), ..rest(&world, ["l1", "l2", "l3"]) };
    run.rest(&world, &rest, now);
    assert_eq!(run.evictions(&world, now), ["l1 force", "l2 force"]);
}

#[test]
fn a_pod_that_a_plan_evicts_now_is_left_to_the_plan() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    run.scheduler(&mut world, now);
    let step = run.departures.pass(&world.model, &mut run.store, |uid| uid == "uid-l1", None, at(now));
    let [Command::Evict(call)] = step.commands.as_slice() else { panic!("{:?}", step.commands) };
    assert_eq!(call.pod.name, "l3");
    assert!(run.departures.has_asked("uid-l3"));
    assert_eq!(run.evictions(&world, now), ["l1 ask"], "the plan has ended");
}

#[test]
fn replacement_pods_and_gated_pods_are_not_evicted() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(TestPod::new("l5", 10).of("low").held().created(100));
    world.pod(member("l2").preempted(200, THEIRS).terminating()).pod(member("l4").created(200));
    run.scheduler(&mut world, now);
    world.pod(member("l6").created(200));
    assert_eq!(run.evictions(&world, now), ["l1 ask", "l3 ask"]);
}

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
    run.store.answered("d-1", PreemptionStatus::default(), plan_store::Written::Done, now);
    run.evictions(&world, now);
    run.answer(&world, "l3", &EvictOutcome::Refused("0 allowed".into()), now);
    run.pass(&world, now);
    let words = "Preempted by kube-scheduler: it preempted pod l2, so the 2 other pods of the PodGroup are evicted. \
                 The eviction of pod default/l3 was refused and is retried: 0 allowed";
    assert_eq!(run.stored(now), [format!("Evicting: {words}")]);
}

#[test]
fn a_departure_ends_when_the_gang_has_enough_bound_members_again() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    run.scheduler(&mut world, now);
    run.stored(now);
    run.store.answered("d-1", PreemptionStatus::default(), plan_store::Written::Done, now);
    world.remove_pod("l2").pod(member("again").created(210));
    assert_eq!(run.evictions(&world, now), ["l1 ask", "l3 ask"], "every pod is tried");
    run.answer(&world, "l1", &EvictOutcome::Refused("0 allowed".into()), now);
    assert!(run.pass(&world, now).ended.is_empty(), "l3 may have been evicted");
    run.answer(&world, "l3", &EvictOutcome::Refused("0 allowed".into()), now);
    assert_eq!(run.pass(&world, now).ended, [world.key("low")]);
    let words = "2 of 2 pods are not evicted, because the PodGroup has as many bound pods as it needs again.";
    assert_eq!(run.stored(now), [format!("Completed: {words}")]);
}

#[test]
fn a_partially_scheduled_gang_is_evicted_with_its_ungated_members_and_no_budget_is_violated() {
    let (mut world, mut run, now) = (World::new(), Run::default(), Instant::now());
    world.node("n1", 8).group("low", 4, 10, "PodGroup");
    for name in ["g0", "g1"] {
        world.pod(member(name));
    }
    world.pod(TestPod::new("g2", 10).of("low").created(100).unschedulable());
    world.pod(TestPod::new("held", 10).of("low").created(100).held());
    run.gang(&world, now);
    assert_eq!(run.evictions(&world, now), ["g0 ask", "g1 ask", "g2 ask"]);
    assert_eq!(run.departures.to_wait_for(&world.model, &world.key("low"), now), 0, "it may still be completed");
    for pod in ["g0", "g1", "g2"] {
        run.answer(&world, pod, &EvictOutcome::Refused("0 allowed".into()), now);
    }
    world.pod(member("held"));
    let step = run.pass(&world, now + Duration::from_secs(60));
    assert!(step.commands.is_empty(), "{:?}", step.commands);
    assert_eq!(step.ended, [world.key("low")]);
}

#[test]
fn pods_whose_eviction_was_requested_do_not_count_as_bound() {
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
        run.departures.pass(&world.model, &mut run.store, |_| false, Some("Giveway only observes"), at(now))
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
fn what_a_cancelled_plan_leaves_is_evicted_like_its_victims() {
    let (world, mut run, now) = (world(), Run::default(), Instant::now());
    assert!(run.rest(&world, &rest(&world, ["gone"]), now).is_none(), "no pod is left");
    run.rest(&world, &rest(&world, ["l2", "l3"]), now);
    let words = "Preempted by plan p-1, which was cancelled after it evicted a part of PodGroup default/low: \
                 2 pods of it are still evicted.";
    assert_eq!(run.stored(now), [format!("PartiallyDisrupted Evicting: {words}")]);
    assert_eq!(run.evictions(&world, now), ["l2 force", "l3 force"]);
    let Some(Command::Evict(call)) = run.pass(&world, now + Duration::from_secs(9)).commands.pop() else { return };
    assert_eq!(call.priority, 100, "the priority of the plan");
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
    run.rest(&world, &Rest { guaranteed: true, ..rest(&world, ["l2", "l3"]) }, now);
    assert_eq!(run.evictions(&world, now), ["l2 ask", "l3 ask"]);
    // The next leader does the same.
    let plan = run.departures.0.values().next().unwrap().plan.clone();
    let mut next = Run::of_next_leader(&world, plan, now);
    next.departures.stored("d-1");
    assert_eq!(next.evictions(&world, now), ["l2 ask", "l3 ask"]);
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
fn a_departure_whose_pods_another_one_takes_over_ends_when_its_evictions_are_answered() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 5, 10, "PodGroup");
    let id = run.gang(&world, now).unwrap();
    run.stored(now);
    let record = PreemptionStatus { state: PlanState::Evicting, ..PreemptionStatus::default() };
    run.store.answered(&id, record, plan_store::Written::Done, now);
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
    assert!(stored.iter().any(|plan| plan == "Cancelled: Another Preemption evicts its pods."), "{stored:?}");
}

#[test]
fn replacement_pods_wait_for_a_minute_at_most_until_the_others_are_terminating() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    run.scheduler(&mut world, now);
    let group = world.key("low");
    world.pod(TestPod::new("l4", 10).of("low").held().created(201));
    let waits_for = |run: &Run, world: &World, after| {
        run.departures.to_wait_for(&world.model, &group, now + Duration::from_secs(after))
    };
    assert_eq!(waits_for(&run, &world, 0), 2);
    run.evictions(&world, now);
    assert_eq!(waits_for(&run, &world, 59), 2);
    assert_eq!(waits_for(&run, &world, 60), 0, "a budget may refuse for ever");
    world.pod(member("l1").terminating()).pod(member("l3").terminating());
    assert_eq!(waits_for(&run, &world, 0), 0, "they are terminating");
}

#[test]
fn evictions_that_wait_for_their_turn_are_taken_back_and_requested_again() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    run.scheduler(&mut world, now);
    let step = run.pass(&world, now);
    let Some(Command::Evict(call)) = step.commands.first() else { panic!("{:?}", step.commands) };
    run.departures.hold();
    assert!(call.permission.is_cancelled());
    run.answer(&world, "l1", &EvictOutcome::Withdrawn, now);
    let step = run.pass(&world, now);
    let Some(Command::Evict(call)) = step.commands.first() else { panic!("{:?}", step.commands) };
    assert!(call.pod.name == "l1" && !call.permission.is_cancelled());
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
        run.store.answered(&id, record, plan_store::Written::Done, now);
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
        let begun = || {
            let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
            world.group("low", 5, 10, "PodGroup");
            let id = run.gang(&world, now).unwrap();
            run.evictions(&world, now);
            for pod in ["l1", "l2", "l3"] {
                run.answer(&world, pod, if pod == "l1" { &outcome } else { &EvictOutcome::Withdrawn }, now);
            }
            (world, run, id, now)
        };
        let (world, mut run, id, now) = begun();
        run.departures.deleted(&mut run.store, &id);
        run.pass(&world, now);
        assert_eq!(run.departures.by_id(&id).is_some(), goes_on, "its Preemption is deleted: {outcome:?}");
        assert_eq!(run.store.holds(&id), goes_on, "it is stored again: {outcome:?}");
        let (world, mut run, id, now) = begun();
        let observes = Some("Giveway only observes");
        run.departures.pass(&world.model, &mut run.store, |_| false, observes, at(now));
        assert_eq!(run.departures.by_id(&id).is_some(), goes_on, "evictions are switched off: {outcome:?}");
    }
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
    run.departures.deleted(&mut run.store, &id);
    run.pass(&world, later);
    assert!(run.departures.is_empty(), "no pod was evicted");
}

#[test]
fn evictions_are_withdrawn_if_they_are_switched_off_before_the_first_one_is_answered() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 5, 10, "PodGroup");
    run.gang(&world, now);
    let step = run.pass(&world, now);
    let Some(Command::Evict(call)) = step.commands.first() else { panic!("{:?}", step.commands) };
    let off = |run: &mut Run, world: &World| {
        run.departures.pass(&world.model, &mut run.store, |_| false, Some("Giveway only observes"), at(now))
    };
    assert!(off(&mut run, &world).ended.is_empty(), "the answers are missing");
    assert!(call.permission.is_cancelled());
    for pod in ["l1", "l2", "l3"] {
        run.answer(&world, pod, &EvictOutcome::Withdrawn, now);
    }
    assert_eq!(off(&mut run, &world).ended, [world.key("low")]);
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
        assert_eq!(run.departures.has_asked("uid-l2"), leaves, "{outcome:?} {times} times");
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
fn a_new_leader_finishes_a_departure_after_it_was_stored_in_its_term() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.pod(member("l2").preempted(200, THEIRS).terminating());
    run.scheduler(&mut world, now);
    let plan = run.departures.0.values().next().unwrap().plan.clone();
    // A replacement pod that was created in the second of the preemption.
    world.remove_pod("l2").pod(member("again").created(200));
    let mut next = Run::of_next_leader(&world, plan, now);
    assert!(next.evictions(&world, now).is_empty(), "not stored in its term yet");
    next.departures.stored("d-1");
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
fn a_committed_departure_is_stored_again_if_its_preemption_is_deleted_and_another_one_ends() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 5, 10, "PodGroup");
    let id = run.gang(&world, now).unwrap();
    assert_eq!(run.departures.deleted(&mut run.store, &id), Some(world.key("low")));
    assert!(run.evictions(&world, now).is_empty(), "no pod was evicted");
    assert!(run.departures.by_id(&id).is_none());
    assert!(!run.store.holds(&id), "it is not created again, although the answer to its creation is missing");
    let id = run.gang(&world, now).unwrap();
    run.evictions(&world, now);
    run.answer(&world, "l1", &EvictOutcome::Accepted, now);
    assert_eq!(run.departures.deleted(&mut run.store, &id), Some(world.key("low")));
    assert!(run.evictions(&world, now + Duration::from_secs(9)).is_empty(), "it is not stored");
    assert!(run.departures.by_id(&id).is_some());
    assert_eq!(run.departures.deleted(&mut run.store, "other"), None);
}

#[test]
fn a_departure_that_is_deleted_while_evictions_are_in_flight_ends_only_if_none_of_them_is_accepted() {
    for (outcome, goes_on) in [(EvictOutcome::Withdrawn, false), (EvictOutcome::Accepted, true)] {
        let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
        world.group("low", 5, 10, "PodGroup");
        let id = run.gang(&world, now).unwrap();
        run.evictions(&world, now);
        run.departures.deleted(&mut run.store, &id);
        assert!(run.evictions(&world, now).is_empty(), "no further eviction is requested");
        assert!(run.departures.by_id(&id).is_some(), "the answers are missing");
        for pod in ["l1", "l2", "l3"] {
            run.answer(&world, pod, if pod == "l1" { &outcome } else { &EvictOutcome::Withdrawn }, now);
        }
        run.evictions(&world, now);
        assert_eq!(run.departures.by_id(&id).is_some(), goes_on, "{outcome:?}");
        assert_eq!(run.store.holds(&id), goes_on, "{outcome:?}");
    }
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
fn a_pod_that_leaves_before_its_eviction_is_answered_counts_as_evicted() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 5, 10, "PodGroup");
    let id = run.gang(&world, now).unwrap();
    run.stored(now);
    let record = PreemptionStatus { state: PlanState::Evicting, ..PreemptionStatus::default() };
    run.store.answered(&id, record, plan_store::Written::Done, now);
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
    run.departures.deleted(&mut run.store, &id);
    run.pass(&world, now);
    assert!(run.departures.is_empty(), "it is not committed, so it is not stored again");
}

#[test]
fn a_new_leader_knows_the_members_of_all_departures_whatever_their_order() {
    let (mut world, mut run, now) = (world(), Run::default(), Instant::now());
    world.group("low", 3, 10, "PodGroup").remove_pod("l2").remove_pod("l3");
    run.gang(&world, now).unwrap();
    world.pod(TestPod::new("l3", 10).of("low").created(200).unschedulable());
    run.gang(&world, now).unwrap();
    let mut plans: Vec<StoredPlan> = run.departures.0.values().map(|departure| departure.plan.clone()).collect();
    plans.reverse();
    let mut next = Run::default();
    for plan in plans {
        next.departures.resume(&world.model, &mut next.store, plan, now).unwrap();
    }
    next.departures.resumed();
    assert!(next.pass(&world, now).ended.is_empty());
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
    run.departures.stored(&id);
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

#[test]
fn the_numbers_of_a_departure_agree_with_their_words() {
    assert_eq!([1, 2].map(none_left), ["No pod is left.", "None of the 2 pods is left."]);
    let expected =
        ["0 other pods of the PodGroup are", "1 other pod of the PodGroup is", "2 other pods of the PodGroup are"];
    assert_eq!([0, 1, 2].map(begin::others_are), expected);
}

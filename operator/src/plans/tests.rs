//! Tests the state machine step by step, with a simulated clock and cluster.

mod changes;
mod domains;
mod guarantees;
mod mutual_exclusion;
mod overlap;
mod protection;
mod rations;
mod rejections;
mod renewal;
mod rescue;
mod reservations;
mod resuming;
mod sentences;
mod summaries;
mod ungating;

use super::*;
use crate::messages::command::EvictOutcome;
use crate::messages::report::{CallError, MemberCall};
use crate::testing::{TestPod, World};
use giveway_crds::plan::{StoredCost, StoredPlacement, StoredPreemptor, StoredVictim, StoredVictimPod};
use std::collections::BTreeSet;
use std::mem::take;

const LIMITS: PlanLimits<'static> = PlanLimits {
    binding_timeout: Duration::from_secs(30),
    scheduler: SchedulerPace::UNKNOWN,
    may_compare: true,
    certain: &BTreeSet::new(),
    claimed: &BTreeMap::new(),
};

fn gang() -> Preemptor {
    Preemptor::Group(ObjectKey::new("default", "gang"))
}

/// Returns a cluster with two nodes of 1 CPU that the two pods of PodGroup `low` use; two gated members of PodGroup
/// `gang` need both nodes.
fn world() -> World {
    let mut world = World::new();
    world.node("n1", 1).node("n2", 1).group("low", 2, 10, "PodGroup").group("gang", 2, 100, "PodGroup");
    world.pod(TestPod::new("l1", 10).of("low").on("n1")).pod(TestPod::new("l2", 10).of("low").on("n2"));
    world.pod(TestPod::new("g1", 100).of("gang").gated()).pod(TestPod::new("g2", 100).of("gang").gated());
    world
}

fn victim(name: &str, node: &str) -> StoredVictimPod {
    StoredVictimPod { name: name.into(), uid: format!("uid-{name}"), node: node.into() }
}

fn placement(name: &str, node: &str) -> StoredPlacement {
    StoredPlacement { pod: name.into(), uid: format!("uid-{name}"), node: node.into() }
}

fn flight(now: Instant) -> Flight {
    let plan = StoredPlan {
        id: "p1".into(),
        placements: vec![placement("g1", "n1"), placement("g2", "n2")],
        victims: vec![StoredVictim {
            kind: "PodGroup".into(),
            namespace: "default".into(),
            name: "low".into(),
            priority: 10,
            pods: vec![victim("l1", "n1"), victim("l2", "n2")],
            ..StoredVictim::default()
        }],
        preemptor: StoredPreemptor { uid: "uid-gang".into(), priority: 100, ..StoredPreemptor::default() },
        cost: StoredCost { victim_pods: 2, victim_groups: 1, ..StoredCost::default() },
        ..StoredPlan::default()
    };
    Flight::new(gang(), 100, plan, now)
}

/// Returns what the commands do, in short: `nominate g1 n1`, `evict l1`, `ungate g1`, `withdraw g1`; and for each pod
/// that is handed over to a departure `leave uid-l1`.
fn names(advance: &Advance) -> Vec<String> {
    let rest = advance.rest.iter().flat_map(|rest| &rest.pods).map(|uid| format!("leave {uid}"));
    advance
        .commands
        .iter()
        .map(|command| match command {
            Command::Nominate { pod, node: Some(node), .. } => format!("nominate {} {node}", pod.name),
            Command::Nominate { pod, node: None, .. } => format!("withdraw {}", pod.name),
            Command::Ungate { pod, rehearsal: true, .. } => format!("rehearse ungating {}", pod.name),
            Command::Ungate { pod, .. } => format!("ungate {}", pod.name),
            Command::Taint { node, add: true, .. } => format!("taint {node}"),
            Command::Taint { node, .. } => format!("untaint {node}"),
            Command::Evict(call) if call.rehearsal => format!("rehearse {}", call.pod.name),
            Command::Evict(call) => format!("evict {}", call.pod.name),
            other => format!("{other:?}"),
        })
        .chain(rest)
        .collect()
}

struct Run {
    world: World,
    flight: Flight,
    now: Instant,
    epoch: i64,
    /// True if [`Run::step`] answers dry runs with success, and leaves them out.
    rehearsals_succeed: bool,
}

impl Run {
    fn new() -> Self {
        let now = Instant::now();
        Self { world: world(), flight: flight(now), now, epoch: 0, rehearsals_succeed: true }
    }

    fn step(&mut self) -> Advance {
        self.step_within(&Context::default())
    }

    /// Advances the plan with these other plans in flight.
    fn step_within(&mut self, context: &Context) -> Advance {
        self.step_with(context, LIMITS)
    }

    fn step_with(&mut self, context: &Context, limits: PlanLimits<'_>) -> Advance {
        let clock = Clock { now: self.now, epoch_seconds: self.epoch };
        let (changes, groups) = (take(&mut self.world.model.changes), take(&mut self.world.model.touched));
        let mut flights = Flights::from([self.flight.clone()]);
        flights.note(&changes, &groups);
        self.flight.checked = flights.values().next().unwrap().checked;
        let mut advance = self.flight.advance(&self.world.model, context, clock, limits);
        if self.rehearsals_succeed {
            while self.answer_rehearsals(&mut advance) {
                let next = self.flight.advance(&self.world.model, context, clock, limits);
                advance.commands.extend(next.commands);
                advance.rest = next.rest;
                advance.ended = next.ended;
            }
        }
        advance
    }

    /// Removes the dry runs from the commands and answers them with success. Returns true if there were any.
    fn answer_rehearsals(&mut self, advance: &mut Advance) -> bool {
        let before = advance.commands.len();
        let (flight, now) = (&mut self.flight, self.now);
        advance.commands.retain(|command| match command {
            Command::Evict(call) if call.rehearsal => {
                flight.evicted(&call.uid, &EvictOutcome::Allowed, now);
                false
            }
            Command::Ungate { uid, rehearsal: true, .. } => {
                flight.member_answered(uid, (MemberCall::Ungate, true), &Ok(()), now);
                false
            }
            _ => true,
        });
        advance.commands.len() < before
    }

    /// Answers the dry runs of the ungating of both members with success.
    fn ungating_rehearsed(&mut self) {
        for uid in ["uid-g1", "uid-g2"] {
            self.flight.member_answered(uid, (MemberCall::Ungate, true), &Ok(()), self.now);
        }
    }

    /// Answers the nomination or ungating of a member: with success, or with an error that may be temporary.
    fn answered(&mut self, uid: &str, ungate: bool, ok: bool) {
        let call = if ungate { MemberCall::Ungate } else { MemberCall::Nominate };
        let result = if ok { Ok(()) } else { Err(CallError::Failed("the object has changed (409)".into())) };
        self.flight.member_answered(uid, (call, false), &result, self.now);
    }

    fn later(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.epoch += i64::try_from(seconds).unwrap();
    }

    /// Sets up a gang of `members` pods with a preemption delay of `seconds`, and a plan for it that was stored at
    /// second 0.
    fn delayed(&mut self, members: i32, seconds: i32) {
        self.flight.stored = Some(PlanState::Evicting);
        let time = k8s_openapi::jiff::Timestamp::from_second(0).unwrap();
        self.flight.plan.planned_at = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
        let group = serde_json::json!({
            "metadata": {"name": "gang", "namespace": "default", "uid": "uid-gang", "generation": 1},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": members}},
                "priority": 100,
                "preemptionPolicy": "PreemptLowerPriority",
                "preemptionDelaySeconds": seconds,
            }
        });
        let group = serde_json::from_value(group).unwrap();
        self.world
            .model
            .apply(crate::messages::input::Input::Group(crate::messages::input::Update::Applied(Box::new(group))));
    }

    /// Returns a run whose plan is in state `Evicting`, with both evictions commanded.
    fn evicting() -> Self {
        let mut run = Self::new();
        run.flight.stored = Some(PlanState::Evicting);
        assert_eq!(names(&run.step()), ["nominate g1 n1", "nominate g2 n2"]);
        run.nominated();
        assert_eq!(names(&run.step()), ["evict l1", "evict l2"]);
        assert_eq!(run.flight.plan.state, PlanState::Evicting);
        run
    }

    fn nominated(&mut self) {
        for (name, node) in [("g1", "n1"), ("g2", "n2")] {
            self.answered(&format!("uid-{name}"), false, true);
            self.world.pod(TestPod::new(name, 100).of("gang").gated().nominated(node));
        }
    }
}

#[test]
fn no_pod_is_evicted_before_the_plan_is_stored() {
    let mut run = Run::new();
    assert!(names(&run.step()).is_empty());
    run.later(60);
    assert!(names(&run.step()).is_empty());
    run.flight.stored = Some(PlanState::Evicting);
    assert_eq!(names(&run.step()), ["nominate g1 n1", "nominate g2 n2"]);
}

#[test]
fn a_plan_runs_from_nomination_to_bound_pods() {
    let mut run = Run::evicting();
    for name in ["uid-l1", "uid-l2"] {
        run.flight.evicted(name, &EvictOutcome::Accepted, run.now);
    }
    assert!(names(&run.step()).is_empty());
    assert_eq!(run.flight.plan.state, PlanState::WaitingForVictims);
    run.world.remove_pod("l1");
    assert!(names(&run.step()).is_empty(), "one victim is still there");
    run.world.remove_pod("l2");
    assert_eq!(names(&run.step()), ["ungate g1", "ungate g2"]);
    assert_eq!(run.flight.plan.state, PlanState::Ungating);
    run.world.pod(TestPod::new("g1", 100).of("gang").on("n1")).pod(TestPod::new("g2", 100).of("gang").on("n2"));
    let ended = run.step().ended.unwrap();
    assert_eq!(
        (ended.state, ended.message.to_string().as_str()),
        (PlanState::Completed, "2 of 2 pods of the plan were bound.")
    );
}

#[test]
fn capacity_that_becomes_free_before_the_first_eviction_cancels_the_plan() {
    let mut run = Run::new();
    run.world.node("n3", 2);
    run.flight.stored = Some(PlanState::Evicting);
    let advance = run.step();
    let ended = advance.ended.unwrap();
    assert_eq!(
        (ended.state, ended.message.to_string().as_str()),
        (PlanState::Cancelled, "Capacity became free; no pod was evicted.")
    );
    assert_eq!(run.flight.requested_evictions(), 0);
}

#[test]
fn an_answered_eviction_is_not_commanded_again() {
    let mut run = Run::evicting();
    run.flight.evicted("uid-l1", &EvictOutcome::Accepted, run.now);
    run.later(20);
    assert!(names(&run.step()).is_empty(), "l1 was accepted, l2 is pending");
}

#[test]
fn a_failed_eviction_is_requested_again_after_a_while() {
    let mut run = Run::evicting();
    run.flight.evicted("uid-l1", &EvictOutcome::Error("timeout".into()), run.now);
    assert!(names(&run.step()).is_empty());
    run.later(1);
    assert_eq!(names(&run.step()), ["evict l1"]);
}

#[test]
fn what_a_cancelled_plan_leaves_of_a_group_is_handed_over_before_it_ends() {
    let mut run = Run::evicting();
    run.flight.evicted("uid-l1", &EvictOutcome::Accepted, run.now);
    run.flight.evicted("uid-l2", &EvictOutcome::Error("timeout".into()), run.now);
    run.world.remove_pod("g2");
    run.later(1);
    let advance = run.step();
    assert_eq!(names(&advance), ["leave uid-l2"]);
    assert!(advance.ended.is_none());
    run.flight.handed_over = true;
    let advance = run.step();
    assert_eq!(names(&advance), ["withdraw g1"]);
    assert_eq!(advance.ended.unwrap().message.to_string(), "Only 1 of the 2 needed pods still fits.");
}

#[test]
fn a_refused_eviction_cancels_the_plan_and_names_the_budget() {
    let mut run = Run::new();
    run.flight.stored = Some(PlanState::Evicting);
    run.step();
    run.nominated();
    run.step();
    run.flight.evicted("uid-l1", &EvictOutcome::Refused("budget web allows no disruption".into()), run.now);
    run.flight.evicted("uid-l2", &EvictOutcome::Gone, run.now);
    run.world.remove_pod("l2");
    run.later(8);
    // l1 belongs to a PodGroup whose pod l2 was evicted, so a departure evicts it as soon as its budget allows.
    assert_eq!(names(&run.step()), ["leave uid-l1"]);
    run.flight.handed_over = true;
    let advance = run.step();
    assert!(names(&advance).is_empty(), "the members keep their nominations for the next plan");
    let ended = advance.ended.unwrap();
    assert_eq!(ended.state, PlanState::Cancelled);
    assert_eq!(
        ended.message.to_string(),
        "The eviction of pod default/l1 was refused: budget web allows no disruption"
    );
    assert!(run.flight.refused.contains_key("uid-l1"));
}

#[test]
fn a_cleared_nomination_is_patched_again() {
    let mut run = Run::evicting();
    run.world.pod(TestPod::new("g1", 100).of("gang").gated());
    assert!(names(&run.step()).is_empty(), "the watch may lag");
    run.later(3);
    assert_eq!(names(&run.step()), ["nominate g1 n1"]);
}

#[test]
fn a_more_important_pod_on_the_node_cancels_the_plan_and_withdraws_nominations() {
    let mut run = Run::evicting();
    for name in ["l1", "l2"] {
        run.flight.evicted(&format!("uid-{name}"), &EvictOutcome::Accepted, run.now);
        run.world.remove_pod(name);
    }
    run.world.pod(TestPod::new("vip", 1000).on("n1"));
    let advance = run.step();
    assert_eq!(names(&advance), ["withdraw g1", "withdraw g2"]);
    let ended = advance.ended.unwrap();
    assert_eq!(ended.state, PlanState::Cancelled);
    assert!(
        ended.message.to_string().starts_with("The plan became infeasible while victims terminated: "),
        "{}",
        ended.message
    );
}

#[test]
fn no_pod_is_evicted_during_the_delay() {
    let mut run = Run::new();
    run.delayed(2, 10);
    run.later(9);
    assert!(names(&run.step()).is_empty());
    run.later(1);
    assert_eq!(names(&run.step()), ["nominate g1 n1", "nominate g2 n2"]);
}

#[test]
fn a_resumed_plan_evicts_only_existing_victims_after_it_is_stored_again() {
    let mut run = Run::new();
    run.flight.plan.state = PlanState::Evicting;
    run.flight.resume();
    run.world.pod(TestPod::new("l1", 10).of("low").on("n1").terminating());
    assert_eq!(names(&run.step()), ["nominate g1 n1", "nominate g2 n2"], "not stored in this term yet");
    run.flight.stored = Some(PlanState::Evicting);
    assert_eq!(names(&run.step()), ["evict l2"]);
}

#[test]
fn an_ungated_gang_that_does_not_fit_any_more_is_planned_again_at_once() {
    let mut run = Run::new();
    run.flight.victims.clear();
    run.flight.plan.victims.clear();
    run.flight.stored = Some(PlanState::Evicting);
    run.world.remove_pod("l1").remove_pod("l2");
    run.step();
    run.nominated();
    assert_eq!(names(&run.step()), ["ungate g1", "ungate g2"]);
    // A pod of lower priority was bound to n1 before kube-scheduler saw the nomination.
    run.world.pod(TestPod::new("thief", 1).on("n1")).pod(TestPod::new("g2", 100).of("gang").on("n2"));
    run.world.pod(TestPod::new("g1", 100).of("gang").nominated("n1"));
    assert!(run.step().ended.is_none(), "the scheduler has not said anything yet");
    run.world.pod(TestPod::new("g1", 100).of("gang").nominated("n1").unschedulable());
    let ended = run.step().ended.unwrap();
    assert_eq!(ended.state, PlanState::Failed);
    assert!(
        ended.message.to_string().starts_with("kube-scheduler could not bind every ungated pod: "),
        "{}",
        ended.message
    );
}

#[test]
fn the_state_evicting_is_stored_before_the_first_eviction() {
    let mut run = Run::new();
    run.flight.stored = Some(PlanState::Planned);
    run.step();
    run.nominated();
    assert!(names(&run.step()).is_empty());
    assert_eq!(run.flight.plan.state, PlanState::Evicting);
    run.flight.stored = Some(PlanState::Evicting);
    assert_eq!(names(&run.step()), ["evict l1", "evict l2"]);
}

#[test]
fn what_is_left_of_a_group_is_handed_over_even_if_the_preemptor_is_bound_meanwhile() {
    let mut run = Run::evicting();
    run.flight.evicted("uid-l1", &EvictOutcome::Accepted, run.now);
    run.flight.evicted("uid-l2", &EvictOutcome::Error("timeout".into()), run.now);
    run.world.node("n3", 2);
    run.world.pod(TestPod::new("g1", 100).of("gang").on("n3")).pod(TestPod::new("g2", 100).of("gang").on("n3"));
    run.later(1);
    let advance = run.step();
    assert_eq!(names(&advance), ["leave uid-l2"]);
    assert!(advance.ended.is_none());
    run.flight.handed_over = true;
    assert_eq!(run.step().ended.unwrap().state, PlanState::Completed);
}

#[test]
fn failed_evictions_are_retried_at_growing_delays_until_a_partially_disrupted_group_is_evicted() {
    let mut run = Run::evicting();
    run.flight.evicted("uid-l1", &EvictOutcome::Accepted, run.now);
    for _ in 0..20 {
        run.flight.evicted("uid-l2", &EvictOutcome::Error("down".into()), run.now);
        assert!(!names(&run.step()).contains(&"evict l2".to_owned()), "not at once");
        run.later(7);
        assert!(names(&run.step()).contains(&"evict l2".to_owned()));
    }
    assert!(run.flight.ending.is_none());
}

#[test]
fn evictions_that_wait_for_their_turn_are_withdrawn_with_the_plan() {
    let mut run = Run::evicting();
    let permission = run.flight.permission.clone();
    run.world.remove_pod("g2");
    assert!(run.step().ended.is_none(), "answers are awaited");
    assert!(permission.is_cancelled());
    run.flight.evicted("uid-l1", &EvictOutcome::Withdrawn, run.now);
    run.flight.evicted("uid-l2", &EvictOutcome::Withdrawn, run.now);
    let advance = run.step();
    assert_eq!(names(&advance), ["withdraw g1"], "no pod was evicted");
    assert_eq!(advance.ended.unwrap().state, PlanState::Cancelled);
}

#[test]
fn a_retry_that_is_withdrawn_does_not_forget_that_the_first_call_may_have_been_carried_out() {
    let mut run = Run::evicting();
    run.flight.evicted("uid-l1", &EvictOutcome::Unanswered("the answer was lost".into()), run.now);
    run.later(1);
    assert_eq!(names(&run.step()), ["evict l1"], "once more");
    run.world.remove_pod("g2");
    run.step();
    run.flight.evicted("uid-l1", &EvictOutcome::Withdrawn, run.now);
    run.flight.evicted("uid-l2", &EvictOutcome::Withdrawn, run.now);
    run.world.remove_pod("l1");
    let advance = run.step();
    assert_eq!(names(&advance), ["leave uid-l2"]);
    assert!(advance.ended.is_none());
}

#[test]
fn an_accepted_eviction_that_the_watch_does_not_show_for_a_minute_is_requested_again() {
    let mut run = Run::evicting();
    for name in ["uid-l1", "uid-l2"] {
        run.flight.evicted(name, &EvictOutcome::Accepted, run.now);
    }
    run.world.pod(TestPod::new("l1", 10).of("low").on("n1").terminating());
    run.step();
    assert_eq!(run.flight.plan.state, PlanState::WaitingForVictims);
    run.later(60);
    assert!(names(&run.step()).is_empty());
    run.later(1);
    run.step();
    assert_eq!(run.flight.plan.state, PlanState::Evicting);
    run.later(1);
    assert_eq!(names(&run.step()), ["evict l2"]);
    run.flight.evicted("uid-l2", &EvictOutcome::Accepted, run.now);
    run.world.pod(TestPod::new("l2", 10).of("low").on("n2").terminating());
    run.step();
    assert_eq!(run.flight.plan.state, PlanState::WaitingForVictims);
}

#[test]
fn a_group_of_which_every_eviction_failed_does_not_count_as_partially_disrupted() {
    let mut run = Run::evicting();
    for _ in 0..6 {
        for uid in ["uid-l1", "uid-l2"] {
            run.flight.evicted(uid, &EvictOutcome::Error("a webhook of another project is down".into()), run.now);
        }
        run.later(7);
        run.step();
    }
    let ending = run.flight.ending.clone().unwrap();
    let why = "The eviction of pod default/l2 failed repeatedly: a webhook of another project is down";
    assert_eq!((ending.state, ending.message.to_string().as_str()), (PlanState::Cancelled, why));
    run.later(60);
    assert!(!names(&run.step()).iter().any(|name| name.starts_with("evict")), "no pod is evicted for an ended plan");
}

#[test]
fn of_two_equal_plans_that_do_not_fit_any_more_only_one_is_cancelled() {
    let other = || Preemptor::Pod(ObjectKey::new("default", "other"));
    let mut world = World::new();
    world.node("n1", 3).pod(TestPod::new("l1", 10).on("n1")).pod(TestPod::new("l2", 10).on("n1"));
    // kube-scheduler has bound a foreign pod to the node, so that the two planned pods do not fit together any more.
    world.pod(TestPod::new("daemon", 2_000).on("n1")).pod(TestPod::new("foreign", 2_000).on("n1"));
    world.pod(TestPod::new("one", 100).nominated("n1")).pod(TestPod::new("other", 100).nominated("n1"));
    let flight_of = |name: &str, victim_name: &str| {
        let plan = StoredPlan {
            placements: vec![placement(name, "n1")],
            victims: vec![StoredVictim {
                kind: "Pod".into(),
                namespace: "default".into(),
                name: victim_name.into(),
                priority: 10,
                pods: vec![victim(victim_name, "n1")],
                ..StoredVictim::default()
            }],
            preemptor: StoredPreemptor {
                kind: "Pod".into(),
                uid: format!("uid-{name}"),
                priority: 100,
                ..StoredPreemptor::default()
            },
            ..StoredPlan::default()
        };
        let preemptor = Preemptor::Pod(ObjectKey::new("default", name));
        let mut flight = Flight::new(preemptor, 100, plan, Instant::now());
        flight.plan.state = PlanState::WaitingForVictims;
        flight.stored = Some(PlanState::WaitingForVictims);
        flight.victims.iter_mut().for_each(|victim| victim.accepted = true);
        flight
    };
    let mut flights = Flights::from([flight_of("one", "l1"), flight_of("other", "l2")]);
    let clock = Clock { now: Instant::now(), epoch_seconds: 0 };
    let (one, other) = (Preemptor::Pod(ObjectKey::new("default", "one")), other());
    for preemptor in [&one, &other] {
        flights.reserve(preemptor, &mut world.model.cluster);
    }
    let known = Context { departing: flights.departing(100), ..Context::default() };
    flights.get_mut_without_waking(&other).unwrap().advance(&world.model, &known, clock, LIMITS);
    assert!(flights.get(&other).unwrap().ending.is_some(), "only one fits");
    let mut blocked = flights.get(&one).unwrap().clone();
    blocked.advance(&world.model, &known, clock, LIMITS);
    assert!(blocked.ending.is_some(), "the other one still reserves the capacity");
    flights.reserve(&other, &mut world.model.cluster);
    flights.get_mut_without_waking(&one).unwrap().advance(&world.model, &known, clock, LIMITS);
    assert_eq!(
        flights.get(&one).unwrap().ending,
        None,
        "neither the other reservation nor its nomination counts any more"
    );
}

#[test]
fn terminating_victims_count_for_other_plans_until_they_are_deleted_also_after_a_cancelled_plan() {
    let mut run = Run::evicting();
    let mut flights = Flights::default();
    let cluster = &mut run.world.model.cluster.clone();
    let departing = |flights: &Flights| flights.departing(1000).len();
    flights.insert(run.flight.clone(), cluster);
    assert_eq!(departing(&flights), 2);
    run.flight.evicted("uid-l1", &EvictOutcome::Accepted, run.now);
    run.flight.drop_plan(PlanState::Cancelled, "Not needed any more.");
    flights.insert(run.flight.clone(), cluster);
    assert_eq!(departing(&flights), 2, "a pod of the group was evicted");
    let mut fresh = flight(run.now);
    fresh.drop_plan(PlanState::Cancelled, "Not needed any more.");
    flights.insert(fresh, cluster);
    assert_eq!(departing(&flights), 0);
}

#[test]
fn victims_whose_eviction_a_more_important_preemptor_can_cancel_do_not_count_as_terminating_for_it() {
    let run = Run::evicting();
    let departing = |flight: Flight, priority: i32| Flights::from([flight]).departing(priority).len();
    assert_eq!(departing(flight(run.now), 100), 2, "preemptors of the same priority cannot use the capacity");
    assert_eq!(departing(flight(run.now), 101), 0, "the plan will be cancelled before the first eviction");
    assert_eq!(departing(run.flight, 101), 2, "both evictions were requested already");
}

#[test]
fn the_own_reservations_and_victims_of_a_plan_do_not_block_it() {
    let mut run = Run::new();
    run.flight.stored = Some(PlanState::Evicting);
    let flights = Flights::from([run.flight.clone()]);
    let context = Context { departing: flights.departing(1000), ..Context::default() };
    let advance = run.step_within(&context);
    assert_eq!(names(&advance), ["nominate g1 n1", "nominate g2 n2"]);
    assert!(advance.ended.is_none());
}

//! Plans in flight, driven step by step: delays, cancellations, victims that two plans share, changes of the leader, of the mode and of
//! nodes, and the limit on the number of plans.

use crate::driven::{Answer, CHANGES_OF_LEADER, Driven, Kind, gang, member, running};
use giveway_crds::condition::types::INITIALLY_SCHEDULED;
use giveway_crds::plan::PlanState;
use giveway_operator::messages::command::Command;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::time::Duration;

const OBSERVES: &str = "Giveway is in mode observe and evicts no pods";
const OFF: &str = "Giveway is switched off: it gates no pods and evicts none";

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Returns the only element.
fn only<T: Debug>(mut all: Vec<T>) -> T {
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

/// Returns the calls other than writes of statuses.
fn about_pods(calls: Vec<String>) -> Vec<String> {
    calls.into_iter().filter(|call| !call.starts_with("write status ")).collect()
}

/// How far the plan of gang `train` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The API server has not answered the creation of its `Preemption`.
    Unstored,
    /// It is stored, and no nomination is answered.
    Stored,
    /// All members are nominated, and the state `Evicting` is not stored.
    Nominated,
    /// The first of two pods of PodGroup `a` is evicted. PodGroup `b` waits for a nomination on its node.
    FirstEviction,
    /// All four victims are terminating.
    AllEvicted,
}

impl Stage {
    const ALL: [Self; 5] = [Self::Unstored, Self::Stored, Self::Nominated, Self::FirstEviction, Self::AllEvicted];

    /// Returns true if this call must have no answer, so that the plan stays at this stage.
    fn holds(self, command: &Command) -> bool {
        match (self, command) {
            (Self::Unstored, Command::StorePlan { .. }) => true,
            (Self::Stored, Command::Nominate { node, .. }) => node.is_some(),
            (Self::Nominated, Command::WritePlan { status, .. }) => status.state == PlanState::Evicting,
            (Self::FirstEviction, Command::Nominate { node, .. }) => node.as_deref() == Some("n2"),
            (Self::FirstEviction, Command::Evict(call)) => !call.rehearsal && call.pod.name != "a-0",
            _ => false,
        }
    }

    /// Returns the pods that have been evicted at this stage.
    fn evicted(self) -> Vec<&'static str> {
        match self {
            Self::Unstored | Self::Stored | Self::Nominated => vec![],
            Self::FirstEviction => vec!["a-0"],
            Self::AllEvicted => vec!["a-0", "a-1", "b-0", "b-1"],
        }
    }

    /// Returns the pods that are evicted in the end if the plan is cancelled at this stage: a group of which one pod was evicted is
    /// disrupted as a whole.
    fn committed(self) -> Vec<&'static str> {
        match self {
            Self::FirstEviction => vec!["a-0", "a-1"],
            _ => self.evicted(),
        }
    }

    /// Returns the state of the stored plan at this stage; `None` if it is not stored.
    fn state(self) -> Option<PlanState> {
        match self {
            Self::Unstored => None,
            Self::Stored | Self::Nominated => Some(PlanState::Planned),
            Self::FirstEviction => Some(PlanState::Evicting),
            Self::AllEvicted => Some(PlanState::WaitingForVictims),
        }
    }
}

/// Returns a cluster in which the PodGroups `a` and `b` of two pods each fill the nodes `n1` and `n2`.
fn full_cluster(flags: &[&'static str]) -> Driven {
    let mut driven = Driven::new(flags);
    for (group, node) in [("a", "n1"), ("b", "n2")] {
        driven.node(node, 2);
        driven.apply(Kind::Group, gang(group, 2, 10));
        for number in 0..2 {
            driven.apply(Kind::Pod, running(&format!("{group}-{number}"), 10, node, Some(group)));
        }
    }
    driven
}

/// Submits this gang `train` of two pods, each of which needs a node of [`full_cluster`], and stops at this stage.
fn at_with(stage: Stage, train: Value) -> Driven {
    let mut driven = full_cluster(&[]);
    let class = json!({"metadata": {"name": "urgent", "uid": "uid-urgent"}, "value": 1_000});
    driven.apply(Kind::Class, class);
    driven.answer(move |command| if stage.holds(command) { Answer::Hold } else { Answer::Succeed });
    driven.submit(train, 2);
    driven.settle();
    let states: Vec<Option<PlanState>> = driven.plans().into_iter().map(|plan| Some(plan.status?.state)).collect();
    assert_eq!(states, stage.state().map(Some).into_iter().collect::<Vec<_>>(), "{stage:?}");
    assert_eq!(driven.evicted(), stage.evicted(), "{stage:?}");
    driven
}

fn at(stage: Stage) -> Driven {
    at_with(stage, gang("train", 2, 1_000))
}

/// Lets the operator notice what has changed, answers the calls that had no answer, and lets ten seconds pass.
fn go_on(driven: &mut Driven) {
    driven.settle();
    driven.answer(|_| Answer::Succeed);
    driven.answer_unanswered(|_| true);
    driven.settle();
    driven.run(seconds(10));
}

/// Asserts that every stored plan and departure has ended.
fn expect_all_ended(driven: &Driven) {
    let in_flight = driven.plans().into_iter().any(|plan| plan.status.is_none_or(|status| status.state.in_flight()));
    assert!(!in_flight, "{:#?}", driven.stored());
}

#[test]
fn a_plan_runs_to_its_end_and_evicts_each_pod_once() {
    for stage in Stage::ALL {
        let mut driven = at(stage);
        go_on(&mut driven);
        driven.terminate();
        let calls = driven.settle();
        assert!(
            calls.contains(&"ungate train-0".to_owned()) && calls.contains(&"ungate train-1".to_owned()),
            "{calls:?}"
        );
        driven.bind();
        driven.settle();
        assert_eq!(driven.evicted(), Stage::AllEvicted.evicted(), "{stage:?}");
        let plan = only(driven.stored());
        assert!(
            plan.starts_with("Preemptor Completed: ") && plan.ends_with(" 2 of 2 pods of the plan were bound."),
            "{plan}"
        );
        assert!(plan.contains(" were evicted for ") && !plan.contains(" are evicted"), "it speaks of the past: {plan}");
    }
}

#[test]
fn a_deleted_preemptor_cancels_its_plan_at_every_stage() {
    for stage in Stage::ALL {
        let mut driven = at(stage);
        driven.delete(Kind::Group, "train");
        go_on(&mut driven);
        assert_eq!(driven.evicted(), stage.committed(), "{stage:?}");
        assert_eq!(driven.nominated(), Vec::<String>::new(), "{stage:?}");
        let stored = driven.stored();
        assert!(
            stored.contains(&"Preemptor Cancelled: The pod group was deleted.".to_owned()),
            "{stage:?}: {stored:?}"
        );
        expect_all_ended(&driven);
    }
}

/// The preemptor still needs the capacity, so a new plan is made. Nothing else is evicted for the deleted one.
#[test]
fn a_deleted_preemption_cancels_its_plan_at_every_stage() {
    for stage in Stage::ALL.into_iter().filter(|stage| stage.state().is_some()) {
        let mut driven = at(stage);
        let plan = driven.plans()[0].metadata.name.clone().unwrap();
        let before = driven.evictions().len();
        driven.delete(Kind::Preemption, &plan);
        go_on(&mut driven);
        let further = &driven.evictions()[before..];
        assert!(further.iter().all(|eviction| eviction.plan != plan), "{stage:?}: {further:?}");
        let event = "PodGroup default/train Cancelled: The Preemption of the plan was deleted.".to_owned();
        assert!(driven.events.contains(&event), "{stage:?}: {:#?}", driven.events);
        if stage == Stage::FirstEviction {
            let rest = further.iter().find(|eviction| eviction.pod == "a-1").map(|eviction| eviction.plan.clone());
            let plans = driven.plans();
            let departure = plans.iter().find(|plan| plan.metadata.name == rest);
            assert_eq!(departure.map(|plan| plan.spec.cause.as_str()), Some("PartiallyDisrupted"), "{plans:#?}");
        }
        let evicted = driven.evicted();
        assert!(evicted.windows(2).all(|two| two[0] != two[1]), "{stage:?}: no pod is evicted twice: {evicted:?}");
    }
}

/// Returns gang `train`, whose priority is that of class `urgent`.
fn train_of_class() -> Value {
    let mut train = gang("train", 2, 0);
    (train["spec"]["priority"], train["spec"]["priorityClassName"]) = (Value::Null, json!("urgent"));
    train
}

/// A victim must have a lower priority than the preemptor at the time of its eviction. `value` of a PriorityClass is immutable, but the
/// class can be deleted and created again.
#[test]
fn a_plan_for_a_preemptor_without_a_higher_priority_any_more_evicts_nothing_else() {
    for stage in [Stage::Stored, Stage::Nominated, Stage::FirstEviction, Stage::AllEvicted] {
        let mut driven = at_with(stage, train_of_class());
        driven.apply(Kind::Class, json!({"metadata": {"name": "urgent", "uid": "uid-again"}, "value": 5}));
        go_on(&mut driven);
        assert_eq!(driven.evicted(), stage.committed(), "{stage:?}");
        if stage != Stage::AllEvicted {
            let stored = driven.stored();
            assert!(stored.iter().any(|plan| plan.starts_with("Preemptor Cancelled: ")), "{stage:?}: {stored:?}");
            expect_all_ended(&driven);
        }
    }
}

#[test]
fn a_new_leader_continues_a_plan_although_the_class_of_its_preemptor_does_not_exist_for_a_moment() {
    for stage in [Stage::Stored, Stage::Nominated, Stage::FirstEviction, Stage::AllEvicted] {
        let mut driven = at_with(stage, train_of_class());
        driven.delete(Kind::Class, "urgent");
        driven.next_leader();
        driven.answer(|_| Answer::Succeed);
        driven.settle();
        driven.apply(Kind::Class, json!({"metadata": {"name": "urgent", "uid": "uid-again"}, "value": 1_000}));
        driven.settle();
        driven.run(seconds(10));
        assert_eq!(driven.evicted(), Stage::AllEvicted.evicted(), "{stage:?}");
        driven.terminate();
        driven.settle();
        driven.bind();
        driven.settle();
        let plan = only(driven.stored());
        assert!(plan.starts_with("Preemptor Completed: "), "{stage:?}: {plan}");
    }
}

#[test]
fn a_status_that_cannot_be_written_is_retried_after_growing_delays() {
    let mut driven = Driven::new(&[]);
    let is_write = |command: &Command| matches!(command, Command::WriteGroupStatus { .. });
    driven.answer(move |command| if is_write(command) { Answer::Fail("etcd is full") } else { Answer::Succeed });
    driven.node("n1", 8);
    driven.apply(Kind::Group, gang("train", 8, 1_000));
    let mut times = Vec::new();
    for tick in 0..80 {
        // A change of the group in every pass.
        match tick % 2 {
            0 => driven.apply(Kind::Pod, running("train-0", 1_000, "n1", Some("train"))),
            _ => driven.delete(Kind::Pod, "train-0"),
        }
        let calls = if tick == 0 { driven.settle() } else { driven.run(Duration::from_millis(250)) };
        let writes = calls.iter().filter(|call| *call == "write status of train").count();
        times.extend(std::iter::repeat_n(tick * 250, writes));
    }
    assert_eq!(times, [0, 500, 1_500, 3_500, 7_500, 15_500], "in milliseconds");
    driven.answer(|_| Answer::Succeed);
    assert_eq!(driven.run(seconds(11)), Vec::<String>::new());
    assert_eq!(driven.condition("train", INITIALLY_SCHEDULED), "");
    assert_eq!(driven.run(seconds(1)), ["write status of train"]);
    let condition = driven.condition("train", INITIALLY_SCHEDULED);
    assert!(condition.starts_with("False WaitingForPods: 8 pods needed"), "{condition}");
}

/// Returns a gang with this delay.
fn delayed(name: &str, size: usize, delay: u32) -> Value {
    let mut gang = gang(name, size, 1_000);
    gang["spec"]["preemptionDelaySeconds"] = json!(delay);
    gang
}

#[test]
fn a_delayed_plan_reserves_nothing_and_the_delay_of_its_successor_counts_from_the_first_plan() {
    let mut driven = Driven::new(&[]);
    driven.node("n1", 4);
    driven.apply(Kind::Pod, running("low", 10, "n1", None));
    driven.submit(delayed("train", 4, 20), 1);
    driven.settle();
    assert_eq!(about_pods(driven.run(seconds(5))), Vec::<String>::new(), "the delay has not passed");
    let first = only(driven.plans());
    assert_eq!(first.spec.cost.victim_pods, 1);
    driven.submit(gang("small", 3, 500), 1);
    let calls = driven.settle();
    for number in 0..3 {
        assert!(calls.contains(&format!("ungate small-{number}")), "{calls:?}");
    }
    driven.bind();
    driven.settle();
    driven.run(Duration::from_millis(14_750));
    assert_eq!(driven.evicted(), Vec::<&str>::new(), "after 19.75 s");
    let plans = driven.plans();
    let states: Vec<PlanState> = plans.iter().filter_map(|plan| Some(plan.status.as_ref()?.state)).collect();
    assert_eq!(states, [PlanState::Cancelled, PlanState::Planned], "{:#?}", driven.stored());
    let planned_at = |at: usize| plans[at].status.as_ref().and_then(|status| status.planned_at.clone());
    assert!(planned_at(0).is_some() && planned_at(0) == planned_at(1), "{plans:#?}");
    driven.run(seconds(2));
    assert_eq!(driven.evicted(), ["low", "small-0", "small-1", "small-2"], "after 20 s");
}

#[test]
fn a_plan_that_replaces_one_with_more_victims_is_not_delayed_a_second_time() {
    let mut driven = Driven::new(&[]);
    for node in ["n1", "n2", "n3"] {
        driven.node(node, 1);
        driven.apply(Kind::Pod, running(&format!("low-{node}"), 10, node, None));
    }
    driven.submit(delayed("train", 3, 10), 1);
    driven.settle();
    driven.run(seconds(9));
    driven.node("n4", 1);
    driven.run(Duration::from_millis(750));
    assert_eq!(driven.evicted(), Vec::<&str>::new(), "after 9.75 s");
    driven.run(seconds(2));
    assert_eq!(driven.evicted().len(), 2, "after 10 s: {:#?}", driven.stored());
    let why = "Preemptor Cancelled: Capacity became free for some of the pods: a new plan evicts fewer pods.";
    assert!(driven.stored().contains(&why.to_owned()), "{:#?}", driven.stored());
}

#[test]
fn a_new_leader_evicts_for_a_delayed_plan_at_the_time_of_the_first_leader() {
    let mut driven = full_cluster(&[]);
    driven.submit(delayed("train", 2, 20), 2);
    driven.settle();
    driven.run(seconds(15));
    driven.next_leader();
    driven.settle();
    driven.run(Duration::from_millis(4_750));
    assert_eq!(driven.evicted(), Vec::<&str>::new(), "after 19.75 s");
    driven.run(seconds(2));
    assert_eq!(driven.evicted(), Stage::AllEvicted.evicted(), "after 20 s");
}

/// Returns a cluster in which PodGroup `shared` has one pod on each of two nodes. The plan of gang `one` for the first node is stored; gang
/// `two` of higher priority needs the second node and has evicted `shared-0`. The eviction of `shared-1` for it has no answer.
fn shared_victims() -> Driven {
    let mut driven = Driven::new(&[]);
    driven.apply(Kind::Group, gang("shared", 2, 10));
    for number in 0..2 {
        let node = format!("n{}", number + 1);
        driven.node(&node, 1);
        driven.apply(Kind::Pod, running(&format!("shared-{number}"), 10, &node, Some("shared")));
    }
    driven.answer(|command| match command {
        Command::Nominate { pod, node: Some(_), .. } if pod.name == "one-0" => Answer::Hold,
        Command::Evict(call) if !call.rehearsal && call.pod.name == "shared-1" => Answer::Hold,
        _ => Answer::Succeed,
    });
    driven.submit_for("n1", "one", 500);
    driven.settle();
    driven.submit_for("n2", "two", 1_000);
    driven.settle();
    assert_eq!(driven.evicted(), ["shared-0"]);
    let victims: Vec<usize> = driven.plans().iter().map(|plan| plan.spec.victims[0].pods.len()).collect();
    assert_eq!(victims, [2, 2], "both plans evict the whole group: {:#?}", driven.stored());
    driven.answer_unanswered(|command| matches!(command, Command::Nominate { .. }));
    let calls = driven.settle();
    assert!(!calls.iter().any(|call| call.starts_with("evict ")), "gang two evicts both pods: {calls:?}");
    driven
}

/// Lets the victims terminate, and asserts that this gang is bound.
fn expect_bound(driven: &mut Driven, gang: &str) {
    driven.terminate();
    driven.settle();
    driven.bind();
    driven.settle();
    assert_eq!(driven.bound(gang), [format!("{gang}-0")], "{:#?}", driven.stored());
    driven.run(seconds(2));
    expect_all_ended(driven);
}

/// Deletes one of the two preemptors, answers the calls that were held back, and returns the calls that are made then. The shared group is
/// evicted as a whole.
fn cancel(driven: &mut Driven, gang: &str) -> Vec<String> {
    driven.delete(Kind::Group, gang);
    let mut calls = driven.settle();
    driven.answer(|_| Answer::Succeed);
    driven.answer_unanswered(|_| true);
    calls.extend(driven.settle());
    calls.extend(driven.run(seconds(5)));
    assert_eq!(driven.evicted(), ["shared-0", "shared-1"]);
    calls
}

#[test]
fn a_group_that_two_plans_evict_is_evicted_once_if_the_plan_that_began_is_cancelled() {
    let mut driven = shared_victims();
    let calls = cancel(&mut driven, "two");
    assert_eq!(calls.iter().filter(|call| call.starts_with("evict ")).collect::<Vec<_>>(), ["evict shared-1"]);
    expect_bound(&mut driven, "one");
}

#[test]
fn a_group_that_two_plans_evict_is_evicted_once_if_the_other_plan_is_cancelled() {
    let mut driven = shared_victims();
    let calls = cancel(&mut driven, "one");
    assert!(!calls.iter().any(|call| call.starts_with("evict ")), "it was requested before: {calls:?}");
    expect_bound(&mut driven, "two");
}

/// The other pod of a PodGroup that a cancelled plan has disrupted is evicted in any case, so another plan may count on its capacity.
#[test]
fn a_plan_that_counts_on_a_pod_of_a_departure_outlasts_a_failed_eviction_of_that_pod() {
    let mut driven = Driven::new(&[]);
    driven.node("n1", 1);
    driven.node("n2", 2);
    driven.apply(Kind::Group, gang("shared", 2, 10));
    driven.apply(Kind::Pod, running("shared-0", 10, "n1", Some("shared")));
    driven.apply(Kind::Pod, running("shared-1", 10, "n2", Some("shared")));
    driven.apply(Kind::Pod, running("low", 10, "n2", None));
    let is_of_the_other =
        |command: &Command| matches!(command, Command::Evict(call) if !call.rehearsal && call.pod.name == "shared-1");
    driven.answer(move |command| if is_of_the_other(command) { Answer::Hold } else { Answer::Succeed });
    driven.submit_for("n1", "first", 1_000);
    driven.settle();
    let mut second = member("second-0", 1_000, "second", 2);
    second["spec"]["nodeSelector"] = json!({"pool": "n2"});
    driven.apply(Kind::Group, gang("second", 1, 1_000));
    driven.apply(Kind::Pod, second);
    driven.settle();
    assert_eq!(driven.evicted(), ["low", "shared-0"]);
    driven.delete(Kind::Group, "first");
    driven.settle();
    driven.answer(move |command| if is_of_the_other(command) { Answer::Fail("too many") } else { Answer::Succeed });
    driven.answer_unanswered(|_| true);
    driven.settle();
    driven.run(seconds(1));
    driven.answer(|_| Answer::Succeed);
    driven.run(seconds(5));
    assert_eq!(driven.evicted(), ["low", "shared-0", "shared-1"], "{:#?}", driven.stored());
    let cancelled = driven.stored().into_iter().filter(|plan| plan.starts_with("Preemptor Cancelled: "));
    assert_eq!(cancelled.collect::<Vec<_>>(), ["Preemptor Cancelled: The pod group was deleted."]);
    expect_bound(&mut driven, "second");
}

#[test]
fn a_new_leader_continues_a_plan_after_it_has_stored_that_it_leads() {
    let stages = [Stage::FirstEviction, Stage::AllEvicted];
    for (stage, change_leader) in stages.into_iter().flat_map(|stage| CHANGES_OF_LEADER.map(|change| (stage, change))) {
        let mut driven = at(stage);
        let plan = driven.plans()[0].metadata.name.clone();
        let term = change_leader(&mut driven);
        driven.answer(|command| match command {
            Command::WritePlan { .. } => Answer::Hold,
            _ => Answer::Succeed,
        });
        let calls = driven.settle();
        assert!(!calls.iter().any(|call| call.starts_with("evict ")), "{stage:?}: not stored yet: {calls:?}");
        go_on(&mut driven);
        assert_eq!(driven.evicted(), Stage::AllEvicted.evicted(), "{stage:?}");
        driven.terminate();
        driven.settle();
        driven.bind();
        driven.settle();
        let last = only(driven.plans());
        let status = last.status.unwrap();
        assert_eq!((last.metadata.name, status.state, status.term), (plan, PlanState::Completed, term), "{stage:?}");
    }
}

#[test]
fn a_new_leader_finishes_only_the_partially_disrupted_group_if_the_preemptor_was_deleted() {
    for change_leader in CHANGES_OF_LEADER {
        let mut driven = at(Stage::FirstEviction);
        driven.delete(Kind::Group, "train");
        change_leader(&mut driven);
        driven.answer(|_| Answer::Succeed);
        driven.settle();
        driven.run(seconds(10));
        assert_eq!(driven.evicted(), ["a-0", "a-1"]);
        let stored = driven.stored();
        let why = "Preemptor Cancelled: An earlier leader stored this plan, which is no longer valid: the preemptor was deleted.";
        assert!(stored.contains(&why.to_owned()), "{stored:#?}");
        assert!(stored.iter().any(|plan| plan.starts_with("PartiallyDisrupted Completed: ")), "{stored:#?}");
        assert_eq!(driven.nominated(), Vec::<String>::new());
    }
}

#[test]
fn a_new_leader_counts_the_evictions_of_the_earlier_one_against_the_limit() {
    let mut driven = full_cluster(&["--evictions-per-minute-per-cluster=2"]);
    driven.submit(gang("first", 1, 1_000), 2);
    driven.settle();
    assert_eq!(driven.evicted().len(), 2);
    driven.run(seconds(10));
    driven.next_leader();
    driven.submit(gang("second", 1, 1_000), 2);
    driven.settle();
    let condition = driven.condition("second", INITIALLY_SCHEDULED);
    let why = " Evictions in the cluster are limited to 2 a minute; more are allowed at ";
    assert!(condition.starts_with("False EvictionsLimited: ") && condition.contains(why), "{condition}");
    // The times of the earlier evictions are not stored, so they count from the beginning of the second term.
    driven.run(Duration::from_millis(59_750));
    assert_eq!(driven.evicted().len(), 2, "after 59.75 s");
    driven.run(seconds(2));
    assert_eq!(driven.evicted(), Stage::AllEvicted.evicted(), "after a minute");
}

#[test]
fn observe_and_off_finish_the_partially_disrupted_group_and_evict_no_other() {
    for (mode, words, reason) in [("observe", OBSERVES, "Observing"), ("off", OFF, "SwitchedOff")] {
        let mut driven = at(Stage::FirstEviction);
        driven.switch(mode);
        go_on(&mut driven);
        assert_eq!(driven.evicted(), ["a-0", "a-1"], "{mode}");
        let stored = driven.stored();
        let why = format!(
            "Preemptor Cancelled: {words}; disruptions that have started are finished, and no other pod is evicted."
        );
        assert!(stored.contains(&why), "{mode}: {stored:#?}");
        let condition = driven.condition("train", INITIALLY_SCHEDULED);
        assert!(condition.starts_with(&format!("False {reason}: {words}")), "{mode}: {condition}");
        driven.switch("enforce");
        driven.settle();
        driven.run(seconds(5));
        // In mode `off` the gates are removed, so that kube-scheduler may bind the pods at any time.
        if mode == "observe" {
            assert_eq!(driven.evicted(), Stage::AllEvicted.evicted());
        }
    }
}

#[test]
fn observe_and_off_begin_no_plan() {
    for (mode, words) in [("observe", OBSERVES), ("off", OFF)] {
        let mut driven = full_cluster(&[]);
        driven.switch(mode);
        driven.submit(gang("train", 2, 1_000), 2);
        let mut calls = driven.settle();
        calls.extend(driven.run(seconds(10)));
        assert!(!calls.iter().any(|call| call.starts_with("evict ") || call.starts_with("nominate ")), "{calls:?}");
        let ungated = calls.iter().filter(|call| call.starts_with("ungate ")).count();
        assert_eq!(ungated, if mode == "off" { 2 } else { 0 }, "{mode}: {calls:?}");
        let condition = driven.condition("train", INITIALLY_SCHEDULED);
        assert!(condition.contains(words), "{mode}: {condition}");
        let observed = driven.stored().iter().filter(|plan| plan.starts_with("Preemptor Observed: ")).count();
        assert_eq!((observed, driven.plans().len()), if mode == "off" { (0, 0) } else { (1, 1) }, "{mode}");
    }
}

#[test]
fn observe_lets_a_plan_start_its_preemptor_if_all_victims_are_terminating() {
    let mut driven = at(Stage::AllEvicted);
    driven.switch("observe");
    go_on(&mut driven);
    driven.terminate();
    driven.settle();
    driven.bind();
    driven.settle();
    assert_eq!(driven.bound("train"), ["train-0", "train-1"]);
    let plan = only(driven.stored());
    assert!(plan.starts_with("Preemptor Completed: "), "{plan}");
}

#[test]
fn a_node_that_is_not_ready_for_less_than_the_grace_cancels_no_plan_that_has_evicted_pods() {
    let mut driven = at(Stage::AllEvicted);
    driven.not_ready("n2");
    driven.settle();
    driven.run(Duration::from_millis(59_750));
    driven.node("n2", 2);
    driven.settle();
    driven.run(seconds(5));
    driven.terminate();
    driven.settle();
    driven.bind();
    driven.settle();
    let plan = only(driven.stored());
    assert!(plan.starts_with("Preemptor Completed: "), "{plan}");
}

#[test]
fn a_node_that_is_not_ready_for_longer_than_the_grace_cancels_the_plan() {
    for stage in [Stage::FirstEviction, Stage::AllEvicted] {
        let mut driven = at(stage);
        let plan = driven.plans().remove(0);
        let placed = plan.spec.placements.into_iter().find(|placed| placed.node == "n2").unwrap();
        driven.not_ready("n2");
        driven.settle();
        driven.run(Duration::from_millis(59_750));
        assert_eq!(driven.plans()[0].status.as_ref().map(|status| status.state), stage.state(), "after 59.75 s");
        driven.run(Duration::from_millis(250));
        go_on(&mut driven);
        let what = match stage {
            Stage::AllEvicted => "The plan became infeasible while victims terminated",
            _ => "The plan does not fit any more; no other pod is evicted",
        };
        let why = format!(
            "Preemptor Cancelled: {what}: Pod default/{} does not fit on node n2 any more: the node has the untolerated taint \
             {{node.kubernetes.io/not-ready: }}.",
            placed.pod
        );
        assert!(driven.stored().contains(&why), "{stage:?}: {:#?}", driven.stored());
        assert_eq!(driven.evicted(), stage.committed(), "{stage:?}");
        assert_eq!(driven.nominated(), Vec::<String>::new(), "{stage:?}");
    }
}

#[test]
fn the_preemptor_of_the_lowest_priority_waits_while_max_plans_are_in_flight() {
    let mut driven = Driven::new(&["--max-plans=2"]);
    for node in ["n1", "n2", "n3", "n4"] {
        driven.node(node, 1);
        driven.apply(Kind::Pod, running(&format!("low-{node}"), 10, node, None));
    }
    driven.submit_for("n1", "lowest", 100);
    driven.submit_for("n2", "middle", 200);
    driven.submit_for("n3", "highest", 300);
    driven.settle();
    assert_eq!(driven.evicted(), ["low-n2", "low-n3"]);
    let why = "False EvictionsLimited: 2 plans are in flight for preemptors of priority 100 or higher, and --max-plans is 2. No pod is \
               evicted for this preemptor until one of them has ended.";
    assert_eq!(driven.condition("lowest", INITIALLY_SCHEDULED), why);
    // Plans for preemptors of lower priority do not count.
    driven.submit_for("n4", "urgent", 400);
    driven.settle();
    assert_eq!(driven.evicted(), ["low-n2", "low-n3", "low-n4"]);
    driven.run(seconds(5));
    assert_eq!(driven.evicted(), ["low-n2", "low-n3", "low-n4"]);
    driven.terminate();
    driven.settle();
    driven.bind();
    driven.settle();
    driven.run(seconds(1));
    assert_eq!(driven.evicted(), ["low-n1", "low-n2", "low-n3", "low-n4"]);
}

#[test]
fn a_member_that_is_added_to_a_group_while_it_is_evicted_stays_gated_until_its_pods_terminate() {
    let mut driven = Driven::new(&[]);
    driven.node("n1", 2);
    driven.node("n2", 1);
    driven.apply(Kind::Group, gang("low", 2, 10));
    for number in 0..2 {
        driven.apply(Kind::Pod, running(&format!("low-{number}"), 10, "n1", Some("low")));
    }
    driven.answer(|command| match command {
        Command::Evict(call) if !call.rehearsal => Answer::Hold,
        _ => Answer::Succeed,
    });
    driven.submit(gang("train", 1, 1_000), 2);
    driven.settle();
    assert_eq!(driven.unanswered().len(), 2, "the evictions are in flight: {:?}", driven.unanswered());
    driven.apply(Kind::Pod, member("low-2", 10, "low", 1));
    let calls = about_pods(driven.settle());
    assert_eq!(calls, Vec::<String>::new(), "it fits on n2, but it would be the only pod that is left");
    driven.answer(|_| Answer::Succeed);
    driven.answer_unanswered(|_| true);
    driven.settle();
    assert_eq!(driven.evicted(), ["low-0", "low-1"]);
}

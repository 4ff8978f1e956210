//! Changes of the cluster while a plan is carried out: the plan does what is still necessary and nothing else.

use super::*;
use giveway_planner::{Reservation, Respect, SmolStr};

#[test]
fn a_plan_of_which_a_node_is_cordoned_evicts_no_other_pod_and_hands_over_what_is_left() {
    let mut run = Run::evicting();
    run.flight.evicted("uid-l1", &EvictOutcome::Accepted, run.now);
    run.flight.evicted("uid-l2", &EvictOutcome::Error("timeout".into()), run.now);
    run.world.cordoned("n2", 1);
    run.later(1);
    let advance = run.step();
    assert_eq!(names(&advance), ["leave uid-l2"]);
    run.flight.handed_over = true;
    let ended = run.step().ended.unwrap();
    let why = "The plan does not fit any more; no other pod is evicted: Pod default/g2 does not fit on node n2 any more: \
               the node is unschedulable.";
    assert_eq!((ended.state, ended.message.to_string().as_str()), (PlanState::Cancelled, why));
}

#[test]
fn a_plan_that_evicts_is_cancelled_for_a_node_that_is_not_ready_only_after_the_grace() {
    let mut run = Run::evicting();
    run.flight.evicted("uid-l1", &EvictOutcome::Accepted, run.now);
    run.flight.evicted("uid-l2", &EvictOutcome::Accepted, run.now);
    run.world.outage("n2", 1, false, 100);
    assert_eq!(run.world.model.recovering(160, 60), BTreeSet::new());
    let recovering = run.world.model.recovering(159, 60);
    assert_eq!(recovering, BTreeSet::from([SmolStr::new("n2")]));
    run.world.outage("n2", 1, true, 130);
    assert_eq!(run.world.model.recovering(159, 60), recovering, "it is ready, and its taint is not removed yet");
    run.step_within(&Context { recovering, ..Context::default() });
    assert!(run.flight.ending.is_none() && run.flight.plan.state == PlanState::WaitingForVictims);
    run.flight.checked = None;
    run.step();
    let why = "The plan became infeasible while victims terminated: Pod default/g2 does not fit on node n2 any more: \
               the node has the untolerated taint {node.kubernetes.io/not-ready: }.";
    assert_eq!(run.flight.ending.unwrap().message.to_string(), why);
    run.world.node("n2", 1);
    assert_eq!(run.world.model.recovering(159, 60), BTreeSet::new());
}

#[test]
fn members_that_are_ungated_on_a_node_that_is_not_ready_have_the_whole_time_when_it_is_ready() {
    let mut run = Run::evicting();
    run.world.remove_pod("l1").remove_pod("l2");
    run.step();
    for name in ["g1", "g2"] {
        run.world.pod(TestPod::new(name, 100).of("gang").unschedulable());
    }
    run.world.outage("n2", 1, false, 100);
    let context = Context { recovering: BTreeSet::from(["n2".into()]), ..Context::default() };
    for _ in 0..4 {
        run.later(20);
        run.step_within(&context);
        assert!(run.flight.ending.is_none(), "{:?}", run.flight.ending);
    }
    run.world.node("n2", 1);
    run.later(20);
    run.step();
    assert!(run.flight.ending.is_none(), "{:?}", run.flight.ending);
}

#[test]
fn a_plan_is_cancelled_at_once_when_a_more_important_plan_uses_its_nodes() {
    let mut run = Run::evicting();
    run.flight.evicted("uid-l1", &EvictOutcome::Error("timeout".into()), run.now);
    run.flight.evicted("uid-l2", &EvictOutcome::Error("timeout".into()), run.now);
    run.world.group("vip", 1, 1000, "PodGroup").pod(TestPod::new("v1", 1000).of("vip").gated());
    run.world.model.cluster.reserve("uid-v1", "n1", Reservation::Planned(1000));
    run.later(1);
    // Simulates a new plan on the same nodes, which causes a new check of this plan.
    run.flight.checked = None;
    let advance = run.step();
    // A failed call may have evicted a pod, so the PodGroup counts as partially disrupted.
    assert_eq!(names(&advance), ["leave uid-l1", "leave uid-l2"]);
    let member = &run.flight.members[0];
    assert_eq!(run.flight.reservation(&run.world.model.cluster, member), Some(Reservation::Withdrawn));
}

#[test]
fn members_that_are_evicted_themselves_do_not_count_for_the_barrier() {
    let mut run = Run::evicting();
    let context = Context { departing: BTreeSet::from([SmolStr::new("uid-g1")]), ..Context::default() };
    run.step_within(&context);
    let ending = run.flight.ending.unwrap();
    assert_eq!(ending.message.to_string(), "Only 1 of the 2 needed pods still fits.");
}

#[test]
fn a_victim_that_ended_by_itself_counts_as_removed() {
    let mut run = Run::evicting();
    run.flight.evicted("uid-l1", &EvictOutcome::Accepted, run.now);
    run.world.remove_pod("l1");
    run.world.pod(TestPod::new("l2", 10).of("low").on("n2").succeeded());
    assert_eq!(names(&run.step()), ["ungate g1", "ungate g2"], "it uses no capacity, although its object exists");
}

#[test]
fn the_plan_waits_for_an_unavailable_api_server() {
    let mut run = Run::evicting();
    run.flight.evicted("uid-l1", &EvictOutcome::Accepted, run.now);
    for _ in 0..20 {
        run.flight.evicted("uid-l2", &EvictOutcome::Unanswered("connection refused".into()), run.now);
        assert!(names(&run.step()).is_empty(), "not at once");
        run.later(1);
        assert_eq!(names(&run.step()), ["evict l2"]);
    }
    assert!(run.flight.ending.is_none());
    for _ in 0..20 {
        let lost = Err(CallError::Unanswered("connection refused".into()));
        run.flight.member_answered("uid-g1", (MemberCall::Nominate, false), &lost, run.now);
        assert!(run.flight.ending.is_none());
    }
    for _ in 0..6 {
        run.answered("uid-g1", false, false);
    }
    let words = "The nomination of a node for pod default/g1 was rejected: the object has changed (409)";
    assert_eq!(run.flight.ending.unwrap().message.to_string(), words, "an error that repeats six times is a rejection");
}

#[test]
fn free_capacity_for_enough_members_cancels_a_plan_for_all_of_them() {
    let mut run = Run::new();
    run.world.group("gang", 1, 100, "PodGroup");
    run.world.node("n3", 1);
    run.flight.stored = Some(PlanState::Evicting);
    let ended = run.step().ended.unwrap();
    assert_eq!(ended.message.to_string(), "Capacity became free; no pod was evicted.");
}

#[test]
fn when_a_member_is_deleted_and_enough_are_left_the_next_plan_keeps_their_placements() {
    let mut run = Run::evicting();
    run.world.group("gang", 1, 100, "PodGroup");
    for uid in ["uid-l1", "uid-l2"] {
        run.flight.evicted(uid, &EvictOutcome::Accepted, run.now);
    }
    run.world.remove_pod("l1").remove_pod("l2").remove_pod("g2");
    let advance = run.step();
    assert!(names(&advance).is_empty(), "nothing is withdrawn: {:?}", names(&advance));
    let ended = advance.ended.unwrap();
    let why = "Pod default/g2, which has a placement in the plan, was deleted.";
    assert_eq!((ended.message.to_string().as_str(), ended.again), (why, true));

    let mut run = Run::evicting();
    run.world.remove_pod("g2");
    for uid in ["uid-l1", "uid-l2"] {
        run.flight.evicted(uid, &EvictOutcome::Accepted, run.now);
    }
    let advance = run.step();
    assert_eq!(names(&advance), ["withdraw g1"], "one of two is not enough");
    assert!(!advance.ended.unwrap().again);
}

#[test]
fn a_new_group_of_the_same_name_gets_nothing_of_the_plan() {
    let mut run = Run::evicting();
    run.flight.plan.preemptor.uid = "uid-of-an-earlier-one".into();
    run.step();
    assert_eq!(run.flight.ending.unwrap().message.to_string(), "The pod group was deleted.");
}

#[test]
fn a_gated_member_that_is_terminating_does_not_use_up_the_time_of_the_others() {
    let mut run = Run::new();
    run.world.remove_pod("l1").remove_pod("l2").group("gang", 1, 100, "PodGroup");
    run.flight.plan.victims.clear();
    run.flight.victims.clear();
    run.flight.plan.state = PlanState::Ungating;
    assert_eq!(names(&run.step()), ["nominate g1 n1", "nominate g2 n2", "ungate g1", "ungate g2"]);
    run.world.pod(TestPod::new("g1", 100).of("gang").unschedulable());
    run.world.pod(TestPod::new("g2", 100).of("gang").gated().terminating());
    run.step();
    run.later(30);
    run.step();
    let message = run.flight.ending.as_ref().map(|ending| (ending.state, ending.message.to_string()));
    let (state, why) = message.unwrap();
    assert_eq!(state, PlanState::Failed);
    assert!(why.starts_with("kube-scheduler did not bind every ungated pod within 30 s"), "{why}");
}

#[test]
fn victims_of_a_postponed_plan_do_not_count_as_removed_for_other_plans() {
    let mut run = Run::new();
    run.delayed(2, 86_400);
    run.epoch = 100;
    run.step();
    assert!(run.flight.postponed);
    let mut flights = Flights::from([run.flight.clone()]);
    assert_eq!(flights.departing(100).len(), 0, "their eviction was not requested");
    flights.all_mut().for_each(|flight| flight.postponed = false);
    assert_eq!(flights.departing(100).len(), 2);
}

#[test]
fn a_plan_without_a_delay_does_not_wait_for_a_clock_that_is_set_back() {
    let mut run = Run::new();
    run.delayed(2, 0);
    run.epoch = -3_600;
    run.step();
    run.nominated();
    assert_eq!(names(&run.step()), ["evict l1", "evict l2"]);
}

#[test]
fn a_member_that_was_bound_elsewhere_does_not_cost_the_others_the_capacity_of_the_victims() {
    let mut run = Run::evicting();
    for name in ["uid-l1", "uid-l2"] {
        run.flight.evicted(name, &EvictOutcome::Accepted, run.now);
    }
    run.step();
    run.world.node("n3", 1).pod(TestPod::new("g1", 100).of("gang").on("n3"));
    assert!(names(&run.step()).is_empty());
    assert_eq!((&run.flight.ending, run.flight.plan.state), (&None, PlanState::WaitingForVictims));
    run.world.remove_pod("l1").remove_pod("l2");
    assert_eq!(names(&run.step()), ["ungate g2"]);
    run.world.pod(TestPod::new("g2", 100).of("gang").on("n2"));
    assert_eq!(run.step().ended.unwrap().state, PlanState::Completed);
}

#[test]
fn other_free_capacity_is_used_when_victims_terminate_slowly() {
    let mut run = Run::evicting();
    for name in ["uid-l1", "uid-l2"] {
        run.flight.evicted(name, &EvictOutcome::Accepted, run.now);
    }
    run.step();
    run.later(10);
    run.world.node("n3", 1);
    assert!(run.step().ended.is_none(), "there is no other capacity");
    run.world.node("n4", 1);
    assert!(run.step().ended.is_none(), "the planner was asked less than a second ago");
    run.later(1);
    let ended = run.step().ended.unwrap();
    let why = "The victims terminate slowly, and the pods fit on other free capacity now.";
    assert_eq!((ended.state, ended.message.to_string().as_str()), (PlanState::Cancelled, why));
    // Other capacity does not count if it is reserved by a plan that has evicted no pod, although that reservation does
    // not block this plan's own placements.
    let mut run = Run::evicting();
    for name in ["uid-l1", "uid-l2"] {
        run.flight.evicted(name, &EvictOutcome::Accepted, run.now);
    }
    run.step();
    run.later(10);
    run.world.node("n3", 1).node("n4", 1).pod(TestPod::new("planned", 100).nominated("n3"));
    run.world.model.cluster.reserve("uid-planned", "n3", Reservation::Planned(100));
    let context = Context { respect: Respect::StartedOrHigher, ..Context::default() };
    assert!(run.step_within(&context).ended.is_none(), "the other plan would have to be cancelled for it");
    // Other capacity does not count before the victims have had their time to terminate.
    let mut run = Run::evicting();
    for name in ["uid-l1", "uid-l2"] {
        run.flight.evicted(name, &EvictOutcome::Accepted, run.now);
    }
    run.world.node("n3", 1).node("n4", 1);
    run.step();
    run.later(9);
    assert!(run.step().ended.is_none());
}

/// Returns why a stored plan is cancelled after this change, right before its first eviction.
fn outdated(change: impl FnOnce(&mut World)) -> String {
    let mut run = Run::new();
    run.flight.stored = Some(PlanState::Planned);
    change(&mut run.world);
    run.step().ended.map(|ended| ended.message.to_string()).unwrap_or_default()
}

#[test]
fn no_pod_is_evicted_that_has_no_lower_priority_at_the_first_eviction() {
    let why = outdated(|world| {
        world.group("low", 2, 100, "PodGroup");
        world.pod(TestPod::new("l1", 100).of("low").on("n1")).pod(TestPod::new("l2", 100).of("low").on("n2"));
    });
    assert_eq!(why, "No pod was evicted: pod default/l1 is not of lower priority than the preemptor any more.");
    assert_eq!(outdated(|_| {}), "");
}

#[test]
fn a_group_that_has_grown_before_the_first_eviction_is_not_disrupted() {
    let why = outdated(|world| {
        world.node("n3", 1).pod(TestPod::new("l3", 10).of("low").on("n3"));
    });
    assert_eq!(why, "No pod was evicted: pod group default/low has more pods than when the plan was made.");
    let why = outdated(|world| {
        world.group("low", 2, 10, "Pod");
    });
    assert_eq!(
        why,
        "No pod was evicted: pod default/l1 would now be evicted alone or with other pods than in the plan."
    );
}

#[test]
fn recently_ungated_members_count_as_progress() {
    let mut run = Run::evicting();
    let after = Duration::from_secs(20);
    for name in ["uid-l1", "uid-l2"] {
        run.flight.evicted(name, &EvictOutcome::Accepted, run.now);
    }
    run.later(60);
    run.step();
    assert!(!run.flight.makes_no_progress(after, run.now), "victims are leaving");
    run.world.remove_pod("l1").remove_pod("l2");
    assert_eq!(names(&run.step()), ["ungate g1", "ungate g2"]);
    assert!(!run.flight.makes_no_progress(after, run.now), "however long the gang was partially scheduled before");
    for name in ["g1", "g2"] {
        run.world.pod(TestPod::new(name, 100).of("gang").unschedulable());
    }
    run.step();
    run.later(19);
    run.step();
    assert!(!run.flight.makes_no_progress(after, run.now));
    run.later(1);
    assert!(run.flight.makes_no_progress(after, run.now));
    // A plan without victims makes no progress at once.
    let mut free = run.flight.clone();
    free.plan.victims.clear();
    free.binding_wait = Some(SchedulerPace::UNKNOWN.begin(run.now));
    assert!(free.makes_no_progress(after, run.now) && !run.flight.makes_no_progress(after * 2, run.now));
}

#[test]
fn a_postponed_plan_is_checked_once_a_second_and_always_before_its_first_eviction() {
    let why = |run: &mut Run| run.step().ended.map(|ended| ended.message.to_string());
    let mut run = Run::new();
    run.delayed(2, 10);
    assert_eq!(why(&mut run), None);
    run.world.node("n3", 1);
    assert_eq!(why(&mut run), None, "no capacity for both");
    run.world.node("n4", 1);
    assert_eq!(why(&mut run), None, "it was looked at just now");
    run.later(1);
    assert_eq!(why(&mut run).as_deref(), Some("Capacity became free; no pod was evicted."));
    // Many postponed plans must not delay the plans that are carried out: if `may_compare` is false, a postponed plan is
    // checked only when it starts.
    let mut run = Run::new();
    run.delayed(2, 10);
    run.step();
    run.world.node("n3", 1).node("n4", 1);
    let limits = PlanLimits { may_compare: false, ..LIMITS };
    for second in [9, 10] {
        let clock = Clock { now: run.now + Duration::from_secs(second), epoch_seconds: i64::try_from(second).unwrap() };
        let ended = run.flight.advance(&run.world.model, &Context::default(), clock, limits).ended;
        assert_eq!(ended.is_some(), second == 10);
    }
}

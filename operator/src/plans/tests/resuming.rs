//! Plans of an earlier leader are checked when they are resumed, and cancelled with the reason if the check fails.

use super::*;
use giveway_crds::plan::StoredVictim;

/// Returns a run with the plan of `flight`, resumed in this state.
fn resumed(state: PlanState) -> Run {
    let mut run = Run::new();
    run.flight.plan.state = state;
    run.flight.resume();
    run
}

impl Run {
    /// Checks the plan as when it is resumed. Returns the reason why it is cancelled, or an empty string if it is not.
    pub(super) fn dropped(&mut self) -> String {
        self.flight.check_resumed(&self.world.model, &Context::default());
        let why = self.flight.ending.as_ref().map(|ending| ending.message.to_string()).unwrap_or_default();
        why.trim_start_matches("An earlier leader stored this plan, which is no longer valid: ").to_owned()
    }
}

#[test]
fn a_valid_plan_is_resumed() {
    for state in [PlanState::Planned, PlanState::Evicting, PlanState::WaitingForVictims] {
        assert_eq!(resumed(state).dropped(), "");
    }
    let mut run = resumed(PlanState::Evicting);
    run.world.remove_pod("l1").pod(TestPod::new("l2", 10).of("low").on("n2").terminating());
    assert_eq!(run.dropped(), "", "deleted and terminating victims do not cancel the plan");
}

#[test]
fn a_preemptor_of_the_same_name_or_of_another_priority_gets_nothing() {
    let mut run = resumed(PlanState::Planned);
    run.flight.plan.preemptor.uid = "another".into();
    assert_eq!(run.dropped(), "the preemptor was deleted, and another object has the name.");
    let mut run = resumed(PlanState::Planned);
    run.flight.plan.preemptor.priority = 1000;
    assert_eq!(run.dropped(), "the preemptor has priority 100; the plan was made with priority 1000.");
    let mut run = resumed(PlanState::Planned);
    run.flight.preemptor = Preemptor::Group(ObjectKey::new("default", "none"));
    assert_eq!(run.dropped(), "the preemptor was deleted.");
}

#[test]
fn a_preemptor_keeps_its_plan_if_its_class_does_not_exist_for_a_moment() {
    for state in [PlanState::Planned, PlanState::Evicting, PlanState::WaitingForVictims] {
        let mut run = resumed(state);
        run.world.group_of_class("gang", 2, None::<i32>, "urgent");
        assert_eq!(run.dropped(), "", "{state:?}");
        run.world.class(serde_json::json!({"metadata": {"name": "urgent"}, "value": 5}));
        assert_eq!(run.dropped(), "the preemptor has priority 5; the plan was made with priority 100.", "{state:?}");
    }
}

#[test]
fn placements_are_for_the_preemptors_own_pods() {
    let mut run = resumed(PlanState::Planned);
    run.world.pod(TestPod::new("g1", 100).of("other").gated());
    assert_eq!(run.dropped(), "pod default/g1, which the plan places, does not belong to the preemptor.");
}

#[test]
fn every_victim_must_be_of_lower_priority_now() {
    let mut run = resumed(PlanState::Evicting);
    run.world.group("low", 2, 100, "PodGroup");
    assert_eq!(run.dropped(), "", "a group does not raise the priority of its pods, which is 10");
    run.world.pod(TestPod::new("l1", 100).of("low").on("n1")).pod(TestPod::new("l2", 100).of("low").on("n2"));
    assert_eq!(run.dropped(), "pod default/l1 is not of lower priority than the preemptor.");
    run.world.remove_pod("g1");
    let advance = run.step();
    assert_eq!(names(&advance), Vec::<String>::new(), "no pod of that unit is evicted");
    assert_eq!(advance.ended.unwrap().state, PlanState::Cancelled);
}

#[test]
fn a_partially_disrupted_group_is_finished_although_only_its_more_important_pods_are_left() {
    let mut run = resumed(PlanState::Evicting);
    run.world.group("low", 2, 1000, "PodGroup");
    run.world.pod(TestPod::new("l1", 10).of("low").on("n1").terminating());
    run.world.pod(TestPod::new("l2", 1000).of("low").on("n2"));
    assert_eq!(run.dropped(), "");
    run.flight.stored = Some(PlanState::Evicting);
    run.nominated();
    assert_eq!(names(&run.step()), ["evict l2"]);
}

#[test]
fn a_plan_without_remaining_victims_ends_in_its_preemption_nevertheless() {
    let mut run = resumed(PlanState::Evicting);
    run.world.group("low", 2, 100, "PodGroup");
    run.world.pod(TestPod::new("l1", 100).of("low").on("n1")).pod(TestPod::new("l2", 100).of("low").on("n2"));
    assert_eq!(run.dropped(), "pod default/l1 is not of lower priority than the preemptor.");
    assert!(run.flight.victims.is_empty() && run.flight.evicts(), "the end of one that evicts is written");
    let ended = run.step().ended.unwrap();
    assert_eq!(ended.state, PlanState::Cancelled);
}

#[test]
fn a_group_in_mode_pod_group_is_disrupted_whole_or_not_at_all() {
    let mut run = resumed(PlanState::Planned);
    run.world.node("n3", 1).pod(TestPod::new("l3", 10).of("low").on("n3"));
    assert_eq!(run.dropped(), "pod group default/low has more pods now.");
    let mut run = resumed(PlanState::Evicting);
    let single = |name: &str, node: &str| StoredVictim {
        kind: "Pod".into(),
        namespace: "default".into(),
        name: name.into(),
        priority: 10,
        pods: vec![victim(name, node)],
        ..StoredVictim::default()
    };
    let plan = StoredPlan { victims: vec![single("l1", "n1")], ..run.flight.plan.clone() };
    run.flight = Flight::new(gang(), 100, plan, run.now);
    assert_eq!(run.dropped(), "pod default/l1 would now be evicted alone or with other pods than in the plan.");
}

#[test]
fn what_is_left_of_a_group_is_handed_over_although_the_plan_does_not_hold() {
    let mut run = resumed(PlanState::Evicting);
    run.world.remove_pod("l1").remove_pod("g1");
    assert_eq!(run.dropped(), "Pod default/g1 does not exist any more.");
    run.flight.stored = Some(PlanState::Evicting);
    assert_eq!(names(&run.step()), ["leave uid-l2"]);
}

#[test]
fn a_guaranteed_budget_that_was_created_after_the_plan_holds() {
    let mut run = resumed(PlanState::Planned);
    run.world.budget("db", "db", 0).pod(TestPod::new("l1", 10).of("low").on("n1").guarded("db", 5000));
    let why =
        "pod default/l1 has a guaranteed budget: The disruption budget db needs 1 healthy pods and has 1 currently.";
    assert_eq!(run.dropped(), why);
}

#[test]
fn a_plan_that_does_not_fit_any_more_is_cancelled_only_before_its_members_are_ungated() {
    let mut run = resumed(PlanState::Evicting);
    run.world.pod(TestPod::new("vip", 1000).on("n1"));
    assert!(run.dropped().starts_with("Pod default/g1 does not fit on node n1 any more"), "{}", run.dropped());
    let mut run = resumed(PlanState::Ungating);
    run.world.remove_pod("l1").remove_pod("l2");
    run.world.pod(TestPod::new("g1", 100).of("gang").on("n2"));
    assert_eq!(run.dropped(), "", "the scheduler may choose another node");
}

#[test]
fn a_group_of_which_a_pod_ended_by_itself_does_not_count_as_partially_disrupted() {
    let mut run = resumed(PlanState::Evicting);
    run.flight.stored = Some(PlanState::Evicting);
    run.world.pod(TestPod::new("l1", 10).of("low").on("n1").succeeded()).remove_pod("g1");
    let advance = run.step();
    assert!(names(&advance).iter().all(|name| !name.starts_with("evict")), "{:?}", names(&advance));
    // A pod that does not exist may have been evicted.
    let mut run = resumed(PlanState::Evicting);
    run.flight.stored = Some(PlanState::Evicting);
    run.world.remove_pod("l1").remove_pod("g1");
    assert_eq!(names(&run.step()), ["leave uid-l2"]);
}

/// An earlier leader evicts no pod before it has stored the state `Evicting`.
#[test]
fn a_pod_that_was_deleted_by_another_client_begins_no_disruption_for_a_plan_that_was_resumed_before_its_evictions() {
    let mut run = resumed(PlanState::Planned);
    run.flight.stored = Some(PlanState::Planned);
    run.nominated();
    assert_eq!(names(&run.step()), Vec::<String>::new(), "the next state is not stored yet");
    assert_eq!(run.flight.plan.state, PlanState::Evicting);
    run.world.remove_pod("l1").remove_pod("g1");
    let advance = run.step();
    assert_eq!(names(&advance), ["withdraw g2"], "pod l2 stays");
    assert_eq!(advance.ended.unwrap().state, PlanState::Cancelled);
    assert!(!run.flight.may_have_evicted(), "no circuit breaker counts the plan");
}

#[test]
fn a_preemptor_that_may_not_preempt_any_more_gets_nothing() {
    let mut run = resumed(PlanState::Planned);
    let group = serde_json::json!({
        "metadata": {"name": "gang", "namespace": "default", "uid": "uid-gang"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 100, "preemptionPolicy": "Never"}
    });
    let group = Box::new(serde_json::from_value(group).unwrap());
    run.world.model.apply(crate::messages::input::Input::Group(crate::messages::input::Update::Applied(group)));
    assert_eq!(run.dropped(), "the preemptor may not preempt: its preemptionPolicy is Never.");
}

#[test]
fn a_static_pod_is_not_evicted() {
    let mut run = resumed(PlanState::Planned);
    let pod = TestPod::new("l1", 10).of("low").on("n1").annotated("kubernetes.io/config.mirror", "x");
    run.world.pod(pod);
    assert_eq!(run.dropped(), "pod default/l1 is a static pod.");
}

#[test]
fn replacement_pods_of_a_victim_do_not_cancel_the_plan() {
    let mut run = resumed(PlanState::Evicting);
    run.world.remove_pod("l1").node("n3", 1).pod(TestPod::new("l3", 10).of("low").on("n3"));
    assert_eq!(run.dropped(), "", "of a partially disrupted group the pods are evicted that the plan names");
}

#[test]
fn a_new_leader_finishes_only_partially_disrupted_units_of_a_plan_whose_node_was_cordoned() {
    let mut run = resumed(PlanState::Evicting);
    run.flight.stored = Some(PlanState::Evicting);
    run.world.remove_pod("l1").cordoned("n2", 1);
    assert!(run.dropped().contains("does not fit on node n2 any more"), "{}", run.dropped());
    assert_eq!(names(&run.step()), ["leave uid-l2"], "a part of its PodGroup was evicted");
    // If no pod of the PodGroup was evicted, none is evicted now.
    let mut run = resumed(PlanState::Evicting);
    run.flight.stored = Some(PlanState::Evicting);
    run.world.cordoned("n2", 1);
    assert!(run.dropped().contains("does not fit on node n2 any more"), "{}", run.dropped());
    assert!(names(&run.step()).iter().all(|name| !name.starts_with("evict")));
}

#[test]
fn a_group_that_an_earlier_leader_began_is_handed_over_although_the_plan_was_deleted() {
    let mut run = resumed(PlanState::Evicting);
    run.world.pod(TestPod::new("l1", 10).of("low").on("n1").terminating());
    run.flight.drop_plan(PlanState::Cancelled, "The Preemption of the plan was deleted.");
    assert_eq!(names(&run.step()), ["leave uid-l2"]);
    run.flight.handed_over = true;
    assert_eq!(run.step().ended.unwrap().message.to_string(), "The Preemption of the plan was deleted.");
}

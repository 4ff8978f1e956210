//! Ungated members that kube-scheduler does not bind: when the plan waits, when it fails, and which members count as unbindable.

use super::*;
use crate::model::scheduler::SchedulerProgress;
use giveway_planner::Respect;

/// Returns a run in which both members were ungated, and kube-scheduler has not reported on them.
fn ungated() -> Run {
    let mut run = Run::evicting();
    for name in ["l1", "l2"] {
        run.flight.evicted(&format!("uid-{name}"), &EvictOutcome::Accepted, run.now);
        run.world.remove_pod(name);
    }
    assert_eq!(names(&run.step()), ["ungate g1", "ungate g2"]);
    for (name, node) in [("g1", "n1"), ("g2", "n2")] {
        run.answered(&format!("uid-{name}"), true, true);
        run.world.pod(member(name).nominated(node));
    }
    run.step();
    run
}

/// Returns a member without the scheduling gate.
fn member(name: &str) -> TestPod {
    TestPod::new(name, 100).of("gang")
}

impl Run {
    /// Advances the plan while kube-scheduler works at this pace. Returns the state and the message with which the plan has ended.
    fn step_at(&mut self, scheduler: SchedulerPace) -> Option<(PlanState, String)> {
        let ended = self.step_with(&Context::default(), PlanLimits { scheduler, ..LIMITS }).ended?;
        Some((ended.state, ended.message.to_string()))
    }

    /// Returns the pace of a scheduler that binds 60 of 100 pending pods per minute and has just bound the last of so many.
    fn binds(&self, decisions: u64) -> SchedulerPace {
        SchedulerPace { decisions, decided: Some(self.now), pending: 100, bindings_per_minute: 60, is_down: false }
    }
}

/// Returns what a plan that has evicted pods respects.
fn context_after_eviction() -> Context {
    Context { respect: Respect::StartedOrHigher, ..Context::default() }
}

/// The second member, as a plan records it.
fn second() -> [(SmolStr, SmolStr); 1] {
    [(SmolStr::new("uid-g2"), SmolStr::new("n2"))]
}

#[test]
fn each_binding_and_each_first_report_give_the_members_more_time() {
    let mut run = ungated();
    run.later(29);
    run.world.pod(member("g1").on("n1"));
    assert!(run.step().ended.is_none());
    run.later(29);
    assert!(run.step().ended.is_none(), "29 s after the last one was bound");
    run.world.pod(member("g2").nominated("n2").unschedulable());
    assert!(run.step().ended.is_none(), "it is considered again");
    run.later(29);
    assert!(run.step().ended.is_none(), "29 s after the report");
    run.later(1);
    let ended = run.step().ended.unwrap();
    assert_eq!(
        (ended.state, ended.message.to_string().as_str()),
        (
            PlanState::Failed,
            "kube-scheduler did not bind every ungated pod within 30 s and says of pod g2: 0/1 nodes are available"
        )
    );
    assert_eq!(run.flight.unbound, second());
}

#[test]
fn a_member_without_a_report_is_not_unbindable_and_is_waited_for_for_ten_minutes() {
    let mut run = ungated();
    run.world.pod(member("g1").on("n1"));
    run.step();
    run.later(599);
    assert!(run.step().ended.is_none());
    assert_eq!(run.flight.waits_for_scheduler.map(|wait| wait.progress), Some(SchedulerProgress::Idle));
    run.later(1);
    let why = "kube-scheduler did not bind every ungated pod within 600 s and wrote no reason on pod g2; see whether kube-scheduler \
               runs and what it logs of that pod.";
    assert_eq!(run.step_at(SchedulerPace::UNKNOWN), Some((PlanState::Failed, why.to_owned())));
    assert!(run.flight.unbound.is_empty());
}

#[test]
fn a_slow_scheduler_is_no_refusal() {
    let mut run = ungated();
    run.step_at(run.binds(0));
    let mut sentences = BTreeSet::new();
    for second in 1..=200 {
        run.later(1);
        assert_eq!(run.step_at(run.binds(second)), None, "{second} s");
        sentences.extend(run.flight.waits_for_scheduler.map(|wait| wait.sentence()));
    }
    assert_eq!(
        sentences,
        BTreeSet::from(["The plan waits for kube-scheduler, which binds 60 pods per minute.".to_owned()])
    );
    // The members are bound at last.
    run.world.pod(member("g1").on("n1")).pod(member("g2").on("n2"));
    assert_eq!(run.step_at(run.binds(200)).map(|(state, _)| state), Some(PlanState::Completed));
}

#[test]
fn the_wait_for_a_busy_scheduler_ends_when_it_has_decided_about_more_pods_than_were_pending() {
    for reported in [false, true] {
        let mut run = ungated();
        run.flight.binding_wait = None;
        run.step_at(run.binds(0));
        run.world.pod(member("g1").on("n1"));
        if reported {
            run.world.pod(member("g2").nominated("n2").unschedulable());
        }
        run.step_at(run.binds(1));
        run.later(300);
        assert_eq!(run.step_at(run.binds(205)), None, "204 of 200 and some");
        let (state, why) = run.step_at(run.binds(206)).unwrap();
        assert_eq!(state, PlanState::Failed);
        assert_eq!(why.contains("says of pod g2"), reported, "{why}");
        let expected = if reported { second().to_vec() } else { vec![] };
        assert_eq!(run.flight.unbound, expected, "only what kube-scheduler has reported is unbindable");
    }
}

#[test]
fn a_report_from_before_the_plan_counts_only_after_the_scheduler_had_time_to_replace_it() {
    let older = || {
        let mut run = Run::new();
        run.world.remove_pod("l1").remove_pod("l2");
        run.flight.plan.victims.clear();
        run.flight.victims.clear();
        run.world.pod(member("g1").unschedulable()).pod(member("g2").unschedulable());
        run.flight.plan.state = PlanState::Ungating;
        run.step();
        ["uid-g1", "uid-g2"].iter().for_each(|uid| run.answered(uid, false, true));
        run.world.pod(member("g1").unschedulable().nominated("n1")).pod(member("g2").unschedulable().nominated("n2"));
        run.step();
        run
    };
    let mut run = older();
    let down = SchedulerPace { is_down: true, ..SchedulerPace::UNKNOWN };
    run.later(599);
    assert_eq!(run.step_at(down), None, "it may be down");
    let wait = run.flight.waits_for_scheduler.unwrap().sentence();
    assert_eq!(
        wait,
        "The plan waits for at most ten minutes for kube-scheduler, which does not renew its Lease and may be down."
    );
    run.later(1);
    assert_eq!(run.step_at(down).map(|(state, _)| state), Some(PlanState::Failed));
    assert!(run.flight.unbound.is_empty(), "the reports are older than the plan");
    let mut run = older();
    run.later(30);
    assert_eq!(run.step_at(SchedulerPace::UNKNOWN).map(|(state, _)| state), Some(PlanState::Failed));
    assert_eq!(run.flight.unbound.len(), 2, "it had time, and wrote nothing else");
}

#[test]
fn the_reason_of_a_long_wait_is_updated_once_a_minute() {
    let mut run = ungated();
    run.later(30);
    run.step_at(run.binds(1));
    let first = run.flight.waits_for_scheduler;
    run.later(59);
    run.step_at(SchedulerPace { bindings_per_minute: 1, ..run.binds(2) });
    assert_eq!(run.flight.waits_for_scheduler, first);
    run.later(1);
    run.step_at(SchedulerPace { bindings_per_minute: 1, ..run.binds(3) });
    assert_eq!(
        run.flight.waits_for_scheduler.unwrap().sentence(),
        "The plan waits for kube-scheduler, which binds 1 pod per minute."
    );
    run.world.pod(member("g1").on("n1"));
    run.step_at(run.binds(3));
    assert_eq!(run.flight.waits_for_scheduler, None);
}

#[test]
fn a_member_that_does_not_fit_beside_the_nominations_of_another_plan_is_waited_for_and_is_not_unbindable() {
    // Another plan of the same priority nominates its member before its victim has terminated. kube-scheduler counts both.
    let crowded = || {
        let mut run = ungated();
        run.world.pod(member("g1").on("n1")).pod(member("g2").nominated("n2").unschedulable());
        run.world.pod(TestPod::new("other", 100).of("other-gang").nominated("n2"));
        run.world.model.cluster.reserve("uid-other", "n2", giveway_planner::Reservation::Planned(100));
        run.step_within(&context_after_eviction());
        run.later(599);
        assert!(run.step_within(&context_after_eviction()).ended.is_none());
        let sentence = run.flight.waits_for_scheduler.unwrap().sentence();
        assert!(
            sentence.starts_with(
                "The plan waits for at most ten minutes until pods have terminated that other plans evict"
            ),
            "{sentence}"
        );
        run
    };
    let mut run = crowded();
    run.world.model.cluster.unreserve("uid-other");
    run.world.remove_pod("other");
    assert!(run.step_within(&context_after_eviction()).ended.is_none(), "kube-scheduler can bind it from now on");
    run.later(29);
    assert!(run.step_within(&context_after_eviction()).ended.is_none());
    run.later(1);
    assert_eq!(run.step_within(&context_after_eviction()).ended.map(|ended| ended.state), Some(PlanState::Failed));
    assert_eq!(run.flight.unbound, second());
    let mut run = crowded();
    run.later(600);
    assert_eq!(run.step_within(&context_after_eviction()).ended.map(|ended| ended.state), Some(PlanState::Failed));
    assert!(run.flight.unbound.is_empty(), "kube-scheduler had no choice");
}

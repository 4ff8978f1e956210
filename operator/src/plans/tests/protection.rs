//! Namespaces that are protected while a plan is carried out.

use super::*;

impl Run {
    fn protect(&mut self, namespace: &str) {
        self.world.model.cluster.protect_namespaces([namespace.to_owned()].into());
        self.flight.checked = None;
    }
}

const WHY: &str = "must not be evicted: its namespace is protected (victims.protectedNamespaces).";

#[test]
fn a_plan_without_evictions_is_cancelled() {
    let mut run = Run::new();
    run.flight.stored = Some(PlanState::Planned);
    run.protect("default");
    let advance = run.step();
    let ended = advance.ended.unwrap();
    assert_eq!(ended.state, PlanState::Cancelled);
    assert_eq!(ended.message.to_string(), format!("No pod was evicted: pod default/l1 {WHY}"));
    assert!(
        names(&Advance { commands: advance.commands, ..Advance::default() })
            .iter()
            .all(|name| !name.starts_with("evict"))
    );
}

#[test]
fn evictions_that_wait_for_their_turn_are_withdrawn() {
    let mut run = Run::evicting();
    let permission = run.flight.permission.clone();
    run.protect("default");
    assert!(run.step().ended.is_none(), "what was asked for may have been done");
    assert!(permission.is_cancelled());
    ["uid-l1", "uid-l2"].iter().for_each(|uid| run.flight.evicted(uid, &EvictOutcome::Withdrawn, run.now));
    let advance = run.step();
    assert!(names(&advance).iter().all(|name| !name.starts_with("evict")), "{:?}", names(&advance));
    assert_eq!(advance.ended.unwrap().state, PlanState::Cancelled);
}

/// The remaining pod is not evicted, although the PodGroup stays partially disrupted.
#[test]
fn a_partially_disrupted_group_is_not_evicted_further() {
    let mut run = Run::evicting();
    run.flight.evicted("uid-l2", &EvictOutcome::Accepted, run.now);
    run.world.remove_pod("l2");
    run.protect("default");
    run.step();
    run.flight.evicted("uid-l1", &EvictOutcome::Withdrawn, run.now);
    let advance = run.step();
    assert!(names(&advance).iter().all(|name| !name.starts_with("evict")), "{:?}", names(&advance));
    let ended = advance.ended.unwrap();
    assert_eq!(ended.message.to_string(), format!("No other pod is evicted: pod default/l1 {WHY}"));
}

#[test]
fn a_plan_continues_if_all_its_victims_are_terminating() {
    let mut run = Run::evicting();
    ["uid-l1", "uid-l2"].iter().for_each(|uid| run.flight.evicted(uid, &EvictOutcome::Accepted, run.now));
    run.protect("default");
    run.step();
    assert!(run.flight.ending.is_none());
    assert_eq!(run.flight.plan.state, PlanState::WaitingForVictims);
}

#[test]
fn a_plan_of_an_earlier_leader_is_cancelled_and_its_group_is_not_evicted_further() {
    let mut run = Run::evicting();
    run.flight.resume();
    run.protect("default");
    run.flight.check_resumed(&run.world.model, &Context::default());
    let ending = run.flight.ending.clone().unwrap();
    assert!(ending.message.to_string().ends_with("pod default/l1 is in a protected namespace."), "{}", ending.message);
    assert!(names(&run.step()).iter().all(|name| !name.starts_with("evict")));
}

#[test]
fn other_namespaces_do_not_matter() {
    let mut run = Run::evicting();
    run.protect("elsewhere");
    run.step();
    assert!(run.flight.ending.is_none());
}

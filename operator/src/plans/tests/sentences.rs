//! What a plan says about itself: nouns and verbs agree with the numbers, and the tense with the state.

use super::*;
use giveway_crds::wording::conditions::plan;

/// Returns a plan in this state that evicts `victims` single pods for `members` members of PodGroup `gang`.
fn of(victims: usize, members: usize, state: PlanState) -> Flight {
    let unit = |number: usize| StoredVictim {
        kind: "Pod".into(),
        namespace: "default".into(),
        name: format!("v{number}"),
        priority: 10,
        pods: vec![victim(&format!("v{number}"), "n1")],
        ..StoredVictim::default()
    };
    let plan = StoredPlan {
        id: "p1".into(),
        state,
        placements: (0..members).map(|number| placement(&format!("g{number}"), "n1")).collect(),
        victims: (0..victims).map(unit).collect(),
        cost: StoredCost { highest_victim_priority: Some(10), ..StoredCost::default() },
        ..StoredPlan::default()
    };
    Flight::new(gang(), 100, plan, Instant::now())
}

/// Returns a plan that evicted this number of its victims.
fn evicted(accepted: usize, victims: usize, state: PlanState) -> Flight {
    let mut flight = of(victims, 1, state);
    flight.victims.iter_mut().take(accepted).for_each(|victim| victim.accepted = true);
    flight
}

#[test]
fn noun_and_verb_of_a_plan_agree_with_its_numbers() {
    let said = |victims, members| plan_message(&of(victims, members, PlanState::Evicting)).to_string();
    let end = "pod group default/gang with priority 100.";
    assert_eq!(said(0, 2), format!("0 pods of priority 10 or less are evicted for 2 pods of {end}"));
    assert_eq!(said(1, 1), format!("1 pod of priority 10 or less is evicted for 1 pod of {end}"));
    assert_eq!(said(2, 2), format!("2 pods of priority 10 or less are evicted for 2 pods of {end}"));
    let mut alone = of(1, 1, PlanState::Evicting);
    alone.preemptor = Preemptor::Pod(ObjectKey::new("default", "p"));
    assert_eq!(
        plan_message(&alone).to_string(),
        "1 pod of priority 10 or less is evicted for pod default/p with priority 100.",
        "not for 1 pod of it"
    );
    let would_evict = |flight: &Flight| plan::would_evict("Not now", effect(flight));
    assert_eq!(would_evict(&alone), "Not now: it would evict 1 pod of priority 10 or less for this pod.");
    let would = |victims, members| would_evict(&of(victims, members, PlanState::Observed));
    assert_eq!(would(1, 1), "Not now: it would evict 1 pod of priority 10 or less for 1 pod.");
    assert_eq!(would(2, 2), "Not now: it would evict 2 pods of priority 10 or less for 2 pods.");
}

#[test]
fn whole_groups_and_violations_agree_with_their_numbers() {
    let said = |victims: usize, groups: usize, violations: i32| {
        let mut flight = of(victims, 1, PlanState::Planned);
        flight.plan.victims.iter_mut().take(groups).for_each(|unit| unit.kind = "PodGroup".into());
        flight.plan.cost.budget_violations = violations;
        let text = plan_message(&flight).to_string();
        let (head, _) = text.split_once(" of priority").unwrap();
        (head.to_owned(), text.rsplit_once("100.").unwrap().1.to_owned())
    };
    let of_one = ("1 pod, a whole pod group,".to_owned(), " 1 eviction violates a budget.".to_owned());
    assert_eq!(said(1, 1, 1), of_one);
    let of_two = ("2 pods, among them 1 whole pod group,".to_owned(), " 2 evictions violate budgets.".to_owned());
    assert_eq!(said(2, 1, 2), of_two);
    assert_eq!(said(2, 2, 0), ("2 pods, among them 2 whole pod groups,".to_owned(), String::new()));
}

#[test]
fn a_plan_that_evicts_more_than_the_proven_minimum_says_so_until_it_has_ended() {
    let said = |least: Option<i32>, state: PlanState| {
        let mut flight = of(3, 1, state);
        flight.plan.cost.least_victim_pods = least;
        plan_message(&flight).to_string().rsplit_once("100.").unwrap().1.to_owned()
    };
    let words = " At least 2 pods of that priority must be evicted.";
    assert_eq!(said(Some(2), PlanState::Evicting), words);
    assert_eq!(said(Some(2), PlanState::Observed), words);
    for (least, state) in [(Some(3), PlanState::Evicting), (None, PlanState::Evicting), (Some(2), PlanState::Completed)]
    {
        assert_eq!(said(least, state), "", "{least:?} {state:?}");
    }
}

#[test]
fn a_plan_that_has_ended_speaks_of_the_past_and_one_that_is_not_carried_out_in_the_conditional() {
    let said = |flight: &Flight| {
        let text = plan_message(flight).to_string();
        text.split_once(" for 1 pod of pod group default/gang with priority 100.").unwrap().0.to_owned()
    };
    assert_eq!(said(&evicted(1, 1, PlanState::Completed)), "1 pod of priority 10 or less was evicted");
    assert_eq!(said(&evicted(2, 2, PlanState::Completed)), "2 pods of priority 10 or less were evicted");
    assert_eq!(said(&evicted(0, 2, PlanState::Failed)), "0 of 2 pods of priority 10 or less were evicted");
    assert_eq!(said(&evicted(1, 2, PlanState::Cancelled)), "1 of 2 pods of priority 10 or less was evicted");
    assert_eq!(said(&of(1, 1, PlanState::Observed)), "1 pod of priority 10 or less would be evicted");
    assert_eq!(said(&of(2, 1, PlanState::Planned)), "2 pods of priority 10 or less are evicted");
    let mut violating = evicted(1, 1, PlanState::Completed);
    violating.plan.cost.budget_violations = 1;
    assert!(plan_message(&violating).to_string().ends_with(" 1 eviction violated a budget."));
}

#[test]
fn the_message_of_a_completed_plan_says_what_was_evicted_and_bound() {
    let mut run = Run::evicting();
    for (name, uid) in [("l1", "uid-l1"), ("l2", "uid-l2")] {
        run.flight.evicted(uid, &EvictOutcome::Accepted, run.now);
        run.world.remove_pod(name);
    }
    run.step();
    run.step();
    run.world.pod(TestPod::new("g1", 100).of("gang").on("n1")).pod(TestPod::new("g2", 100).of("gang").on("n2"));
    run.step().ended.unwrap();
    assert_eq!(run.flight.plan.state, PlanState::Completed);
    assert_eq!(
        run.flight.message_with_limit(),
        "2 pods, among them 1 whole pod group, of priority 0 or less were evicted for 2 pods of pod group default/gang with priority 100. 2 of 2 pods of the plan were bound."
    );
}

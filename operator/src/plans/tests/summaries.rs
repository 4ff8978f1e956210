//! The indexes over all plans in flight agree with a scan of the plans after any changes, and no answer needs one.

use super::*;
use crate::plans::summary::VISITS;
use giveway_crds::plan::StoredRescue;
use giveway_planner::rescue::Terms;
use std::sync::Arc;

/// Returns a plan with two units of two pods; every fourth plan has no victims.
fn plan_of(number: u64, now: Instant) -> Flight {
    let unit = |unit: u64| StoredVictim {
        kind: if unit == 0 { "PodGroup".into() } else { "Pod".into() },
        namespace: "default".into(),
        name: format!("v{number}-{unit}"),
        priority: 10,
        pods: vec![victim(&format!("v{number}-{unit}-0"), "n1"), victim(&format!("v{number}-{unit}-1"), "n1")],
        ..StoredVictim::default()
    };
    let plan = StoredPlan {
        id: format!("p{number}"),
        placements: vec![placement(&format!("m{number}"), "n1")],
        victims: if number % 4 == 3 { vec![] } else { vec![unit(0), unit(1)] },
        ..StoredPlan::default()
    };
    let priority = if number.is_multiple_of(2) { 100 } else { 200 };
    Flight::new(preemptor(number), priority, plan, now)
}

fn preemptor(number: u64) -> Preemptor {
    Preemptor::Group(ObjectKey::new("default", format!("g{number}")))
}

/// Changes a plan in one of the ways on which an answer depends.
fn change(flight: &mut Flight, random: &mut impl FnMut(u64) -> u64, now: Instant) {
    let pods = flight.victims.len();
    let index = usize::try_from(random(4)).unwrap();
    match random(12) {
        0 => flight.plan.state = PlanState::Planned,
        1 => flight.plan.state = PlanState::Evicting,
        2 => flight.plan.state = PlanState::WaitingForVictims,
        3 => flight.plan.state = PlanState::Ungating,
        4 => flight.drop_plan(PlanState::Cancelled, "Not needed any more."),
        5 => flight.postponed = !flight.postponed,
        6 => flight.ration = Some(BTreeSet::from([0])),
        7 => flight.ration = None,
        8 => flight.victims.iter_mut().for_each(|victim| victim.leaves = true),
        9 => {
            let terms = Arc::new(Terms::default());
            flight.rescue = Some(AddonRescue::new(StoredRescue { step: 1, taint: true }, terms));
        }
        10 if index < pods => flight.victims[index].call.start(),
        11 if index < pods => {
            let uid = flight.victims[index].uid.clone();
            let outcome = if random(2) == 0 { EvictOutcome::Accepted } else { EvictOutcome::Error("down".into()) };
            flight.evicted(&uid, &outcome, now);
        }
        _ => flight.rescue = None,
    }
}

/// Compares each answer with a scan of all plans.
fn compare(flights: &Flights) {
    for priority in [50, 100, 150, 200, 250] {
        let some_left = |flight: &&Flight| flight.victims.iter().any(|victim| !victim.leaves);
        let departing = flights.values().filter(some_left).flat_map(|flight| flight.departing_for(priority));
        assert_eq!(flights.departing(priority), departing.cloned().collect::<BTreeSet<SmolStr>>());
        let surely = flights.values().filter(some_left).flat_map(Flight::departing_for_certain);
        assert_eq!(flights.departing_for_certain(), surely.cloned().collect::<BTreeSet<SmolStr>>());
        let counts = |flight: &&Flight| flight.evicts() && flight.priority >= priority;
        assert_eq!(flights.count_with_victims(priority), flights.values().filter(counts).count());
    }
    assert_eq!(flights.any_keeps_node(), flights.values().any(Flight::keeps_node));
    let awake: BTreeSet<&Preemptor> = flights.awake().collect();
    let starts = |flight: &&Flight| {
        let is_under_way = flight.evictions_under_way().count() > 0;
        flight.plan.state <= PlanState::Evicting || is_under_way || awake.contains(&flight.preemptor)
    };
    let starting: Vec<&Preemptor> = flights.starting().map(|flight| &flight.preemptor).collect();
    let expected: Vec<&Preemptor> = flights.values().filter(starts).map(|flight| &flight.preemptor).collect();
    assert_eq!(starting, expected);
}

#[test]
fn the_answers_are_those_of_a_scan_after_any_changes() {
    let (mut flights, mut cluster, now) = (Flights::default(), Cluster::default(), Instant::now());
    let mut state: u64 = 1;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for step in 0..3_000 {
        let number = random(12);
        let (action, preemptor) = (random(10), preemptor(number));
        match action {
            0 => drop(flights.remove(&preemptor)),
            1 => flights.insert(plan_of(number, now), &mut cluster),
            2 => flights.all_mut().for_each(|flight| change(flight, &mut random, now)),
            3 => drop(flights.take_due(now)),
            4 | 5 => flights
                .get_mut_without_waking(&preemptor)
                .into_iter()
                .for_each(|flight| change(flight, &mut random, now)),
            _ => flights.get_mut(&preemptor).into_iter().for_each(|flight| change(flight, &mut random, now)),
        }
        if step % 3 == 0 {
            compare(&flights);
        }
    }
}

#[test]
fn a_question_examines_the_plans_that_have_changed_and_no_others() {
    let (mut flights, mut cluster, now) = (Flights::default(), Cluster::default(), Instant::now());
    for number in 0..100 {
        let mut flight = plan_of(number, now);
        flight.plan.state = PlanState::WaitingForVictims;
        flights.insert(flight, &mut cluster);
    }
    flights.take_due(now);
    let visits = |flights: &Flights| {
        let before = VISITS.get();
        flights.departing(50);
        flights.count_with_victims(50);
        assert!(!flights.any_keeps_node());
        assert_eq!(flights.starting().count(), flights.awake().count());
        VISITS.get() - before
    };
    visits(&flights);
    assert_eq!(visits(&flights), 0);
    flights.get_mut_without_waking(&preemptor(7)).unwrap().checked = None;
    assert_eq!(visits(&flights), 1, "summarized once");
    flights.get_mut(&preemptor(7)).unwrap().checked = None;
    assert_eq!(visits(&flights), 2, "summarized once, and looked up because it is awake");
}

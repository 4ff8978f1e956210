//! The number of plans that a pass visits does not depend on the number of plans in flight.

use super::*;
use crate::messages::command::Command;
use crate::plans::{Flight, VISITS};
use crate::testing::{TestPod, World};
use clap::Parser as _;
use giveway_crds::plan::{PlanState, StoredPlacement, StoredPlan, StoredPreemptor, StoredVictim, StoredVictimPod};
use giveway_planner::Preemptor;
use std::sync::{Arc, Mutex};

/// Ignores all commands.
struct Nowhere;

impl Dispatch for Nowhere {
    fn dispatch(&self, _: Command) {}
}

/// Adds a full node, and a gang of one pod that waits for the only pod of the node to terminate. Returns the gang's plan.
fn plan_in_flight(world: &mut World, number: usize, now: Instant) -> Flight {
    let [node, gang, member, victim] = ["node", "train", "member", "low"].map(|name| format!("{name}-{number}"));
    world.node(&node, 1).group(&gang, 1, 100, "PodGroup");
    world.pod(TestPod::new(&victim, 10).on(&node).terminating());
    world.pod(TestPod::new(&member, 100).of(&gang).gated().nominated(&node));
    let pod = StoredVictimPod { name: victim.clone(), uid: format!("uid-{victim}"), node: node.clone() };
    let plan = StoredPlan {
        id: format!("p-{number}"),
        state: PlanState::WaitingForVictims,
        preemptor: StoredPreemptor { uid: format!("uid-{gang}"), priority: 100, ..StoredPreemptor::default() },
        placements: vec![StoredPlacement { uid: format!("uid-{member}"), pod: member, node }],
        victims: vec![StoredVictim {
            kind: "Pod".into(),
            namespace: "default".into(),
            name: victim,
            priority: 10,
            pods: vec![pod],
            ..StoredVictim::default()
        }],
        ..StoredPlan::default()
    };
    let mut flight = Flight::new(Preemptor::Group(world.key(&gang)), 100, plan, now);
    flight.stored = Some(PlanState::WaitingForVictims);
    flight.victims.iter_mut().for_each(|victim| victim.leaves = true);
    flight
}

/// Returns how many plans a pass visits after a change of the cluster.
fn visits(arbiter: &mut Arbiter, clock: Clock, change: impl FnOnce(&mut World)) -> usize {
    let mut world = World { model: std::mem::take(&mut arbiter.model) };
    change(&mut world);
    arbiter.model = world.model;
    let before = VISITS.get();
    arbiter.pass(clock);
    VISITS.get() - before
}

/// Returns how many plans passes visit after the event of a pod that concerns no plan, and after the end of a victim, with this number of
/// plans in flight.
fn visits_with(plans: usize) -> [usize; 2] {
    let (mut world, clock) = (World::new(), Clock { now: Instant::now(), epoch_seconds: 0 });
    world.namespace("default").node("other", 4);
    let flights: Vec<Flight> = (0..plans).map(|number| plan_in_flight(&mut world, number, clock.now)).collect();
    let leads = Arc::new(Mutex::new(Some(Instant::now() + Duration::from_secs(3_600))));
    let leadership = Leadership::new("term-00000001", leads, watch::channel(false).1);
    let (config, ready) = (Config::parse_from(["giveway-operator"]), watch::channel(false).0);
    let arbiter = Arbiter::new(config, Nowhere, leadership, Metrics::default(), ready, Watches::default());
    let mut arbiter = arbiter.without_time_limit();
    arbiter.model = world.model;
    flights.into_iter().for_each(|flight| arbiter.launch(flight));
    let is_at_rest = (0..50).any(|_| visits(&mut arbiter, clock, |_| {}) == 0);
    assert!(is_at_rest, "passes visit plans although nothing happens");
    assert_eq!(arbiter.plans.flights.len(), plans);
    let elsewhere = visits(&mut arbiter, clock, |world| {
        world.pod(TestPod::new("comes", 10).on("other"));
    });
    let of_a_plan = visits(&mut arbiter, clock, |world| {
        world.remove_pod("low-7");
    });
    let preemptor = Preemptor::Group(ObjectKey::new("default", "train-7"));
    let state = arbiter.plans.flights.get(&preemptor).map(|flight| flight.plan.state);
    assert_eq!(state, Some(PlanState::Ungating), "its capacity is free");
    [elsewhere, of_a_plan]
}

#[test]
fn a_pass_after_a_pod_event_visits_the_same_number_of_plans_with_200_and_with_1000_plans_in_flight() {
    let [elsewhere, of_a_plan] = visits_with(200);
    assert_eq!(elsewhere, 0);
    assert!((1..30).contains(&of_a_plan), "{of_a_plan} visits");
    assert_eq!(visits_with(1_000), [elsewhere, of_a_plan]);
}

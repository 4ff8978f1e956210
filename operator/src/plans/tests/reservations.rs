//! What plans reserve in the model, from their start until some seconds after their end.

use super::super::EndedReservations;
use super::*;
use giveway_planner::Reservation;

/// Returns what plans have reserved for the members of the gang.
fn reserved(cluster: &Cluster) -> Vec<(String, Reservation)> {
    let all = ["uid-g1", "uid-g2"].into_iter().filter_map(|uid| cluster.reserved_for(uid));
    all.map(|(node, reservation)| (node.to_owned(), reservation)).collect()
}

fn on_both(reservation: Reservation) -> Vec<(String, Reservation)> {
    vec![("n1".to_owned(), reservation), ("n2".to_owned(), reservation)]
}

/// The plan of the gang among the plans in flight, and its cluster.
struct Plans {
    world: World,
    flights: Flights,
    ended: EndedReservations,
}

impl Plans {
    fn new() -> Self {
        let flights = Flights::from([flight(Instant::now())]);
        let mut plans = Self { world: world(), flights, ended: EndedReservations::default() };
        assert_eq!(plans.change(|_| {}), on_both(Reservation::Planned(100)));
        plans
    }

    fn change(&mut self, change: impl FnOnce(&mut Flight)) -> Vec<(String, Reservation)> {
        change(self.flights.get_mut(&gang()).unwrap());
        self.flights.reserve(&gang(), &mut self.world.model.cluster);
        reserved(&self.world.model.cluster)
    }

    /// Removes the plan, which has ended.
    fn end(&mut self, now: Instant) {
        self.ended.note(&self.flights.remove(&gang()).unwrap(), now);
    }

    /// Returns the nodes of the reservations that have ended at this time.
    fn expire(&mut self, now: Instant) -> Vec<SmolStr> {
        self.ended.expire(&self.flights, &mut self.world.model.cluster, now)
    }
}

#[test]
fn a_plan_reserves_its_placements_more_strongly_once_it_has_evicted_or_ungated_a_pod() {
    let mut plans = Plans::new();
    assert_eq!(plans.change(|flight| flight.plan.state = PlanState::Evicting), on_both(Reservation::Started(100)));
    let mut without_victims = Plans::new();
    for state in [PlanState::Planned, PlanState::WaitingForVictims] {
        let reserved = without_victims.change(|flight| {
            flight.plan.victims.clear();
            flight.plan.state = state;
        });
        assert_eq!(reserved, on_both(Reservation::Planned(100)), "{state:?}");
    }
    let reserved = without_victims.change(|flight| flight.plan.state = PlanState::Ungating);
    assert_eq!(reserved, on_both(Reservation::Started(100)), "members may be bound already");
}

#[test]
fn a_postponed_plan_reserves_nothing() {
    let mut plans = Plans::new();
    assert_eq!(plans.change(|flight| flight.postponed = true), []);
    assert_eq!(plans.change(|flight| flight.postponed = false), on_both(Reservation::Planned(100)));
}

#[test]
fn the_nominations_of_a_cancelled_plan_reserve_nothing_until_the_watch_shows_that_they_are_withdrawn() {
    let (mut plans, now) = (Plans::new(), Instant::now());
    let cancelled = plans.change(|flight| flight.drop_plan(PlanState::Cancelled, "Not needed any more."));
    assert_eq!(cancelled, on_both(Reservation::Withdrawn));
    plans.end(now);
    assert_eq!(plans.expire(now + Duration::from_millis(1_999)), [""; 0]);
    assert_eq!(plans.expire(now + Duration::from_secs(2)), ["n1", "n2"]);
    assert_eq!(reserved(&plans.world.model.cluster), []);
}

#[test]
fn nominations_that_are_kept_for_the_next_plan_count_as_a_plan_that_has_evicted_no_pod() {
    let (mut plans, now) = (Plans::new(), Instant::now());
    plans.world.pod(TestPod::new("g1", 100).of("gang").gated().nominated("n1"));
    let refused = plans.change(|flight| {
        flight.plan.state = PlanState::Evicting;
        flight.refused.insert("uid-l1".into(), "its budget does not allow it".into());
        flight.drop_plan(PlanState::Cancelled, "A budget refused it.");
    });
    let kept = [("n1".to_owned(), Reservation::Planned(100))];
    assert_eq!(refused, kept, "g2 was not nominated");
    plans.end(now);
    assert_eq!(plans.expire(now + Duration::from_secs(9)), [""; 0]);
    assert_eq!(reserved(&plans.world.model.cluster), kept);
    assert_eq!(
        plans.expire(now + Duration::from_secs(10)),
        ["n1"],
        "a nomination that no plan uses is withdrawn by then"
    );
    assert_eq!(reserved(&plans.world.model.cluster), []);
}

#[test]
fn a_kept_nomination_ends_when_it_is_withdrawn() {
    let (mut plans, now) = (Plans::new(), Instant::now());
    plans.world.pod(TestPod::new("g1", 100).of("gang").gated().nominated("n1"));
    plans.change(|flight| {
        flight.refused.insert("uid-l1".into(), "its budget does not allow it".into());
        flight.drop_plan(PlanState::Cancelled, "A budget refused it.");
    });
    plans.end(now);
    plans.world.pod(TestPod::new("g1", 100).of("gang").gated());
    assert_eq!(plans.expire(now + Duration::from_secs(3)), ["n1"]);
}

#[test]
fn the_next_plan_takes_over_the_reservations_of_an_ended_one() {
    let (mut plans, now) = (Plans::new(), Instant::now());
    plans.change(|flight| flight.drop_plan(PlanState::Cancelled, "Not needed any more."));
    plans.end(now);
    plans.flights.insert(flight(now), &mut plans.world.model.cluster);
    assert_eq!(plans.change(|_| {}), on_both(Reservation::Planned(100)));
    assert_eq!(plans.expire(now + Duration::from_secs(60)), [""; 0]);
    assert_eq!(reserved(&plans.world.model.cluster), on_both(Reservation::Planned(100)));
}

#[test]
fn a_cancelled_plan_leaves_the_reservation_of_a_pod_that_another_preemptor_places() {
    let mut plans = Plans::new();
    let pod = Preemptor::Pod(ObjectKey::new("default", "g1"));
    let plan = StoredPlan { id: "p2".into(), placements: vec![placement("g1", "n2")], ..StoredPlan::default() };
    plans.flights.insert(Flight::new(pod, 200, plan, Instant::now()), &mut plans.world.model.cluster);
    let cancelled = plans.change(|flight| flight.drop_plan(PlanState::Cancelled, "Not needed any more."));
    let n2 = "n2".to_owned();
    assert_eq!(cancelled, [(n2.clone(), Reservation::Planned(200)), (n2, Reservation::Withdrawn)]);
}

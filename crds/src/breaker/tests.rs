//! Tests of the circuit breakers.

use super::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

/// Returns the preemptor with this UID: `NAMESPACE/NAME`, or `NAME` in the namespace `team`.
fn preemptor(uid: &str) -> StoredPreemptor {
    let namespace = uid.split_once('/').map_or("team", |(namespace, _)| namespace);
    let (kind, namespace) = ("PodGroup".into(), namespace.into());
    StoredPreemptor { kind, namespace, uid: uid.into(), ..StoredPreemptor::default() }
}

/// Returns the outcomes of plans: UID of the preemptor, end, and whether it was bound.
fn outcomes(plans: &[(&str, i64, bool)]) -> Vec<PlanOutcome> {
    let outcome = |(uid, ended, is_bound): &(&str, i64, bool)| PlanOutcome {
        preemptor: preemptor(uid),
        ended: *ended,
        is_bound: *is_bound,
    };
    plans.iter().map(outcome).collect()
}

fn at(second: i64, plans: &[(&str, i64, bool)]) -> OpenBreakers {
    OpenBreakers::at(second, outcomes(plans).iter(), |_| true)
}

fn until(second: i64, plans: &[(&str, i64, bool)]) -> Option<i64> {
    at(second, plans).preemptors.get("a").map(|breaker| breaker.until)
}

/// Returns when a plan may be made for the preemptor with this UID.
fn permitted(breaker: &SharedBreaker, uid: &str) -> i64 {
    breaker.permits_from(&preemptor(uid).namespace, uid)
}

/// Plans for five preemptors of three namespaces, which ended at the seconds 100 to 104.
const FIVE: [(&str, i64, bool); 5] =
    [("x/a", 100, false), ("x/b", 101, false), ("y/c", 102, false), ("y/d", 103, false), ("z/e", 104, false)];

/// Plans for five preemptors of one namespace, which ended at the seconds 100 to 104.
const TEAM: [(&str, i64, bool); 5] =
    [("a", 100, false), ("b", 101, false), ("c", 102, false), ("d", 103, false), ("e", 104, false)];

#[test]
fn three_plans_in_ten_minutes_open_the_breaker_of_their_preemptor_until_ten_minutes_after_the_last() {
    let plans = [("a", 700, false), ("a", 100, false), ("a", 400, false), ("b", 400, false)];
    assert_eq!(until(700, &plans), Some(1_300));
    assert_eq!(until(1_299, &plans), Some(1_300));
    assert_eq!(until(1_300, &plans), None);
    assert_eq!(at(700, &plans).preemptors.len(), 1);
    assert_eq!(until(700, &plans[..2]), None, "only two");
    assert_eq!(until(701, &[("a", 100, false), ("a", 400, false), ("a", 701, false)]), None, "not within ten minutes");
}

#[test]
fn each_further_plan_doubles_the_time_up_to_an_hour() {
    let mut plans = vec![("a", 100, false), ("a", 101, false)];
    let mut end = 102;
    for (number, minutes) in [(3, 10), (4, 20), (5, 40), (6, 60), (7, 60), (8, 60)] {
        plans.push(("a", end, false));
        let closes = end + minutes * 60;
        assert_eq!(until(end, &plans), Some(closes), "{number} plans");
        assert_eq!(until(closes - 1, &plans), Some(closes), "it does not close early: {number} plans");
        assert_eq!(until(closes, &plans), None, "{number} plans");
        assert_eq!(at(end, &plans).preemptors["a"].plans, number);
        end = closes + 1;
    }
}

#[test]
fn the_time_stays_an_hour_while_plans_fail_even_if_the_first_ones_were_deleted() {
    let mut plans = vec![("a", 0, false), ("a", 1, false)];
    let mut end = 2;
    for _ in 0..50 {
        plans.push(("a", end, false));
        plans.retain(|(_, ended, _)| outcomes(&[("a", *ended, false)])[0].counts_at(end));
        let closes = until(end, &plans).unwrap();
        assert!(end < 10_000 || closes == end + LONGEST, "{end}: {closes}");
        // The next plan takes eleven minutes to fail.
        end = closes + 660;
    }
    assert!(plans.len() <= 7, "{plans:?}");
}

#[test]
fn six_plans_that_fail_slowly_open_the_breaker_of_their_preemptor_too() {
    let plans: Vec<(&str, i64, bool)> = (1..=6).map(|number| ("a", number * 900, false)).collect();
    assert_eq!(until(4_500, &plans[..5]), None);
    assert_eq!(until(5_400, &plans), Some(5_400 + LONGEST));
    let rare: Vec<(&str, i64, bool)> = (1..=9).map(|number| ("a", number * 5_000, false)).collect();
    assert_eq!(until(45_000, &rare), None, "not within six hours");
}

#[test]
fn a_plan_that_completes_ends_the_count_of_its_preemptor() {
    let plans = [("a", 100, false), ("a", 200, false), ("a", 250, true), ("a", 300, false)];
    assert_eq!(until(300, &plans), None);
    assert_eq!(until(300, &[plans[0], plans[1], ("b", 250, true), plans[3]]), Some(900), "another one does not");
    let again = [&plans[..], &[("a", 301, false), ("a", 302, false)]].concat();
    assert_eq!(until(302, &again), Some(902), "the time is short again");
}

#[test]
fn plans_for_five_preemptors_in_a_row_open_the_breaker_of_the_cluster() {
    let open = at(110, &FIVE).cluster.unwrap();
    assert_eq!((open.preemptors(), open.until, open.stops_all()), (5, 704, true));
    assert_eq!(at(110, &FIVE).namespaces, BTreeMap::new());
    assert_eq!(at(110, &FIVE[1..]).cluster, None);
    let again = [&FIVE[1..], &[("x/b", 105, false)]].concat();
    assert_eq!(at(110, &again).cluster, None, "the same preemptor twice");
    let between = [&FIVE[..], &[("w/f", 102, true)]].concat();
    assert_eq!(at(110, &between).cluster, None, "a plan completed in between");
    let before = [&FIVE[..], &[("w/f", 99, true)]].concat();
    assert!(at(110, &before).cluster.is_some());
    assert_eq!(at(3_701, &FIVE).cluster, None, "the first one is forgotten after an hour");
}

/// The users of a namespace can make plans fail: for example they take the capacity of each victim with pods of their own.
#[test]
fn the_preemptors_of_one_namespace_open_its_breaker_and_never_that_of_the_cluster() {
    let many: Vec<String> = (0..100).map(|number| format!("p{number:03}")).collect();
    let many: Vec<(&str, i64, bool)> = many.iter().map(|uid| (uid.as_str(), 100, false)).collect();
    for plans in [&TEAM[..], &many[..]] {
        let open = at(110, plans);
        assert_eq!(open.cluster, None);
        assert_eq!(open.namespaces.keys().collect::<Vec<_>>(), ["team"]);
        assert_eq!(open.namespaces["team"].preemptors(), plans.len());
    }
    let others = [&many[..], &[("x/a", 100, false), ("x/b", 100, false)]].concat();
    assert_eq!(at(110, &others).cluster, None, "the namespaces count with two preemptors each");
    let three = [&others[..], &[("y/c", 100, false)]].concat();
    assert!(at(110, &three).cluster.is_some());
}

#[test]
fn only_a_completed_plan_of_the_namespace_closes_its_breaker() {
    let open = |completed: &str| {
        let plans = [&TEAM[..], &[(completed, 105, true)]].concat();
        at(110, &plans).namespaces.contains_key("team")
    };
    assert!(open("other/f"));
    assert!(!open("f"));
}

#[test]
fn breakers_that_stop_all_evictions_are_returned_with_their_namespace() {
    let plans = [&FIVE[..], &TEAM[..]].concat();
    let stopping = |second: i64| -> Vec<Option<String>> {
        at(second, &plans).stopping().map(|(namespace, _)| namespace.map(str::to_owned)).collect()
    };
    assert_eq!(stopping(110), [None, Some("team".to_owned())]);
    assert!(stopping(704).is_empty(), "one plan is made at a time");
}

#[test]
fn only_preemptors_that_still_wait_count() {
    let open = |waits: &dyn Fn(&str) -> bool| {
        let plans = [&FIVE[..], &[("x/a", 105, false), ("x/a", 106, false)]].concat();
        OpenBreakers::at(110, outcomes(&plans).iter(), |preemptor| waits(&preemptor.uid))
    };
    let all = open(&|_| true);
    assert!(all.cluster.is_some() && all.preemptors.contains_key("x/a"));
    let others = open(&|uid| uid != "x/a");
    assert!(others.cluster.is_none() && others.preemptors.is_empty());
}

#[test]
fn after_ten_minutes_one_preemptor_at_a_time_is_permitted_and_those_without_a_failure_come_first() {
    let open = at(704, &TEAM).namespaces["team"].clone();
    assert!(!open.stops_all());
    assert_eq!(["new", "a", "b", "e"].map(|uid| permitted(&open, uid)), [704, 764, 824, 1_004]);
    assert_ne!(at(764, &TEAM), at(763, &TEAM), "what depends on it is decided again at each turn");
    let failed_again = [&TEAM[..], &[("a", 800, false)]].concat();
    let open = at(801, &failed_again).namespaces["team"].clone();
    assert!(open.stops_all() && open.until == 1_400);
    assert_eq!(["b", "a"].map(|uid| permitted(&open, uid)), [1_460, 1_700], "it is the last one now");
    let many: Vec<String> = (0..100).map(|number| format!("p{number:03}")).collect();
    let many: Vec<(&str, i64, bool)> = many.iter().map(|uid| (uid.as_str(), 100, false)).collect();
    assert_eq!(permitted(&at(700, &many).namespaces["team"], "p099"), 1_300, "bounded");
    let completed = [&failed_again[..], &[("b", 1_500, true)]].concat();
    assert_eq!(at(1_501, &completed).namespaces, BTreeMap::new());
}

#[test]
fn new_preemptors_of_a_namespace_that_failed_last_do_not_take_the_turns_of_other_namespaces() {
    let failed_again = [&FIVE[..], &[("z/f", 800, false)]].concat();
    let open = at(1_400, &failed_again).cluster.unwrap();
    assert_eq!(open.until, 1_400);
    let order = ["w/new", "x/new", "x/a", "x/b", "y/new", "y/c", "y/d", "z/new", "z/e", "z/f"];
    let expected = [1_400, 1_400, 1_460, 1_520, 1_520, 1_580, 1_640, 1_640, 1_700, 1_760];
    assert_eq!(order.map(|uid| permitted(&open, uid)), expected);
}

#[test]
fn plans_without_evictions_in_flight_or_for_another_cause_do_not_count() {
    let status = |state: PlanState, evicted: i32| PreemptionStatus {
        state,
        evicted,
        finished_at: Some(Time(Timestamp::from_second(7).unwrap())),
        ..PreemptionStatus::default()
    };
    let of = |cause: Cause, state: PlanState, evicted: i32| {
        let outcome = PlanOutcome::of(cause.as_str(), &preemptor("a"), &status(state, evicted));
        outcome.map(|outcome| (outcome.ended, outcome.is_bound))
    };
    assert_eq!(of(Cause::Preemptor, PlanState::Completed, 1), Some((7, true)));
    assert_eq!(of(Cause::Preemptor, PlanState::Failed, 1), Some((7, false)));
    assert_eq!(of(Cause::Preemptor, PlanState::Cancelled, 8), Some((7, false)));
    assert_eq!(of(Cause::Preemptor, PlanState::Cancelled, 0), None);
    assert_eq!(of(Cause::Preemptor, PlanState::Evicting, 1), None);
    assert_eq!(of(Cause::Preemptor, PlanState::Observed, 1), None);
    assert_eq!(of(Cause::CriticalAddon, PlanState::Failed, 1), None);
    assert_eq!(of(Cause::PartiallyDisrupted, PlanState::Cancelled, 1), None);
    assert_eq!(PlanOutcome::of("Later", &preemptor("a"), &status(PlanState::Failed, 1)), None);
    let unfinished = PreemptionStatus { finished_at: None, ..status(PlanState::Failed, 1) };
    assert_eq!(PlanOutcome::of(Cause::Preemptor.as_str(), &preemptor("a"), &unfinished), None);
}

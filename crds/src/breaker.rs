//! Circuit breakers: after plans that evicted pods and whose preemptors were not bound, Giveway evicts no more pods for a while: for one
//! preemptor, for those of a namespace, or for all.
//!
//! They are computed from the outcomes of stored plans alone, so every leader and `kubectl giveway check` get the same answer. Only plans
//! with the cause [`Cause::Preemptor`] count. Each breaker closes by itself, and when the `Preemption` objects of the plans are deleted.
//!
//! | breaker | opens | closes |
//! |---|---|---|
//! | of a preemptor | after [`PLANS`] plans for it in a row within [`TIME`], or [`SLOW_PLANS`] within [`MEMORY`] | [`TIME`] after the third plan; each further plan doubles the time, up to [`LONGEST`] |
//! | of a namespace | after plans for [`PREEMPTORS`] of its preemptors in a row within [`RECENT`] | when a plan of the namespace completes: from [`TIME`] after the last failure on, one plan is made at a time |
//! | of the cluster | the same for preemptors of all namespaces, of which each counts with [`OF_A_NAMESPACE`] at most | when any plan completes, in the same way |
//!
//! So the preemptors of one namespace, whose users may cause the failures, stop no evictions for other namespaces.

use crate::plan::{Cause, PlanState, StoredPreemptor};
use crate::preemption::PreemptionStatus;
use std::collections::BTreeMap;

/// Number of plans for one preemptor within [`TIME`] after which its breaker opens.
pub const PLANS: usize = 3;
/// Number of plans for one preemptor within [`MEMORY`] after which its breaker opens, however slowly they fail.
pub const SLOW_PLANS: usize = 6;
/// Number of preemptors after which the breaker of a namespace or of the cluster opens.
pub const PREEMPTORS: usize = 5;
/// Maximum number of preemptors of one namespace that count for the breaker of the cluster.
pub const OF_A_NAMESPACE: usize = 2;
/// The time within which [`PLANS`] plans open the breaker of a preemptor, and for which a breaker permits no eviction at first, in seconds.
pub const TIME: i64 = 600;
/// Maximum time for which the breaker of a preemptor permits no eviction after its last plan, in seconds.
pub const LONGEST: i64 = 3_600;
/// How long before the last plan of a preemptor its earlier ones count, in seconds. A preemptor whose plans fail at once whenever its breaker
/// closes has [`SLOW_PLANS`] plans within this time, so its breaker stays open for [`LONGEST`] each time.
pub const MEMORY: i64 = 6 * LONGEST;
/// How long a failure counts for the breakers of namespaces and of the cluster, in seconds.
pub const RECENT: i64 = 3_600;
/// While one plan is made at a time: how long a preemptor that has failed waits for each that failed before it, in seconds.
const TURN: i64 = 60;
/// Maximum number of such turns.
const MOST_TURNS: usize = 10;

/// How a plan ended that evicted pods for a preemptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The preemptor.
    pub preemptor: StoredPreemptor,
    /// When the plan ended, in seconds since the epoch.
    pub ended: i64,
    /// True if every placed pod was bound.
    pub is_bound: bool,
}

impl Outcome {
    /// Returns the outcome of a plan with this `spec.cause`, `spec.preemptor` and status; `None` if it does not count: it is in flight, it
    /// evicted no pod, or it was made for a critical add-on or for no preemptor.
    pub fn of(cause: &str, preemptor: &StoredPreemptor, status: &PreemptionStatus) -> Option<Self> {
        let is_bound = match status.state {
            PlanState::Completed => true,
            PlanState::Cancelled | PlanState::Failed => false,
            _ => return None,
        };
        if Cause::parse(cause) != Some(Cause::Preemptor) || status.evicted <= 0 {
            return None;
        }
        let ended = status.finished_at.as_ref()?.0.as_second();
        Some(Self { preemptor: preemptor.clone(), ended, is_bound })
    }

    /// Returns true if the plan ended so late that a breaker may depend on it at this second.
    pub fn counts_at(&self, second: i64) -> bool {
        self.ended > second.saturating_sub(MEMORY + LONGEST)
    }
}

/// The breakers that are open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenBreakers {
    /// Those of preemptors, by UID.
    pub preemptors: BTreeMap<String, PreemptorBreaker>,
    /// Those of namespaces, by name.
    pub namespaces: BTreeMap<String, SharedBreaker>,
    /// That of the cluster.
    pub cluster: Option<SharedBreaker>,
}

/// The open breaker of a preemptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreemptorBreaker {
    /// The preemptor.
    pub preemptor: StoredPreemptor,
    /// Number of plans in a row that evicted pods for it and failed.
    pub plans: usize,
    /// Until when no pod is evicted for it, in seconds since the epoch.
    pub until: i64,
}

/// The open breaker of a namespace or of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBreaker {
    /// The preemptors whose plans failed since the last plan that completed, by UID.
    failed: BTreeMap<String, Failure>,
    /// Until when no pod is evicted for any of the preemptors, in seconds since the epoch. After that one plan is made at a time.
    pub until: i64,
    /// Number of turns since that time; `None` before.
    turn: Option<i64>,
}

/// The last failed plan for a preemptor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    /// Namespace of the preemptor.
    namespace: String,
    /// When the plan ended, in seconds since the epoch.
    ended: i64,
}

impl OpenBreakers {
    /// Computes the breakers that are open at this second. `waits` returns true for a preemptor that exists and has pods that are not
    /// bound: plans for others do not count as failed, because their users deleted them, or they were scheduled without evictions.
    pub fn at<'o>(
        second: i64,
        outcomes: impl Iterator<Item = &'o Outcome>,
        waits: impl Fn(&StoredPreemptor) -> bool,
    ) -> Self {
        let mut by_preemptor: BTreeMap<&str, Vec<&Outcome>> = BTreeMap::new();
        let mut last_bound: BTreeMap<&str, i64> = BTreeMap::new();
        for outcome in outcomes.filter(|outcome| outcome.counts_at(second)) {
            by_preemptor.entry(&outcome.preemptor.uid).or_default().push(outcome);
            if outcome.is_bound {
                let last = last_bound.entry(&outcome.preemptor.namespace).or_insert(outcome.ended);
                *last = outcome.ended.max(*last);
            }
        }
        let (mut open, mut failed) = (Self::default(), Vec::new());
        for of_it in by_preemptor.into_values() {
            let ends = failed_ends(&of_it);
            let (Some(preemptor), Some(last)) = (of_it.first().map(|outcome| &outcome.preemptor), ends.last()) else {
                continue;
            };
            if !waits(preemptor) {
                continue;
            }
            if let Some(breaker) = PreemptorBreaker::of(preemptor, &ends).filter(|breaker| breaker.until > second) {
                open.preemptors.insert(preemptor.uid.clone(), breaker);
            }
            if *last > second.saturating_sub(RECENT) {
                failed.push((preemptor, *last));
            }
        }
        let last_of_all = last_bound.values().copied().max();
        let in_a_row = failed.iter().filter(|(_, ended)| last_of_all.is_none_or(|bound| *ended > bound));
        open.cluster = SharedBreaker::of(in_a_row, OF_A_NAMESPACE, second);
        let mut by_namespace: BTreeMap<&str, Vec<(&StoredPreemptor, i64)>> = BTreeMap::new();
        for (preemptor, ended) in failed {
            let namespace = preemptor.namespace.as_str();
            if last_bound.get(namespace).is_none_or(|bound| ended > *bound) {
                by_namespace.entry(namespace).or_default().push((preemptor, ended));
            }
        }
        for (namespace, failed) in by_namespace {
            let breaker = SharedBreaker::of(failed.iter(), usize::MAX, second);
            open.namespaces.extend(breaker.map(|breaker| (namespace.to_owned(), breaker)));
        }
        open
    }

    /// Returns the breakers that permit no eviction for any preemptor of a namespace, with the namespace, or of the cluster (`None`).
    pub fn stopping(&self) -> impl Iterator<Item = (Option<&str>, &SharedBreaker)> {
        let namespaces = self.namespaces.iter().map(|(namespace, breaker)| (Some(namespace.as_str()), breaker));
        let all = self.cluster.iter().map(|breaker| (None, breaker)).chain(namespaces);
        all.filter(|(_, breaker)| breaker.stops_all())
    }
}

impl PreemptorBreaker {
    /// Returns the breaker of a preemptor after failed plans in a row that ended at these times, in order; `None` if they do not open it.
    fn of(preemptor: &StoredPreemptor, ends: &[i64]) -> Option<Self> {
        let last = *ends.last()?;
        let ends = ends.get(ends.partition_point(|ended| *ended <= last.saturating_sub(MEMORY))..)?;
        let is_fast = |plans: &[i64]| plans.last().zip(plans.first()).is_some_and(|(last, first)| last - first <= TIME);
        if !ends.windows(PLANS).any(is_fast) && ends.len() < SLOW_PLANS {
            return None;
        }
        let further = ends.len().saturating_sub(PLANS);
        let time = TIME.saturating_mul(1_i64 << further.min(16)).min(LONGEST);
        Some(Self { preemptor: preemptor.clone(), plans: ends.len(), until: last.saturating_add(time) })
    }
}

impl SharedBreaker {
    /// Returns the breaker after these preemptors failed, of each namespace of which at most `most` count; `None` if it is closed.
    fn of<'f, 'p: 'f>(
        failed: impl Iterator<Item = &'f (&'p StoredPreemptor, i64)>,
        most: usize,
        second: i64,
    ) -> Option<Self> {
        let failed: BTreeMap<String, Failure> = failed
            .map(|(preemptor, ended)| {
                (preemptor.uid.clone(), Failure { namespace: preemptor.namespace.clone(), ended: *ended })
            })
            .collect();
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        for failure in failed.values() {
            *numbers.entry(&failure.namespace).or_default() += 1;
        }
        if numbers.into_values().map(|number| number.min(most)).sum::<usize>() < PREEMPTORS {
            return None;
        }
        let until = failed.values().map(|failure| failure.ended).max()?.saturating_add(TIME);
        let turn = (second >= until).then(|| second.saturating_sub(until) / TURN);
        Some(Self { failed, until, turn })
    }

    /// Returns the number of preemptors whose plans failed in a row.
    pub fn preemptors(&self) -> usize {
        self.failed.len()
    }

    /// Returns true if no pod is evicted for any of the preemptors, and false while one plan is made at a time.
    pub fn stops_all(&self) -> bool {
        self.turn.is_none()
    }

    /// Returns when a plan with evictions may be made for the preemptor with this namespace and UID, in seconds since the epoch. The
    /// namespaces without a failure come first, then those whose last failure is the longest ago; within a namespace the preemptors in the
    /// same order. So one that always fails does not prevent the others, and neither do the new preemptors of a namespace in which all fail.
    pub fn permits_from(&self, namespace: &str, uid: &str) -> i64 {
        let mut last: BTreeMap<&str, i64> = BTreeMap::new();
        for failure in self.failed.values() {
            let known = last.entry(&failure.namespace).or_insert(failure.ended);
            *known = failure.ended.max(*known);
        }
        let ended = self.failed.get(uid).map(|failure| failure.ended);
        let position = (last.get(namespace).copied(), ended, uid);
        let is_before = |(other, failure): &(&String, &Failure)| {
            (last.get(failure.namespace.as_str()).copied(), Some(failure.ended), other.as_str()) < position
        };
        let before = self.failed.iter().filter(is_before).count();
        let turns = i64::try_from((before + usize::from(ended.is_some())).min(MOST_TURNS)).unwrap_or(i64::MAX);
        self.until.saturating_add(turns.saturating_mul(TURN))
    }
}

/// Returns when the plans of one preemptor ended that failed after the last one that completed, in order.
fn failed_ends(outcomes: &[&Outcome]) -> Vec<i64> {
    let bound = outcomes.iter().filter(|outcome| outcome.is_bound).map(|outcome| outcome.ended).max();
    let failed = outcomes.iter().filter(|outcome| !outcome.is_bound).map(|outcome| outcome.ended);
    let mut ends: Vec<i64> = failed.filter(|ended| bound.is_none_or(|bound| *ended > bound)).collect();
    ends.sort_unstable();
    ends
}

#[cfg(test)]
mod tests {
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
    fn outcomes(plans: &[(&str, i64, bool)]) -> Vec<Outcome> {
        let outcome = |(uid, ended, is_bound): &(&str, i64, bool)| Outcome {
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
        assert_eq!(
            until(701, &[("a", 100, false), ("a", 400, false), ("a", 701, false)]),
            None,
            "not within ten minutes"
        );
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
    fn the_time_stays_an_hour_for_as_long_as_each_plan_fails_although_the_first_ones_are_forgotten() {
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
    fn after_ten_minutes_preemptors_take_turns_and_those_that_have_not_failed_come_first() {
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
            let outcome = Outcome::of(cause.as_str(), &preemptor("a"), &status(state, evicted));
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
        assert_eq!(Outcome::of("Later", &preemptor("a"), &status(PlanState::Failed, 1)), None);
        let unfinished = PreemptionStatus { finished_at: None, ..status(PlanState::Failed, 1) };
        assert_eq!(Outcome::of(Cause::Preemptor.as_str(), &preemptor("a"), &unfinished), None);
    }
}

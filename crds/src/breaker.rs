//! Circuit breakers: after plans that evicted pods and whose preemptors were not bound, Giveway evicts no more pods for a while: for one
//! preemptor, or for all.
//!
//! They are computed from the outcomes of stored plans alone, so every leader and `kubectl giveway check` get the same answer. Only plans
//! with the cause [`Cause::Preemptor`] count. Each breaker closes by itself, and when the `Preemption` objects of the plans are deleted.
//!
//! | breaker | opens | closes |
//! |---|---|---|
//! | of a preemptor | after [`PLANS`] plans for it within [`TIME`] | [`TIME`] after the last of them |
//! | of the cluster | after plans for [`PREEMPTORS`] preemptors in a row within [`MEMORY`] | when a plan completes: from [`TIME`] after the last failure on, one plan is made at a time |

use crate::plan::{Cause, PlanState, StoredPreemptor};
use crate::preemption::PreemptionStatus;
use std::collections::BTreeMap;

/// Number of plans for one preemptor after which its breaker opens.
pub const PLANS: usize = 3;
/// Number of preemptors after which the breaker of the cluster opens.
pub const PREEMPTORS: usize = 5;
/// The time within which [`PLANS`] plans open the breaker of a preemptor, and for which a breaker permits no eviction, in seconds.
pub const TIME: i64 = 600;
/// How long an outcome counts, in seconds.
pub const MEMORY: i64 = 3_600;
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

    /// Returns true if the plan ended so late that it counts at this second.
    pub fn counts_at(&self, second: i64) -> bool {
        self.ended > second.saturating_sub(MEMORY)
    }
}

/// The breakers that are open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenBreakers {
    /// Those of preemptors, by UID.
    pub preemptors: BTreeMap<String, PreemptorBreaker>,
    /// That of the cluster.
    pub cluster: Option<ClusterBreaker>,
}

/// The open breaker of a preemptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreemptorBreaker {
    /// The preemptor.
    pub preemptor: StoredPreemptor,
    /// Until when no pod is evicted for it, in seconds since the epoch.
    pub until: i64,
}

/// The open breaker of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterBreaker {
    /// The preemptors whose plans failed since the last plan that completed: UID, and when the last plan ended.
    failed: BTreeMap<String, i64>,
    /// Until when no pod is evicted for any preemptor, in seconds since the epoch. After that one plan is made at a time.
    pub until: i64,
    /// Number of turns since that time; `None` before.
    turn: Option<i64>,
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
        let mut last_bound = i64::MIN;
        for outcome in outcomes.filter(|outcome| outcome.counts_at(second)) {
            by_preemptor.entry(&outcome.preemptor.uid).or_default().push(outcome);
            if outcome.is_bound {
                last_bound = last_bound.max(outcome.ended);
            }
        }
        let (mut preemptors, mut failed) = (BTreeMap::new(), BTreeMap::new());
        for (uid, of_it) in by_preemptor {
            let ends = failed_ends(&of_it);
            let (Some(preemptor), Some(last)) = (of_it.first().map(|outcome| &outcome.preemptor), ends.last()) else {
                continue;
            };
            if !waits(preemptor) {
                continue;
            }
            if let Some(until) = open_until(&ends).filter(|until| *until > second) {
                preemptors.insert(uid.to_owned(), PreemptorBreaker { preemptor: preemptor.clone(), until });
            }
            if *last > last_bound {
                failed.insert(uid.to_owned(), *last);
            }
        }
        Self { preemptors, cluster: ClusterBreaker::of(failed, second) }
    }
}

impl ClusterBreaker {
    fn of(failed: BTreeMap<String, i64>, second: i64) -> Option<Self> {
        if failed.len() < PREEMPTORS {
            return None;
        }
        let until = failed.values().max()?.saturating_add(TIME);
        let turn = (second >= until).then(|| second.saturating_sub(until) / TURN);
        Some(Self { failed, until, turn })
    }

    /// Returns the number of preemptors whose plans failed in a row.
    pub fn preemptors(&self) -> usize {
        self.failed.len()
    }

    /// Returns true if no pod is evicted for any preemptor, and false while one plan is made at a time.
    pub fn stops_all(&self) -> bool {
        self.turn.is_none()
    }

    /// Returns when a plan with evictions may be made for the preemptor with this UID, in seconds since the epoch. Preemptors that have
    /// not failed come first, then those whose last failure is the longest ago: so one that always fails does not prevent the others.
    pub fn permits_from(&self, uid: &str) -> i64 {
        let Some(last) = self.failed.get(uid) else { return self.until };
        let before = self.failed.iter().filter(|(other, ended)| (*ended, other.as_str()) < (last, uid)).count();
        let turns = i64::try_from((before + 1).min(MOST_TURNS)).unwrap_or(i64::MAX);
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

/// Returns until when the breaker of a preemptor is open after plans that ended at these times; `None` if they never opened it.
fn open_until(ends: &[i64]) -> Option<i64> {
    let opens = |ends: &[i64]| {
        let (first, last) = (ends.first()?, ends.last()?);
        (last.saturating_sub(*first) <= TIME).then(|| last.saturating_add(TIME))
    };
    ends.windows(PLANS).filter_map(opens).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    fn preemptor(uid: &str) -> StoredPreemptor {
        StoredPreemptor { kind: "PodGroup".into(), uid: uid.into(), ..StoredPreemptor::default() }
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

    /// Plans for the preemptors `a` to `e`, which ended at the seconds 100 to 104.
    const FIVE: [(&str, i64, bool); 5] =
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
        let later = [("a", 100, false), ("a", 101, false), ("a", 102, false), ("a", 703, false)];
        assert_eq!(until(703, &later), None, "it closed, and one plan failed since then");
    }

    #[test]
    fn a_plan_that_completes_ends_the_count_of_its_preemptor() {
        let plans = [("a", 100, false), ("a", 200, false), ("a", 250, true), ("a", 300, false)];
        assert_eq!(until(300, &plans), None);
        assert_eq!(until(300, &[plans[0], plans[1], ("b", 250, true), plans[3]]), Some(900), "another one does not");
    }

    #[test]
    fn plans_for_five_preemptors_in_a_row_open_the_breaker_of_the_cluster() {
        let open = at(110, &FIVE).cluster.unwrap();
        assert_eq!((open.preemptors(), open.until, open.stops_all()), (5, 704, true));
        assert_eq!(at(110, &FIVE[1..]).cluster, None);
        let again = [&FIVE[1..], &[("b", 105, false)]].concat();
        assert_eq!(at(110, &again).cluster, None, "the same preemptor twice");
        let between = [&FIVE[..], &[("z", 102, true)]].concat();
        assert_eq!(at(110, &between).cluster, None, "a plan completed in between");
        let before = [&FIVE[..], &[("z", 99, true)]].concat();
        assert!(at(110, &before).cluster.is_some());
        assert_eq!(at(3_701, &FIVE).cluster, None, "the first one is forgotten after an hour");
    }

    #[test]
    fn only_preemptors_that_still_wait_count() {
        let open = |waits: &dyn Fn(&str) -> bool| {
            let plans = [&FIVE[..], &[("a", 105, false), ("a", 106, false)]].concat();
            OpenBreakers::at(110, outcomes(&plans).iter(), |preemptor| waits(&preemptor.uid))
        };
        let all = open(&|_| true);
        assert!(all.cluster.is_some() && all.preemptors.contains_key("a"));
        let others = open(&|uid| uid != "a");
        assert!(others.cluster.is_none() && others.preemptors.is_empty());
    }

    #[test]
    fn after_ten_minutes_preemptors_take_turns_and_those_that_have_not_failed_come_first() {
        let open = at(704, &FIVE).cluster.unwrap();
        assert!(!open.stops_all());
        assert_eq!(["new", "a", "b", "e"].map(|uid| open.permits_from(uid)), [704, 764, 824, 1_004]);
        assert_ne!(at(764, &FIVE), at(763, &FIVE), "what depends on it is decided again at each turn");
        let failed_again = [&FIVE[..], &[("a", 800, false)]].concat();
        let open = at(801, &failed_again).cluster.unwrap();
        assert!(open.stops_all() && open.until == 1_400);
        assert_eq!(["b", "a"].map(|uid| open.permits_from(uid)), [1_460, 1_700], "it is the last one now");
        let many: Vec<String> = (0..100).map(|number| format!("p{number:03}")).collect();
        let many: Vec<(&str, i64, bool)> = many.iter().map(|uid| (uid.as_str(), 100, false)).collect();
        assert_eq!(at(700, &many).cluster.unwrap().permits_from("p099"), 1_300, "bounded");
        let completed = [&failed_again[..], &[("b", 1_500, true)]].concat();
        assert_eq!(at(1_501, &completed).cluster, None);
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

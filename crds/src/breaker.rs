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

/// How a plan ended that evicted pods for a preemptor: what the circuit breakers count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanOutcome {
    /// The preemptor.
    pub preemptor: StoredPreemptor,
    /// When the plan ended, in seconds since the epoch.
    pub ended: i64,
    /// True if every placed pod was bound.
    pub is_bound: bool,
}

impl PlanOutcome {
    /// Returns the outcome of the plan with this `spec.cause`, `spec.preemptor` and status, for the circuit breakers; `None` if it does not
    /// count: it is in flight, evicted no pod, or was made for a critical add-on or without a preemptor.
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

    /// Returns true if a circuit breaker may still depend on this plan at the time `second` (since the epoch): it did not end too long
    /// before.
    pub fn counts_at(&self, second: i64) -> bool {
        self.ended > second.saturating_sub(MEMORY + LONGEST)
    }
}

/// The circuit breakers that are open: each stops evictions for preemptors after several plans in a row that evicted pods and failed.
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
    /// Computes which circuit breakers are open at the time `second` (since the epoch), from the outcomes of plans. `waits` returns true
    /// for a preemptor that exists and has pods that are not bound. Plans for other preemptors do not count as failed: users deleted these,
    /// or they were scheduled without evictions.
    pub fn at<'o>(
        second: i64,
        outcomes: impl Iterator<Item = &'o PlanOutcome>,
        waits: impl Fn(&StoredPreemptor) -> bool,
    ) -> Self {
        let mut by_preemptor: BTreeMap<&str, Vec<&PlanOutcome>> = BTreeMap::new();
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

    /// Returns the shared circuit breakers that permit no eviction at all, each with the namespace whose preemptors it is for, or `None`
    /// for that of the whole cluster.
    pub fn stopping(&self) -> impl Iterator<Item = (Option<&str>, &SharedBreaker)> {
        let namespaces = self.namespaces.iter().map(|(namespace, breaker)| (Some(namespace.as_str()), breaker));
        let all = self.cluster.iter().map(|breaker| (None, breaker)).chain(namespaces);
        all.filter(|(_, breaker)| breaker.stops_all())
    }
}

impl PreemptorBreaker {
    /// Returns the circuit breaker of one preemptor whose last plans in a row failed and ended at these times (seconds since the epoch,
    /// ascending); `None` if these are too few to open it.
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
    /// Returns the circuit breaker of a namespace or of the cluster that these preemptors open; `None` if they are too few. `failed` has
    /// each preemptor whose last plan failed, with the time at which that plan ended. At most `most` preemptors of each namespace count.
    /// All times are in seconds since the epoch.
    fn of<'f, 'p: 'f>(
        failed: impl Iterator<Item = &'f (&'p StoredPreemptor, i64)>,
        most: usize,
        now: i64,
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
        let turn = (now >= until).then(|| now.saturating_sub(until) / TURN);
        Some(Self { failed, until, turn })
    }

    /// Returns the number of preemptors whose plans failed since the last plan that completed.
    pub fn preemptors(&self) -> usize {
        self.failed.len()
    }

    /// Returns true while the breaker permits no eviction for any preemptor, and false in the time after, in which it permits one plan with
    /// evictions at a time.
    pub fn stops_all(&self) -> bool {
        self.turn.is_none()
    }

    /// Returns the time (seconds since the epoch) from which this breaker permits a plan with evictions for the preemptor with this
    /// namespace and UID. Preemptors get their turns one after the other: first those of namespaces without a failure, then those of the
    /// namespace whose last failure is the longest ago, and within a namespace in the same order. So a preemptor or namespace whose plans
    /// always fail does not prevent plans for others.
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

/// Returns, from the outcomes of one preemptor's plans, the times at which those plans ended that failed after the last completed one:
/// seconds since the epoch, ascending.
fn failed_ends(outcomes: &[&PlanOutcome]) -> Vec<i64> {
    let bound = outcomes.iter().filter(|outcome| outcome.is_bound).map(|outcome| outcome.ended).max();
    let failed = outcomes.iter().filter(|outcome| !outcome.is_bound).map(|outcome| outcome.ended);
    let mut ends: Vec<i64> = failed.filter(|ended| bound.is_none_or(|bound| *ended > bound)).collect();
    ends.sort_unstable();
    ends
}

#[cfg(test)]
mod tests;

//! The circuit breakers: the outcomes from which they are computed, and which of them are open. Pure: the caller passes the time, as
//! wall-clock time, because outcomes outlast the leader that observed them.
//!
//! [`giveway_crds::breaker`] says when a breaker is open. Nothing is stored for it: each leader gets the outcomes from the `Preemption`
//! objects, and those of its own plans as soon as they end.

use giveway_crds::breaker::{OpenBreakers, PlanOutcome, PreemptorBreaker, SharedBreaker};
use giveway_crds::plan::StoredPreemptor;
use giveway_planner::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of outcomes in memory. The oldest ones above it are forgotten, so that no load uses more memory.
const MOST: usize = 5_000;

/// The preemptors that a shared breaker concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of all namespaces.
    Cluster,
    /// Those of one namespace.
    Namespace,
}

/// The outcomes of plans, and the breakers that are open.
#[derive(Debug, Default)]
pub struct Breakers {
    /// By name of the plan.
    outcomes: BTreeMap<SmolStr, PlanOutcome>,
    open: OpenBreakers,
    /// The second at which `open` was computed; `None` if an outcome has changed since then.
    computed: Option<i64>,
}

impl Breakers {
    /// Records how the plan of this name ended. The open breakers are computed from that at the next [`Self::compute`].
    pub fn note(&mut self, plan: &str, outcome: PlanOutcome) {
        self.computed = None;
        self.outcomes.insert(plan.into(), outcome);
    }

    /// Removes the outcome of the plan of this name, because its `Preemption` was deleted.
    pub fn lift(&mut self, plan: &str) {
        if self.outcomes.remove(plan).is_some() {
            self.computed = None;
        }
    }

    /// Computes which breakers are open at `second`, the time since the epoch. `waits` returns true for a preemptor that exists and has
    /// pods that are not bound. Returns true if a breaker has opened or closed, or if a shared one permits evictions for another preemptor
    /// now.
    pub fn compute(&mut self, second: i64, waits: impl Fn(&StoredPreemptor) -> bool) -> bool {
        if self.computed.replace(second) == Some(second) {
            return false;
        }
        self.forget(second);
        let open = OpenBreakers::at(second, self.outcomes.values(), waits);
        let differs = open != self.open;
        self.open = open;
        differs
    }

    /// Removes outcomes that no breaker needs at `second`, the time since the epoch: old ones, those of completed plans that end no count
    /// of failures, and the oldest ones above [`MOST`].
    fn forget(&mut self, second: i64) {
        self.outcomes.retain(|_, outcome| outcome.counts_at(second));
        let (bound, failed): (Vec<&PlanOutcome>, Vec<&PlanOutcome>) =
            self.outcomes.values().partition(|outcome| outcome.is_bound);
        let mut last: BTreeMap<String, i64> = BTreeMap::new();
        for outcome in bound {
            let known = last.entry(outcome.preemptor.namespace.clone()).or_insert(outcome.ended);
            *known = outcome.ended.max(*known);
        }
        let failed: BTreeSet<String> = failed.into_iter().map(|outcome| outcome.preemptor.uid.clone()).collect();
        self.outcomes.retain(|_, outcome| {
            let is_last = last.get(&outcome.preemptor.namespace) == Some(&outcome.ended);
            !outcome.is_bound || is_last || failed.contains(&outcome.preemptor.uid)
        });
        if let Some(excess) = self.outcomes.len().checked_sub(MOST + 1) {
            let mut ends: Vec<i64> = self.outcomes.values().map(|outcome| outcome.ended).collect();
            let newest_forgotten = *ends.select_nth_unstable(excess).1;
            self.outcomes.retain(|_, outcome| outcome.ended > newest_forgotten);
        }
    }

    /// Returns the breakers that were open when they were last [computed](Self::compute).
    pub fn open(&self) -> &OpenBreakers {
        &self.open
    }

    /// Returns the open breaker of the preemptor with this UID, or `None` if it has none.
    pub fn of_preemptor(&self, uid: &str) -> Option<&PreemptorBreaker> {
        self.open.preemptors.get(uid)
    }

    /// Returns the open breakers that concern all preemptors of this namespace: first that of the cluster, then that of the namespace.
    pub fn shared(&self, namespace: &str) -> impl Iterator<Item = (Scope, &SharedBreaker)> {
        let cluster = self.open.cluster.iter().map(|breaker| (Scope::Cluster, breaker));
        let namespace = self.open.namespaces.get(namespace).map(|breaker| (Scope::Namespace, breaker));
        cluster.chain(namespace)
    }

    /// Returns the open breaker that permits no evictions for any preemptor of this namespace, if there is one.
    pub fn breaker_for_all(&self, namespace: &str) -> Option<(Scope, &SharedBreaker)> {
        self.shared(namespace).find(|(_, breaker)| breaker.stops_all())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(uid: &str, ended: i64, is_bound: bool) -> PlanOutcome {
        outcome_in("team", uid, ended, is_bound)
    }

    fn outcome_in(namespace: &str, uid: &str, ended: i64, is_bound: bool) -> PlanOutcome {
        let (kind, namespace, uid) = ("PodGroup".into(), namespace.into(), uid.into());
        let preemptor = StoredPreemptor { kind, namespace, uid, ..StoredPreemptor::default() };
        PlanOutcome { preemptor, ended, is_bound }
    }

    /// Returns the breakers after three plans for preemptor `a` failed at second 100.
    fn open() -> Breakers {
        let mut breakers = Breakers::default();
        for plan in ["p-1", "p-2", "p-3"] {
            breakers.note(plan, outcome("a", 100, false));
        }
        assert!(breakers.compute(100, |_| true));
        breakers
    }

    #[test]
    fn a_breaker_closes_when_its_time_has_passed_or_a_preemption_is_deleted() {
        let mut breakers = open();
        assert_eq!(breakers.of_preemptor("a").map(|open| open.until), Some(700));
        assert!(breakers.of_preemptor("b").is_none() && breakers.shared("team").next().is_none());
        assert!(!breakers.compute(100, |_| panic!("it was computed at this second")));
        assert!(!breakers.compute(699, |_| true));
        assert!(breakers.compute(700, |_| true) && breakers.of_preemptor("a").is_none());
        let mut breakers = open();
        breakers.lift("p-4");
        assert!(!breakers.compute(100, |_| true), "another Preemption");
        breakers.lift("p-2");
        assert!(breakers.compute(100, |_| true) && breakers.of_preemptor("a").is_none());
    }

    #[test]
    fn an_outcome_that_the_watch_shows_again_counts_once() {
        let mut breakers = Breakers::default();
        for _ in 0..3 {
            breakers.note("p-1", outcome("a", 100, false));
        }
        breakers.compute(100, |_| true);
        assert!(breakers.of_preemptor("a").is_none());
    }

    #[test]
    fn outcomes_of_completed_plans_are_kept_only_where_they_end_a_count() {
        let mut breakers = open();
        for number in 0..1_000 {
            breakers.note(&format!("done-{number}"), outcome(&format!("u{number}"), 200 + number, true));
        }
        breakers.note("earlier", outcome("a", 50, true));
        breakers.compute(1_300, |_| true);
        let kept: Vec<&str> = breakers.outcomes.keys().map(SmolStr::as_str).collect();
        assert_eq!(kept, ["done-999", "earlier", "p-1", "p-2", "p-3"]);
        breakers.note("elsewhere", outcome_in("other", "x", 900, true));
        breakers.compute(1_301, |_| true);
        assert!(breakers.outcomes.contains_key("elsewhere"), "it is the last one of its namespace");
        breakers.compute(30_000, |_| true);
        assert!(breakers.outcomes.is_empty());
    }

    #[test]
    fn the_number_of_outcomes_is_bounded_and_the_oldest_are_forgotten() {
        let mut breakers = Breakers::default();
        for number in 0..MOST + 10 {
            let ended = 1_000 + i64::try_from(number).unwrap();
            breakers.note(&format!("p-{number:05}"), outcome(&format!("u{number}"), ended, false));
        }
        breakers.compute(7_000, |_| true);
        assert_eq!(breakers.outcomes.len(), MOST);
        assert_eq!(breakers.outcomes.keys().next().map(SmolStr::as_str), Some("p-00010"));
    }

    #[test]
    fn a_shared_breaker_stops_all_and_then_permits_one_plan_at_a_time() {
        let mut breakers = Breakers::default();
        for uid in ["a", "b", "c", "d", "e"] {
            breakers.note(uid, outcome(uid, 100, false));
        }
        assert!(breakers.compute(100, |_| true));
        assert_eq!(breakers.breaker_for_all("team").map(|(scope, _)| scope), Some(Scope::Namespace));
        assert!(breakers.breaker_for_all("other").is_none(), "the failures of a namespace do not concern others");
        assert!(breakers.compute(700, |_| true));
        assert!(breakers.breaker_for_all("team").is_none() && breakers.shared("team").next().is_some());
        breakers.note("f", outcome("f", 701, true));
        assert!(breakers.compute(701, |_| true) && breakers.shared("team").next().is_none());
        for (namespace, uid) in [("x", "g"), ("y", "h"), ("y", "i"), ("z", "j"), ("z", "k")] {
            breakers.note(uid, outcome_in(namespace, uid, 800, false));
        }
        assert!(breakers.compute(800, |_| true));
        assert_eq!(breakers.breaker_for_all("other").map(|(scope, _)| scope), Some(Scope::Cluster));
    }
}

//! Limits the time of decisions. In a round every pending preemptor is decided once, in order. A round is divided into slices, so that
//! plans in flight advance between them. After a round the arbiter pauses for longer than the round took: many preemptors that do not fit
//! in a cluster that changes all the time never use a whole core. New preemptors, and those that must be decided again, do not wait for the
//! end of the pause.

use giveway_planner::Preemptor;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// After this time a pass decides only for new preemptors.
const SLICE: Duration = Duration::from_millis(50);
/// Maximum time in a pass for new preemptors.
const NEWCOMERS: Duration = Duration::from_millis(500);
/// The pause is this many times as long as the round.
const REST: u32 = 2;
/// Maximum pause.
const LONGEST_REST: Duration = Duration::from_millis(250);

/// The current round, in which every pending preemptor is decided once, in one or more passes.
#[derive(Debug, Default)]
pub struct Round {
    without_time_limit: bool,
    /// The preemptors that were decided in this round, if the last pass did not finish it.
    looked_at: BTreeSet<Preemptor>,
    /// Time that this round has taken.
    spent: Duration,
    /// The next round does not begin before this time.
    not_before: Option<Instant>,
    resting: bool,
    /// Waiting plans are not compared with others before this time.
    no_search_before: Option<Instant>,
    /// Total number of preemptors that had appeared when the last pass began.
    arrivals: u64,
    /// True if a preemptor must be decided again.
    hurry: bool,
    /// True if a preemptor was skipped in this pass.
    left: bool,
}

impl Round {
    /// Creates rounds that decide for every preemptor in each pass, however long that takes.
    pub fn without_time_limit() -> Self {
        Self { without_time_limit: true, ..Self::default() }
    }

    /// Requests that preemptors are decided in the next pass, even if the pause after the last round has not ended.
    pub fn skip_pause(&mut self) {
        self.hurry = true;
    }

    /// Returns true if one more waiting plan may be compared with alternatives in this pass, after comparisons that took `spent`. Each
    /// comparison is a call of the planner, and plans that can be carried out must not wait for a hundred of them.
    pub fn may_compare(&self, now: Instant, spent: Duration) -> bool {
        self.without_time_limit || (spent < SLICE && self.no_search_before.is_none_or(|until| now >= until))
    }

    /// Ends the comparisons of waiting plans with alternatives in this pass, which took `spent`. The next ones begin after a pause that is
    /// longer than that.
    pub fn end_comparisons(&mut self, now: Instant, spent: Duration) {
        let rest = (spent * REST).min(LONGEST_REST);
        if !rest.is_zero() && self.no_search_before.is_none_or(|until| now >= until) {
            self.no_search_before = Some(now + spent + rest);
        }
    }

    /// Begins a pass; `arrivals` is the number of preemptors that have appeared so far. Returns true if this pass may decide about pending
    /// preemptors: the pause after the last round has ended, a preemptor is new since the last pass, or the pause is to be skipped
    /// ([`Round::skip_pause`], or new preemptors for which the last pass had no time).
    pub fn begin(&mut self, now: Instant, arrivals: u64) -> bool {
        self.resting = self.not_before.is_some_and(|until| now < until);
        let has_arrivals =
            std::mem::take(&mut self.hurry) | (std::mem::replace(&mut self.arrivals, arrivals) != arrivals);
        self.left = self.resting;
        !self.resting || has_arrivals
    }

    /// Returns true if this preemptor is decided in this pass. `new` is true if it has no decision yet; `took` returns how long the pass
    /// has taken.
    pub fn admits(&mut self, preemptor: &Preemptor, new: bool, took: impl Fn() -> Duration) -> bool {
        if self.without_time_limit {
            return true;
        }
        if new {
            // A new preemptor does not wait for those that already have a decision, but plans in flight do not wait for a thousand new
            // preemptors.
            let admitted = took() < NEWCOMERS;
            self.hurry |= !admitted;
            self.left |= !admitted;
            return admitted;
        }
        if self.looked_at.contains(preemptor) {
            return false;
        }
        if self.resting || took() >= SLICE {
            self.left = true;
            return false;
        }
        self.looked_at.insert(preemptor.clone());
        true
    }

    /// Ends a pass that took `took`. If no preemptor was skipped, the round has ended, and a pause begins that is longer than the round.
    pub fn end(&mut self, now: Instant, took: Duration) {
        self.spent += took;
        if self.without_time_limit || self.resting {
            return;
        }
        if self.left {
            self.not_before = None;
            return;
        }
        self.looked_at.clear();
        let rest = (std::mem::take(&mut self.spent) * REST).min(LONGEST_REST);
        self.not_before = Some(now + took + rest);
    }

    /// Returns when the next pass must be made: at once if a preemptor was skipped, at the end of the pause during a pause; `None`
    /// otherwise.
    pub fn again(&self) -> Option<Instant> {
        self.left.then(|| self.not_before.unwrap_or_else(Instant::now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_planner::ObjectKey;
    use std::cell::Cell;

    const MS: Duration = Duration::from_millis(1);

    /// Runs a pass over these preemptors, `each` of which takes that long; `new` ones have no decision yet. Returns the decided ones.
    fn pass(round: &mut Round, names: &[&str], new: &[&str], each: Duration, now: Instant) -> Vec<String> {
        let arrivals = round.arrivals + u64::from(!new.is_empty());
        let mut seen = Vec::new();
        if !round.begin(now, arrivals) {
            return seen;
        }
        let took = Cell::new(Duration::ZERO);
        for name in names {
            let preemptor = Preemptor::Group(ObjectKey::new("default", name));
            if round.admits(&preemptor, new.contains(name), || took.get()) {
                took.set(took.get() + each);
                seen.push((*name).to_owned());
            }
        }
        round.end(now, took.get());
        seen
    }

    #[test]
    fn a_round_is_cut_into_slices_and_every_preemptor_has_a_turn_before_the_next_one() {
        let (mut round, now) = (Round::default(), Instant::now());
        assert_eq!(pass(&mut round, &["a", "b", "c", "d"], &[], 30 * MS, now), ["a", "b"]);
        assert!(round.again().is_some(), "at once");
        assert_eq!(pass(&mut round, &["a", "b", "c", "d", "e"], &["e"], 20 * MS, now), ["c", "d", "e"]);
        assert_eq!(round.again(), None, "every preemptor was considered");
    }

    #[test]
    fn after_a_round_there_is_a_rest_and_a_new_preemptor_does_not_wait_for_its_end() {
        let (mut round, now) = (Round::default(), Instant::now());
        assert_eq!(pass(&mut round, &["a", "b"], &[], 10 * MS, now), ["a", "b"]);
        assert_eq!(pass(&mut round, &["a", "b", "n"], &["n"], 10 * MS, now + 58 * MS), ["n"]);
        assert_eq!(pass(&mut round, &["a", "b", "n"], &[], 10 * MS, now + 59 * MS), Vec::<String>::new());
        assert_eq!(round.again(), Some(now + 60 * MS));
        assert_eq!(pass(&mut round, &["a", "b", "n"], &[], 10 * MS, now + 60 * MS), ["a", "b", "n"]);
    }

    #[test]
    fn many_new_preemptors_are_decided_in_more_than_one_pass() {
        let (mut round, now) = (Round::default(), Instant::now());
        let all = ["a", "b", "c", "d", "e", "f", "g", "h"];
        assert_eq!(pass(&mut round, &all, &all, 100 * MS, now), ["a", "b", "c", "d", "e"]);
        assert!(round.again().is_some(), "at once");
        assert_eq!(pass(&mut round, &all, &["f", "g", "h"], 100 * MS, now), ["a", "f", "g", "h"]);
    }

    #[test]
    fn a_preemptor_to_be_decided_again_does_not_wait_either() {
        let (mut round, now) = (Round::default(), Instant::now());
        assert_eq!(pass(&mut round, &["a"], &[], 10 * MS, now), ["a"]);
        assert!(!round.begin(now + 20 * MS, round.arrivals));
        round.skip_pause();
        assert!(round.begin(now + 20 * MS, round.arrivals));
    }

    #[test]
    fn the_rest_is_bounded_and_where_nothing_takes_time_there_is_none() {
        let (mut round, now) = (Round::default(), Instant::now());
        assert_eq!(pass(&mut round, &["a"], &[], 40_000 * MS, now), ["a"]);
        assert_eq!(pass(&mut round, &["a"], &[], Duration::ZERO, now + 40_250 * MS), ["a"]);
        assert_eq!(pass(&mut round, &["a"], &[], Duration::ZERO, now + 40_250 * MS), ["a"]);
    }

    #[test]
    fn plans_that_wait_take_a_slice_and_rest_for_longer_than_they_took() {
        let (mut round, now) = (Round::default(), Instant::now());
        assert!(
            round.may_compare(now, Duration::ZERO) && !round.may_compare(now, 50 * MS),
            "the others have a turn after the rest"
        );
        round.end_comparisons(now, 60 * MS);
        assert!(
            !round.may_compare(now + 179 * MS, Duration::ZERO) && round.may_compare(now + 180 * MS, Duration::ZERO)
        );
        round.end_comparisons(now + MS, MS);
        assert!(round.may_compare(now + 180 * MS, Duration::ZERO), "what was no look makes the rest no longer");
        assert!(Round::without_time_limit().may_compare(now, 60 * MS), "untimed there is no rest");
    }

    #[test]
    fn without_a_time_limit_every_preemptor_is_decided_in_every_pass() {
        let (mut round, now) = (Round::without_time_limit(), Instant::now());
        for _ in 0..2 {
            assert_eq!(pass(&mut round, &["a", "b", "c"], &[], 40 * MS, now), ["a", "b", "c"]);
        }
    }
}

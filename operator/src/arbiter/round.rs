//! How much time deciding may take. Everybody who waits is looked at once a round, in order. A round is cut into slices, so that
//! flights go on between them; after a round the arbiter rests for longer than it took, so that many preemptors without hope in a
//! cluster that changes all the time never take a whole core. Who was not looked at yet, or is to be looked at anew, does not
//! wait for that.

use giveway_planner::Preemptor;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Time after which a pass decides nothing more, but for those who are new.
const SLICE: Duration = Duration::from_millis(50);
/// How long a pass looks at preemptors that nobody has looked at yet.
const NEWCOMERS: Duration = Duration::from_millis(500);
/// So many times as long as a round took the arbiter rests.
const REST: u32 = 2;
/// Longest rest.
const LONGEST_REST: Duration = Duration::from_millis(250);

/// The round that is under way.
#[derive(Debug, Default)]
pub(super) struct Round {
    untimed: bool,
    /// Those who were looked at in it, if the last pass did not finish it.
    looked_at: BTreeSet<Preemptor>,
    /// What it took up to now.
    spent: Duration,
    /// No other round begins before.
    not_before: Option<Instant>,
    resting: bool,
    /// Plans that wait are not looked at before.
    no_look_before: Option<Instant>,
    /// How many had come, in all, when somebody was last looked for.
    arrivals: u64,
    /// Somebody is to be looked at anew.
    hurry: bool,
    /// Whether somebody was passed over in this pass.
    left: bool,
}

impl Round {
    /// One that is finished in every pass.
    pub(super) fn untimed() -> Self {
        Self { untimed: true, ..Self::default() }
    }

    /// Somebody is to be looked at anew in the next pass.
    pub(super) fn hurry(&mut self) {
        self.hurry = true;
    }

    /// Whether plans that wait may be compared with others in this pass, in which that took so long up to now: what they ask of the
    /// planner is a decision each, and those that are carried out do not wait for a hundred of them.
    pub(super) fn looks(&self, now: Instant, spent: Duration) -> bool {
        self.untimed || (spent < SLICE && self.no_look_before.is_none_or(|until| now >= until))
    }

    /// Plans were looked at for so long in this pass: for longer than that they are not.
    pub(super) fn looked(&mut self, now: Instant, spent: Duration) {
        let rest = (spent * REST).min(LONGEST_REST);
        if !rest.is_zero() && self.no_look_before.is_none_or(|until| now >= until) {
            self.no_look_before = Some(now + spent + rest);
        }
    }

    /// A pass begins, when so many have come in all. Returns whether there is anything to do in it.
    pub(super) fn begin(&mut self, now: Instant, arrivals: u64) -> bool {
        self.resting = self.not_before.is_some_and(|until| now < until);
        let somebody = std::mem::take(&mut self.hurry) | (std::mem::replace(&mut self.arrivals, arrivals) != arrivals);
        self.left = self.resting;
        !self.resting || somebody
    }

    /// Whether a preemptor is looked at in this pass, which has taken so long.
    pub(super) fn admits(&mut self, preemptor: &Preemptor, new: bool, took: impl Fn() -> Duration) -> bool {
        if self.untimed {
            return true;
        }
        if new {
            // Who is new waits for nobody who was told already, but flights do not wait for a thousand new ones.
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

    /// The pass has seen everybody, and took this long.
    pub(super) fn end(&mut self, now: Instant, took: Duration) {
        self.spent += took;
        if self.untimed || self.resting {
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

    /// When there is to be another pass, because somebody was passed over.
    pub(super) fn again(&self) -> Option<Instant> {
        self.left.then(|| self.not_before.unwrap_or_else(Instant::now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_planner::ObjectKey;
    use std::cell::Cell;

    const MS: Duration = Duration::from_millis(1);

    /// A pass over these, each of which takes so long; `new` ones have not been looked at. Returns who was looked at.
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
    fn a_round_is_cut_into_slices_and_everybody_has_a_turn_before_the_next_one() {
        let (mut round, now) = (Round::default(), Instant::now());
        assert_eq!(pass(&mut round, &["a", "b", "c", "d"], &[], 30 * MS, now), ["a", "b"]);
        assert!(round.again().is_some(), "at once");
        assert_eq!(pass(&mut round, &["a", "b", "c", "d", "e"], &["e"], 20 * MS, now), ["c", "d", "e"]);
        assert_eq!(round.again(), None, "everybody was looked at");
    }

    #[test]
    fn after_a_round_it_rests_and_who_is_new_does_not_wait_for_that() {
        let (mut round, now) = (Round::default(), Instant::now());
        assert_eq!(pass(&mut round, &["a", "b"], &[], 10 * MS, now), ["a", "b"]);
        assert_eq!(pass(&mut round, &["a", "b", "n"], &["n"], 10 * MS, now + 58 * MS), ["n"]);
        assert_eq!(pass(&mut round, &["a", "b", "n"], &[], 10 * MS, now + 59 * MS), Vec::<String>::new());
        assert_eq!(round.again(), Some(now + 60 * MS));
        assert_eq!(pass(&mut round, &["a", "b", "n"], &[], 10 * MS, now + 60 * MS), ["a", "b", "n"]);
    }

    #[test]
    fn many_new_ones_are_looked_at_in_more_than_one_pass() {
        let (mut round, now) = (Round::default(), Instant::now());
        let all = ["a", "b", "c", "d", "e", "f", "g", "h"];
        assert_eq!(pass(&mut round, &all, &all, 100 * MS, now), ["a", "b", "c", "d", "e"]);
        assert!(round.again().is_some(), "at once");
        assert_eq!(pass(&mut round, &all, &["f", "g", "h"], 100 * MS, now), ["a", "f", "g", "h"]);
    }

    #[test]
    fn who_is_to_be_looked_at_anew_does_not_wait_either() {
        let (mut round, now) = (Round::default(), Instant::now());
        assert_eq!(pass(&mut round, &["a"], &[], 10 * MS, now), ["a"]);
        assert!(!round.begin(now + 20 * MS, round.arrivals));
        round.hurry();
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
            round.looks(now, Duration::ZERO) && !round.looks(now, 50 * MS),
            "the others have a turn after the rest"
        );
        round.looked(now, 60 * MS);
        assert!(!round.looks(now + 179 * MS, Duration::ZERO) && round.looks(now + 180 * MS, Duration::ZERO));
        round.looked(now + MS, MS);
        assert!(round.looks(now + 180 * MS, Duration::ZERO), "what was no look makes the rest no longer");
        assert!(Round::untimed().looks(now, 60 * MS), "untimed there is no rest");
    }

    #[test]
    fn untimed_everybody_is_looked_at_in_every_pass() {
        let (mut round, now) = (Round::untimed(), Instant::now());
        for _ in 0..2 {
            assert_eq!(pass(&mut round, &["a", "b", "c"], &[], 40 * MS, now), ["a", "b", "c"]);
        }
    }
}

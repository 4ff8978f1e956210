//! Gathering: numbers that change many times in a moment are written once, when they rest.
//!
//! A group of eight that fills changes its counts with every pod that is created, bound and started. What only counts
//! waits until nothing changed for a while, so that it is written once and right; what goes on changing is written now
//! and then, so that nobody looks at old numbers for long.

use std::time::{Duration, Instant};

/// How long nothing changes before it is written.
const REST: Duration = Duration::from_secs(1);
/// The longest time for which something new is not written.
const LONGEST: Duration = Duration::from_secs(5);

/// What waits to be written. Time is given from outside.
#[derive(Clone, Debug)]
pub struct Gathering<T> {
    wanted: T,
    /// When it first differed from what is written.
    since: Instant,
    /// When it last changed.
    changed: Instant,
}

impl<T: PartialEq> Gathering<T> {
    /// Begins with the first change.
    pub fn new(wanted: T, now: Instant) -> Self {
        Self { wanted, since: now, changed: now }
    }

    /// Notes what is wanted by now.
    pub fn note(&mut self, wanted: T, now: Instant) {
        if self.wanted != wanted {
            (self.wanted, self.changed) = (wanted, now);
        }
    }

    /// When it is to be written, if nothing changes any more.
    pub fn due(&self) -> Instant {
        (self.changed + REST).min(self.since + LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_when_nothing_changed_for_a_second() {
        let start = Instant::now();
        let mut gathering = Gathering::new(1, start);
        assert_eq!(gathering.due(), start + REST);
        gathering.note(2, start + REST / 2);
        assert_eq!(gathering.due(), start + REST / 2 + REST);
        gathering.note(2, start + REST);
        assert_eq!(gathering.due(), start + REST / 2 + REST, "the same is no change");
    }

    #[test]
    fn what_never_rests_is_written_all_the_same() {
        let start = Instant::now();
        let mut gathering = Gathering::new(0, start);
        for tenth in 1..100 {
            gathering.note(tenth, start + Duration::from_millis(100) * tenth);
        }
        assert_eq!(gathering.due(), start + LONGEST);
    }
}

//! Debouncing: numbers that change often within seconds are written once, when they have stopped changing.
//!
//! The counts of a gang of eight change with every pod that is created, bound and started. If a status differs from what is written in
//! counts only, it is written when nothing changed for a while, and after some time also if it keeps changing.

use std::time::{Duration, Instant};

/// How long nothing must change before it is written.
const REST: Duration = Duration::from_secs(1);
/// The longest time until a change is written.
const LONGEST: Duration = Duration::from_secs(5);

/// A value that is to be written later.
#[derive(Clone, Debug)]
pub struct Debounced<T> {
    wanted: T,
    /// When it first differed from what is written.
    since: Instant,
    /// When it last changed.
    changed: Instant,
}

impl<T: PartialEq> Debounced<T> {
    /// Creates the state for `wanted`, a value that first differed at `now` from what is written.
    pub fn new(wanted: T, now: Instant) -> Self {
        Self { wanted, since: now, changed: now }
    }

    /// Records the value that should be written now. If it differs from the last one, it is written later.
    pub fn note(&mut self, wanted: T, now: Instant) {
        if self.wanted != wanted {
            (self.wanted, self.changed) = (wanted, now);
        }
    }

    /// Returns when the value must be written, if it does not change before: a second after its last change, but no later than five seconds
    /// after the first.
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
        let mut debounced = Debounced::new(1, start);
        assert_eq!(debounced.due(), start + REST);
        debounced.note(2, start + REST / 2);
        assert_eq!(debounced.due(), start + REST / 2 + REST);
        debounced.note(2, start + REST);
        assert_eq!(debounced.due(), start + REST / 2 + REST, "the same is no change");
    }

    #[test]
    fn constant_changes_are_written_nevertheless() {
        let start = Instant::now();
        let mut debounced = Debounced::new(0, start);
        for tenth in 1..100 {
            debounced.note(tenth, start + Duration::from_millis(100) * tenth);
        }
        assert_eq!(debounced.due(), start + LONGEST);
    }
}

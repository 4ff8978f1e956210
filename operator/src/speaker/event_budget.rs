//! The limit on queued events, which any tenant can cause by the thousand, so that they do not delay calls that others wait for.

use std::time::{Duration, Instant};

/// The time between two events in the long run.
const EACH: Duration = Duration::from_millis(200);
/// The number of events that may be published at once after a pause.
const BURST: u32 = 20;

/// The limit on queued events: at most 20 at once, and five per second in the long run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventBudget {
    /// When the events that were published are within the limit again.
    paid: Option<Instant>,
}

impl EventBudget {
    /// Returns true if the limit permits one more event at `now`.
    pub(super) fn allows_event(self, now: Instant) -> bool {
        self.paid.is_none_or(|paid| paid.saturating_duration_since(now) <= EACH * (BURST - 1))
    }

    /// Records that an event is published at `now`, which delays the next ones.
    pub(super) fn note_event(&mut self, now: Instant) {
        self.paid = Some(self.paid.map_or(now, |paid| paid.max(now)) + EACH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_events_are_permitted_at_once_and_then_five_per_second() {
        let (mut budget, start) = (EventBudget::default(), Instant::now());
        let mut count = |seconds: u64| {
            let (now, mut events) = (start + Duration::from_secs(seconds), 0);
            while events < 1000 && budget.allows_event(now) {
                budget.note_event(now);
                events += 1;
            }
            events
        };
        assert_eq!((count(0), count(0), count(1), count(2), count(100)), (20, 0, 5, 5, 20));
    }
}

//! A limit on events that any tenant can cause by the thousand, so that they do not delay calls that others wait for.

use std::time::{Duration, Instant};

/// The time between two events in the long run.
const EACH: Duration = Duration::from_millis(200);
/// The number of events that may be emitted at once after a pause.
pub const BURST: u32 = 20;

/// The limit on one kind of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventBudget {
    /// When the events that were emitted are within the limit again.
    paid: Option<Instant>,
}

impl EventBudget {
    /// Returns true if one more event may be emitted.
    pub fn may(self, now: Instant) -> bool {
        self.paid.is_none_or(|paid| paid.saturating_duration_since(now) <= EACH * (BURST - 1))
    }

    /// Notes that an event was emitted.
    pub fn pay(&mut self, now: Instant) {
        self.paid = Some(self.paid.map_or(now, |paid| paid.max(now)) + EACH);
    }
}

//! A few events in a second: what any tenant can cause by the thousand must not stand before what others wait for.

use std::time::{Duration, Instant};

/// So much time each event takes of the budget.
const EACH: Duration = Duration::from_millis(200);
/// So many events may come at once after a silence.
pub const BURST: u32 = 20;

/// The budget of one kind of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trickle {
    /// When the events that were emitted are paid for.
    paid: Option<Instant>,
}

impl Trickle {
    /// Whether the budget has room for one more event.
    pub fn may(self, now: Instant) -> bool {
        self.paid.is_none_or(|paid| paid.saturating_duration_since(now) <= EACH * (BURST - 1))
    }

    /// Notes that one was emitted.
    pub fn pay(&mut self, now: Instant) {
        self.paid = Some(self.paid.map_or(now, |paid| paid.max(now)) + EACH);
    }
}

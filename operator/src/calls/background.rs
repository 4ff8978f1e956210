//! Limits API calls on which no decision depends (events, finalizers, statuses of victim PodGroups): they are delayed
//! while calls on which a decision depends are being made. There are most of them exactly when evictions and ungating
//! have to be fast.

use super::lane::{CallPermit, Lane};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Maximum number of background calls in flight.
const CALLS: usize = 2;
/// A background call starts only when no call on which a decision depends was started for this long.
const QUIET: Duration = Duration::from_millis(500);
/// Longest delay of a background call. It starts after this time even if other calls were started meanwhile.
const PATIENCE: Duration = Duration::from_secs(3);

/// Delays background calls in favour of other calls. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Background {
    calls: Lane,
    /// When the last call on which a decision depends was started.
    busy: Arc<Mutex<Option<Instant>>>,
}

impl Background {
    /// Creates the limit for background calls: [`CALLS`] of them at a time. None is in flight.
    pub(super) fn new() -> Self {
        Self { calls: Lane::new(CALLS), busy: Arc::default() }
    }

    /// Returns a second limit, for calls that write events. It is delayed by the same foreground calls, but has its own number of calls in
    /// flight: a tenant can cause many events, and they must not delay the other background calls.
    pub(super) fn events(&self) -> Self {
        Self { calls: Lane::new(CALLS), busy: Arc::clone(&self.busy) }
    }

    /// Records that a foreground call, on which a decision depends, is started now. It delays background calls.
    pub(super) async fn note_foreground_call(&self) {
        *self.busy.lock().await = Some(Instant::now());
    }

    /// Waits until a background call of this priority that was requested at `asked` may start. The call counts as in flight until the
    /// returned permit is dropped.
    pub(super) async fn turn(&self, priority: i32, asked: Instant) -> CallPermit {
        let turn = self.calls.take(priority).await;
        loop {
            let start = background_start(asked, *self.busy.lock().await);
            if start <= Instant::now() {
                return turn;
            }
            tokio::time::sleep_until(start).await;
        }
    }
}

/// Returns when a background call that was requested at `asked` may start, if the last foreground call was started at `busy` (`None`: there
/// was none).
fn background_start(asked: Instant, busy: Option<Instant>) -> Instant {
    busy.map_or(asked, |busy| (busy + QUIET).min(asked + PATIENCE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_background_call_waits_for_the_others_for_a_limited_time() {
        let asked = Instant::now();
        assert_eq!(background_start(asked, None), asked, "no foreground call was started");
        let later = asked + Duration::from_millis(200);
        assert_eq!(background_start(asked, Some(later)), later + QUIET);
        let much_later = asked + Duration::from_secs(60);
        assert_eq!(background_start(asked, Some(much_later)), asked + PATIENCE);
    }
}

//! Calls that nobody waits for (events, finalizers, statuses of groups that give way) stand back behind those for which
//! a decision waits. They are many just when evictions and releases should go through.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// How many are made at the same time.
const CALLS: usize = 2;
/// They wait until no other call was started for so long ...
const QUIET: Duration = Duration::from_millis(500);
/// ... but no longer than this.
const PATIENCE: Duration = Duration::from_secs(3);

/// Keeps background calls back. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Background {
    calls: Arc<Semaphore>,
    /// When the last call was started for which a decision waits.
    busy: Arc<Mutex<Option<Instant>>>,
}

impl Background {
    pub(super) fn new() -> Self {
        Self { calls: Arc::new(Semaphore::new(CALLS)), busy: Arc::default() }
    }

    /// For events, which many can cause: they stand back behind the same calls, and not in one line with the others.
    pub(super) fn events(&self) -> Self {
        Self { calls: Arc::new(Semaphore::new(CALLS)), busy: Arc::clone(&self.busy) }
    }

    /// Notes that a call is started for which a decision waits.
    pub(super) async fn stand_back(&self) {
        *self.busy.lock().await = Some(Instant::now());
    }

    /// Waits for the turn of a background call that was asked for at `asked`; it ends with the value returned.
    pub(super) async fn turn(&self, asked: Instant) -> Option<SemaphorePermit<'_>> {
        let permit = self.calls.acquire().await.ok();
        loop {
            let turn = turn_at(asked, *self.busy.lock().await);
            if turn <= Instant::now() {
                return permit;
            }
            tokio::time::sleep_until(turn).await;
        }
    }
}

/// When a background call may start that was asked for at `asked`, if the last other call was started at `busy`.
fn turn_at(asked: Instant, busy: Option<Instant>) -> Instant {
    busy.map_or(asked, |busy| (busy + QUIET).min(asked + PATIENCE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_background_call_waits_until_the_others_are_through_but_not_for_ever() {
        let asked = Instant::now();
        assert_eq!(turn_at(asked, None), asked, "nobody else calls");
        let later = asked + Duration::from_millis(200);
        assert_eq!(turn_at(asked, Some(later)), later + QUIET);
        let much_later = asked + Duration::from_secs(60);
        assert_eq!(turn_at(asked, Some(much_later)), asked + PATIENCE);
    }
}

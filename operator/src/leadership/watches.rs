//! Whether the watches are working: no decisions are made from a model that does not receive changes (design, section
//! 5).
//!
//! A failed watch is restarted every [`AGAIN`]. It counts as working when it delivers something, or when it has not
//! failed for [`QUIET`], in which it was restarted at least once, because a watch without changes delivers nothing. A
//! watch that lists its kind counts as working when the list is complete, because missed changes are unknown until
//! then. A watch that is broken for longer than [`TRUSTED`] has to list its kind again.

use giveway_serving::patience;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Delay after a failure before a watch is restarted.
pub(crate) const AGAIN: Duration = Duration::from_secs(2);
/// How long a watch must not have failed to count as working: longer than it takes to restart it and to [time
/// out](patience::WATCH).
const QUIET: Duration = Duration::from_secs(8);
const _: () = assert!(AGAIN.as_secs() + patience::WATCH.as_secs() < QUIET.as_secs());
/// How long a watch may be broken while decisions are still made.
pub(crate) const TRUSTED: Duration = Duration::from_secs(10);

/// The first and the last failure of a watch since it last worked.
#[derive(Clone, Copy, Debug)]
struct FailureTimes {
    since: Instant,
    last: Instant,
    /// True if it is listing its kind.
    lists: bool,
}

/// The watches that have failed, by kind. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Watches(Arc<Mutex<BTreeMap<Cow<'static, str>, FailureTimes>>>);

/// Returns true if a watch with these failures does not work at `now`: it is listing its kind, or its last failure was less than [`QUIET`]
/// ago.
fn fails(trouble: &FailureTimes, now: Instant) -> bool {
    trouble.lists || now.duration_since(trouble.last) < QUIET
}

/// Returns true if a watch with these failures has not worked for at least [`TRUSTED`], so that nothing is decided.
fn is_broken(trouble: &FailureTimes, now: Instant) -> bool {
    fails(trouble, now) && now.duration_since(trouble.since) >= TRUSTED
}

impl Watches {
    /// Locks the failures; a panic in another thread while it was locked is ignored.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Cow<'static, str>, FailureTimes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the watch of a kind failed at `now`.
    pub fn failed(&self, kind: Cow<'static, str>, now: Instant) {
        self.note_failure(kind, false, now);
    }

    /// Records that the watch of a kind has started a list. Until [`Self::delivered`] is called, when the list is complete, the watch
    /// counts as failing.
    pub fn list_started(&self, kind: Cow<'static, str>, now: Instant) {
        self.note_failure(kind, true, now);
    }

    /// Records that the watch of a kind failed; if `lists` is true, that it has started a list.
    fn note_failure(&self, kind: Cow<'static, str>, lists: bool, now: Instant) {
        let mut troubles = self.lock();
        let trouble = troubles.entry(kind).or_insert(FailureTimes { since: now, last: now, lists });
        if !fails(trouble, now) {
            trouble.since = now;
        }
        (trouble.last, trouble.lists) = (now, lists);
    }

    /// Records that the watch of a kind works again: it delivered an event, or a complete list.
    pub fn delivered(&self, kind: &str) {
        let mut troubles = self.lock();
        if !troubles.is_empty() {
            troubles.remove(kind);
        }
    }

    /// Returns true if the watch of this kind has not worked for so long that nothing is decided.
    pub(crate) fn is_broken(&self, kind: &str, now: Instant) -> bool {
        self.lock().get(kind).is_some_and(|trouble| is_broken(trouble, now))
    }

    /// Returns a clause about the watch that has been failing longest, if that is so long that nothing is decided; `None` otherwise.
    pub fn broken(&self, now: Instant) -> Option<String> {
        let troubles = self.lock();
        let (kind, trouble) =
            troubles.iter().filter(|(_, trouble)| is_broken(trouble, now)).min_by_key(|(_, t)| t.since)?;
        let seconds = now.duration_since(trouble.since).as_secs();
        Some(format!("the watch of kind {kind} has been broken for {seconds} s"))
    }

    /// Returns for how long each watch that does not work now has been failing, by kind.
    pub fn failing(&self, now: Instant) -> BTreeMap<Cow<'static, str>, Duration> {
        let time = |trouble: &FailureTimes| now.duration_since(trouble.since);
        self.lock().iter().filter(|(_, t)| fails(t, now)).map(|(kind, t)| (kind.clone(), time(t))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_watch_that_keeps_failing_for_ten_seconds_is_broken_until_it_delivers_something() {
        let (watches, start) = (Watches::default(), Instant::now());
        for second in [0, 2, 4, 6, 8] {
            watches.failed("Pod".into(), after(start, second));
            assert_eq!(watches.broken(after(start, second)), None);
        }
        watches.failed("Pod".into(), after(start, 10));
        let broken = watches.broken(after(start, 11));
        assert_eq!(broken.as_deref(), Some("the watch of kind Pod has been broken for 11 s"));
        watches.delivered("Node");
        assert!(watches.broken(after(start, 11)).is_some(), "another one");
        assert_eq!(watches.failing(after(start, 11)), [("Pod".into(), Duration::from_secs(11))].into());
        assert!(watches.failing(after(start, 18)).is_empty(), "it does not fail any more");
        watches.delivered("Pod");
        assert_eq!(watches.broken(after(start, 11)), None);
    }

    #[test]
    fn a_watch_is_broken_while_its_list_makes_no_progress_until_it_is_complete() {
        let (watches, start) = (Watches::default(), Instant::now());
        watches.failed("PodGroup".into(), start);
        watches.list_started("PodGroup".into(), after(start, 2));
        assert_eq!(watches.broken(after(start, 9)), None);
        let broken = watches.broken(after(start, 60));
        assert_eq!(broken.as_deref(), Some("the watch of kind PodGroup has been broken for 60 s"));
        watches.delivered("PodGroup");
        assert_eq!(watches.broken(after(start, 60)), None);
    }

    #[test]
    fn a_watch_that_fails_sometimes_or_has_no_events_is_working() {
        let (watches, start) = (Watches::default(), Instant::now());
        for second in (0..60).step_by(9) {
            watches.failed("StorageClass".into(), after(start, second));
            assert_eq!(watches.broken(after(start, second)), None);
        }
        for second in (100..120).step_by(2) {
            watches.failed("StorageClass".into(), after(start, second));
        }
        assert!(watches.broken(after(start, 120)).is_some());
        assert_eq!(watches.broken(after(start, 127)), None, "it was started again and did not fail");
    }
}

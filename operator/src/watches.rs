//! Whether the watches can be trusted: a model that does not hear of changes any more must not decide (design, section 5).
//!
//! A watch that fails is begun anew every [`AGAIN`]. It is whole again when it tells something, or has not failed for
//! [`QUIET`], in which it was begun at least once: a watch that has nothing to tell says nothing. One that lists anew is whole
//! when the list is: until then nobody knows what was missed. One that is broken for longer than [`TRUSTED`] has to list anew.

use giveway_serving::patience;
use kube::runtime::utils::Backoff;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long after a failure a watch is begun anew.
pub(crate) const AGAIN: Duration = Duration::from_secs(2);
/// How long a watch must not have failed to be whole: longer than it takes to begin it anew and to [give that
/// up](patience::WATCH).
const QUIET: Duration = Duration::from_secs(8);
const _: () = assert!(AGAIN.as_secs() + patience::WATCH.as_secs() < QUIET.as_secs());
/// How long a watch may be broken and the model is trusted.
pub(crate) const TRUSTED: Duration = Duration::from_secs(10);

/// When a watch failed first, and last, since it was whole.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    since: Instant,
    last: Instant,
    /// Whether it lists its kind anew.
    lists: bool,
}

/// The watches that failed, by kind. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Watches(Arc<Mutex<BTreeMap<Cow<'static, str>, Trouble>>>);

/// Whether a watch that had this trouble goes on failing.
fn fails(trouble: &Trouble, now: Instant) -> bool {
    trouble.lists || now.duration_since(trouble.last) < QUIET
}

/// Whether it does for longer than the model can be trusted.
fn is_broken(trouble: &Trouble, now: Instant) -> bool {
    fails(trouble, now) && now.duration_since(trouble.since) >= TRUSTED
}

impl Watches {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Cow<'static, str>, Trouble>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the watch of a kind failed.
    pub fn failed(&self, kind: Cow<'static, str>, now: Instant) {
        self.trouble(kind, false, now);
    }

    /// Notes that the watch of a kind has begun a list. It [tells](Self::told) something when that is complete.
    pub fn lists(&self, kind: Cow<'static, str>, now: Instant) {
        self.trouble(kind, true, now);
    }

    fn trouble(&self, kind: Cow<'static, str>, lists: bool, now: Instant) {
        let mut troubles = self.lock();
        let trouble = troubles.entry(kind).or_insert(Trouble { since: now, last: now, lists });
        if !fails(trouble, now) {
            trouble.since = now;
        }
        (trouble.last, trouble.lists) = (now, lists);
    }

    /// Notes that the watch of a kind told something.
    pub fn told(&self, kind: &str) {
        let mut troubles = self.lock();
        if !troubles.is_empty() {
            troubles.remove(kind);
        }
    }

    /// Whether the watch of this kind is broken for longer than the model can be trusted.
    pub(crate) fn is_broken(&self, kind: &str, now: Instant) -> bool {
        self.lock().get(kind).is_some_and(|trouble| is_broken(trouble, now))
    }

    /// The watch that is broken for longer than the model can be trusted, if there is one, as a sentence.
    pub fn broken(&self, now: Instant) -> Option<String> {
        let troubles = self.lock();
        let (kind, trouble) =
            troubles.iter().filter(|(_, trouble)| is_broken(trouble, now)).min_by_key(|(_, t)| t.since)?;
        let seconds = now.duration_since(trouble.since).as_secs();
        Some(format!("the watch of kind {kind} has been broken for {seconds} s"))
    }

    /// For how long each watch has been failing that did; nothing where it is whole again.
    pub fn failing(&self, now: Instant) -> BTreeMap<Cow<'static, str>, Duration> {
        let time = |trouble: &Trouble| now.duration_since(trouble.since);
        self.lock().iter().filter(|(_, t)| fails(t, now)).map(|(kind, t)| (kind.clone(), time(t))).collect()
    }
}

/// The time between two attempts of a watch: the same every time.
#[derive(Debug)]
pub struct EverySoOften;

impl Iterator for EverySoOften {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(AGAIN)
    }
}

impl Backoff for EverySoOften {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_watch_that_goes_on_failing_for_ten_seconds_is_broken_until_it_tells_something() {
        let (watches, start) = (Watches::default(), Instant::now());
        for second in [0, 2, 4, 6, 8] {
            watches.failed("Pod".into(), after(start, second));
            assert_eq!(watches.broken(after(start, second)), None);
        }
        watches.failed("Pod".into(), after(start, 10));
        let broken = watches.broken(after(start, 11));
        assert_eq!(broken.as_deref(), Some("the watch of kind Pod has been broken for 11 s"));
        watches.told("Node");
        assert!(watches.broken(after(start, 11)).is_some(), "another one");
        assert_eq!(watches.failing(after(start, 11)), [("Pod".into(), Duration::from_secs(11))].into());
        assert!(watches.failing(after(start, 18)).is_empty(), "it does not fail any more");
        watches.told("Pod");
        assert_eq!(watches.broken(after(start, 11)), None);
    }

    #[test]
    fn a_watch_whose_list_stands_still_is_broken_until_the_list_is_complete() {
        let (watches, start) = (Watches::default(), Instant::now());
        watches.failed("PodGroup".into(), start);
        watches.lists("PodGroup".into(), after(start, 2));
        assert_eq!(watches.broken(after(start, 9)), None);
        let broken = watches.broken(after(start, 60));
        assert_eq!(broken.as_deref(), Some("the watch of kind PodGroup has been broken for 60 s"));
        watches.told("PodGroup");
        assert_eq!(watches.broken(after(start, 60)), None);
    }

    #[test]
    fn a_watch_that_fails_now_and_then_or_has_nothing_to_tell_is_whole() {
        let (watches, start) = (Watches::default(), Instant::now());
        for second in (0..60).step_by(9) {
            watches.failed("StorageClass".into(), after(start, second));
            assert_eq!(watches.broken(after(start, second)), None);
        }
        for second in (100..120).step_by(2) {
            watches.failed("StorageClass".into(), after(start, second));
        }
        assert!(watches.broken(after(start, 120)).is_some());
        assert_eq!(watches.broken(after(start, 127)), None, "it was begun anew and did not fail");
    }
}

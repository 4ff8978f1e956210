//! One API call that a flight needs: whether it was made, how it ended, and when it may be made again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long the watch may lag behind an acknowledged call before the call is made again.
const SETTLE: Duration = Duration::from_secs(2);
/// How long after its failure a call is remembered that nobody makes again: several times as long as the longest wait for that.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Calls for one pod that may fail before the plan is given up.
const MAX_TRIES: u32 = 6;
/// As which try a call counts at the most that was not answered: it is made again after 0.8 s.
const UNANSWERED_TRIES: u32 = 3;

/// How often the wait after a failure is doubled, from 0.1 s.
const MOST_DOUBLED: u32 = 6;
/// The same for calls that anybody can make fail. The wait must be shorter than [`FORGOTTEN`].
const MOST_DOUBLED_IN_PATIENCE: u32 = 9;

fn is_due(failed: Instant, tries: u32, most_doubled: u32, now: Instant) -> bool {
    now.duration_since(failed) >= Duration::from_millis(100 << tries.min(most_doubled))
}

/// One API call that a flight needs for one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Call {
    /// Not made yet.
    #[default]
    Idle,
    /// Made, no answer yet; so many failed before it.
    Pending(u32),
    /// Acknowledged at this time.
    Done(Instant),
    /// Failed so many times, last at this time.
    Failed(Instant, u32),
}

impl Call {
    /// Whether the call may be made (again) now, given that the model does not show its effect.
    pub fn due(self, now: Instant) -> bool {
        match self {
            Self::Idle => true,
            Self::Pending(_) => false,
            Self::Done(at) => now.duration_since(at) >= SETTLE,
            Self::Failed(at, tries) => is_due(at, tries, MOST_DOUBLED, now),
        }
    }

    /// The same where others would be held up by calls that fail again and again: up to 51 s after the last one.
    fn due_in_patience(self, now: Instant) -> bool {
        match self {
            Self::Failed(at, tries) => is_due(at, tries, MOST_DOUBLED_IN_PATIENCE, now),
            _ => self.due(now),
        }
    }

    /// Whether nothing depends on this call any more: it is over, and the watch has had time to show it, or it failed and nobody has
    /// wanted to make it again.
    pub fn is_over(self, now: Instant) -> bool {
        match self {
            Self::Pending(_) | Self::Idle => false,
            Self::Done(_) => self.due(now),
            Self::Failed(at, _) => now.duration_since(at) >= FORGOTTEN,
        }
    }

    /// Notes that the call is made.
    pub fn start(&mut self) {
        *self = Self::Pending(self.tries());
    }

    /// Notes the answer.
    pub fn answered(&mut self, ok: bool, now: Instant) {
        *self = if ok { Self::Done(now) } else { Self::Failed(now, self.tries() + 1) };
    }

    /// Notes that no answer came, because the API server cannot be reached or is overloaded: it is tried again for as long as this
    /// process leads, and is no reason to give a plan up.
    pub fn unanswered(&mut self, now: Instant) {
        *self = Self::Failed(now, (self.tries() + 1).min(UNANSWERED_TRIES));
    }

    /// Notes that it was taken back before it was made. What became of an earlier one that failed is as unknown as before.
    pub fn withdrawn(&mut self, now: Instant) {
        *self = match self.tries() {
            0 => Self::Idle,
            tries => Self::Failed(now, tries),
        };
    }

    /// Whether an answer is awaited.
    pub fn pending(self) -> bool {
        matches!(self, Self::Pending(_))
    }

    /// Failures in a row.
    pub fn tries(self) -> u32 {
        match self {
            Self::Pending(tries) | Self::Failed(_, tries) => tries,
            Self::Idle | Self::Done(_) => 0,
        }
    }

    /// Whether it failed so often that there is no prospect.
    pub fn exhausted(self) -> bool {
        self.tries() >= MAX_TRIES
    }
}

/// Calls under way, by what they write: none is made twice at once, and one that failed is made again after a while.
#[derive(Debug, Default)]
pub struct Calls(BTreeMap<String, Call>);

impl Calls {
    /// Whether a call is to be made now; then it counts as made.
    pub fn start(&mut self, what: String, now: Instant) -> bool {
        self.start_if(what, |call| call.due(now))
    }

    fn start_if(&mut self, what: String, is_due: impl Fn(Call) -> bool) -> bool {
        let call = self.0.entry(what).or_default();
        let due = is_due(*call);
        if due {
            call.start();
        }
        due
    }

    /// The same of a call that anybody can make fail, for each of the thousands of objects that he may have.
    pub fn start_in_patience(&mut self, what: String, now: Instant) -> bool {
        self.start_if(what, |call| call.due_in_patience(now))
    }

    /// The same of a call whose answer is not reported: the watch shows its effect, or it is made again.
    pub fn start_unheard(&mut self, what: String, now: Instant) -> bool {
        let due = self.0.get(&what).is_none_or(|call| call.due(now));
        if due {
            self.made(what, now);
        }
        due
    }

    /// Notes that somebody else makes a call.
    pub fn made(&mut self, what: String, now: Instant) {
        self.0.insert(what, Call::Done(now));
    }

    /// Notes the answer to a call. Returns whether it is one of these.
    pub fn answered(&mut self, what: &str, ok: bool, now: Instant) -> bool {
        let call = self.0.get_mut(what);
        let known = call.is_some();
        if let Some(call) = call {
            call.answered(ok, now);
        }
        known
    }

    /// Forgets calls that are over, also those for objects that are gone.
    pub fn forget(&mut self, now: Instant) {
        self.0.retain(|_, call| !call.is_over(now));
    }

    /// How many are remembered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

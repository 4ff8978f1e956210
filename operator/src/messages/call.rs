//! The state of one API call that a plan needs: whether it was made, how it ended, and when it may be made again.

use crate::messages::call_key::CallKey;
use crate::messages::command::{Command, EvictOutcome};
use crate::messages::report::CallError;
use giveway_planner::model::ObjectKey;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long the watch may lag behind a successful call before the call is made again.
const SETTLE: Duration = Duration::from_secs(2);
/// Time within which the watch should show an accepted eviction. After it, a pod that is not terminating is treated like any other pod.
pub const UNSEEN: Duration = Duration::from_secs(60);
/// How long after its failure a call is remembered that is not retried. It is longer than the longest retry delay.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Number of failed calls for one pod after which the plan fails.
const MAX_TRIES: u32 = 6;
/// Highest number of tries that is counted for calls without a response, so that they are retried after at most 0.8 s.
const UNANSWERED_TRIES: u32 = 3;

/// Delay before a retry of an eviction that admission rejected. It doubles with each failed request.
const AFTER_REJECTION: Duration = Duration::from_secs(60);
/// The longest such delay.
const LONGEST_AFTER_REJECTION: Duration = Duration::from_secs(600);

/// How often the retry delay, at first 0.1 s, is doubled at most.
const MOST_DOUBLED: u32 = 6;
/// The same for calls that any tenant can make fail. The resulting delay must be shorter than [`FORGOTTEN`].
const MOST_DOUBLED_LONG: u32 = 9;

/// Returns true if a call may be retried at `now` that failed last at `failed`, `tries` times in a row. The delay is 100 ms, doubled with
/// each failure, at most `most_doubled` times.
fn is_due(failed: Instant, tries: u32, most_doubled: u32, now: Instant) -> bool {
    now.duration_since(failed) >= Duration::from_millis(100 << tries.min(most_doubled))
}

/// The state of one API call that a plan needs for one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Call {
    /// Not made yet.
    #[default]
    Idle,
    /// The call was made and has no response yet. With the number of failures before it.
    Pending(u32),
    /// The call succeeded at this time.
    Done(Instant),
    /// The call failed: when it failed last, and how often in a row.
    Failed(Instant, u32),
}

impl Call {
    /// Returns true if the call may be made or repeated now, provided that the model does not show its effect.
    pub fn due(self, now: Instant) -> bool {
        match self {
            Self::Idle => true,
            Self::Pending(_) => false,
            Self::Done(at) => now.duration_since(at) >= SETTLE,
            Self::Failed(at, tries) => is_due(at, tries, MOST_DOUBLED, now),
        }
    }

    /// Like [`Self::due`], but with a longer delay after repeated failures, up to 51 s after the last one: for calls whose retries would
    /// delay other calls.
    fn due_after_long_delay(self, now: Instant) -> bool {
        match self {
            Self::Failed(at, tries) => is_due(at, tries, MOST_DOUBLED_LONG, now),
            _ => self.due(now),
        }
    }

    /// Returns true if the record of the call can be removed at `now`: the call succeeded and the watch has had time to show its effect, or
    /// it failed and has not been retried for a minute.
    pub fn is_expired(self, now: Instant) -> bool {
        match self {
            Self::Pending(_) | Self::Idle => false,
            Self::Done(_) => self.due(now),
            Self::Failed(at, _) => now.duration_since(at) >= FORGOTTEN,
        }
    }

    /// Records that the call has been made and has no response yet.
    pub fn start(&mut self) {
        *self = Self::Pending(self.tries());
    }

    /// Records the response at `now`: `ok` is true if the call succeeded.
    pub fn answered(&mut self, ok: bool, now: Instant) {
        *self = if ok { Self::Done(now) } else { Self::Failed(now, self.tries() + 1) };
    }

    /// Records the outcome of an eviction, or of its dry run, at `now`. One that admission rejected may be repeated after a minute; this
    /// delay doubles with each failure, up to ten minutes.
    pub fn evicted(&mut self, outcome: &EvictOutcome, now: Instant) {
        match outcome {
            EvictOutcome::Rejected(_) => {
                let delay = AFTER_REJECTION * (1 << self.tries().min(4));
                self.answered(false, now + delay.min(LONGEST_AFTER_REJECTION));
            }
            EvictOutcome::Refused(_) | EvictOutcome::Error(_) => self.answered(false, now),
            EvictOutcome::Unanswered(_) => self.unanswered(now),
            EvictOutcome::Withdrawn => self.withdrawn(now),
            EvictOutcome::Allowed | EvictOutcome::Accepted | EvictOutcome::Forced | EvictOutcome::Gone => {
                self.answered(true, now);
            }
        }
    }

    /// Records that no response came, because the API server is unreachable or overloaded. The call is retried as long
    /// as this process is the leader, and the plan does not fail because of it.
    pub fn unanswered(&mut self, now: Instant) {
        *self = Self::Failed(now, (self.tries() + 1).min(UNANSWERED_TRIES));
    }

    /// Records that a call which was started has been dropped before it was sent. Failures before it still count, because their calls may
    /// have taken effect.
    pub fn withdrawn(&mut self, now: Instant) {
        *self = match self.tries() {
            0 => Self::Idle,
            tries => Self::Failed(now, tries),
        };
    }

    /// Returns true if the call was made and has no response yet.
    pub fn pending(self) -> bool {
        matches!(self, Self::Pending(_))
    }

    /// Returns how often in a row the call has failed, also while it is repeated; 0 after a success.
    pub fn tries(self) -> u32 {
        match self {
            Self::Pending(tries) | Self::Failed(_, tries) => tries,
            Self::Idle | Self::Done(_) => 0,
        }
    }

    /// Returns true if the call has failed so often that it is not retried, and its plan fails.
    pub fn exhausted(self) -> bool {
        self.tries() >= MAX_TRIES
    }
}

/// Calls in flight, by what they write: no call is made twice at the same time, and a failed call is retried after a
/// delay.
#[derive(Debug, Default)]
pub struct Calls(BTreeMap<CallKey, Call>);

impl Calls {
    /// Returns the command if its call may be made now: it is not in flight, and its retry delay has passed. Then records it as in flight.
    /// A command without a [key](Command::key) is always returned.
    pub fn start(&mut self, command: Command, now: Instant) -> Option<Command> {
        let Some(key) = command.key() else { return Some(command) };
        self.start_if(key, |call| call.due(now)).then_some(command)
    }

    /// Like [`Self::start`], with a longer retry delay: for calls that a tenant can make fail for each of thousands of objects. `make`
    /// returns the command with this key; it is called only if the call may be made.
    pub fn start_with_long_delay(
        &mut self,
        key: CallKey,
        now: Instant,
        make: impl FnOnce() -> Command,
    ) -> Option<Command> {
        self.start_if(key.clone(), |call| call.due_after_long_delay(now)).then(|| {
            let command = make();
            debug_assert_eq!(command.key(), Some(key), "the answer is recorded under the command's own key");
            command
        })
    }

    /// Records the call with this key as in flight if `is_due` returns true for its state. Returns true if it did.
    fn start_if(&mut self, key: CallKey, is_due: impl Fn(Call) -> bool) -> bool {
        let call = self.0.entry(key).or_default();
        let due = is_due(*call);
        if due {
            call.start();
        }
        due
    }

    /// Like [`Self::start`], for a call whose result is not reported here: the command is returned again every few seconds, as long as it
    /// is passed, because the watch does not show its effect. `None` also for a command without a key.
    pub fn start_unreported(&mut self, command: Command, now: Instant) -> Option<Command> {
        let key = command.key()?;
        let due = self.0.get(&key).is_none_or(|call| call.due(now));
        due.then(|| {
            self.made(key, now);
            command
        })
    }

    /// Records the call with this key as successful at `now`, because another part of the operator has made it.
    pub fn made(&mut self, key: CallKey, now: Instant) {
        self.0.insert(key, Call::Done(now));
    }

    /// Records the result of the call with this key at `now`: `ok` is true if it succeeded. Returns true if it was started here; otherwise
    /// nothing is recorded.
    pub fn answered(&mut self, key: &CallKey, ok: bool, now: Instant) -> bool {
        let call = self.0.get_mut(key);
        let known = call.is_some();
        if let Some(call) = call {
            call.answered(ok, now);
        }
        known
    }

    /// Records the result of the call with this key. If it was the creation of a PodGroup, started here, and it failed, returns the name of
    /// the PodGroup and the API server's reason; otherwise `None`.
    pub fn rejected_group<'c>(
        &mut self,
        key: &'c CallKey,
        result: &'c Result<(), CallError>,
        now: Instant,
    ) -> Option<(&'c ObjectKey, &'c str)> {
        match (self.answered(key, result.is_ok(), now), key, result) {
            (true, CallKey::CreateGroup(group), Err(CallError::Failed(why) | CallError::Rejected(why))) => {
                Some((group, why))
            }
            _ => None,
        }
    }

    /// Returns true if the call with this key is in flight, or was answered so recently that its record has not expired.
    pub fn holds(&self, key: &CallKey) -> bool {
        self.0.contains_key(key)
    }

    /// Returns the number of calls that were started and have no response.
    pub fn in_flight(&self) -> usize {
        self.0.values().filter(|call| call.pending()).count()
    }

    /// Removes the [expired](Call::is_expired) records of calls, also of those for deleted objects.
    pub fn forget(&mut self, now: Instant) {
        self.0.retain(|_, call| !call.is_expired(now));
    }

    /// Returns the number of recorded calls.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_eviction_is_due_after_a_minute_doubling_to_ten_and_any_other_failed_one_within_seconds() {
        let (mut call, mut now) = (Call::Idle, Instant::now());
        let mut delays = Vec::new();
        for _ in 0..6 {
            call.start();
            call.evicted(&EvictOutcome::Rejected("denied".to_owned()), now);
            let waits = |seconds: &u64| !call.due(now + Duration::from_secs(*seconds));
            let seconds = (0..=3_600).take_while(waits).count();
            // The delay of any failed call is added.
            delays.push(seconds / 60);
            now += Duration::from_secs(u64::try_from(seconds).unwrap());
        }
        assert_eq!(delays, [1, 2, 4, 8, 10, 10]);
        for outcome in [EvictOutcome::Refused(String::new()), EvictOutcome::Error(String::new())] {
            let mut call = Call::Idle;
            call.evicted(&outcome, now);
            assert!(!call.due(now) && call.due(now + Duration::from_secs(1)), "{outcome:?}");
        }
    }
}

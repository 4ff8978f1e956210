//! Delayed rejections.
//!
//! A scheduler that is rejected at once retries at once, fifty times a second, which slows down all its other work;
//! waiting for a response costs it nothing. Rejected pods of high priority are also first in its queue at each retry,
//! so many of them would starve the others. Therefore responses are sent one by one, [`SPACING`] apart, unless that
//! delays one beyond the longest delay. The number of delayed responses is bounded, and victims of one namespace get at
//! most half of it, so that requests about one namespace leave slots for the others; requests above a bound are
//! answered at once. Every response is sent before the deadline of its request, and on shutdown all delayed responses
//! are sent.

use crate::deadline::Deadline;
use crate::metrics::GuardMetrics;
use giveway_admission::rules::guard::decide::PossiblePreemptors;
use giveway_serving::shares::{Share, Shares};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Interval between two responses while many are delayed.
pub const SPACING: Duration = Duration::from_millis(250);

/// Delays rejections, up to a bounded number at a time.
#[derive(Debug)]
pub struct RejectionDelays {
    /// Shares by namespace of the victim, not by victim: kube-scheduler 1.33 and 1.34 retry the same victim before they
    /// get the response, and a second request about one victim would be answered at once.
    shares: Shares,
    time: Duration,
    longest: Duration,
    turns: Arc<Mutex<ResponseTimes>>,
    end: CancellationToken,
    metrics: GuardMetrics,
}

/// When responses are sent.
#[derive(Debug)]
struct ResponseTimes {
    /// The earliest time of the next response.
    next: Instant,
    /// The times of the pending responses, by scheduler, ascending.
    of: BTreeMap<Option<String>, Vec<Instant>>,
}

impl RejectionDelays {
    /// Creates the delays of rejections. At most `most` rejections are delayed at the same time: each for `time`, or up to
    /// `longest` when there are many. When `end` is cancelled, all are sent at once.
    pub fn new(time: Duration, longest: Duration, most: usize, end: CancellationToken, metrics: GuardMetrics) -> Self {
        let turns = Arc::new(Mutex::new(ResponseTimes { next: Instant::now(), of: BTreeMap::new() }));
        Self { shares: Shares::new(most), time, longest: longest.max(time), turns, end, metrics }
    }

    /// Starts to delay a rejection about a victim in this namespace, at most until `deadline`. Returns `None` if too many
    /// rejections are delayed, in all or of this namespace: then it is sent at once.
    pub fn begin(&self, deadline: Deadline, namespace: &str) -> Option<RejectionDelay> {
        let Some(share) = self.shares.take(namespace) else {
            self.metrics.immediate.inc();
            return None;
        };
        self.metrics.delayed.inc();
        let (since, metrics) = (Instant::now(), self.metrics.clone());
        let latest = deadline.or_earlier(since + self.longest).at();
        let until = latest.min(since + self.time);
        let (turns, end) = (Arc::clone(&self.turns), self.end.clone());
        Some(RejectionDelay { since, until, latest, turns, end, metrics, _share: share })
    }
}

/// A rejection that is being delayed.
#[derive(Debug)]
pub struct RejectionDelay {
    since: Instant,
    until: Instant,
    latest: Instant,
    turns: Arc<Mutex<ResponseTimes>>,
    end: CancellationToken,
    metrics: GuardMetrics,
    _share: Share,
}

impl RejectionDelay {
    /// Waits until the rejection has been delayed for the time `after`. Returns false, earlier, if the delay ends before that.
    pub async fn wait(&self, after: Duration) -> bool {
        let moment = self.since + after;
        tokio::select! {
            () = tokio::time::sleep_until(moment.min(self.until)) => moment < self.until,
            () = self.end.cancelled() => false,
        }
    }

    /// Reserves and returns the time at which this rejection is sent. It is the time of another rejection of the same scheduler if
    /// as many times are reserved for that as it has possible preemptors.
    fn reserve_response_time(&self, preemptors: &PossiblePreemptors) -> Instant {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        turns.of.retain(|_, taken| {
            taken.retain(|turn| *turn > now);
            !taken.is_empty()
        });
        let turn = self.until.max(turns.next).min(self.latest);
        let taken = turns.of.entry(preemptors.scheduler.clone()).or_default();
        if preemptors.pods > 0
            && taken.len() >= preemptors.pods
            && let Some(last) = taken.iter().filter(|turn| **turn <= self.latest).max()
        {
            return *last;
        }
        taken.push(turn);
        turns.next = turns.next.max(turn + SPACING);
        turn
    }

    /// Waits until the rejection is to be sent: after its delay, and [`SPACING`] after the rejection before it, unless that is later than
    /// its longest delay. `preemptors` are the possible preemptors of the scheduler that it answers.
    pub async fn wait_to_the_end(self, preemptors: &PossiblePreemptors) {
        self.metrics.delays.inc();
        let until = self.reserve_response_time(preemptors);
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = self.end.cancelled() => {}
        }
    }
}

impl Drop for RejectionDelay {
    fn drop(&mut self) {
        self.metrics.delayed.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(80);
    const LONG: Duration = Duration::from_secs(60);

    /// Returns the given number of pods of one scheduler.
    fn pods(pods: usize) -> PossiblePreemptors {
        PossiblePreemptors { scheduler: None, pods }
    }

    fn delays(time: Duration) -> (RejectionDelays, CancellationToken, GuardMetrics) {
        let (end, metrics) = (CancellationToken::new(), GuardMetrics::default());
        (RejectionDelays::new(time, time, 1, end.clone(), metrics.clone()), end, metrics)
    }

    #[tokio::test]
    async fn responses_are_spaced_and_none_is_delayed_beyond_the_longest_delay() {
        let (time, longest) = (4 * SPACING, 6 * SPACING);
        let delays = RejectionDelays::new(time, longest, 10, CancellationToken::new(), GuardMetrics::default());
        let many: Vec<RejectionDelay> =
            (0..5).filter_map(|n| delays.begin(Deadline::after(LONG), &format!("u{n}"))).collect();
        let since = many[0].since;
        let turns: Vec<u128> =
            many.iter().map(|delay| (delay.reserve_response_time(&pods(5)) - since).as_millis()).collect();
        for (turn, wanted) in turns.iter().zip([4, 5, 6, 6, 6]) {
            assert!(turn.abs_diff(wanted * SPACING.as_millis()) < SPACING.as_millis() / 2, "{turns:?}");
        }
    }

    #[tokio::test]
    async fn a_scheduler_has_at_most_as_many_pending_responses_as_possible_preemptors() {
        let delays = RejectionDelays::new(LONG, 2 * LONG, 10, CancellationToken::new(), GuardMetrics::default());
        let take = |preemptors: &PossiblePreemptors, deadline: Duration| {
            delays.begin(Deadline::after(deadline), "u").unwrap().reserve_response_time(preemptors)
        };
        let first = take(&pods(1), 2 * LONG);
        assert_eq!(take(&pods(1), 2 * LONG), first);
        let second = take(&pods(2), 2 * LONG);
        assert!(second >= first + SPACING, "the response for another pod is sent later");
        assert_eq!(take(&pods(2), 2 * LONG), second, "the time of the latest pending response");
        assert!(take(&pods(2), LONG / 2) < first, "its deadline comes first");
        let other = PossiblePreemptors { scheduler: Some("other".into()), pods: 1 };
        assert!(take(&other, 2 * LONG) > second, "responses to another scheduler are counted separately");
        assert!(take(&pods(0), 2 * LONG) > second, "without a known preemptor the number of responses is not limited");
    }

    #[tokio::test]
    async fn a_rejection_after_all_responses_were_sent_is_delayed_for_the_full_time() {
        let (delays, _end, _) = delays(SHORT);
        delays.begin(Deadline::after(LONG), "u").unwrap().wait_to_the_end(&pods(1)).await;
        let delay = delays.begin(Deadline::after(LONG), "u").unwrap();
        assert!(delay.reserve_response_time(&pods(1)) >= delay.since + SHORT);
    }

    #[tokio::test]
    async fn a_rejection_is_delayed_for_the_configured_time() {
        let (delays, _end, metrics) = delays(SHORT);
        let start = Instant::now();
        let delay = delays.begin(Deadline::after(LONG), "u").unwrap();
        assert_eq!(metrics.delayed.get(), 1);
        assert!(delay.wait(SHORT / 4).await);
        assert!(!delay.wait(LONG).await, "a wait beyond the end of the delay returns false");
        delay.wait_to_the_end(&pods(5)).await;
        assert!(start.elapsed() >= SHORT && start.elapsed() < LONG / 2, "{:?}", start.elapsed());
        assert_eq!((metrics.delayed.get(), metrics.delays.get(), metrics.immediate.get()), (0, 1, 0));
    }

    #[tokio::test]
    async fn no_rejection_is_delayed_beyond_its_deadline() {
        let delays = RejectionDelays::new(LONG, 2 * LONG, 10, CancellationToken::new(), GuardMetrics::default());
        let start = Instant::now();
        let many: Vec<RejectionDelay> =
            (0..5).filter_map(|n| delays.begin(Deadline::after(SHORT), &format!("u{n}"))).collect();
        assert!(!many[0].wait(LONG).await, "a wait beyond the deadline returns false");
        let preemptors = pods(5);
        futures::future::join_all(many.into_iter().map(|delay| delay.wait_to_the_end(&preemptors))).await;
        assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
    }

    #[tokio::test]
    async fn a_rejection_above_the_bound_is_not_delayed_and_is_counted() {
        let (delays, _end, metrics) = delays(LONG);
        let first = delays.begin(Deadline::after(LONG), "u");
        assert!(delays.begin(Deadline::after(LONG), "u").is_none());
        assert_eq!((metrics.delayed.get(), metrics.delays.get(), metrics.immediate.get()), (1, 0, 1));
        drop(first);
        assert!(delays.begin(Deadline::after(LONG), "u").is_some(), "the slot is free again");
    }

    #[tokio::test]
    async fn rejections_about_one_namespace_use_at_most_half_of_the_slots() {
        let delays = RejectionDelays::new(LONG, LONG, 30, CancellationToken::new(), GuardMetrics::default());
        let begin = |namespace: &str| delays.begin(Deadline::after(LONG), namespace);
        let mut many: Vec<RejectionDelay> = (0..30).filter_map(|_| begin("own")).collect();
        assert_eq!((many.len(), delays.metrics.immediate.get()), (15, 15));
        let other = begin("other").expect("another namespace has free slots");
        assert!(begin("own").is_none());
        many.pop();
        let again = begin("own").expect("one slot is free again");
        drop((many, other, again));
        assert!(delays.shares.is_unused(), "namespaces without delayed rejections are forgotten");
    }

    #[tokio::test]
    async fn a_shutdown_ends_every_delay() {
        let (delays, end, _) = delays(LONG);
        let delay = delays.begin(Deadline::after(LONG), "u").unwrap();
        let start = Instant::now();
        end.cancel();
        assert!(!delay.wait(LONG).await);
        delay.wait_to_the_end(&pods(5)).await;
        assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
    }
}

//! Whether kube-scheduler runs: no pod is evicted for a critical add-on that would then not be bound.
//!
//! kube-scheduler renews a Lease every few seconds. The time since is measured from when a renewal was read here, so that clocks of two
//! machines are not compared. If there is no such Lease, or it cannot be read, the scheduler counts as running if it decided about some
//! pod since the add-on began to wait.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use std::time::{Duration, Instant};

/// How long after a renewal the scheduler counts as running: three renewals with its defaults.
const FRESH: Duration = Duration::from_secs(6);
/// How often the Lease is read while an add-on waits.
const EVERY: Duration = Duration::from_secs(1);

/// What is known of the scheduler.
#[derive(Debug, Default)]
pub struct SchedulerLiveness {
    /// The last renewal that was read, and when it was first seen; `None` where the Lease is not there.
    lease: Option<(MicroTime, Option<Instant>)>,
    /// When it was last seen to decide about a pod.
    decided: Option<Instant>,
    /// How many decisions were seen.
    decisions: u64,
    asked: Option<Instant>,
}

impl SchedulerLiveness {
    /// Notes how many decisions of the scheduler were seen by now.
    pub fn note(&mut self, decisions: u64, now: Instant) {
        if decisions != self.decisions {
            (self.decisions, self.decided) = (decisions, Some(now));
        }
    }

    /// Whether the Lease is to be read now; notes that it is.
    pub fn due(&mut self, now: Instant) -> bool {
        let due = self.asked.is_none_or(|asked| now.duration_since(asked) >= EVERY);
        if due {
            self.asked = Some(now);
        }
        due
    }

    /// Notes what the Lease said; `None` where there is none, or it cannot be read.
    pub fn read(&mut self, renewed: Option<MicroTime>, now: Instant) {
        self.lease = match (renewed, self.lease.take()) {
            (None, _) => None,
            (Some(renewed), Some((before, seen))) if before == renewed => Some((before, seen)),
            // The first reading says nothing of when that renewal was.
            (Some(renewed), before) => Some((renewed, before.map(|_| now))),
        };
    }

    /// Whether the scheduler is alive, for one who waits since then.
    pub fn is_alive(&self, since: Instant, now: Instant) -> bool {
        match &self.lease {
            Some((_, seen)) => seen.is_some_and(|seen| now.duration_since(seen) < FRESH),
            None => self.decided.is_some_and(|decided| decided > since),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;

    fn at(second: i64) -> Option<MicroTime> {
        Some(MicroTime(Timestamp::from_second(second).unwrap()))
    }

    #[test]
    fn it_is_alive_while_its_lease_is_seen_to_be_renewed() {
        let (mut scheduler_liveness, start) = (SchedulerLiveness::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        scheduler_liveness.note(1, after(1));
        scheduler_liveness.read(at(100), after(1));
        assert!(!scheduler_liveness.is_alive(start, after(1)), "that may have been long ago");
        scheduler_liveness.read(at(100), after(2));
        assert!(!scheduler_liveness.is_alive(start, after(2)));
        scheduler_liveness.read(at(102), after(3));
        scheduler_liveness.read(at(102), after(8));
        assert!(scheduler_liveness.is_alive(start, after(8)));
        assert!(!scheduler_liveness.is_alive(start, after(9)), "6 s without a renewal");
    }

    #[test]
    fn without_a_lease_a_decision_since_then_counts() {
        let (mut scheduler_liveness, start) = (SchedulerLiveness::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        scheduler_liveness.note(1, after(1));
        assert!(!scheduler_liveness.is_alive(after(1), after(9)), "it decided about the add-on itself");
        scheduler_liveness.note(1, after(2));
        assert!(!scheduler_liveness.is_alive(after(1), after(9)));
        scheduler_liveness.note(2, after(3));
        assert!(scheduler_liveness.is_alive(after(1), after(9)));
    }

    #[test]
    fn the_lease_is_read_once_a_second() {
        let (mut scheduler_liveness, start) = (SchedulerLiveness::default(), Instant::now());
        assert!(scheduler_liveness.due(start));
        assert!(!scheduler_liveness.due(start + Duration::from_millis(999)));
        assert!(scheduler_liveness.due(start + Duration::from_secs(1)));
    }
}

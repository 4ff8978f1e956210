//! What is observed of kube-scheduler: whether it runs, how fast it binds pods, and whether it has had time for a pod.
//!
//! Two questions are answered. Does it run, so that a critical add-on would be bound after evictions? And may a plan conclude from a pod
//! that is not bound that kube-scheduler refuses it? kube-scheduler considers pending pods one after the other, so the answer is counted in
//! its decisions, and not only in seconds: a scheduler that binds one pod per second gets as many seconds as pods are pending.
//!
//! kube-scheduler renews a Lease every few seconds. The time since is measured from when a renewal was read here, so that clocks of two
//! machines are not compared. If there is no such Lease, or it cannot be read, only its decisions show that it runs.

use super::Model;
use giveway_planner::model::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long after a renewal the scheduler counts as running: three renewals with its defaults.
const FRESH: Duration = Duration::from_secs(6);
/// How often the Lease is read while a pod waits for the scheduler, and how often pending pods are counted.
const EVERY: Duration = Duration::from_secs(1);
/// The time over which bindings are counted.
const MINUTE: Duration = Duration::from_secs(60);
/// How long a pod waits for a scheduler that decides nothing.
pub const SILENCE: Duration = Duration::from_secs(600);
/// So many decisions more than twice the number of pending pods are waited for: the watch may show them late, and pods arrive.
const MARGIN: u64 = 4;

/// The last renewal of kube-scheduler's Lease that was read.
#[derive(Debug)]
struct Renewal {
    renewed: MicroTime,
    /// When it was first read.
    at: Instant,
    /// True if an earlier renewal had been read. The first one that is read may be old.
    is_new: bool,
}

/// What was observed of kube-scheduler.
#[derive(Debug, Default)]
pub struct SchedulerActivity {
    /// The last renewal that was read; `None` if there is no Lease.
    lease: Option<Renewal>,
    /// When the Lease was last read with success.
    read: Option<Instant>,
    /// When it was last requested.
    asked: Option<Instant>,
    /// When it was last observed to decide about a pod.
    decided: Option<Instant>,
    /// How many decisions were observed.
    decisions: u64,
    /// Total number of observed bindings, at most once per second of the last minute, and once before.
    bindings: VecDeque<(Instant, u64)>,
    /// Number of pods that it may consider: pending, and without a scheduling gate.
    pending: u64,
    /// When they were counted.
    counted: Option<Instant>,
}

impl SchedulerActivity {
    /// Updates what is known of kube-scheduler from the model: how many decisions and bindings were observed, and, once per second, how
    /// many pods it may bind.
    pub fn note(&mut self, model: &Model, now: Instant) {
        self.observe(model.scheduler_decisions, model.scheduler_bindings, now);
        if self.counted.is_none_or(|at| now.duration_since(at) >= EVERY) {
            let may_be_bound = |pod: &&Pod| pod.live() && !pod.gated && !pod.gated_by_others;
            let pending = model.cluster.unbound().filter(may_be_bound).count();
            self.pending = u64::try_from(pending).unwrap_or(u64::MAX);
            self.counted = Some(now);
        }
    }

    /// Records the total numbers of decisions and bindings that have been observed until `now`.
    fn observe(&mut self, decisions: u64, bindings: u64, now: Instant) {
        if decisions != self.decisions {
            (self.decisions, self.decided) = (decisions, Some(now));
        }
        if self.bindings.back().is_none_or(|(at, _)| now.duration_since(*at) >= EVERY) {
            self.bindings.push_back((now, bindings));
        } else if let Some((_, last)) = self.bindings.back_mut() {
            *last = bindings;
        }
        while self.bindings.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= MINUTE) {
            self.bindings.pop_front();
        }
    }

    /// Returns true if kube-scheduler's Lease must be read now, at most once per second, and then records that it is read.
    pub fn due(&mut self, now: Instant) -> bool {
        let due = self.asked.is_none_or(|asked| now.duration_since(asked) >= EVERY);
        if due {
            self.asked = Some(now);
        }
        due
    }

    /// Records that the Lease was read: `renewed` is its `renewTime`, `None` if there is no Lease, or it cannot be read.
    pub fn read(&mut self, renewed: Option<MicroTime>, now: Instant) {
        self.read = Some(now);
        self.lease = match (renewed, self.lease.take()) {
            (None, _) => None,
            (Some(renewed), Some(before)) if before.renewed == renewed => Some(before),
            (Some(renewed), before) => Some(Renewal { renewed, at: now, is_new: before.is_some() }),
        };
    }

    /// Returns true if kube-scheduler runs: its Lease was renewed in the last seconds, or, without a Lease, it has decided about a pod
    /// after `since`, when the pod that asks became pending.
    pub fn is_alive(&self, since: Instant, now: Instant) -> bool {
        match &self.lease {
            Some(lease) => lease.is_new && now.duration_since(lease.at) < FRESH,
            None => self.decided.is_some_and(|decided| decided > since),
        }
    }

    /// Returns how fast kube-scheduler works, as observed until `now`.
    pub fn pace(&self, now: Instant) -> SchedulerPace {
        let is_read = self.read.is_some_and(|at| now.duration_since(at) < FRESH);
        let is_old = self.lease.as_ref().is_some_and(|lease| now.duration_since(lease.at) >= FRESH);
        let (first, last) = (self.bindings.front(), self.bindings.back());
        SchedulerPace {
            decisions: self.decisions,
            decided: self.decided,
            pending: self.pending,
            bindings_per_minute: first.zip(last).map_or(0, |((_, first), (_, last))| last.saturating_sub(*first)),
            is_down: is_read && is_old,
        }
    }
}

/// How fast kube-scheduler works, as observed at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerPace {
    /// Number of its decisions since this process was started.
    pub decisions: u64,
    /// When the last of them was observed.
    pub decided: Option<Instant>,
    /// Number of pods that it may consider.
    pub pending: u64,
    /// Number of pods that it bound in the last minute.
    pub bindings_per_minute: u64,
    /// True if its Lease is not renewed any more.
    pub is_down: bool,
}

impl SchedulerPace {
    /// Nothing was observed yet.
    pub const UNKNOWN: Self = Self { decisions: 0, decided: None, pending: 0, bindings_per_minute: 0, is_down: false };

    /// Starts a wait for kube-scheduler's decision at `now`. Its progress is measured from the numbers in `self`.
    pub fn begin(&self, now: Instant) -> SchedulerWait {
        SchedulerWait { since: now, decisions: self.decisions, pending: self.pending }
    }
}

/// A wait for kube-scheduler's decision about pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerWait {
    /// When it began.
    pub since: Instant,
    /// Number of decisions at that time.
    decisions: u64,
    /// The highest number of pods since then that the scheduler may consider.
    pending: u64,
}

/// How far kube-scheduler is with the pods that a plan waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerProgress {
    /// The time limit is not reached.
    Early,
    /// It decides about other pods, and may not have had time for these.
    Busy,
    /// It has decided about so many pods that these must have been among those it considered.
    Passed,
    /// It cannot bind them yet: it keeps capacity for pods that other plans have nominated, whose victims have not terminated.
    Crowded,
    /// It has decided about no pod for the time limit, although it may run.
    Idle,
    /// It has decided about no pod for the time limit, and its Lease is not renewed.
    Down,
    /// It has decided about no pod for so long that the wait ends.
    Silent,
}

impl SchedulerWait {
    /// Returns how far kube-scheduler is with the pods that are waited for, by its present pace. Before `limit` has passed since the wait
    /// began, the answer is `Early`. Never returns `Crowded`.
    pub fn progress(&mut self, pace: &SchedulerPace, limit: Duration, now: Instant) -> SchedulerProgress {
        self.pending = self.pending.max(pace.pending);
        let idle_since = pace.decided.map_or(self.since, |decided| decided.max(self.since));
        let (waited, idle) = (now.duration_since(self.since), now.duration_since(idle_since));
        let decisions = pace.decisions.saturating_sub(self.decisions);
        if waited < limit {
            SchedulerProgress::Early
        } else if decisions > self.pending.saturating_mul(2).saturating_add(MARGIN) {
            SchedulerProgress::Passed
        } else if idle < limit {
            SchedulerProgress::Busy
        } else if idle >= SILENCE.max(limit) {
            SchedulerProgress::Silent
        } else if pace.is_down {
            SchedulerProgress::Down
        } else {
            SchedulerProgress::Idle
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestPod, World};
    use k8s_openapi::jiff::Timestamp;

    const LIMIT: Duration = Duration::from_secs(30);

    fn at(second: i64) -> Option<MicroTime> {
        Some(MicroTime(Timestamp::from_second(second).unwrap()))
    }

    #[test]
    fn it_is_alive_while_its_lease_is_seen_to_be_renewed() {
        let (mut activity, start) = (SchedulerActivity::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        activity.observe(1, 0, after(1));
        activity.read(at(100), after(1));
        assert!(!activity.is_alive(start, after(1)), "that may have been long ago");
        activity.read(at(100), after(2));
        assert!(!activity.is_alive(start, after(2)));
        activity.read(at(102), after(3));
        activity.read(at(102), after(8));
        assert!(activity.is_alive(start, after(8)));
        assert!(!activity.is_alive(start, after(9)), "6 s without a renewal");
    }

    #[test]
    fn it_is_down_only_if_the_lease_was_read_lately_and_is_old() {
        let (mut activity, start) = (SchedulerActivity::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(!activity.pace(start).is_down, "unknown");
        activity.read(at(100), start);
        assert!(!activity.pace(after(5)).is_down);
        assert!(!activity.pace(after(60)).is_down, "the Lease was not read meanwhile");
        activity.read(at(100), after(60));
        assert!(activity.pace(after(60)).is_down, "it was never renewed");
        activity.read(at(160), after(61));
        assert!(!activity.pace(after(61)).is_down);
        activity.read(None, after(62));
        assert!(!activity.pace(after(90)).is_down, "there is no Lease");
    }

    #[test]
    fn without_a_lease_a_decision_since_then_counts() {
        let (mut activity, start) = (SchedulerActivity::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        activity.observe(1, 0, after(1));
        assert!(!activity.is_alive(after(1), after(9)), "it decided about the add-on itself");
        activity.observe(1, 0, after(2));
        assert!(!activity.is_alive(after(1), after(9)));
        activity.observe(2, 0, after(3));
        assert!(activity.is_alive(after(1), after(9)));
    }

    #[test]
    fn the_lease_is_read_once_a_second() {
        let (mut activity, start) = (SchedulerActivity::default(), Instant::now());
        assert!(activity.due(start));
        assert!(!activity.due(start + Duration::from_millis(999)));
        assert!(activity.due(start + Duration::from_secs(1)));
    }

    #[test]
    fn bindings_of_the_last_minute_and_pending_pods_are_counted() {
        let (mut world, mut activity, start) = (World::new(), SchedulerActivity::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        world.node("n1", 200).pod(TestPod::new("gated", 0).gated()).pod(TestPod::new("waits", 0));
        activity.note(&world.model, start);
        for second in 1..=100 {
            let name = format!("p{second}");
            world.pod(TestPod::new(&name, 0)).pod(TestPod::new(&name, 0).on("n1"));
            activity.note(&world.model, after(second));
        }
        let pace = activity.pace(after(100));
        assert_eq!((pace.bindings_per_minute, pace.pending, pace.decisions), (60, 1, 100));
        activity.note(&world.model, after(160));
        assert_eq!(activity.pace(after(160)).bindings_per_minute, 0);
        assert!(activity.bindings.len() <= 62, "{:?}", activity.bindings);
    }

    /// Returns the progress after these seconds of a wait that began with 10 pending pods, if `decisions` were made by then, the last one
    /// `idle` seconds before.
    fn progress(seconds: u64, decisions: u64, idle: u64, pace: SchedulerPace) -> SchedulerProgress {
        let start = Instant::now();
        let mut wait = SchedulerPace { decisions: 7, pending: 10, ..SchedulerPace::UNKNOWN }.begin(start);
        let decided = (decisions > 0).then(|| start + Duration::from_secs(seconds - idle));
        let pace = SchedulerPace { decisions: 7 + decisions, decided, ..pace };
        wait.progress(&pace, LIMIT, start + Duration::from_secs(seconds))
    }

    #[test]
    fn a_slow_scheduler_gets_time_for_twice_as_many_pods_as_were_pending() {
        let pace = SchedulerPace { pending: 10, ..SchedulerPace::UNKNOWN };
        assert_eq!(progress(29, 1_000, 0, pace), SchedulerProgress::Early);
        assert_eq!(progress(30, 3, 10, pace), SchedulerProgress::Busy);
        assert_eq!(progress(700, 24, 29, pace), SchedulerProgress::Busy, "one pod in 29 s");
        assert_eq!(progress(700, 25, 0, pace), SchedulerProgress::Passed);
        let more = SchedulerPace { pending: 1_000, ..pace };
        assert_eq!(progress(700, 25, 0, more), SchedulerProgress::Busy, "pods of higher priority may have arrived");
    }

    #[test]
    fn a_wait_for_a_scheduler_that_decides_nothing_ends() {
        let pace = SchedulerPace::UNKNOWN;
        assert_eq!(progress(100, 1, 30, pace), SchedulerProgress::Idle);
        assert_eq!(progress(100, 0, 0, pace), SchedulerProgress::Idle);
        let down = SchedulerPace { is_down: true, ..pace };
        assert_eq!(progress(599, 0, 0, down), SchedulerProgress::Down);
        assert_eq!(progress(600, 0, 0, down), SchedulerProgress::Silent);
        assert_eq!(progress(700, 1, 101, down), SchedulerProgress::Down, "it ran 101 s ago");
    }
}

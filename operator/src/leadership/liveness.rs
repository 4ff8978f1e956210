//! Whether this process still does its work: the arbiter makes passes, and writes end.
//!
//! The arbiter makes a pass several times a second, whatever happens: also without input, in a standby, before the lists
//! are complete, while watches are broken and while the API server is unreachable. A write ends at its timeout at the
//! latest. If one of both stops, only the end of the process helps: the Lease is renewed by another task, so a stuck
//! leader would keep it for ever. `/healthz` reports the problem, and the watchdog ends the process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Maximum time between two passes, and maximum duration of a write. A pass takes milliseconds, a few seconds after the
/// lists of a large cluster; the timeout of a write is 10 s.
pub const LONGEST: Duration = Duration::from_secs(60);
/// Interval at which the watchdog checks.
const CHECK: Duration = Duration::from_secs(1);
/// The number of checks in a row that must find a problem before the process ends. One is not enough: in a process that
/// continues after a pause (SIGSTOP, a suspended machine) the last pass was long ago, and the next one follows at once.
const CHECKS: u32 = 10;
/// Time to release the Lease; longer than the election needs for that.
const RELEASE: Duration = Duration::from_secs(5);

/// The progress of this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Liveness(Arc<Mutex<PassProgress>>);

#[derive(Debug)]
struct PassProgress {
    /// When the last pass ended; before the first one, when the process started.
    passed: Instant,
    /// When each write in flight began, by its number.
    writes: BTreeMap<u64, Instant>,
    /// The number of writes so far.
    count: u64,
}

impl Liveness {
    /// Creates the record of a process that started at `now`, and whose arbiter has made no pass.
    pub fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(PassProgress { passed: now, writes: BTreeMap::new(), count: 0 })))
    }

    /// Locks the progress; a panic in another thread while it was locked is ignored.
    fn lock(&self) -> MutexGuard<'_, PassProgress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a pass of the arbiter ended at `now`.
    pub fn passed(&self, now: Instant) {
        self.lock().passed = now;
    }

    /// Records a write that begins now. It is in flight until the returned value is dropped.
    pub(super) fn write_begins(&self, now: Instant) -> WriteInFlight {
        let mut progress = self.lock();
        progress.count += 1;
        let number = progress.count;
        progress.writes.insert(number, now);
        WriteInFlight { liveness: self.clone(), number }
    }

    /// Returns what is stuck at `now`, as a clause: no pass of the arbiter has ended, or a write has been in flight, for more than
    /// [`LONGEST`]. `None` if nothing is stuck.
    pub fn problem(&self, now: Instant) -> Option<String> {
        let progress = self.lock();
        let for_too_long = |since: Instant| Some(now.saturating_duration_since(since)).filter(|time| *time > LONGEST);
        if let Some(time) = for_too_long(progress.passed) {
            return Some(format!("the arbiter has made no pass for {} s", time.as_secs()));
        }
        let oldest = progress.writes.values().copied().min();
        let time = oldest.and_then(for_too_long)?;
        Some(format!("a write has not ended for {} s, although it has a timeout", time.as_secs()))
    }

    /// Starts a thread that checks once per second and aborts the process if it is stuck. It cancels `stop` first and waits a few seconds,
    /// so that the election can release the Lease, unless it is stuck, too.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn watch(self, stop: CancellationToken) -> std::io::Result<()> {
        self.watch_by(stop, CHECK, RELEASE, Instant::now)
    }

    /// Like [`Liveness::watch`], but for tests, which do not wait for minutes: checks at the interval `every`, waits for `release` before
    /// it aborts the process, and reads the time from `now`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn watch_by(
        self,
        stop: CancellationToken,
        every: Duration,
        release: Duration,
        now: impl Fn() -> Instant + Send + 'static,
    ) -> std::io::Result<()> {
        let thread = std::thread::Builder::new().name("watchdog".to_owned());
        thread.spawn(move || Watchdog::new(self).run(&stop, every, release, now)).map(drop)
    }
}

/// A write in flight.
#[derive(Debug)]
pub(super) struct WriteInFlight {
    liveness: Liveness,
    number: u64,
}

impl Drop for WriteInFlight {
    /// Records that the write has ended.
    fn drop(&mut self) {
        self.liveness.lock().writes.remove(&self.number);
    }
}

/// Ends the process if it is stuck. Runs in a thread of its own, because a stuck task occupies a thread of the runtime,
/// and the runtime may have no other.
struct Watchdog {
    liveness: Liveness,
    /// The number of checks in a row that found a problem.
    problems: u32,
}

impl Watchdog {
    /// Creates a watchdog for the process with this progress. It does nothing before [`Watchdog::run`] is called.
    fn new(liveness: Liveness) -> Self {
        Self { liveness, problems: 0 }
    }

    /// Checks at the interval `every`, with the clock `now`, and returns never. If the process is stuck, cancels `stop`, waits for
    /// `release`, in which the process can release the Lease and end by itself, and aborts it.
    fn run(mut self, stop: &CancellationToken, every: Duration, release: Duration, now: impl Fn() -> Instant) {
        loop {
            std::thread::sleep(every);
            let Some(problem) = self.check(now()) else { continue };
            stop.cancel();
            // In a thread of its own, because everything may be waiting for the log.
            std::thread::spawn(move || tracing::error!(%problem, "the operator is stuck: the process ends"));
            std::thread::sleep(release);
            std::process::abort();
        }
    }

    /// Makes one check. Returns what is stuck if this is at least the tenth check in a row ([`CHECKS`]) that found a problem.
    fn check(&mut self, now: Instant) -> Option<String> {
        let problem = self.liveness.problem(now);
        self.problems = if problem.is_some() { self.problems + 1 } else { 0 };
        problem.filter(|_| self.problems >= CHECKS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn a_process_without_passes_is_stuck_after_a_minute_and_a_pass_ends_that() {
        let start = Instant::now();
        let liveness = Liveness::new(start);
        assert_eq!(liveness.problem(start + seconds(60)), None);
        let problem = liveness.problem(start + seconds(61));
        assert_eq!(problem.as_deref(), Some("the arbiter has made no pass for 61 s"));
        liveness.passed(start + seconds(61));
        assert_eq!(liveness.problem(start + seconds(121)), None);
    }

    #[test]
    fn a_write_that_does_not_end_is_a_problem_although_passes_are_made() {
        let start = Instant::now();
        let liveness = Liveness::new(start);
        let stuck = liveness.write_begins(start);
        drop(liveness.write_begins(start));
        let younger = liveness.write_begins(start + seconds(30));
        liveness.passed(start + seconds(90));
        let problem = liveness.problem(start + seconds(90));
        assert_eq!(problem.as_deref(), Some("a write has not ended for 90 s, although it has a timeout"));
        drop(stuck);
        assert_eq!(liveness.problem(start + seconds(90)), None, "the younger one has time");
        drop(younger);
        assert!(liveness.lock().writes.is_empty());
    }

    #[test]
    fn a_process_that_continues_after_a_pause_does_not_end() {
        let start = Instant::now();
        let liveness = Liveness::new(start);
        let mut watchdog = Watchdog::new(liveness.clone());
        assert!((70..79).all(|second| watchdog.check(start + seconds(second)).is_none()));
        liveness.passed(start + seconds(79));
        assert!((80..139).all(|second| watchdog.check(start + seconds(second)).is_none()));
        let found: Vec<_> = (140..150).filter_map(|second| watchdog.check(start + seconds(second))).collect();
        assert_eq!(found, ["the arbiter has made no pass for 70 s"], "the tenth check in a row");
    }

    /// Not a test: the next test runs it in a process of its own.
    #[tokio::test]
    #[ignore = "ends the process"]
    async fn the_arbiter_is_stuck_while_the_election_continues() {
        let liveness = Liveness::new(Instant::now() - 2 * LONGEST);
        let stop = CancellationToken::new();
        let (every, release) = (Duration::from_millis(1), seconds(2));
        let election = stop.clone();
        liveness.watch_by(stop, every, release, Instant::now).unwrap();
        election.cancelled().await;
        println!("the Lease is released");
        std::future::pending::<()>().await;
    }

    #[test]
    fn a_stuck_process_releases_its_lease_and_ends() {
        let test = "leadership::liveness::tests::the_arbiter_is_stuck_while_the_election_continues";
        let arguments = ["--ignored", "--exact", "--nocapture", test];
        let ended = Command::new(std::env::current_exe().unwrap()).args(arguments).output().unwrap();
        assert_eq!(ended.status.signal(), Some(6), "{ended:?}");
        assert!(String::from_utf8_lossy(&ended.stdout).contains("the Lease is released"), "{ended:?}");
    }
}

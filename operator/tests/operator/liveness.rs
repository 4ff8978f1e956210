//! The arbiter makes passes although nothing happens, and a pass that does not end is noticed: the watchdog ends the process.

use crate::driven::{config, gang, leadership, member};
use crate::world::{node, object};
use giveway_operator::arbiter::Arbiter;
use giveway_operator::leadership::lease::Leadership;
use giveway_operator::leadership::liveness::{LONGEST, Liveness};
use giveway_operator::leadership::watches::Watches;
use giveway_operator::messages::command::{Command, Dispatch};
use giveway_operator::messages::input::{Input, Update};
use giveway_operator::observability::metrics::Metrics;
use serde_json::json;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command as Process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Time limit of each step.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes the pass that requests the first call last until the test ends.
struct Stuck {
    requested: Sender<()>,
    test_ends: Receiver<()>,
}

impl Dispatch for Stuck {
    fn dispatch(&self, _: Command) {
        let _ = self.requested.send(());
        // An error means that the test has ended.
        let _ = self.test_ends.recv();
    }
}

/// An arbiter in a thread of its own.
struct Running {
    inputs: mpsc::Sender<Input>,
    liveness: Liveness,
    requested: Receiver<()>,
    test: Sender<()>,
    thread: JoinHandle<()>,
}

impl Running {
    fn start(leadership: Leadership, watches: Watches) -> Self {
        let liveness = leadership.liveness().clone();
        let ((sender, requested), (test, test_ends)) = (channel(), channel());
        let (dispatch, ready) = (Stuck { requested: sender, test_ends }, tokio::sync::watch::channel(false).0);
        let arbiter = Arbiter::new(config(&[]), dispatch, leadership, Metrics::default(), ready, watches);
        let (inputs, receiver) = mpsc::channel(100);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let thread = std::thread::spawn(move || runtime.block_on(arbiter.run(receiver)));
        Self { inputs, liveness, requested, test, thread }
    }

    /// Waits until the arbiter makes another pass. Without one it counts as stuck a minute from now.
    fn wait_for_a_pass(&self) {
        let start = Instant::now();
        while self.liveness.problem(start + LONGEST).is_some() {
            assert!(start.elapsed() < PATIENCE, "the arbiter makes no pass");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts the watchdog. If it finds a problem, it cancels `stop`, and ends the process this time later. Its clock is half a minute ahead,
    /// so a pass must be made every half a minute; from the time at which the returned flag is set, it is two minutes ahead.
    fn watch(&self, stop: &CancellationToken, release: Duration) -> Arc<AtomicBool> {
        let late = Arc::new(AtomicBool::new(false));
        let is_late = Arc::clone(&late);
        let ahead = move || if is_late.load(Ordering::Relaxed) { 2 * LONGEST } else { LONGEST / 2 };
        let now = move || Instant::now() + ahead();
        self.liveness.clone().watch_by(stop.clone(), Duration::from_millis(5), release, now).unwrap();
        late
    }

    /// Lists the cluster, and waits for the call whose request does not end.
    fn get_stuck(&self) {
        for list in lists() {
            self.inputs.blocking_send(list).unwrap();
        }
        self.requested.recv_timeout(PATIENCE).expect("a call is requested");
    }

    fn end(self) {
        drop((self.test, self.inputs));
        self.thread.join().unwrap();
    }
}

/// Returns the lists of a cluster with one node and a gang that waits for it.
fn lists() -> Vec<Input> {
    let pods = ["train-0", "train-1"].map(|name| Update::Applied(object(member(name, 100, "train", 1))));
    let namespace = object(json!({"metadata": {"name": "default"}}));
    vec![
        Input::Namespace(Update::Replaced(vec![Update::Applied(namespace)])),
        Input::Node(Update::Replaced(vec![Update::Applied(object(node("n1", 4, &json!({}))))])),
        Input::Group(Update::Replaced(vec![Update::Applied(object(gang("train", 2, 100)))])),
        Input::Pod(Update::Replaced(pods.into())),
        Input::NativeGroup(Update::Replaced(vec![])),
        Input::Workload(Update::Replaced(vec![])),
        Input::Request(Update::Replaced(vec![])),
        Input::Class(Update::Replaced(vec![])),
        Input::Budget(Update::Replaced(vec![])),
        Input::Volume(Update::Replaced(vec![])),
        Input::Claim(Update::Replaced(vec![])),
        Input::StorageClass(Update::Replaced(vec![])),
        Input::CsiDriver(Update::Replaced(vec![])),
        Input::CsiNode(Update::Replaced(vec![])),
        Input::DeviceClass(Update::Replaced(vec![])),
        Input::ResourceSlice(Update::Replaced(vec![])),
        Input::ResourceClaim(Update::Replaced(vec![])),
        Input::Switch(Update::Replaced(vec![])),
        Input::Preemption(Update::Replaced(vec![])),
    ]
}

#[test]
fn a_leader_is_stuck_if_its_pass_does_not_end() {
    let running = Running::start(leadership("operator-00000001"), Watches::default());
    running.wait_for_a_pass();
    running.get_stuck();
    let now = Instant::now();
    assert_eq!(running.liveness.problem(now), None, "not yet");
    let problem = running.liveness.problem(now + LONGEST + Duration::from_secs(1)).unwrap();
    assert!(problem.starts_with("the arbiter has made no pass for "), "{problem}");
    running.end();
}

/// Not a test: the next one runs it in a process of its own.
#[test]
#[ignore = "ends the process"]
fn a_process_with_an_endless_pass() {
    let running = Running::start(leadership("operator-00000001"), Watches::default());
    let stop = CancellationToken::new();
    let late = running.watch(&stop, Duration::from_secs(2));
    for _ in 0..3 {
        running.wait_for_a_pass();
    }
    running.get_stuck();
    println!("the pass does not end");
    late.store(true, Ordering::Relaxed);
    while !stop.is_cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("the Lease is released");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_process_with_an_endless_pass_releases_its_lease_and_ends() {
    let test = "liveness::a_process_with_an_endless_pass";
    let arguments = ["--ignored", "--exact", "--nocapture", test];
    let ended = Process::new(std::env::current_exe().unwrap()).args(arguments).output().unwrap();
    let printed = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.status.signal(), Some(6), "{ended:?}");
    for line in ["the pass does not end", "the Lease is released"] {
        assert!(printed.contains(line), "{line} is not in:\n{printed}");
    }
}

#[test]
fn a_standby_and_a_leader_without_lists_make_passes_while_their_watches_are_broken() {
    let standby = Leadership::new("operator-00000001", Arc::default(), tokio::sync::watch::channel(false).1);
    let broken = Watches::default();
    broken.list_started("Pod".into(), Instant::now() - LONGEST);
    for (leadership, watches) in [(standby, Watches::default()), (leadership("operator-00000002"), broken)] {
        let running = Running::start(leadership, watches);
        let stop = CancellationToken::new();
        // If the watchdog found a problem, it would not end this process before the end of the test.
        running.watch(&stop, 60 * LONGEST);
        for _ in 0..3 {
            running.wait_for_a_pass();
        }
        assert_eq!(running.liveness.problem(Instant::now()), None);
        assert!(!stop.is_cancelled());
        running.end();
    }
}

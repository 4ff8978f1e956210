//! Statistics of a run of tests: started worlds, and the duration and the waits of each test.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The kinds of starts that are counted.
#[derive(Clone, Copy, Debug)]
pub enum Started {
    /// A new control plane: etcd, API server, controllers, scheduler, kwok.
    ControlPlane,
    /// A control plane of an earlier test, restored to a known state.
    Reused,
    /// CRDs and chart, applied with kubectl.
    Chart,
    /// Operator and webhook.
    Daemons,
    /// A test on a running world.
    SharedTest,
}

static STARTED: [AtomicUsize; 5] = [const { AtomicUsize::new(0) }; 5];
static TESTS: Mutex<Vec<Test>> = Mutex::new(Vec::new());

thread_local! {
    /// The waits of the test on this thread, with the total time of each.
    static WAITS: RefCell<BTreeMap<String, Duration>> = const { RefCell::new(BTreeMap::new()) };
}

/// A test that has ended.
struct Test {
    name: String,
    took: Duration,
    /// The longest wait first.
    waits: Vec<(String, Duration)>,
}

/// Counts one more.
pub fn count(what: Started) {
    STARTED[what as usize].fetch_add(1, Ordering::Relaxed);
}

/// Adds a wait of the test on this thread.
pub fn waited(what: &str, how_long: Duration) {
    WAITS.with_borrow_mut(|waits| *waits.entry(what.to_owned()).or_default() += how_long);
}

/// Records that a test on this thread has ended, with its waits.
pub fn ended(name: &str, took: Duration) {
    let mut waits: Vec<_> = WAITS.take().into_iter().collect();
    waits.sort_by_key(|(_, how_long)| std::cmp::Reverse(*how_long));
    let test = Test { name: name.to_owned(), took, waits };
    TESTS.lock().unwrap_or_else(PoisonError::into_inner).push(test);
}

/// Returns the table that is printed after a run: started worlds, seconds per module, and the ten slowest tests with their
/// longest waits.
pub fn table() -> String {
    let tests = TESTS.lock().unwrap_or_else(PoisonError::into_inner);
    let [planes, reused, charts, daemons, sections] =
        [0, 1, 2, 3, 4].map(|index| STARTED[index].load(Ordering::Relaxed));
    let mut text = format!(
        "Control planes: {planes} started, {reused} reused. Chart applied {charts} times, daemons started {daemons} times. \
         {sections} tests ran on a world that was running already.\n"
    );
    let mut modules: BTreeMap<&str, (Duration, usize)> = BTreeMap::new();
    for test in tests.iter() {
        let module = modules.entry(test.name.split("::").next().unwrap_or_default()).or_default();
        *module = (module.0 + test.took, module.1 + 1);
    }
    text += "\n| module | tests | seconds |\n|---|---|---|\n";
    for (module, (took, count)) in &modules {
        let _ = writeln!(text, "| {module} | {count} | {:.0} |", took.as_secs_f64());
    }
    let all: Duration = tests.iter().map(|test| test.took).sum();
    let _ = writeln!(text, "| all, one after the other | {} | {:.0} |", tests.len(), all.as_secs_f64());
    let mut slowest: Vec<&Test> = tests.iter().collect();
    slowest.sort_by_key(|test| std::cmp::Reverse(test.took));
    text += "\n| slowest tests | seconds | longest waits |\n|---|---|---|\n";
    for test in slowest.iter().take(10) {
        let waits =
            test.waits.iter().take(3).map(|(what, how_long)| format!("{:.0} s until {what}", how_long.as_secs_f64()));
        let waits = waits.collect::<Vec<_>>().join("; ").replace('|', "/");
        let _ = writeln!(text, "| {} | {:.0} | {waits} |", test.name, test.took.as_secs_f64());
    }
    text
}

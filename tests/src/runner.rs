//! Runs end-to-end tests: most of them one after the other on shared worlds, the others on a world of their own.
//!
//! A test on a shared world takes an idle world or starts one. When the test has passed, the contents of etcd are restored and
//! the world is idle again; its processes keep running. After a failed test its world ends and its logs are kept. Shared tests
//! run first. When no shared test needs a world any more, its control plane is reused for tests with worlds of their own.
//!
//! All tests share one runtime, because background tasks of a world (watches, proxies) must outlive a test.

use crate::World;
use crate::statistics::{self, Started};
use libtest_mimic::{Arguments, Conclusion, Trial};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;
use tokio::runtime::Runtime;

/// Idle shared worlds. There are at most as many as tests run at a time.
static IDLE: Mutex<Vec<World>> = Mutex::new(Vec::new());
/// Number of shared tests that have not started.
static SHARED_LEFT: AtomicUsize = AtomicUsize::new(0);
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime can be created"));

/// When a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before every commit, with `make test`.
    Always,
    /// Before a release, with `make test-release`.
    Release,
    /// Only by its own make target: a benchmark.
    Bench,
}

/// A test with its name.
pub struct Test {
    trial: Trial,
    name: String,
    when: When,
    shared: bool,
}

impl Test {
    /// Returns true if the command line selects the test, by the rules of libtest-mimic.
    fn is_chosen(&self, arguments: &Arguments) -> bool {
        let matches = |filter: &String| match arguments.exact {
            true => self.name == *filter,
            false => self.name.contains(filter.as_str()),
        };
        let runs = match self.when {
            When::Always => !arguments.ignored,
            When::Release | When::Bench => arguments.ignored || arguments.include_ignored,
        };
        runs && arguments.filter.as_ref().is_none_or(matches) && !arguments.skip.iter().any(matches)
    }
}

/// Returns a test on a shared world. It must not stop, restart or reconfigure a process.
pub fn shared(name: String, when: When, test: impl AsyncFn(&mut World) + Send + 'static) -> Test {
    let full = name.clone();
    let trial = Trial::test(name.clone(), move || {
        let _timed = Timed { name: &full, start: Instant::now() };
        RUNTIME.block_on(run_shared(&test));
        Ok(())
    });
    Test { trial: flagged(trial, when), name, when, shared: true }
}

/// Returns a test that starts its own world.
pub fn own<F: Future<Output = ()>>(name: String, when: When, test: impl Fn() -> F + Send + 'static) -> Test {
    let full = name.clone();
    let trial = Trial::test(name.clone(), move || {
        let _timed = Timed { name: &full, start: Instant::now() };
        drop(take_surplus());
        RUNTIME.block_on(test());
        Ok(())
    });
    Test { trial: flagged(trial, when), name, when, shared: false }
}

/// Adds a test to the statistics when it is dropped, also after a panic.
struct Timed<'a> {
    name: &'a str,
    start: Instant,
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        statistics::ended(self.name, self.start.elapsed());
    }
}

fn flagged(trial: Trial, when: When) -> Trial {
    match when {
        When::Always => trial,
        When::Release => trial.with_kind("release").with_ignored_flag(true),
        When::Bench => trial.with_kind("bench").with_ignored_flag(true),
    }
}

/// Runs the tests that the command line selects and prints the statistics.
pub fn run(mut tests: Vec<Test>) -> Conclusion {
    let mut arguments = Arguments::from_args();
    let chosen: Vec<&Test> = tests.iter().filter(|test| test.is_chosen(&arguments)).collect();
    assert!(!chosen.is_empty() || arguments.list, "no test has the name {:?}", arguments.filter.unwrap_or_default());
    SHARED_LEFT.store(chosen.iter().filter(|test| test.shared).count(), Ordering::Relaxed);
    tests.sort_by_key(|test| !test.shared);
    arguments.test_threads = arguments.test_threads.or(Some(3));
    let conclusion = libtest_mimic::run(&arguments, tests.into_iter().map(|test| test.trial).collect());
    let idle = std::mem::take(&mut *IDLE.lock().unwrap_or_else(PoisonError::into_inner));
    RUNTIME.block_on(async { drop(idle) });
    if !arguments.list {
        println!("{}", statistics::table());
    }
    conclusion
}

async fn run_shared(test: &impl AsyncFn(&mut World)) {
    let _ = SHARED_LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut world = match idle {
        Some(world) => {
            statistics::count(Started::SharedTest);
            world
        }
        None => {
            let mut world = World::start().await;
            if let Err(error) = world.set_up().await {
                panic!("{error:#}");
            }
            world
        }
    };
    world.begin_test();
    test(&mut world).await;
    // If the state cannot be restored, this test fails and not the next one.
    match world.next_test().await {
        Ok(true) => {}
        Ok(false) => return,
        Err(error) => panic!("the world cannot be reused for another test: {error:#}"),
    }
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if idle.len() < SHARED_LEFT.load(Ordering::Relaxed) {
        idle.push(world);
    }
}

/// Returns an idle shared world that no remaining shared test needs.
fn take_surplus() -> Option<World> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if idle.len() > SHARED_LEFT.load(Ordering::Relaxed) { idle.pop() } else { None }
}

/// The tests of a module: `tests![shared: a, b; own: c; release: d; release_shared: e; bench: f]`, each the name of an `async
/// fn`. Those that share a world take `&mut World` (or `&World`), the others nothing.
#[macro_export]
macro_rules! tests {
    ($($kind:ident: $($function:ident),+ $(,)?);+ $(;)?) => {
        vec![$($($crate::test!($kind $function)),+),+]
    };
}

/// Defines one test of [`tests!`].
#[macro_export]
macro_rules! test {
    (shared $function:ident) => { $crate::test!(@shared Always $function) };
    (release_shared $function:ident) => { $crate::test!(@shared Release $function) };
    (own $function:ident) => { $crate::test!(@own Always $function) };
    (release $function:ident) => { $crate::test!(@own Release $function) };
    (bench $function:ident) => { $crate::test!(@own Bench $function) };
    (@shared $when:ident $function:ident) => {
        $crate::runner::shared(
            $crate::runner::name(module_path!(), stringify!($function)),
            $crate::runner::When::$when,
            async |world: &mut $crate::World| { $function(world).await; },
        )
    };
    (@own $when:ident $function:ident) => {
        $crate::runner::own(
            $crate::runner::name(module_path!(), stringify!($function)),
            $crate::runner::When::$when,
            || $function(),
        )
    };
}

/// Returns the name of a test: the path of its function without the crate.
pub fn name(module: &str, function: &str) -> String {
    let module = module.split_once("::").map_or("", |(_, module)| module);
    format!("{module}::{function}")
}

//! Runs end-to-end tests: most of them one after the other on worlds that go on, some on a world of their own.
//!
//! Each thread that runs a test on a shared world takes one that is idle, or starts one, and gives it back when the test has passed:
//! everything that is stored is put back, the processes go on. A world whose test failed ends with it, logs kept. Shared tests run
//! first; a world that none of them will need any more leaves its control plane to the tests with worlds of their own.
//!
//! All tests share one runtime, because what a world does beside its test (watches, proxies) must not end with that test.

use crate::World;
use crate::statistics::{self, Started};
use libtest_mimic::{Arguments, Conclusion, Trial};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;
use tokio::runtime::Runtime;

/// Shared worlds that no test uses. At most as many as tests run at a time.
static IDLE: Mutex<Vec<World>> = Mutex::new(Vec::new());
/// Shared tests that did not begin yet.
static SHARED_LEFT: AtomicUsize = AtomicUsize::new(0);
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime can be made"));

/// When a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before every commit, with `make test`.
    Always,
    /// Before a release, with `make test-release`.
    Release,
    /// When it is asked for: it measures.
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
    /// Whether the command line chooses it, by the rules of libtest-mimic.
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

/// A test on a shared world, which stops, restarts and reconfigures no process.
pub fn shared(name: String, when: When, test: impl AsyncFn(&mut World) + Send + 'static) -> Test {
    let full = name.clone();
    let trial = Trial::test(name.clone(), move || {
        let _timed = Timed { name: &full, start: Instant::now() };
        RUNTIME.block_on(run_shared(&test));
        Ok(())
    });
    Test { trial: flagged(trial, when), name, when, shared: true }
}

/// A test that starts the world that it needs.
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

/// Adds a test to the statistics when it ends, however it does.
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

/// Runs the tests that the command line chooses, and prints what they cost.
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
    // It fails here, and not in the next test, when something of this one stays.
    match world.next_test().await {
        Ok(true) => {}
        Ok(false) => return,
        Err(error) => panic!("the world cannot become that of another test: {error:#}"),
    }
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if idle.len() < SHARED_LEFT.load(Ordering::Relaxed) {
        idle.push(world);
    }
}

/// A shared world that no shared test needs any more.
fn take_surplus() -> Option<World> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if idle.len() > SHARED_LEFT.load(Ordering::Relaxed) { idle.pop() } else { None }
}

/// The tests of a module: `tests![shared: a, b; own: c; release: d; release_shared: e; bench: f]`, each the name of an `async fn`.
/// Those that share a world take `&mut World` (or `&World`), the others nothing.
#[macro_export]
macro_rules! tests {
    ($($kind:ident: $($function:ident),+ $(,)?);+ $(;)?) => {
        vec![$($($crate::test!($kind $function)),+),+]
    };
}

/// One of them.
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

/// The name of a test: its function's path without the crate.
pub fn name(module: &str, function: &str) -> String {
    let module = module.split_once("::").map_or("", |(_, module)| module);
    format!("{module}::{function}")
}

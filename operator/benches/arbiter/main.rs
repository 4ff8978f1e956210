//! Measures passes of the arbiter without an API server, in two clusters (`make bench-operator`):
//!
//! - 1,000 gangs that do not fit are pending in a full cluster of 100 nodes. 500 events per second change the cluster, and now and then a
//!   gang that fits is created. Prints the duration of the passes, their share of one core, and the time until the gang that fits is
//!   ungated.
//! - 1,000 and 5,000 plans are in flight, among 10,000 PodGroups that were created from a template. Prints the duration of a pass after one
//!   pod event, and the time until the plan of an urgent gang is stored.
// A benchmark panics with a message when the cluster is not in the expected state.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::cast_precision_loss, clippy::print_stdout)]

mod hopeless;
mod in_flight;
mod world;

use hopeless::{HOPELESS, Hopeless};
use in_flight::InFlight;
use std::time::{Duration, Instant};

const EVENTS_A_SECOND: usize = 500;
/// The arbiter collects a burst of events for this time before a pass. The duration of the pass is added to it.
const GATHER: Duration = Duration::from_millis(5);
const SECONDS: u64 = 10;

fn main() {
    let only: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let runs = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    if runs("hopeless") {
        gangs_that_do_not_fit();
    }
    for plans in [1_000, 5_000] {
        if runs(&format!("plans-{plans}")) {
            plans_in_flight(plans);
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns the median and the maximum, in milliseconds.
fn spread(times: &mut [Duration]) -> (f64, f64) {
    times.sort_unstable();
    let at = |index: usize| times.get(index).map_or(f64::NAN, |time| milliseconds(*time));
    (at(times.len() / 2), at(times.len().saturating_sub(1)))
}

fn gangs_that_do_not_fit() {
    let mut all = Hopeless::new();
    all.pass();
    println!("first pass over {HOPELESS} gangs: {:.0} ms", milliseconds(all.world.passes[0]));
    all.world.passes.clear();
    let (start, mut waits) = (Instant::now(), Vec::new());
    let mut urgent: Option<(String, Instant)> = None;
    while start.elapsed() < Duration::from_secs(SECONDS) {
        std::thread::sleep(GATHER);
        all.change((start.elapsed().as_secs_f64() * EVENTS_A_SECOND as f64) as usize);
        // Once a second a gang that fits is created.
        let second = start.elapsed().as_secs() as usize;
        if urgent.is_none() && waits.len() < second {
            urgent = Some((all.come(), Instant::now()));
        }
        let ungated = all.pass();
        if let Some((member, since)) = &urgent
            && ungated.contains(member)
        {
            waits.push(since.elapsed());
            all.go(member);
            urgent = None;
        }
    }
    let busy: Duration = all.world.passes.iter().sum();
    let share = busy.as_secs_f64() / start.elapsed().as_secs_f64();
    let passes = all.world.passes.len();
    let (median, longest) = spread(&mut all.world.passes);
    println!(
        "{HOPELESS} gangs that do not fit, {EVENTS_A_SECOND} events per second, {SECONDS} s: {passes} passes, median {median:.1} ms, longest {longest:.1} ms; {share:.2} of a core"
    );
    let (median, longest) = spread(&mut waits);
    println!(
        "{} gangs that fit were ungated after {median:.0} ms (median), {longest:.0} ms at the longest",
        waits.len()
    );
}

/// Number of measured passes.
const PASSES: usize = 100;

fn plans_in_flight(plans: usize) {
    let start = Instant::now();
    let mut all = InFlight::new(plans);
    println!("{plans} plans in flight, after {:.1} s", start.elapsed().as_secs_f64());
    for _ in 0..PASSES {
        all.change();
        assert!(!all.pass(), "no urgent gang has come");
    }
    let (median, longest) = spread(&mut all.world.passes);
    println!("  a pass after one pod event: median {median:.2} ms, longest {longest:.2} ms");
    let mut waits = Vec::new();
    for _ in 0..10 {
        all.come();
        let start = Instant::now();
        let passes = (1..=100).find(|_| all.pass()).expect("the urgent gang has a plan after 100 passes");
        waits.push(start.elapsed());
        assert!(passes <= 100);
    }
    let (median, longest) = spread(&mut waits);
    println!("  the plan of an urgent gang was stored after {median:.1} ms (median), {longest:.1} ms at the longest");
}

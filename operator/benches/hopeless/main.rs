//! What many gangs without hope cost while pods come and go: 1,000 gangs wait on a full cluster of 100 nodes, 500 events a second
//! change it, and now and then a gang comes that fits. Prints how long passes of the arbiter take, which share of a core that is,
//! and how long the gang that fits waits for its release. `cargo bench -p giveway-operator`.
// A bench ends on the spot, with a message, when something is not as it must be.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_precision_loss, clippy::print_stdout)]

mod crowd;

use crowd::{HOPELESS, World};
use std::time::{Duration, Instant};

const EVENTS_A_SECOND: usize = 500;
/// A burst of events is gathered for this long before a pass, and a pass has its own time beside.
const GATHER: Duration = Duration::from_millis(5);
const SECONDS: u64 = 10;

fn main() {
    let mut world = World::full();
    world.pass();
    println!("first pass over {HOPELESS} gangs: {:.0} ms", world.passes[0].as_secs_f64() * 1e3);
    world.passes.clear();
    let (begun, mut waits) = (Instant::now(), Vec::new());
    let mut urgent: Option<(String, Instant)> = None;
    while begun.elapsed() < Duration::from_secs(SECONDS) {
        std::thread::sleep(GATHER);
        world.change((begun.elapsed().as_secs_f64() * EVENTS_A_SECOND as f64) as usize);
        // Once a second a gang comes that fits.
        let second = begun.elapsed().as_secs() as usize;
        if urgent.is_none() && waits.len() < second {
            urgent = Some((world.come(), Instant::now()));
        }
        let released = world.pass();
        if let Some((member, since)) = &urgent
            && released.contains(member)
        {
            waits.push(since.elapsed());
            world.go(member);
            urgent = None;
        }
    }
    let busy: Duration = world.passes.iter().sum();
    let share = busy.as_secs_f64() / begun.elapsed().as_secs_f64();
    world.passes.sort_unstable();
    waits.sort_unstable();
    let milliseconds = |time: Option<&Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
    println!(
        "{HOPELESS} gangs without hope, {EVENTS_A_SECOND} events a second, {SECONDS} s: {} passes, median {:.1} ms, longest {:.1} ms; {:.2} of a core",
        world.passes.len(),
        milliseconds(world.passes.get(world.passes.len() / 2)),
        milliseconds(world.passes.last()),
        share
    );
    println!(
        "{} gangs that fit were released after {:.0} ms (median), {:.0} ms at the longest",
        waits.len(),
        milliseconds(waits.get(waits.len() / 2)),
        milliseconds(waits.last())
    );
}

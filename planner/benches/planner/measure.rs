//! Samples, and the table they are printed in.

use crate::rivals::Rivals;
use std::time::{Duration, Instant};

/// Starts a measurement.
pub(crate) struct Timer {
    start: Instant,
    cpu: Option<Duration>,
}

/// What a piece of work took.
#[derive(Clone, Copy, Default)]
pub(crate) struct Took {
    pub(crate) wall: Duration,
    /// In seconds of this thread on a CPU, where the system tells. It is behind by up to a tick, so that only sums and
    /// means over many pieces mean something.
    pub(crate) cpu: Option<f64>,
}

impl Timer {
    pub(crate) fn start() -> Self {
        Self { cpu: on_cpu(), start: Instant::now() }
    }

    pub(crate) fn took(&self) -> Took {
        let wall = self.start.elapsed();
        let cpu = self.cpu.zip(on_cpu()).map(|(before, after)| after.as_secs_f64() - before.as_secs_f64());
        Took { wall, cpu }
    }
}

fn on_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Times of one kind of work.
#[derive(Default)]
pub(crate) struct Samples(Vec<Duration>, f64);

impl Samples {
    pub(crate) fn push(&mut self, took: Took) {
        self.0.push(took.wall);
        self.1 += took.cpu.unwrap_or_default();
    }

    /// The mean of the time on a CPU: what does not grow when others use the machine as well.
    fn on_cpu(&self) -> Duration {
        #[allow(clippy::cast_precision_loss, reason = "there are not so many samples")]
        Duration::from_secs_f64((self.1 / self.0.len().max(1) as f64).max(0.0))
    }

    fn at(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> Duration {
        self.at(50)
    }
}

/// A line of the table.
pub(crate) struct Row<'a> {
    pub(crate) name: &'a str,
    pub(crate) what: &'a str,
    pub(crate) goal: &'a str,
}

pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1000.0)
}

pub(crate) fn print_header() {
    println!(
        "| {:4} | {:4} | {:57} | {:17} | {:>12} | {:>12} | {:>12} | {:>12} | {:>8} | {:>8} | result",
        "name", "", "work", "goal", "best", "median", "p99", "mean on CPU", "in-tree", "by node"
    );
}

impl Row<'_> {
    /// Prints it, with how often it was faster than each rival.
    pub(crate) fn print(&self, kind: &str, samples: &Samples, rivals: Option<&Rivals>, said: &str) {
        let ratio = |took: fn(&Rivals) -> Duration| {
            let times = |rivals| took(rivals).as_secs_f64() / samples.median().as_secs_f64().max(1e-9);
            rivals.map_or_else(String::new, |rivals| format!("{:.1}x", times(rivals)))
        };
        let (in_tree, by_node) = (ratio(|rivals| rivals.in_tree), ratio(|rivals| rivals.node_by_node));
        let beside = rivals.map_or("", |rivals| &rivals.said);
        let (best, median, p99) = (samples.at(0), samples.median(), samples.at(99));
        println!(
            "| {:4} | {kind:4} | {:57} | {:17} | {:>12} | {:>12} | {:>12} | {:>12} | {in_tree:>8} | {by_node:>8} | {said} {beside}",
            self.name,
            self.what,
            self.goal,
            milliseconds(best),
            milliseconds(median),
            milliseconds(p99),
            milliseconds(samples.on_cpu())
        );
    }
}

/// Resident memory of this process in bytes, where the system tells.
pub(crate) fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split_whitespace().nth(1)?.parse::<u64>().ok().map(|pages| pages * 4096)
}

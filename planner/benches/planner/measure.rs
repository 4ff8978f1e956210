//! Samples, and the table they are printed in.

use std::time::Duration;

/// Times of one kind of work.
#[derive(Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time);
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
        "| {:4} | {:4} | {:57} | {:17} | {:>12} | {:>12} | {:>12} | {:>8} | result",
        "name", "", "work", "goal", "best", "median", "p99", "ratio"
    );
}

impl Row<'_> {
    /// Prints it; `slow` is what the baseline took for the same work.
    pub(crate) fn print(&self, kind: &str, samples: &Samples, slow: Option<Duration>, said: &str) {
        let ratio = slow.map_or_else(String::new, |slow| {
            format!("{:.1}x", slow.as_secs_f64() / samples.median().as_secs_f64().max(1e-9))
        });
        let (best, median, p99) = (samples.at(0), samples.median(), samples.at(99));
        println!(
            "| {:4} | {kind:4} | {:57} | {:17} | {:>12} | {:>12} | {:>12} | {ratio:>8} | {said}",
            self.name,
            self.what,
            self.goal,
            milliseconds(best),
            milliseconds(median),
            milliseconds(p99)
        );
    }
}

/// Resident memory of this process in bytes, where the system tells.
pub(crate) fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split_whitespace().nth(1)?.parse::<u64>().ok().map(|pages| pages * 4096)
}

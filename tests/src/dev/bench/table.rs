//! The table in `tests/BENCHMARKS.md`.

use super::Rate;
use super::measure::Outcome;
use super::rows::Row;
use super::side::Side;
use std::fmt;
use std::fs;
use std::time::Duration;

/// The results, by row and rate.
#[derive(Default)]
pub(super) struct Table(Vec<Entry>);

struct Entry {
    row: &'static Row,
    rate: Rate,
    giveway: Vec<Outcome>,
    in_tree: Vec<Outcome>,
    free: Vec<Outcome>,
}

impl Table {
    /// Adds the result of a run.
    pub(super) fn add(&mut self, row: &'static Row, rate: Rate, side: Side, outcome: Outcome) {
        if !self.0.last().is_some_and(|entry| entry.row.name == row.name && entry.rate == rate) {
            self.0.push(Entry { row, rate, giveway: vec![], in_tree: vec![], free: vec![] });
        }
        if let Some(entry) = self.0.last_mut() {
            match side {
                Side::Giveway => entry.giveway.push(outcome),
                Side::InTree => entry.in_tree.push(outcome),
                Side::Free => entry.free.push(outcome),
            }
        }
    }

    /// Returns true if, in every round, Giveway bound the gang, disrupted no group partially, and evicted the smallest possible
    /// number of pods if that number is proven.
    pub(super) fn meets_expectations(&self) -> bool {
        let good = |entry: &Entry, outcome: &Outcome| {
            outcome.time.is_some()
                && outcome.partially_disrupted == 0
                && (!entry.row.proven || outcome.evicted == entry.row.fewest)
        };
        self.0.iter().all(|entry| entry.giveway.iter().all(|outcome| good(entry, outcome)))
    }
}

/// Returns the median run; a run whose gang was not bound counts as the slowest.
fn median(outcomes: &[Outcome]) -> Option<Outcome> {
    let mut sorted = outcomes.to_vec();
    sorted.sort_by_key(|outcome| outcome.time.unwrap_or(Duration::MAX));
    sorted.get(sorted.len() / 2).copied()
}

/// Returns the ratio of the median times.
fn ratio(one: &[Outcome], other: &[Outcome]) -> Option<f64> {
    Some(median(one)?.time?.as_secs_f64() / median(other)?.time?.as_secs_f64())
}

impl Entry {
    fn goal(&self) -> f64 {
        let (default, raised) = self.row.goals();
        if self.rate == Rate::Default { default } else { raised }
    }

    fn free_goal(&self) -> String {
        let goal = self.row.free_goal().filter(|_| self.rate == Rate::Default);
        goal.map_or_else(String::new, |goal| format!(" (≤ {goal})"))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| nodes × CPUs, low priority; high | scheduler's rate | Giveway | in-tree | fewest | ratio (goal) | \
             free nodes | ratio (goal) |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|")?;
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        let cell = |outcomes: &[Outcome]| or_dash(median(outcomes).map(|outcome| outcome.to_string()));
        for entry in &self.0 {
            let Entry { row, rate, giveway, in_tree, free } = entry;
            let of = |other: &[Outcome]| or_dash(ratio(giveway, other).map(|ratio| format!("{ratio:.2}")));
            writeln!(
                f,
                "| {} | {} | {} | {} | {}{} | {} (≤ {}) | {} | {}{} |",
                row.describe(),
                rate.name(),
                cell(giveway),
                cell(in_tree),
                if row.proven { "" } else { "~" },
                row.fewest,
                of(in_tree),
                entry.goal(),
                cell(free),
                of(free),
                entry.free_goal(),
            )?;
        }
        Ok(())
    }
}

/// Describes the machine of the benchmark.
pub(in crate::dev) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1)).unwrap_or("unknown CPU");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("?");
    format!("{cores} cores ({model}), load average {load} at the end; Kubernetes 1.37.1, all on one machine.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev::bench::rows::ROWS;

    fn outcome(seconds: u64, evicted: usize, partially_disrupted: usize) -> Outcome {
        Outcome { time: Some(Duration::from_secs(seconds)), evicted, partially_disrupted }
    }

    #[test]
    fn a_line_has_all_sides_and_their_ratios() {
        let mut table = Table::default();
        table.add(&ROWS[2], Rate::Default, Side::Giveway, outcome(2, 64, 0));
        table.add(&ROWS[2], Rate::Default, Side::InTree, outcome(20, 512, 1));
        table.add(&ROWS[2], Rate::Default, Side::Free, outcome(1, 0, 0));
        let line = "| 200 × 8, groups of 8, packed; gang 64 | default | 2.0 s, 64 evicted | 20.0 s, 512 evicted, 1 partially disrupted | 64 | 0.10 (≤ 0.1) | 1.0 s | 2.00 |";
        assert_eq!(table.to_string().lines().last(), Some(line));
        assert!(table.meets_expectations());
    }

    #[test]
    fn a_cell_is_the_median_and_an_unbound_gang_counts_as_slowest() {
        let mut table = Table::default();
        let never = Outcome { time: None, ..outcome(0, 64, 0) };
        for giveway in [never, outcome(9, 64, 0), outcome(2, 64, 0)] {
            table.add(&ROWS[2], Rate::Default, Side::Giveway, giveway);
        }
        let text = table.to_string();
        assert!(text.contains("| default | 9.0 s, 64 evicted | – | 64 | – (≤ 0.1) | – | – |"), "{text}");
        assert!(!table.meets_expectations(), "one round was not bound");
    }

    #[test]
    fn unnecessary_evictions_and_partial_disruptions_do_not_meet_expectations() {
        for bad in [outcome(2, 72, 0), outcome(2, 64, 1), Outcome { time: None, ..outcome(0, 64, 0) }] {
            let mut table = Table::default();
            table.add(&ROWS[2], Rate::Raised, Side::Giveway, bad);
            assert!(!table.meets_expectations(), "{bad}");
        }
    }

    #[test]
    fn only_large_gangs_at_the_default_rate_have_a_goal_against_free_nodes() {
        let mut table = Table::default();
        let large = ROWS.iter().find(|row| row.name == "packed-1000").unwrap();
        for rate in Rate::ALL {
            table.add(large, rate, Side::Giveway, outcome(6, 256, 0));
            table.add(large, rate, Side::Free, outcome(4, 0, 0));
        }
        let text = table.to_string();
        let ends: Vec<&str> = text.lines().skip(2).filter_map(|line| line.split(" | 4.0 s | ").nth(1)).collect();
        assert_eq!(ends, ["1.50 (≤ 1.5) |", "1.50 |"]);
    }
}

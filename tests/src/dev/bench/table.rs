//! The table, as it stands in `tests/BENCHMARKS.md`.

use super::Rate;
use super::measure::Outcome;
use super::rows::Row;
use super::side::Side;
use std::fmt;
use std::fs;
use std::time::Duration;

/// What was measured, line by line.
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
    /// Adds what came of a run.
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

    /// Whether Giveway bound every gang, tore no group, and evicted no more than it had to where that is proven, in every
    /// round.
    pub(super) fn good(&self) -> bool {
        let good = |entry: &Entry, outcome: &Outcome| {
            outcome.time.is_some() && outcome.torn == 0 && (!entry.row.proven || outcome.evicted == entry.row.fewest)
        };
        self.0.iter().all(|entry| entry.giveway.iter().all(|outcome| good(entry, outcome)))
    }
}

/// The run in the middle; one that was not bound in time is the slowest.
fn median(outcomes: &[Outcome]) -> Option<Outcome> {
    let mut sorted = outcomes.to_vec();
    sorted.sort_by_key(|outcome| outcome.time.unwrap_or(Duration::MAX));
    sorted.get(sorted.len() / 2).copied()
}

/// The first one's part of the second one's time.
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
             free places | ratio (goal) |"
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

/// What it was measured on.
pub(super) fn machine() -> String {
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

    fn outcome(seconds: u64, evicted: usize, torn: usize) -> Outcome {
        Outcome { time: Some(Duration::from_secs(seconds)), evicted, torn }
    }

    #[test]
    fn a_line_holds_the_sides_and_their_ratios() {
        let mut table = Table::default();
        table.add(&ROWS[2], Rate::Default, Side::Giveway, outcome(2, 64, 0));
        table.add(&ROWS[2], Rate::Default, Side::InTree, outcome(20, 512, 1));
        table.add(&ROWS[2], Rate::Default, Side::Free, outcome(1, 0, 0));
        let line = "| 200 × 8, groups of 8, packed; gang 64 | default | 2.0 s, 64 evicted | 20.0 s, 512 evicted, 1 torn | 64 | 0.10 (≤ 0.1) | 1.0 s | 2.00 |";
        assert_eq!(table.to_string().lines().last(), Some(line));
        assert!(table.good());
    }

    #[test]
    fn a_cell_is_the_median_of_its_rounds_and_who_was_not_bound_was_slowest() {
        let mut table = Table::default();
        let never = Outcome { time: None, ..outcome(0, 64, 0) };
        for giveway in [never, outcome(9, 64, 0), outcome(2, 64, 0)] {
            table.add(&ROWS[2], Rate::Default, Side::Giveway, giveway);
        }
        let text = table.to_string();
        assert!(text.contains("| default | 9.0 s, 64 evicted | – | 64 | – (≤ 0.1) | – | – |"), "{text}");
        assert!(!table.good(), "one round was not bound");
    }

    #[test]
    fn more_than_the_fewest_or_a_torn_group_is_not_good() {
        for bad in [outcome(2, 72, 0), outcome(2, 64, 1), Outcome { time: None, ..outcome(0, 64, 0) }] {
            let mut table = Table::default();
            table.add(&ROWS[2], Rate::Raised, Side::Giveway, bad);
            assert!(!table.good(), "{bad}");
        }
    }

    #[test]
    fn only_large_gangs_have_a_goal_beside_free_places_and_only_at_the_schedulers_own_rate() {
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

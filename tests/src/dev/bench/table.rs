//! The table, as it stands in `tests/BENCHMARKS.md`.

use super::Rate;
use super::measure::Outcome;
use super::rows::Row;
use super::side::Side;
use std::fmt;
use std::fs;

/// What was measured, line by line.
#[derive(Default)]
pub(super) struct Table(Vec<Entry>);

struct Entry {
    row: &'static Row,
    rate: Rate,
    giveway: Option<Outcome>,
    in_tree: Option<Outcome>,
}

impl Table {
    /// Adds what came of a run.
    pub(super) fn add(&mut self, row: &'static Row, rate: Rate, side: Side, outcome: Outcome) {
        if !self.0.last().is_some_and(|entry| entry.row.name == row.name && entry.rate == rate) {
            self.0.push(Entry { row, rate, giveway: None, in_tree: None });
        }
        if let Some(entry) = self.0.last_mut() {
            *match side {
                Side::Giveway => &mut entry.giveway,
                Side::InTree => &mut entry.in_tree,
            } = Some(outcome);
        }
    }

    /// Whether Giveway bound every gang, tore no group, and evicted no more than it had to where that is proven.
    pub(super) fn good(&self) -> bool {
        let good = |entry: &Entry, outcome: Outcome| {
            outcome.time.is_some() && outcome.torn == 0 && (!entry.row.proven || outcome.evicted == entry.row.fewest)
        };
        self.0.iter().all(|entry| entry.giveway.is_none_or(|outcome| good(entry, outcome)))
    }
}

impl Entry {
    /// Giveway's part of the in-tree time.
    fn ratio(&self) -> Option<f64> {
        Some(self.giveway?.time?.as_secs_f64() / self.in_tree?.time?.as_secs_f64())
    }

    fn goal(&self) -> f64 {
        let (default, raised) = self.row.goals();
        if self.rate == Rate::Default { default } else { raised }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| nodes × CPUs, low priority; high | scheduler's rate | Giveway | in-tree | fewest | ratio (goal) |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        for entry in &self.0 {
            let side = |outcome: Option<Outcome>| outcome.map_or_else(|| "–".to_owned(), |outcome| outcome.to_string());
            let ratio = entry.ratio().map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
            writeln!(
                f,
                "| {} | {} | {} | {} | {}{} | {ratio} (≤ {}) |",
                entry.row.describe(),
                entry.rate.name(),
                side(entry.giveway),
                side(entry.in_tree),
                if entry.row.proven { "" } else { "~" },
                entry.row.fewest,
                entry.goal()
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
    use std::time::Duration;

    fn outcome(seconds: u64, evicted: usize, torn: usize) -> Outcome {
        Outcome { time: Some(Duration::from_secs(seconds)), evicted, torn }
    }

    #[test]
    fn a_line_holds_both_sides_and_their_ratio() {
        let mut table = Table::default();
        table.add(&ROWS[2], Rate::Default, Side::Giveway, outcome(2, 64, 0));
        table.add(&ROWS[2], Rate::Default, Side::InTree, outcome(20, 512, 1));
        let line = "| 200 × 8, groups of 8, packed; gang 64 | default | 2.0 s, 64 evicted | 20.0 s, 512 evicted, 1 torn | 64 | 0.10 (≤ 0.15) |";
        assert_eq!(table.to_string().lines().last(), Some(line));
        assert!(table.good());
    }

    #[test]
    fn more_than_the_fewest_or_a_torn_group_is_not_good() {
        for bad in [outcome(2, 72, 0), outcome(2, 64, 1), Outcome { time: None, ..outcome(0, 64, 0) }] {
            let mut table = Table::default();
            table.add(&ROWS[2], Rate::Raised, Side::Giveway, bad);
            assert!(!table.good(), "{bad}");
        }
    }
}

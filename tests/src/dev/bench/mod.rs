//! `make bench-e2e`: how long a gang waits for its places in a full cluster, and what that costs, with Giveway and with
//! the in-tree group preemption.
//!
//! Every run has a control plane of its own, and all sides get the same flags, the same nodes, the same pods at the
//! same places and the same way of submitting. Time is from the first request of the submission to the moment at which
//! one watch shows the last member with a node. What was evicted is counted in the cluster afterwards. Each cell is the
//! median of several rounds, in which the sides take turns.

mod lay;
mod measure;
pub mod real_node;
mod rows;
mod side;
mod table;

use super::progress;
use anyhow::{Result, bail};
use clap::Args;
use measure::measure;
use rows::ROWS;
use side::Side;
use std::path::PathBuf;
use table::{Table, machine};

/// What is measured.
#[derive(Args, Clone, Debug, Default)]
pub struct BenchOptions {
    /// Rows to run, by name; all when none is named.
    pub rows: Vec<String>,
    /// Only this side: `giveway`, `in-tree` or `free` (kube-scheduler binds as many pods to free places).
    #[arg(long)]
    pub side: Option<String>,
    /// Only this rate of the scheduler's client: `default` or `raised`.
    #[arg(long)]
    pub rate: Option<String>,
    /// How often each cell is measured; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub rounds: u8,
    /// Keeps the logs and the audit log of every run in this directory.
    #[arg(long)]
    pub logs: Option<PathBuf>,
}

/// The limits of kube-scheduler's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rate {
    /// Its own: 50 requests a second, bursts of 100.
    Default,
    /// `--kube-api-qps=1000 --kube-api-burst=1000`.
    Raised,
}

impl Rate {
    const ALL: [Self; 2] = [Self::Default, Self::Raised];

    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Raised => "raised",
        }
    }
}

/// Runs the rows and prints the table; returns whether Giveway did what it should in each of them.
///
/// # Errors
/// There is no such row, or something does not start.
pub async fn bench(options: &BenchOptions) -> Result<bool> {
    let rows = choose("row", &ROWS.each_ref(), |row| row.name, &options.rows)?;
    let sides = choose("side", &Side::ALL.each_ref(), |side| side.name(), options.side.as_slice())?;
    let rates = choose("rate", &Rate::ALL.each_ref(), |rate| rate.name(), options.rate.as_slice())?;
    let mut table = Table::default();
    for row in rows {
        for rate in &rates {
            for round in 1..=usize::from(options.rounds) {
                // Whatever else the machine does should not always meet the same side.
                let mut order = sides.clone();
                if round % 2 == 0 {
                    order.reverse();
                }
                for side in order {
                    progress(&format!("{}, {} rate, {}, round {round}", row.name, rate.name(), side.name()));
                    let outcome = measure(row, *side, **rate, options.logs.as_deref(), round).await?;
                    eprintln!("  {outcome}");
                    table.add(row, **rate, *side, outcome);
                }
            }
        }
    }
    println!("\n{}\n\n{table}", machine());
    Ok(table.good())
}

/// Those with the given names, in the order of `all`; every one when no name is given.
fn choose<'a, T>(
    what: &str,
    all: &[&'a T],
    name: impl Fn(&T) -> &'static str,
    wanted: &[String],
) -> Result<Vec<&'a T>> {
    let names: Vec<&str> = all.iter().map(|one| name(one)).collect();
    if let Some(unknown) = wanted.iter().find(|wanted| !names.contains(&wanted.as_str())) {
        bail!("there is no {what} {unknown}; there are {}", names.join(", "));
    }
    Ok(all.iter().copied().filter(|one| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name(one))).collect())
}

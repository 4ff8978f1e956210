//! `make bench-e2e`: the time until a gang is bound in a full cluster and the number of evictions, with Giveway and with the
//! in-tree group preemption.
//!
//! Every run has a control plane of its own. All sides have the same flags, nodes, bound pods and way of submitting. The time is
//! from the first request of the submission to the moment at which a watch reports the last member as bound. Evictions are
//! counted in the cluster afterwards. Each cell is the median of several rounds, in which the sides alternate.

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
use table::Table;
pub(super) use table::machine;

/// Options of the benchmark.
#[derive(Args, Clone, Debug, Default)]
pub struct BenchOptions {
    /// Names of the rows to run; all rows if empty.
    pub rows: Vec<String>,
    /// Only this side: `giveway`, `in-tree` or `free` (kube-scheduler binds as many pods to free nodes).
    #[arg(long)]
    pub side: Option<String>,
    /// Only this rate of the scheduler's client: `default` or `raised`.
    #[arg(long)]
    pub rate: Option<String>,
    /// Number of rounds; each cell is the median.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub rounds: u8,
    /// Keep the logs and the audit log of every run in this directory.
    #[arg(long)]
    pub logs: Option<PathBuf>,
}

/// The limits of kube-scheduler's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rate {
    /// The default: 50 requests per second, bursts of 100.
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

/// Runs the rows and prints the table. Returns true if Giveway met the expectations in each row.
///
/// # Errors
/// If a row does not exist or a process does not start.
pub async fn bench(options: &BenchOptions) -> Result<bool> {
    let rows = choose("row", &ROWS.each_ref(), |row| row.name, &options.rows)?;
    let sides = choose("side", &Side::ALL.each_ref(), |side| side.name(), options.side.as_slice())?;
    let rates = choose("rate", &Rate::ALL.each_ref(), |rate| rate.name(), options.rate.as_slice())?;
    let mut table = Table::default();
    for row in rows {
        for rate in &rates {
            for round in 1..=usize::from(options.rounds) {
                // The order alternates, so that other load of the machine does not always affect the same side.
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
    Ok(table.meets_expectations())
}

/// Returns the elements with the given names in the order of `all`, or all elements if no name is given.
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

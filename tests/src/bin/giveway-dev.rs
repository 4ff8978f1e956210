//! `make up`, `make down`, `make demo`, `make demo-critical`, `make bench-e2e` and `make bench-scale`.

use anyhow::Result;
use clap::{Parser, Subcommand};
use giveway_tests::World;
use giveway_tests::dev::bench::real_node::{self, NodeOptions};
use giveway_tests::dev::bench::{self, BenchOptions};
use giveway_tests::dev::scale::{self, ScaleOptions};
use giveway_tests::dev::up::{self, UpOptions};
use giveway_tests::dev::{critical, demo};
use std::process::ExitCode;

/// A local Kubernetes control plane with Giveway on it.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a control plane with Giveway and leave it running.
    Up(UpOptions),
    /// Stop what `up` or `demo --keep` left running.
    Down,
    /// Preempt for a gang in a full cluster, and check the promises with the audit log.
    Demo {
        /// Leave the cluster running.
        #[arg(long)]
        keep: bool,
    },
    /// Preempt for CoreDNS in a full cluster, and check the promises with the audit log.
    DemoCritical {
        /// Leave the cluster running.
        #[arg(long)]
        keep: bool,
    },
    /// Measure the waiting time and the evictions of gangs, with Giveway and with the in-tree group preemption.
    Bench(BenchOptions),
    /// Measure how long a gang takes to run on a real node, with Giveway and with the in-tree group preemption (needs root).
    BenchNode(NodeOptions),
    /// Measure memory and times of Giveway on a large cluster.
    BenchScale(ScaleOptions),
    /// Run a bare control plane until the program is killed (for a test of the harness).
    #[command(hide = true)]
    Hold {
        /// With a real node.
        #[arg(long)]
        real_node: bool,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Up(options) => up::up(&options).await.map(|()| true),
        Command::Down => up::down().await.map(|()| true),
        Command::Demo { keep } => demo::demo(keep).await,
        Command::DemoCritical { keep } => critical::demo(keep).await,
        Command::Bench(options) => bench::bench(&options).await,
        Command::BenchNode(options) => real_node::bench(&options).await.map(|()| true),
        Command::BenchScale(options) => scale::scale(options).await,
        Command::Hold { real_node } => hold(real_node).await.map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn hold(real_node: bool) -> Result<()> {
    let builder = World::builder().bare();
    let mut world = if real_node { builder.real_node() } else { builder }.try_start().await?;
    let plane = world.plane();
    let pids: Vec<String> = plane.processes().map(|process| process.pid().to_string()).collect();
    println!("{} {}", plane.directory().display(), pids.join(" "));
    std::future::pending().await
}

//! `make up`, `make down` and `make demo`.

use clap::{Parser, Subcommand};
use giveway_tests::control_plane::{ControlPlane, Options};
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
    /// Hold a bare control plane until the standard input ends or the program is killed (for the harness's own test).
    #[command(hide = true)]
    Hold,
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Hold => hold().await,
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn hold() -> anyhow::Result<ExitCode> {
    let plane = ControlPlane::start(Options::default()).await?;
    let pids: Vec<String> = plane.processes().map(|process| process.pid().to_string()).collect();
    println!("{} {}", plane.directory().display(), pids.join(" "));
    std::future::pending::<()>().await;
    Ok(ExitCode::SUCCESS)
}

//! `kubectl giveway`: asks the planner about a snapshot of a cluster. It reads a file and touches no cluster.
//!
//! Exit status: 0 with an answer (also when the answer is "unschedulable"), 2 when the input cannot be used.

mod args;
mod error;
mod output;
mod snapshot;

use args::{Args, Command, PlanArgs};
use clap::Parser;
use error::CliError;
use giveway_planner::{Context, Decision, plan};
use output::Answer;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Args { command: Command::Plan(args) } = Args::parse();
    match answer(&args).and_then(|answer| answer.print()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn answer(args: &PlanArgs) -> Result<Answer, CliError> {
    let preemptor = args.preemptor.in_namespace(&args.namespace);
    let cluster = snapshot::read(&args.snapshot)?;
    if !snapshot::has(&cluster, &preemptor) {
        return Err(CliError::NoPreemptor { file: args.snapshot.display().to_string(), preemptor });
    }
    let context = Context { strategy: args.strategy, ..Context::default() };
    let decision: Decision = plan(&cluster, &preemptor, &context);
    Ok(Answer::new(&decision, args.strategy))
}

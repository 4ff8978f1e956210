//! `kubectl giveway`: plans for a live cluster or a snapshot of one, puts priority classes under Giveway's management,
//! switches Giveway's mode, and checks an installation. Only `adopt`, `release`, `mode`, `cleanup`
//! and `check --gang` write to a cluster.
//!
//! Exit status: 0 with an answer (also if the answer is "unschedulable"); 1 if the cluster or the output fails, or
//! `check` finds an error; 2 for invalid input.
//!
//! ```text
//! args, connect, error   command line, kubeconfig, what can go wrong
//! names                  validation of names
//! output/                texts, tables and notes on the terminal
//! live                   objects from the API server, one by one, with the fields that the planner reads
//! files, nesting         objects and manifests from files
//! anonymize              the same objects under other names
//! world                  the objects as the planner's model, with the decisions in flight
//! submit/                manifests as admission would store them
//! capacity/              how many pods of manifests fit, now and with evictions
//! decide, answer/        decisions in turn, and the answers as tables, JSON, YAML or Graphviz
//! changes                single changes that would make a preemptor schedulable
//! critical               the decision for a critical add-on
//! snapshot               writes the objects of the live cluster to a file
//! why/                   one page about a group or pod
//! history/               past preemptions
//! overview/              the cluster as the user may see it, for `ui` and `top`: state, queue, usage of resources
//! ui/                    a page in the browser: queue, plans, history, capacity
//! top/                   capacity, plans in progress and queue in the terminal
//! adopt/                 adopt and release priority classes
//! mode                   Giveway's mode: enforce, observe or off
//! taints/                removes the operator's taints from nodes (`cleanup taints`)
//! job                    a command in a Job of the chart: retries, and the end of its rights
//! cleanup/               removes Giveway's marks from other objects, or from deleted groups of a namespace
//! convert/               PodGroups from and to native ones
//! check/                 checks of the installation
//! ```

mod adopt;
mod anonymize;
mod answer;
mod args;
mod capacity;
mod changes;
mod check;
mod cleanup;
mod connect;
mod convert;
mod critical;
mod decide;
mod error;
mod files;
mod history;
mod job;
mod live;
mod manual;
mod mode;
mod names;
mod nesting;
mod not_evicted;
mod output;
mod overview;
mod plan;
mod role;
mod snapshot;
mod submit;
mod taints;
mod top;
mod ui;
mod why;
mod world;

use args::cleanup::CleanupSubject;
use args::{Args, Command};
use clap::{CommandFactory, Parser};
use error::CliError;
use std::io::Write;
use std::process::ExitCode;

/// Objects are decoded on one thread and dropped on another, which the allocator of the C library does slowly: threads wait for each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the command that the arguments name. Returns its exit status.
fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match &args.command {
        Command::Plan(flags) => plan::run(flags, &args.connection).map(|()| 0),
        Command::Capacity(flags) => capacity::run(flags, &args.connection).map(|()| 0),
        Command::Why(flags) => why::run(flags, &args.connection).map(|()| 0),
        Command::History(flags) => history::run(flags, &args.connection).map(|()| 0),
        Command::Ui(flags) => ui::run(flags, &args.connection).map(|()| 0),
        Command::Top(flags) => top::run(flags, &args.connection).map(|()| 0),
        Command::Snapshot(flags) => snapshot::run(flags, &args.connection).map(|()| 0),
        Command::Adopt(flags) => adopt::adopt(flags, &args.connection),
        Command::Release(flags) => adopt::release(flags, &args.connection),
        Command::Mode(flags) => mode::run(flags, &args.connection),
        Command::Cleanup(flags) => match &flags.subject {
            CleanupSubject::All(flags) => cleanup::run(flags, &args.connection),
            CleanupSubject::Taints(flags) => taints::run(flags, &args.connection),
            CleanupSubject::Finalizers(flags) => cleanup::namespace::run(flags, &args.connection),
        },
        Command::Check(flags) => check::run(flags, &args.connection),
        Command::Export(flags) => convert::export(flags, &args.connection).map(|()| 0),
        Command::Import(flags) => convert::import(flags, &args.connection).map(|()| 0),
        Command::Completion { shell } => completion(*shell).map(|()| 0),
    };
    ExitCode::from(match outcome {
        Ok(status) => status,
        // If the reader of the output closes the pipe, as `head` does, that is not an error for commands that only read.
        Err(error) if error.is_broken_pipe() && !args.command.writes() => 0,
        Err(error) => print_error(&error),
    })
}

/// Prints an error on standard error, and returns the exit status that belongs to it.
fn print_error(error: &CliError) -> u8 {
    let (bad, reset) = (output::style::BAD, output::style::BAD.render_reset());
    // If standard error is closed, only the exit status is reported.
    let _ = writeln!(anstream::stderr(), "{bad}error:{reset} {}", output::tame::lines(&error.to_string()));
    error.exit_status()
}

/// Prints the script with which this shell completes commands and flags of `kubectl giveway`.
fn completion(shell: args::ShellName) -> Result<(), CliError> {
    let mut script = Vec::new();
    let mut command = Args::command().bin_name("kubectl-giveway");
    clap_complete::generate(clap_complete::Shell::from(shell), &mut command, "kubectl-giveway", &mut script);
    std::io::stdout().write_all(&script).map_err(CliError::stdout)
}

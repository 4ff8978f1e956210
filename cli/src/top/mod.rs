//! `kubectl giveway top`: the capacity, the plans in progress and the queue in the terminal.
//!
//! The cluster is followed and shown again until the command is interrupted. The terminal is only erased and written; no mode of it is
//! changed, so nothing must be restored, whatever ends the command.

mod screen;

use crate::args::top::TopArgs;
use crate::connect::{Api, ClusterConnection, block_on};
use crate::error::CliError;
use crate::output::{self, style};
use crate::overview::{Follower, State};
use k8s_openapi::jiff::Timestamp;
use screen::ScreenSize;
use std::io::IsTerminal as _;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

/// Number of columns and lines of a terminal that does not tell them.
const USUAL: (u16, u16) = (80, 24);

/// Shortest and longest time between two texts: ages change without a change of the cluster.
const BETWEEN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(3));

/// Runs `kubectl giveway top`: shows the cluster in the terminal until it is interrupted; with `--once`, or if standard output is no
/// terminal, prints it once.
pub(crate) fn run(args: &TopArgs, connection: &ClusterConnection) -> Result<(), CliError> {
    block_on(async {
        let api = connection.api().await?;
        if args.once || !std::io::stdout().is_terminal() {
            let (state, _) = Follower::start(&api).await?;
            let size = ScreenSize { width: style::width(), height: None };
            return output::show(&text(&state, &api, size).await);
        }
        tokio::select! {
            ended = follow(&api) => ended,
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.map_err(no_signals)?;
                // The prompt of the shell gets a line of its own, below the `^C`.
                output::show("\n")
            }
        }
    })
}

/// Shows the cluster in the terminal, and again after each change, until the future is dropped. It is an error if the cluster cannot be
/// read at the start, or the terminal cannot be written.
async fn follow(api: &Api) -> Result<(), CliError> {
    let (state, follower) = Follower::start(api).await?;
    tokio::select! {
        () = follower.follow(&state) => Ok(()),
        ended = show(api, &state) => ended,
    }
}

/// Prints `state` on the terminal whenever the state or the size of the terminal changes, without an end.
async fn show(api: &Api, state: &State) -> Result<(), CliError> {
    let mut resized = signal(SignalKind::window_change()).map_err(no_signals)?;
    let (shortest, longest) = BETWEEN;
    loop {
        let (width, height) = (style::width().unwrap_or(USUAL.0), style::height().unwrap_or(USUAL.1));
        let shown = state.revision().revision;
        output::redraw(&text(state, api, ScreenSize { width: Some(width), height: Some(height) }).await)?;
        tokio::select! {
            () = async { tokio::join!(state.changed(shown, longest), sleep(shortest)); } => {}
            _ = resized.recv() => {}
        }
    }
}

/// Returns what `top` shows of the last snapshot, cut to this size.
async fn text(state: &State, api: &Api, size: ScreenSize) -> String {
    let snapshot = state.snapshot().await;
    screen::text(&snapshot, &state.revision(), &api.server, Timestamp::now(), size)
}

/// Returns the error that this process cannot receive signals of the operating system.
fn no_signals(error: std::io::Error) -> CliError {
    CliError::Cluster { what: "signals of this process".to_owned(), problem: error.to_string() }
}

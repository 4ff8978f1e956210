//! `kubectl giveway top`: the capacity, the plans in progress and the queue in the terminal.
//!
//! The cluster is read and shown again until the command is interrupted. The terminal is only erased and written; no mode of it is
//! changed, so nothing must be restored, whatever ends the command.

mod screen;

use crate::args::top::TopArgs;
use crate::connect::{Api, ClusterConnection, block_on};
use crate::error::CliError;
use crate::output::{self, style};
use crate::overview::State;
use k8s_openapi::jiff::Timestamp;
use screen::ScreenSize;
use std::io::IsTerminal as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

/// Number of columns and lines of a terminal that does not tell them.
const USUAL: (u16, u16) = (80, 24);

/// Shows the cluster until it is interrupted; once if that was asked for, or if standard output is no terminal.
pub(crate) fn run(args: &TopArgs, connection: &ClusterConnection) -> Result<(), CliError> {
    block_on(async {
        let api = connection.api().await?;
        if args.once || !std::io::stdout().is_terminal() {
            let (state, _) = State::read(&api).await?;
            let size = ScreenSize { width: style::width(), height: None };
            return output::show(&screen::text(&state, &api.server, Timestamp::now(), size));
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

/// Shows the cluster and reads it again, forever. If the size of the terminal changes, the last state is shown again.
async fn follow(api: &Api) -> Result<(), CliError> {
    let mut resized = signal(SignalKind::window_change()).map_err(no_signals)?;
    let (state, pause) = State::read(api).await?;
    let mut next = Instant::now() + pause;
    loop {
        let (width, height) = (style::width().unwrap_or(USUAL.0), style::height().unwrap_or(USUAL.1));
        let size = ScreenSize { width: Some(width), height: Some(height) };
        output::redraw(&screen::text(&state, &api.server, Timestamp::now(), size))?;
        tokio::select! {
            () = sleep_until(next) => {
                let pause = state.refresh(api).await;
                next = Instant::now() + pause;
            }
            _ = resized.recv() => {}
        }
    }
}

/// Returns the error of a signal that cannot be received.
fn no_signals(error: std::io::Error) -> CliError {
    CliError::Cluster { what: "signals of this process".to_owned(), problem: error.to_string() }
}

//! `kubectl giveway ui`: a page in the browser that shows the queue, plans, the history and the capacity of the cluster.
//!
//! ```text
//! session    which requests are answered: host, token, cookie, origin
//! server     the HTTP server; assets: the files of the page
//! views      the views of the last revision, computed once for all browsers
//! reader     what else is asked of the API server, with the user's rights
//! plan, history, cluster   the views, as pure functions from the state to JSON; the view of the queue is `overview::queue`
//! map        what pods of each priority use on each node
//! ```
//!
//! The server listens at 127.0.0.1 only and writes nothing to the cluster. The views use the decisions, answers and checks of the other
//! commands.

mod assets;
mod cluster;
mod history;
mod map;
mod page_error;
mod plan;
mod query;
mod reader;
mod server;
mod session;
mod views;

use crate::args::ui::UiArgs;
use crate::connect::{ClusterConnection, block_on};
use crate::error::CliError;
use crate::output;
use crate::overview::Follower;
use server::PageServer;
use session::Session;
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::mpsc;

/// Maximum number of questions that wait for the API server.
const QUESTIONS: usize = 16;

/// Runs `kubectl giveway ui`: reads the cluster, prints the URL of the page, and serves the page until it is interrupted.
pub(crate) fn run(args: &UiArgs, connection: &ClusterConnection) -> Result<(), CliError> {
    block_on(async {
        let api = connection.api().await?;
        let (state, follower) = Follower::start(&api).await?;
        let state = Arc::new(state);
        let failed = |error: std::io::Error| CliError::Page(format!("127.0.0.1:{}: {error}", args.port));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await.map_err(failed)?;
        let session = Session::new(listener.local_addr().map_err(failed)?.port(), secret()?, secret()?);
        let url = session.url().unwrap_or_default();
        let (questions, asked) = mpsc::channel(QUESTIONS);
        let page = Arc::new(PageServer::new(session, Arc::clone(&state), questions));
        output::show(&format!("{url}\nThe page is served until this command is interrupted (Ctrl+C).\n"))?;
        if !args.no_open {
            open(&url);
        }
        tokio::select! {
            () = server::serve(listener, page) => Ok(()),
            () = follower.follow(&state) => Ok(()),
            () = reader::answer(&api, asked) => Ok(()),
            interrupted = tokio::signal::ctrl_c() => interrupted.map_err(|error| CliError::Page(error.to_string())),
        }
    })
}

/// Returns 256 random bits of the operating system as hexadecimal digits.
fn secret() -> Result<String, CliError> {
    let mut bytes = [0_u8; 32];
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    random
        .fill(&mut bytes)
        .map_err(|_| CliError::Page("the operating system provides no random numbers".to_owned()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Opens a URL in the browser. A failure is only noted, because the URL was printed before.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    let quiet = command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = quiet.spawn() {
        output::note(&format!("The URL is not opened: {program}: {error}."));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_256_random_bits() {
        let (first, second) = (secret().unwrap(), secret().unwrap());
        assert!(first.len() == 64 && first.bytes().all(|byte| byte.is_ascii_hexdigit()), "{first}");
        assert_ne!(first, second);
    }
}

//! How both daemons start and stop: the flags of their log, the TLS provider, and the signals that end them.

use anyhow::Context as _;
use clap::ValueEnum;
use rustls::crypto::aws_lc_rs;
use std::io::IsTerminal as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// The flags of the log.
#[derive(Clone, Debug, clap::Args)]
pub struct LogOptions {
    /// Format of the log.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// What is logged: a level (error, warn, info, debug, trace), or a filter such as info,giveway_cluster=debug;
    /// giveway_cluster::client=debug logs every request.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log_level: String,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Readable text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts the log, on standard error, and installs the TLS provider. Each process calls it once, before anything else.
///
/// # Errors
/// The filter is invalid, or another TLS provider is installed already.
pub fn start(log: &LogOptions) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&log.log_level)
        .with_context(|| format!("--log-level {:?} is not a log filter", log.log_level))?;
    let provider = aws_lc_rs::default_provider().install_default();
    provider.map_err(|_| anyhow::anyhow!("another TLS provider is installed already"))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match log.log_format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().init(),
    }
    Ok(())
}

/// Returns a future that cancels the first of these tokens at the first SIGTERM or SIGINT, the second one at the second, and so on, and
/// never ends. From this call on, the signals do not end the process any more.
///
/// # Errors
/// The signals cannot be received.
pub fn cancel_on_signals<const N: usize>(tokens: [CancellationToken; N]) -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be received")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be received")?;
    Ok(async move {
        for token in tokens {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!("a signal stops the process");
            token.cancel();
        }
        std::future::pending().await
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[tokio::test]
    async fn each_signal_cancels_the_next_token() {
        let tokens = [CancellationToken::new(), CancellationToken::new()];
        let task = tokio::spawn(cancel_on_signals(tokens.clone()).unwrap());
        for (token, name) in tokens.iter().zip(["TERM", "INT"]) {
            assert!(!token.is_cancelled(), "{name}");
            let script = format!("kill -{name} {}", std::process::id());
            assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
            token.cancelled().await;
        }
        task.abort();
    }

    #[test]
    fn a_wrong_filter_is_an_error_that_names_the_flag() {
        let log = LogOptions { log_format: LogFormat::Text, log_level: "giveway_planner=loud".to_owned() };
        let error = start(&log).unwrap_err().to_string();
        assert_eq!(error, "--log-level \"giveway_planner=loud\" is not a log filter");
    }
}

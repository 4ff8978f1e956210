//! Starts the operator.

use anyhow::Context as _;
use clap::Parser;
use giveway_operator::config::{Config, LogFormat};
use std::io::IsTerminal;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let config = Config::parse();
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("another TLS provider is installed already"))?;
    let filter = EnvFilter::try_new(&config.log_level)
        .with_context(|| format!("--log-level {:?} is no log filter", config.log_level))?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match config.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    giveway_operator::end_on_panic();
    let stop = CancellationToken::new();
    let on_signal = stop.clone();
    tokio::spawn(async move {
        if let Err(error) = stop_signal().await {
            tracing::error!(%error, "signals cannot be received");
        }
        tracing::info!("stopping");
        on_signal.cancel();
    });
    giveway_operator::run(config, stop).await
}

/// Resolves at SIGTERM or SIGINT.
async fn stop_signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

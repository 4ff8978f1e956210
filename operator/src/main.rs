//! Starts the operator.

use clap::Parser;
use giveway_operator::config::Config;
use giveway_serving::process;
use tokio_util::sync::CancellationToken;

/// Reads the flags and runs the operator until SIGTERM or SIGINT. The error says why it ended otherwise.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let config = Config::parse();
    process::start(&config.log)?;
    giveway_operator::end_on_panic();
    let stop = CancellationToken::new();
    tokio::spawn(process::cancel_on_signals([stop.clone()])?);
    giveway_operator::run(config, stop).await
}

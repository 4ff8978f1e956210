//! The operator of Giveway. Data flows one way:
//!
//! ```text
//! watch → model → queue → planner → ledger → actuate → status, event
//! ```
//!
//! One task, the [`arbiter`], owns the model and decides; [`actuate`] makes the calls. See the design, section 5.

pub mod actuate;
pub mod arbiter;
pub mod backfill;
pub mod book;
pub mod cascade;
pub mod certificate;
pub mod command;
pub mod config;
pub mod devices;
pub mod fallen;
mod follow;
pub mod gather;
pub mod health;
pub mod history;
pub mod housekeeping;
pub mod input;
pub mod lease;
pub mod ledger;
pub mod merge;
pub mod metrics;
pub mod missing;
pub mod model;
mod native_groups;
pub mod pulse;
pub mod queue;
pub mod report;
pub mod rescue;
pub mod status;
#[cfg(test)]
mod testing;
pub mod watch;
pub mod watches;
pub mod words;

use actuate::Actuator;
use anyhow::Context;
use arbiter::Arbiter;
use config::Config;
use kube::Client;
use lease::{Election, LeaseOptions};
use metrics::Metrics;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use watches::Watches;

/// Runs the operator until `stop` is cancelled, or until it loses its lease, which is an error.
pub async fn run(config: Config, stop: CancellationToken) -> anyhow::Result<()> {
    let mut kubernetes =
        kube::Config::infer().await.context("no API server: set KUBECONFIG, or run inside a cluster")?;
    let watching = Client::try_from(kubernetes.clone()).context("the API server's configuration cannot be used")?;
    // A blocked eviction is a 429, which the client library would repeat for minutes: retries are ours.
    kubernetes.default_retry = false;
    let writing = Client::try_from(kubernetes.clone())?;
    let election_client = Client::try_from(kubernetes)?;

    let certificates = certificate::Options::new(&config).map_err(|error| anyhow::anyhow!("--webhook-url {error}"))?;
    let metrics = Metrics::default();
    let (synced, is_synced) = tokio::sync::watch::channel(false);
    let options = LeaseOptions {
        name: config.lease_name.clone(),
        namespace: config.namespace.clone(),
        identity: config.identity(),
        duration: Duration::from_secs(config.lease_duration_seconds),
    };
    tracing::info!(identity = %options.identity, "starting");
    let (election, leadership) = Election::new(election_client, options);
    let (inputs, receiver) = mpsc::channel(8192);
    let keeper = certificates
        .map(|options| certificate::Keeper::new(writing.clone(), options, leadership.clone(), metrics.clone()));
    let certificates = tokio::spawn(async move {
        match keeper {
            Some(keeper) => keeper.run().await,
            None => std::future::pending().await,
        }
    });
    let actuator = Actuator::new(writing, leadership.clone(), metrics.clone(), &config, inputs.clone());
    let watches = Watches::default();
    let readiness = health::Readiness { leadership: leadership.clone(), synced: is_synced, watches: watches.clone() };
    let health = tokio::spawn(health::serve(config.metrics_address, metrics.clone(), readiness));
    let election = tokio::spawn(election.run(stop));
    // The lists are made after the lease was won: a new leader sees every plan and every eviction of the last one.
    let (mut won, changes, told) = (leadership.clone(), inputs.clone(), watches.clone());
    let watching = tokio::spawn(async move {
        won.acquired().await;
        watch::start(&watching, &changes, &told).join_next().await
    });
    let arbiter = tokio::spawn(Arbiter::new(config, actuator, leadership, metrics, synced, watches).run(receiver));
    drop(inputs);

    tokio::select! {
        ended = election => ended.context("the election ended")?.context("leadership")?,
        ended = arbiter => ended.context("the arbiter ended")?,
        ended = watching => ended.context("the watches ended")?.transpose().context("a watch ended")?.unwrap_or_default(),
        ended = certificates => ended.context("the keeper of certificates ended")?,
        ended = health => ended.context("the health server ended")?.context("metrics address")?,
    }
    Ok(())
}

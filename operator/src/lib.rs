//! The operator of Giveway. Data flows one way:
//!
//! ```text
//! feeds → messages → model → preemption → planner → plans, departures → messages → calls → status
//! ```
//!
//! One task, the [`arbiter`], owns the model and decides; [`calls`] makes the requests. See the design, section 5.

pub mod arbiter;
pub mod calls;
pub mod capacity_requests;
pub mod certificate;
pub mod clock;
pub mod config;
pub mod critical_addons;
pub mod departures;
pub mod dump;
pub mod feeds;
pub mod gangs;
pub mod leadership;
pub mod limits;
pub mod messages;
pub mod model;
pub mod observability;
pub mod plans;
pub mod preemption;
pub mod speaker;
pub mod status;
#[cfg(test)]
mod testing;
pub mod views;

use anyhow::Context;
use arbiter::Arbiter;
use calls::Actuator;
use clock::ServerTime;
use config::Config;
use feeds::watch;
use giveway_cluster::client;
use giveway_crds::answers::managed_fields::LeaveOut;
use giveway_crds::names::LEASE;
use giveway_serving::patience::Patience;
use kube::Client;
use leadership::health;
use leadership::lease::{Election, LeaseOptions};
use leadership::watches::Watches;
use observability::metrics::Metrics;
use observability::timing::Timed;
use observability::trace::Tracer;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Sets a panic hook that ends the process after the message of the panic, in whatever task it is. Other tasks would not notice that the
/// task is missing, for example that a call is never answered; the next leader starts from the state in the API server.
pub fn end_on_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::abort();
    }));
}

/// Runs the operator until `stop` is cancelled. The error says that it could not start, has lost its lease, or is stuck.
pub async fn run(config: Config, stop: CancellationToken) -> anyhow::Result<()> {
    // Until this process handles it, the signal would end it.
    let dump_signals = signal(SignalKind::user_defined1()).context("SIGUSR1 cannot be received")?;
    let mut kubernetes =
        kube::Config::infer().await.context("no API server: set KUBECONFIG, or run inside a cluster")?;
    // The client library would retry answers 429 and 503 for minutes without reporting them. But 429 answers a blocked eviction, and a
    // rejected watch counts as broken: Giveway makes its own retries.
    kubernetes.default_retry = false;
    let client = |kubernetes| {
        let client = client::builder(kubernetes).context("the API server's configuration cannot be used");
        client.map(|client| client.with_layer(&LeaveOut))
    };
    let watching: Client = client(kubernetes.clone())?.with_layer(&Patience::default()).build();
    let metrics = Metrics::default();
    let timed = |kubernetes| client(kubernetes).map(|client| client.with_layer(&Timed(metrics.clone())).build());
    let writing = timed(kubernetes.clone())?;
    let election_client = timed(kubernetes)?;

    let (synced, is_synced) = tokio::sync::watch::channel(false);
    let options = LeaseOptions {
        name: LEASE.to_owned(),
        namespace: config.namespace.clone(),
        identity: config.identity(),
        duration: Duration::from_secs(config.lease_duration_seconds),
    };
    tracing::info!(identity = %options.identity, "starting");
    let (election, leadership) = Election::new(election_client, options, is_synced.clone());
    let liveness = leadership.liveness().clone();
    liveness.clone().watch(stop.clone()).context("the watchdog cannot be started")?;
    let (inputs, receiver) = mpsc::channel(8192);
    let actuator = Actuator::new(writing.clone(), leadership.clone(), metrics.clone(), &config, inputs.clone());
    let (leads, measures) = (leadership.clone(), metrics.clone());
    let rotator = certificate::CertificateRotator::new(writing, &config, actuator.clone(), leads, measures)
        .map_err(|error| anyhow::anyhow!("--webhook-url {error}"))?;
    let certificates = tokio::spawn(async move {
        match rotator {
            Some(rotator) => rotator.run().await,
            None => std::future::pending().await,
        }
    });
    let watches = Watches::default();
    let readiness = health::Readiness { leadership: leadership.clone(), synced: is_synced, watches: watches.clone() };
    let listener = TcpListener::bind(config.metrics_address).await.context("metrics address")?;
    let health = tokio::spawn(health::serve(listener, metrics.clone(), readiness));
    let election = tokio::spawn(election.run(stop));
    let (led, changes, reports) = (leadership.clone(), inputs.clone(), watches.clone());
    let server_time = ServerTime::default();
    let clocks = tokio::spawn(server_time.clone().keep(watching.clone()));
    let (time, namespace) = (server_time.clone(), config.namespace.clone());
    let provisioning = config.provisioning_method;
    let watching = tokio::spawn(async move {
        // Nothing is decided before the lists are complete and the clock has been compared with the API server's.
        time.compare(&watching).await;
        watch::start(&watching, &namespace, &changes, &reports, (provisioning, led)).join_next().await
    });
    let tracer = config.traces_endpoint.as_deref().map(Tracer::to).transpose()?.unwrap_or_default();
    let arbiter = Arbiter::new(config, actuator, leadership, metrics, synced, watches)
        .with_server_time(server_time)
        .with_tracer(tracer);
    let arbiter = tokio::spawn(arbiter.run(receiver));
    tokio::spawn(dump::request(dump_signals, inputs.clone()));
    drop(inputs);

    tokio::select! {
        ended = election => ended.context("the election ended")?.context("leadership")?,
        ended = arbiter => ended.context("the arbiter ended")?,
        ended = watching => ended.context("the watches ended")?.transpose().context("a watch ended")?.unwrap_or_default(),
        ended = certificates => ended.context("the task that renews certificates ended")?,
        ended = clocks => ended.context("the comparison of clocks ended")?,
        ended = health => ended.context("the health server ended")?,
    }
    // The watchdog stops a process that is stuck.
    match liveness.problem(Instant::now()) {
        Some(problem) => Err(anyhow::anyhow!(problem)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// Not a test: the next test runs it in a process of its own.
    #[tokio::test]
    #[ignore = "ends the process"]
    async fn a_task_panics_while_another_one_continues() {
        super::end_on_panic();
        tokio::spawn(async { panic!("a bug") });
        tokio::time::sleep(Duration::from_secs(60)).await;
    }

    #[test]
    fn a_panic_in_any_task_ends_the_process_with_its_message() {
        let start = Instant::now();
        let arguments = ["--ignored", "--exact", "--nocapture", "tests::a_task_panics_while_another_one_continues"];
        let ended = Command::new(std::env::current_exe().unwrap()).args(arguments).output().unwrap();
        assert_eq!(ended.status.signal(), Some(6), "{ended:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("a bug"), "{ended:?}");
        assert!(start.elapsed() < Duration::from_secs(50), "at once, not when the other one ends");
    }
}

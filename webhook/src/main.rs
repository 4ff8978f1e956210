//! The webhook's process: starts its components, and stops them in order on SIGTERM or Ctrl-C.

use anyhow::Context;
use clap::Parser;
use giveway_cluster::client;
use giveway_crds::answers::managed_fields::LeaveOut;
use giveway_serving::patience::Patience;
use giveway_serving::{Limits, ServerMetrics, Shutdown, process, serve, service};
use giveway_webhook::Error;
use giveway_webhook::admission::Admission;
use giveway_webhook::config::Config;
use giveway_webhook::guard::Guard;
use giveway_webhook::guard::claim::ApiLedger;
use giveway_webhook::guard::delay::RejectionDelays;
use giveway_webhook::health::Health;
use giveway_webhook::kept_nodes;
use giveway_webhook::lookup::ApiLookup;
use giveway_webhook::metrics::Metrics;
use giveway_webhook::notice;
use giveway_webhook::routes;
use giveway_webhook::supervise::Tasks;
use giveway_webhook::tls::{self, Certificate, Directory, follow_secret};
use giveway_webhook::watch::{SharedView, follow_all};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use warp::Filter;

/// Maximum wait for the first list of the watches; below the timeout of the webhook configurations.
const PATIENCE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let config = Config::parse();
    config.check().map_err(anyhow::Error::msg)?;
    process::start(&config.log)?;

    let client_config = kube::Config::infer().await.context("no API server is configured")?;
    let mut watching = client_config.clone();
    let client = client::builder(client_config).context("the API server's configuration cannot be used")?;
    let client = client.with_layer(&LeaveOut).build();
    // A watch that is rejected or not answered is reported as broken; the client library's own retries would hide that
    // for minutes.
    watching.default_retry = false;
    let watching = client::builder(watching)?.with_layer(&LeaveOut).with_layer(&Patience::default()).build();

    let metrics = Arc::new(Metrics::default());
    let view = SharedView::new(config.settings());
    let view = Arc::new(if config.guard { view.guarded() } else { view });
    let certificate = Arc::new(Certificate::default());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let authorities = config.client_ca_file.as_deref();
    let acceptor = tls::acceptor(Arc::clone(&provider), Arc::clone(&certificate), authorities)?;
    let mut tasks = Tasks::default();
    tasks.start(
        "the certificate",
        follow_certificate(client.clone(), config.clone(), provider, Arc::clone(&certificate), Arc::clone(&metrics)),
    );
    follow_all(&watching, &view, &mut tasks);

    let shutdown = Shutdown::default();
    let health = Health::new(certificate, Arc::clone(&view), shutdown.drain.clone());
    let lookup = ApiLookup::new(client.clone(), Arc::clone(&metrics));
    // Separate queues, so that events that any user can cause do not displace the guard's events.
    let (notices, queue) = notice::queue();
    tasks.start("the writer of events on owners", notice::write_on_owners(client.clone(), queue));
    if config.critical_addons {
        let longest = Duration::from_secs(config.kept_node_seconds);
        tasks.start(
            "the removal of expired taints for critical add-ons",
            kept_nodes::remove_overdue_taints(client.clone(), longest),
        );
    }
    let admission = Admission::new(Arc::clone(&view), lookup, Arc::clone(&metrics), PATIENCE).with_notices(notices);
    let admission = Arc::new(admission);
    let timeout = Duration::from_secs(config.timeout_seconds);
    let mut limits = Limits {
        arrival: timeout,
        memory: usize::try_from(config.body_budget_bytes)?,
        authenticated: authorities.is_some(),
        ..Limits::default()
    };
    let mut reviews = routes::admission(admission, health.clone(), timeout);
    if config.guard {
        let most = usize::try_from(config.guard_max_delayed)?;
        let time = Duration::from_secs(config.guard_delay_seconds);
        let longest = Duration::from_secs(config.guard_max_delay_seconds);
        let delays = RejectionDelays::new(time, longest, most, shutdown.drain.clone(), metrics.guard.clone());
        let (notices, queue) = notice::queue();
        tasks.start("the writer of events on pods", notice::write(client.clone(), queue));
        let ledger = ApiLedger::new(client);
        let guard = Arc::new(Guard::new(view, ledger, delays, notices, Arc::clone(&metrics), PATIENCE));
        let timeout = Duration::from_secs(config.guard_timeout_seconds);
        reviews = reviews.or(routes::guard(guard, timeout)).unify().boxed();
        // A delayed rejection occupies a connection.
        limits.connections += most;
    }
    let reviews = service(reviews);
    let plain = service(routes::metrics(Arc::clone(&metrics), health.clone()));

    let listener = listen(config.address).await?;
    health.port_is_bound();
    let metrics_listener = listen(config.metrics_address).await?;
    tracing::info!(address = %config.address, metrics = %config.metrics_address, "listening");

    // The first signal starts draining, the second one stops the server at once.
    let tokens = [shutdown.drain.clone(), shutdown.abort.clone()];
    tasks.start("the handler of signals", process::cancel_on_signals(tokens)?);
    // The metrics server's own metrics are not exported, and it runs until the process ends.
    let (endless, uncounted) = (Shutdown::default(), ServerMetrics::default());
    tasks.start("the metrics", serve(metrics_listener, None, plain, Limits::default(), endless, uncounted));
    tokio::select! {
        () = serve(listener, Some(acceptor), reviews, limits, shutdown, metrics.server.clone()) => {}
        error = tasks.first_to_end() => return Err(error.into()),
    }
    tracing::info!("ended");
    Ok(())
}

/// Keeps `certificate` up to date, from the directory or the Secret that the flags name. Never returns.
async fn follow_certificate(
    client: kube::Client,
    config: Config,
    provider: Arc<CryptoProvider>,
    certificate: Arc<Certificate>,
    metrics: Arc<Metrics>,
) {
    if let Some(path) = config.tls_directory {
        Directory::new(path, provider, certificate).follow(metrics).await;
    } else if let Some(name) = config.tls_secret {
        follow_secret(client, &config.namespace, &name, provider, certificate, metrics).await;
    }
}

/// Returns a listener that is bound to this TCP address. The error names the address.
async fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

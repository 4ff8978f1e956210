//! Installs Giveway as a user does: the CRDs of `crds/`, the chart of `helm/` rendered by the real helm, and operator and webhook
//! as two processes, each with its own ServiceAccount and the rights of the chart.

pub mod chart;
mod daemon;
mod edition;
mod hooks;
pub(crate) mod http;
mod manifests;
mod release;
mod rendered;
mod skew;

pub use daemon::Daemon;
pub(crate) use daemon::Ends;
pub use edition::{Edition, predecessor_missing};
pub use hooks::run_hook;
pub use manifests::{helm, install_crds, kubectl};
pub use release::{install_release, release_values};
pub use rendered::install_chart;

use crate::control_plane::{ControlPlane, Program, State, kubeconfig, write_private};
use crate::proxy::Proxy;
use crate::statistics::{self, Started};
use crate::wait;
use anyhow::{Context as _, Result, bail};
use giveway_crds::plan::StoredPreemptor;
use giveway_crds::policy::SchedulingPolicy;
use giveway_crds::preemption::PreemptionSpec;
use giveway_crds::{PodGroup, PodGroupSpec, Preemption, condition, keys};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Namespace of the installation.
pub const NAMESPACE: &str = "giveway-system";
/// Names of programs, Deployments and ServiceAccounts.
const OPERATOR: &str = "giveway-operator";
const WEBHOOK: &str = "giveway-webhook";
/// Deadline for a daemon to become ready.
const READY: Duration = Duration::from_secs(60);

/// Settings of an installation.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Additional flags of the operator.
    pub operator_flags: Vec<String>,
    /// Additional flags of the webhook.
    pub webhook_flags: Vec<String>,
    /// Additional values of the chart, as `key=value`.
    pub helm_values: Vec<String>,
    /// Whether a proxy that injects faults is between the operator and the API server.
    pub proxy: bool,
    /// The source of the webhook's certificate.
    pub certificates: Certificates,
    /// The version of Giveway. The previous version is installed as a helm release.
    pub edition: Edition,
    /// Deadline for a daemon to become ready; `None` stands for a minute.
    pub ready_within: Option<Duration>,
}

/// The source of the webhook's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Certificates {
    /// Files that the harness creates once.
    #[default]
    Fixed,
    /// Secrets that the operator creates, which is the default of the chart.
    Operator,
}

/// An installed Giveway.
pub struct Giveway {
    /// The operator.
    pub operator: Daemon,
    /// The webhook.
    pub webhook: Daemon,
    /// The proxy between the operator and the API server, if there is one.
    pub proxy: Option<Proxy>,
    /// The values of the chart.
    values: Vec<String>,
}

impl Settings {
    /// Returns the state of a control plane that an installation with these settings needs. Flags of the daemons do not affect
    /// it.
    pub fn state(&self) -> State {
        let as_remembered =
            self.helm_values.is_empty() && self.certificates == Certificates::Fixed && self.edition == Edition::Current;
        if as_remembered { State::Giveway } else { State::Bare }
    }
}

impl Giveway {
    /// Installs CRDs and chart unless the state of the control plane has them already, starts both daemons and waits until
    /// admission is in force.
    ///
    /// # Errors
    /// If a manifest is rejected or a daemon does not become ready.
    pub async fn install(plane: &mut ControlPlane, settings: &Settings) -> Result<Self> {
        let edition = settings.edition;
        let ports = plane.ports();
        let (https, webhook_metrics, operator_metrics) =
            (ports.webhook(), ports.webhook_metrics(), ports.operator_metrics());
        let url = format!("https://127.0.0.1:{https}");
        // Critical add-ons are off in the chart's defaults. Every world turns them on, also those of `make up` and of the demonstrations:
        // both daemons have them on unless a test passes another flag, and need the rights for them.
        let mut values = vec![format!("webhook.url={url}"), chart::CRITICAL_ADDONS.to_owned()];
        let mut operator_flags = vec![format!("--metrics-address=127.0.0.1:{operator_metrics}")];
        let certificate = match settings.certificates {
            Certificates::Fixed => {
                values.push(format!("webhook.caBundle={}", kubeconfig::base64(plane.pki().ca().as_bytes())));
                format!("--tls-directory={}", certificate_files(plane)?)
            }
            Certificates::Operator => {
                operator_flags.extend(["--certificates=operator".to_owned(), format!("--webhook-url={url}")]);
                "--tls-secret=giveway-webhook-tls".to_owned()
            }
        };
        values.extend(settings.helm_values.iter().cloned());
        if plane.state() == State::Bare {
            statistics::count(Started::Chart);
            manifests::install_crds_of(plane, edition).await?;
            manifests::create_namespace(plane, NAMESPACE).await?;
            match edition {
                Edition::Current => manifests::install_chart(plane, &values).await?,
                Edition::Predecessor => manifests::install_release_of(plane, edition, &values).await?,
            }
            if settings.state() == State::Giveway {
                plane.remember_giveway().await?;
            }
        }
        statistics::count(Started::Daemons);

        let mut webhook_flags = vec![
            format!("--address=127.0.0.1:{https}"),
            format!("--metrics-address=127.0.0.1:{webhook_metrics}"),
            certificate,
        ];
        webhook_flags.extend(settings.webhook_flags.iter().cloned());
        operator_flags.extend(settings.operator_flags.iter().cloned());
        let proxy = match settings.proxy {
            true => Some(Proxy::start(plane.server(), plane.pki()).await?),
            false => None,
        };
        let server = proxy.as_ref().map_or(plane.server(), Proxy::url);
        let mut giveway = Self {
            webhook: own(plane, (WEBHOOK, edition), (plane.server(), webhook_metrics), webhook_flags).await?,
            operator: own(plane, (OPERATOR, edition), (server, operator_metrics), operator_flags).await?,
            proxy,
            values,
        };
        giveway.start(plane, settings.ready_within.unwrap_or(READY)).await?;
        Ok(giveway)
    }

    /// Starts both daemons and waits until they are ready, each for at most `limit`, and admission is in force.
    async fn start(&mut self, plane: &ControlPlane, limit: Duration) -> Result<()> {
        self.webhook.spawn()?;
        self.operator.spawn()?;
        self.webhook.wait_ready(limit).await?;
        self.operator.wait_ready(limit).await?;
        wait_for_admission(plane.client()).await
    }

    /// Upgrades CRDs and chart to those of this checkout with `kubectl apply` and `helm upgrade`. The daemons keep running.
    ///
    /// # Errors
    /// If a manifest is rejected.
    pub async fn upgrade_chart(&self, plane: &ControlPlane) -> Result<()> {
        install_crds(plane).await?;
        manifests::install_release_of(plane, Edition::Current, &self.values).await?;
        wait_for_admission(plane.client()).await
    }

    /// Replaces both daemons by those of this checkout. As in a Deployment, the old ones get SIGTERM.
    ///
    /// # Errors
    /// If a daemon does not become ready.
    pub async fn upgrade_daemons(&mut self) -> Result<()> {
        for (daemon, name) in [(&mut self.webhook, WEBHOOK), (&mut self.operator, OPERATOR)] {
            daemon.terminate().await;
            daemon.set_program(Edition::Current.program(name)?);
            daemon.spawn()?;
            daemon.wait_ready(READY).await?;
        }
        Ok(())
    }
}

/// Returns another operator, which is not started and has no proxy.
///
/// # Errors
/// If the API server does not answer.
pub async fn another_operator(plane: &ControlPlane, flags: &[String]) -> Result<Daemon> {
    let metrics = plane.ports().additional();
    let flags = [&[format!("--metrics-address=127.0.0.1:{metrics}")], flags].concat();
    let mut other = own(plane, (OPERATOR, Edition::Current), (plane.server(), metrics), flags).await?;
    other.rename("giveway-operator-2");
    Ok(other)
}

/// Writes a certificate of the control plane's authority and returns its directory.
fn certificate_files(plane: &ControlPlane) -> Result<String> {
    let tls = plane.directory().join("webhook-tls");
    std::fs::create_dir_all(&tls)?;
    let identity = plane.pki().server(&[])?;
    write_private(&tls.join("tls.crt"), identity.certificate.as_bytes())?;
    write_private(&tls.join("tls.key"), identity.key.as_bytes())?;
    Ok(tls.display().to_string())
}

/// Returns a daemon from the build of the harness, with the settings of the chart.
async fn own(
    plane: &ControlPlane,
    (name, edition): (&str, Edition),
    reached: (&str, u16),
    mut args: Vec<String>,
) -> Result<Daemon> {
    args.insert(0, format!("--namespace={NAMESPACE}"));
    daemon(plane, (name, edition.program(name)?), reached, args).await
}

/// Returns the daemon with a kubeconfig for the API server at this URL and for the ServiceAccount with the name of the program.
async fn daemon(
    plane: &ControlPlane,
    (name, path): (&str, PathBuf),
    (server, metrics): (&str, u16),
    args: Vec<String>,
) -> Result<Daemon> {
    let token = token(plane.client(), name).await?;
    let user = format!("system:serviceaccount:{NAMESPACE}:{name}");
    let mut file = plane.directory().join(format!("{name}.kubeconfig"));
    // A process of this name may run already.
    if file.exists() {
        file = plane.directory().join(format!("{name}-{metrics}.kubeconfig"));
    }
    let mut config = plane.kubeconfig_with_token(&user, &token);
    for cluster in config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        cluster.server = Some(server.to_owned());
    }
    kubeconfig::write(&file, &config)?;
    let env = BTreeMap::from([
        ("KUBECONFIG".to_owned(), file.display().to_string()),
        // Backtraces of panics but not of errors, whose messages suffice.
        ("RUST_BACKTRACE".to_owned(), "1".to_owned()),
        ("RUST_LIB_BACKTRACE".to_owned(), "0".to_owned()),
    ]);
    let program = Program { name: name.to_owned(), path, args, env, directory: plane.directory().to_path_buf() };
    Ok(Daemon::new(plane.spawner(), program, metrics))
}

async fn token(client: Client, account: &str) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, NAMESPACE);
    let spec = TokenRequestSpec { expiration_seconds: Some(24 * 3600), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await;
    let answer = answer.with_context(|| format!("requesting a token of the ServiceAccount {account}"))?;
    answer.status.map(|status| status.token).context("the API server answered without a token")
}

/// Waits until the operator has observed the objects that were stored before this call, as far as that is visible: until it has
/// written the status of a new PodGroup, which is not deleted. Watches of other kinds may lag behind that of PodGroups by less
/// than that time.
pub(crate) async fn wait_for_operator(client: Client) -> Result<()> {
    let groups: Api<PodGroup> = Api::namespaced(client, "default");
    let name = "giveway-test-ended";
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let spec = PodGroupSpec { scheduling_policy: SchedulingPolicy::gang(1), ..PodGroupSpec::default() };
    groups.create(&PostParams::default(), &PodGroup { metadata, spec, status: None }).await?;
    wait::until("the operator writes the status of a new PodGroup", READY, async || {
        let group = groups.get(name).await.map_err(|error| error.to_string())?;
        let conditions = group.status.unwrap_or_default().conditions;
        let waits = condition::find(&conditions, condition::types::INITIALLY_SCHEDULED);
        let waits = waits.filter(|waits| waits.reason == condition::Reason::WaitingForPods.as_str());
        waits.map(drop).ok_or_else(|| format!("its conditions are {conditions:?}"))
    })
    .await?;
    Ok(())
}

/// Waits until webhooks and policies are in force, because the API server observes their configurations with a delay.
pub(crate) async fn wait_for_admission(client: Client) -> Result<()> {
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let groups: Api<PodGroup> = Api::namespaced(client.clone(), "default");
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let name = "giveway-admission-probe";
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let group = PodGroup {
        metadata,
        spec: PodGroupSpec {
            scheduling_policy: SchedulingPolicy::gang(1),
            priority_class_name: Some(name.to_owned()),
            ..PodGroupSpec::default()
        },
        status: None,
    };
    let mut shape = crate::cluster::Shape::default();
    shape.labels.insert(keys::LABEL_POD_GROUP.to_owned(), name.to_owned());
    let pod = shape.pod(name);
    // This policy was applied last. When it denies the request, the earlier ones are in force too.
    let preemptions: Api<Preemption> = Api::all(client);
    // The previous version requires a preemptor and a strategy.
    let spec = PreemptionSpec {
        preemptor: Some(StoredPreemptor::default()),
        strategy: "fewest".to_owned(),
        part: 1,
        parts: 1,
        ..PreemptionSpec::default()
    };
    let plan = Preemption::new(name, spec);
    wait::until("Giveway's admission is in force", READY, async || {
        match groups.create(&dry_run, &group).await {
            Err(kube::Error::Api(status)) if status.message.contains("no PriorityClass with name") => {}
            Err(error) => return Err(format!("the answer to a PodGroup with an unknown class is: {error}")),
            Ok(_) => return Err("a PodGroup with an unknown class is accepted".to_owned()),
        }
        let pod = pods.create(&dry_run, &pod).await.map_err(|error| format!("a member pod is rejected: {error}"))?;
        if !crate::cluster::scheduling_gates(&pod).iter().any(|gate| gate == keys::GATE) {
            return Err("a member of a group that does not exist is not gated".to_owned());
        }
        match preemptions.create(&dry_run, &plan).await {
            Err(kube::Error::Api(status)) if status.message.contains("ValidatingAdmissionPolicy") => Ok(()),
            answer => Err(format!("the answer to a Preemption of another user is: {answer:?}")),
        }
    })
    .await?;
    Ok(())
}

/// Runs kubectl as the administrator and returns its output.
///
/// # Errors
/// If kubectl failed; the message has its error output.
pub async fn run_kubectl(plane_kubeconfig: &Path, args: &[&str]) -> Result<String> {
    let output = kubectl(plane_kubeconfig, args).await?;
    if !output.status.success() {
        bail!("kubectl {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

//! Real controllers of other projects with their CRDs and webhooks, built by `make controllers`: JobSet, LeaderWorkerSet,
//! KubeRay, Kubeflow Trainer, training-operator and mpi-operator, and Karpenter with fake nodes.

mod webhooks;

use crate::control_plane::{ControlPlane, Process, Program, write_private};
use crate::giveway::{http, run_kubectl};
use crate::{paths, wait};
use anyhow::{Context as _, Result};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Deadline for a controller to become ready.
const READY: Duration = Duration::from_secs(90);
/// Fixed path at which Kubeflow Trainer and training-operator require a certificate before they start. They serve with the
/// certificate in their own temporary directories.
const KUBEFLOW_LOOKS: &str = "/tmp/k8s-webhook-server/serving-certs/tls.crt";
/// Fixed port of mpi-operator's health check.
const MPI_OPERATOR_PROBE: u16 = 8080;

/// A third-party controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// For the kind JobSet.
    JobSet,
    /// For the kind LeaderWorkerSet.
    LeaderWorkerSet,
    /// For the kinds RayCluster and RayJob.
    KubeRay,
    /// For the kind TrainJob; needs the controller of JobSet.
    Trainer,
    /// For the kind PyTorchJob.
    TrainingOperator,
    /// For the kind MPIJob.
    MpiOperator,
    /// Karpenter with its provider for kwok: it creates fake nodes for unschedulable pods, with the annotation by which the
    /// control plane's kwok simulates their kubelets.
    Karpenter,
}

/// Returns a line about the controllers that are not built, or `None` if all are.
pub fn missing() -> Option<String> {
    let missing: Vec<&str> = Controller::ALL.into_iter().filter(|one| !one.is_built()).map(Controller::name).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "Tests with real controllers do not run here: not built are {} (`make test-kinds` builds them, once, in 16 minutes, and \
             runs all).",
            missing.join(", ")
        )
    })
}

/// The running controllers of a control plane. They end when the value is dropped.
#[derive(Default)]
pub struct Controllers(Vec<Process>);

impl Controllers {
    /// Starts the controllers that are built and waits until each is ready and its webhooks are in force.
    ///
    /// # Errors
    /// If a controller does not become ready.
    pub async fn start(plane: &ControlPlane, which: &[Controller]) -> Result<Self> {
        let mut processes = Vec::new();
        for controller in which.iter().filter(|one| one.is_built()) {
            let started = controller.start(plane).await;
            processes.push(started.with_context(|| format!("starting the controller of {controller:?}"))?);
        }
        Ok(Self(processes))
    }

    /// Returns a message for each controller that has ended by itself.
    pub fn ended(&mut self) -> Vec<String> {
        let ended = self.0.iter_mut().filter_map(|process| {
            let status = process.exited()?;
            Some(format!("{} has ended by itself ({status}):\n{}", process.program().name, process.log_tail(10)))
        });
        ended.collect()
    }
}

impl Controller {
    /// All controllers.
    pub const ALL: [Self; 7] = [
        Self::JobSet,
        Self::LeaderWorkerSet,
        Self::KubeRay,
        Self::Trainer,
        Self::TrainingOperator,
        Self::MpiOperator,
        Self::Karpenter,
    ];
    /// The controllers of workloads, in the order of their start.
    pub const WORKLOADS: [Self; 6] =
        [Self::JobSet, Self::LeaderWorkerSet, Self::KubeRay, Self::Trainer, Self::TrainingOperator, Self::MpiOperator];

    /// Returns its name in `tests/controllers`.
    fn name(self) -> &'static str {
        match self {
            Self::JobSet => "jobset",
            Self::LeaderWorkerSet => "lws",
            Self::KubeRay => "kuberay",
            Self::Trainer => "trainer",
            Self::TrainingOperator => "training-operator",
            Self::MpiOperator => "mpi-operator",
            Self::Karpenter => "karpenter",
        }
    }

    /// Returns true if `make controllers` has built it.
    pub fn is_built(self) -> bool {
        self.program().is_file() && self.manifests().is_dir()
    }

    fn program(self) -> PathBuf {
        built().join("bin").join(self.name())
    }

    fn manifests(self) -> PathBuf {
        built().join("manifests").join(self.name())
    }

    async fn start(self, plane: &ControlPlane) -> Result<Process> {
        let (kubeconfig, crds) = (plane.kubeconfig(), self.manifests().join("crds").display().to_string());
        // Some CRDs are too large for the annotation of a client-side apply.
        run_kubectl(&kubeconfig, &["apply", "--server-side", "-f", &crds]).await?;
        wait::until(&format!("the CRDs of {self:?} are established"), READY, async || {
            // `kubectl wait` fails for a CRD that has no conditions yet.
            let wait = ["wait", "--for=condition=established", "--timeout=10s", "-f", &crds];
            run_kubectl(&kubeconfig, &wait).await.map_err(|error| error.to_string())
        })
        .await?;
        match self {
            Self::Trainer => prepare_kubeflow(plane, "kubeflow-system", "kubeflow-trainer-webhook-cert").await?,
            Self::TrainingOperator => prepare_kubeflow(plane, "kubeflow", "training-operator-webhook-cert").await?,
            _ => {}
        }
        let port = plane.ports().additional();
        let probe = if self == Self::MpiOperator { MPI_OPERATOR_PROBE } else { plane.ports().additional() };
        let program = self.command(plane, probe, port)?;
        let mut process = plane.spawner().spawn(program)?;
        let path = if self == Self::MpiOperator { "/healthz" } else { "/readyz" };
        http::wait_ready(&mut process, &format!("the controller of {self:?}"), probe, path, READY).await?;
        self.register_webhooks(plane, port).await?;
        Ok(process)
    }

    /// Returns its command line without leader election and metrics. If metrics cannot be disabled, they use the port of the
    /// webhooks.
    fn command(self, plane: &ControlPlane, probe: u16, port: u16) -> Result<Program> {
        let folder = plane.directory().join(self.name());
        let certificates = folder.join("k8s-webhook-server/serving-certs");
        fs::create_dir_all(&certificates)?;
        let identity = plane.pki().server(&[])?;
        write_private(&certificates.join("tls.crt"), identity.certificate.as_bytes())?;
        write_private(&certificates.join("tls.key"), identity.key.as_bytes())?;
        let mut args = match self {
            Self::Karpenter => vec![format!("--health-probe-port={probe}")],
            Self::MpiOperator => Vec::new(),
            _ => vec![format!("--health-probe-bind-address=127.0.0.1:{probe}")],
        };
        match self {
            Self::JobSet | Self::LeaderWorkerSet => {
                let config = json!({
                    "apiVersion": format!("config.{}.x-k8s.io/v1alpha1", self.name()), "kind": "Configuration",
                    "webhook": {"host": "127.0.0.1", "port": port, "certDir": certificates},
                    "internalCertManagement": {"enable": false},
                });
                let file = folder.join("config.yaml");
                fs::write(&file, config.to_string())?;
                args.extend([format!("--config={}", file.display()), "--metrics-bind-address=0".to_owned()]);
                args.push("--leader-elect=false".to_owned());
            }
            Self::KubeRay => args.extend(["--metrics-addr=0", "--enable-leader-election=false"].map(str::to_owned)),
            Self::Trainer => args.push(format!("--webhook-server-port={port}")),
            Self::TrainingOperator => {
                args.extend([format!("--webhook-server-port={port}"), "--enable-scheme=pytorchjob".to_owned()]);
                args.push("--metrics-bind-address=0".to_owned());
            }
            Self::MpiOperator => args.push("--lock-namespace=default".to_owned()),
            Self::Karpenter => {
                args.extend([format!("--metrics-port={port}"), "--disable-leader-election=true".to_owned()])
            }
        }
        let user = plane.kubeconfig_of(self.name(), &["system:masters"], &format!("{}.kubeconfig", self.name()))?;
        let env = [
            ("KUBECONFIG", user.display().to_string()),
            ("TMPDIR", folder.display().to_string()),
            ("GOMAXPROCS", "2".to_owned()),
        ];
        Ok(Program {
            name: self.name().to_owned(),
            path: self.program(),
            args,
            env: env.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<BTreeMap<_, _>>(),
            directory: plane.directory().to_path_buf(),
        })
    }
}

/// Returns `target/controllers`.
fn built() -> PathBuf {
    paths::repository().join("target/controllers")
}

/// Creates the Secret and the file that Kubeflow's controllers, which rotate certificates themselves, require.
async fn prepare_kubeflow(plane: &ControlPlane, namespace: &str, secret: &str) -> Result<()> {
    let kubeconfig = plane.kubeconfig();
    run_kubectl(&kubeconfig, &["create", "namespace", namespace]).await?;
    run_kubectl(&kubeconfig, &["create", "secret", "generic", secret, "--namespace", namespace]).await?;
    let looks = Path::new(KUBEFLOW_LOOKS);
    if !looks.exists() {
        fs::create_dir_all(looks.parent().unwrap_or(looks))?;
        fs::write(looks, "")?;
    }
    Ok(())
}

//! Installs the chart with `helm install` on a control plane without kubelets: the containers of its Deployments run as processes
//! with the rendered arguments.

use super::{NAMESPACE, OPERATOR, READY, WEBHOOK, daemon, helm};
use crate::control_plane::ControlPlane;
use crate::giveway::{Daemon, Giveway};
use anyhow::{Context as _, Result};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use std::path::{Path, PathBuf};

/// Runs `helm install` with these further arguments, starts the programs of the Deployments and waits until admission is in
/// force. `find` returns the path of a program.
///
/// # Errors
/// If a manifest is rejected or a daemon rejects its arguments.
pub async fn install_chart(
    plane: &ControlPlane,
    chart: &Path,
    args: &[&str],
    find: impl Fn(&str) -> PathBuf,
) -> Result<Giveway> {
    let ports = plane.ports();
    let (https, webhook_metrics, operator_metrics) =
        (ports.webhook(), ports.webhook_metrics(), ports.operator_metrics());
    let (chart, url) = (chart.display().to_string(), format!("webhook.url=https://127.0.0.1:{https}"));
    let install = ["install", "giveway", &chart, "--namespace", NAMESPACE, "--create-namespace", "--set", &url];
    helm(&plane.kubeconfig(), &[&install[..], args].concat()).await?;
    let mut giveway = Giveway {
        webhook: container(plane, WEBHOOK, webhook_metrics, &find).await?,
        operator: container(plane, OPERATOR, operator_metrics, &find).await?,
        proxy: None,
        values: Vec::new(),
    };
    giveway.webhook.flag(&format!("--address=127.0.0.1:{https}"));
    giveway.start(plane, READY).await?;
    Ok(giveway)
}

/// Returns the daemon of a Deployment's only container. Only its addresses are changed.
async fn container(plane: &ControlPlane, name: &str, metrics: u16, find: &impl Fn(&str) -> PathBuf) -> Result<Daemon> {
    let deployments: Api<Deployment> = Api::namespaced(plane.client(), NAMESPACE);
    let deployment = deployments.get(name).await?;
    let pod = deployment.spec.and_then(|spec| spec.template.spec).context("a Deployment has a pod")?;
    let args = pod.containers.into_iter().next().and_then(|container| container.args).unwrap_or_default();
    let mut daemon = daemon(plane, (name, find(name)), (plane.server(), metrics), args).await?;
    daemon.flag(&format!("--metrics-address=127.0.0.1:{metrics}"));
    Ok(daemon)
}

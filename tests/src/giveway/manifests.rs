//! Applies CRDs and chart with the real kubectl and the real helm.

use super::edition::Edition;
use crate::control_plane::ControlPlane;
use crate::{paths, wait};
use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ListParams, ObjectMeta, PostParams};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Output;
use std::time::Duration;
use tokio::process::Command;

/// Applies the CRDs of `crds/` and waits until they are established.
///
/// # Errors
/// If the API server rejects one of the CRDs.
pub async fn install_crds(plane: &ControlPlane) -> Result<()> {
    install_crds_of(plane, Edition::Current).await
}

/// Like [`install_crds`], with the CRDs of an edition.
pub(super) async fn install_crds_of(plane: &ControlPlane, edition: Edition) -> Result<()> {
    let directory = edition.folder("crds");
    super::run_kubectl(&plane.kubeconfig(), &["apply", "-f", &directory.display().to_string()]).await?;
    let crds: Api<CustomResourceDefinition> = Api::all(plane.client());
    wait::until("the CRDs are established", Duration::from_secs(30), async || {
        let all = crds.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let mine = all.items.iter().filter(|crd| crd.spec.group == giveway_crds::keys::GROUP);
        let established = mine.filter(|crd| is_established(crd)).count();
        let wanted = giveway_crds::all_crds().len();
        if established == wanted { Ok(()) } else { Err(format!("{established} of {wanted} are established")) }
    })
    .await?;
    Ok(())
}

fn is_established(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Established" && c.status == "True"))
}

/// Creates a namespace if it does not exist.
pub(super) async fn create_namespace(plane: &ControlPlane, name: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(plane.client());
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    if namespaces.get_opt(name).await?.is_none() {
        let namespace = Namespace { metadata, ..Namespace::default() };
        namespaces.create(&PostParams::default(), &namespace).await?;
    }
    Ok(())
}

/// Renders the chart with these values for daemons outside the cluster, and applies it.
pub(super) async fn install_chart(plane: &ControlPlane, values: &[String]) -> Result<()> {
    let chart = paths::repository().join("helm").display().to_string();
    let mut args: Vec<String> =
        ["template", "giveway", &chart, "--namespace", super::NAMESPACE].map(str::to_owned).to_vec();
    let outside = ["crds.enabled=false", "deployments.enabled=false"].map(str::to_owned);
    for value in outside.iter().chain(values) {
        args.extend(["--set".to_owned(), value.clone()]);
    }
    let helm = run("helm", plane.directory(), &args).await?;
    if !helm.status.success() {
        bail!("helm template: {}", String::from_utf8_lossy(&helm.stderr).trim());
    }
    let manifests = plane.manifests();
    std::fs::write(&manifests, &helm.stdout)?;
    let file = manifests.display().to_string();
    // No default namespace is set, because every manifest has its own; the right to kube-scheduler's Lease is in kube-system.
    super::run_kubectl(&plane.kubeconfig(), &["apply", "-f", &file]).await?;
    Ok(())
}

/// Installs the chart of an edition as a helm release, which `helm upgrade` can change to another edition.
pub(super) async fn install_release_of(plane: &ControlPlane, edition: Edition, values: &[String]) -> Result<()> {
    let chart = edition.folder("helm").display().to_string();
    let mut args = vec!["upgrade", "--install", "giveway", &chart, "--namespace", super::NAMESPACE];
    args.extend(["--set", "deployments.enabled=false", "--set", "crds.enabled=false"]);
    args.extend(values.iter().flat_map(|value| ["--set", value]));
    helm(&plane.kubeconfig(), &args).await.map(drop)
}

/// Runs helm with this kubeconfig and returns its output.
///
/// # Errors
/// If helm failed; the message has its error output.
pub async fn helm(kubeconfig: &Path, args: &[&str]) -> Result<String> {
    let home = kubeconfig.parent().unwrap_or(Path::new("/"));
    let mut all = vec![OsStr::new("--kubeconfig"), kubeconfig.as_os_str()];
    all.extend(args.iter().map(OsStr::new));
    let output = run("helm", home, &all).await?;
    if !output.status.success() {
        bail!("helm {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs kubectl with this kubeconfig.
///
/// # Errors
/// If kubectl is not built or cannot be started.
pub async fn kubectl<S: AsRef<OsStr>>(kubeconfig: &Path, args: &[S]) -> Result<Output> {
    let home = kubeconfig.parent().unwrap_or(Path::new("/"));
    let mut all = vec![OsStr::new("--kubeconfig"), kubeconfig.as_os_str()];
    all.extend(args.iter().map(AsRef::as_ref));
    run("kubectl", home, &all).await
}

/// Runs a program of the control plane's module in the root of the repository with a clean environment.
async fn run<S: AsRef<OsStr>>(name: &str, home: &Path, args: &[S]) -> Result<Output> {
    let output = Command::new(paths::control_plane_program(name)?)
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .current_dir(paths::repository())
        .output();
    output.await.with_context(|| format!("running {name}"))
}

//! Installs Giveway with `helm install`; its Deployments run on real nodes.

use super::{NAMESPACE, helm, wait_for_admission};
use crate::control_plane::ControlPlane;
use crate::{node, paths};
use anyhow::Result;

/// Installs the chart with its default values, the images of the node and these values, and waits until admission is in force.
///
/// # Errors
/// If a manifest is rejected or a Deployment does not become ready.
pub async fn install_release(plane: &ControlPlane, values: &[String]) -> Result<()> {
    let chart = paths::repository().join("helm").display().to_string();
    let values = release_values(values);
    let mut args = vec!["install", "giveway", &chart, "--namespace", NAMESPACE, "--create-namespace"];
    args.extend(["--wait", "--timeout", "3m"]);
    args.extend(values.iter().map(String::as_str));
    helm(&plane.kubeconfig(), &args).await?;
    wait_for_admission(plane.client()).await
}

/// Returns the arguments of helm for the images of the node and these values, each as `key=value`.
pub fn release_values(values: &[String]) -> Vec<String> {
    let images = format!("image.repository={}", node::REPOSITORY);
    // The node is small: both operators together request what is the default of one.
    let small = "operator.resources.requests.cpu=50m".to_owned();
    [images, small].iter().chain(values).flat_map(|value| ["--set".to_owned(), value.clone()]).collect()
}

//! Runs kubectl and helm as the administrator of a world.

use super::World;
use crate::control_plane::kubeconfig;
use crate::giveway;
use std::path::PathBuf;
use std::{fs, io};
use tempfile::NamedTempFile;

/// Writes a manifest to a file that exists as long as the returned value.
fn manifest_file(manifest: &str) -> io::Result<NamedTempFile> {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile()?;
    fs::write(file.path(), manifest)?;
    Ok(file)
}

impl World {
    /// Runs helm as the administrator and returns its output.
    ///
    /// # Errors
    /// The error output if helm failed.
    pub async fn helm(&self, args: &[&str]) -> Result<String, String> {
        giveway::helm(&self.plane.kubeconfig(), args).await.map_err(|error| format!("{error:#}"))
    }

    /// Applies the CRDs of `crds/` on a control plane without Giveway.
    ///
    /// # Panics
    /// If the API server rejects one of the CRDs.
    pub async fn install_crds(&self) {
        giveway::install_crds(&self.plane).await.unwrap();
    }

    /// Runs kubectl as the administrator and returns its output.
    ///
    /// # Errors
    /// The error output if kubectl failed.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String, String> {
        let output = giveway::kubectl(&self.plane.kubeconfig(), args).await.map_err(|error| format!("{error:#}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Writes a kubeconfig of this ServiceAccount and returns its path.
    ///
    /// # Panics
    /// If the account does not exist.
    pub async fn account(&self, namespace: &str, name: &str) -> PathBuf {
        let token = self.kubectl(&["create", "token", name, "-n", namespace]).await.unwrap();
        let file = self.plane.directory().join(format!("{name}.kubeconfig"));
        kubeconfig::write(&file, &self.plane.kubeconfig_with_token(name, token.trim())).unwrap();
        file
    }

    /// Runs `kubectl apply` with a manifest and returns its output.
    ///
    /// # Errors
    /// The error output if the manifest was rejected.
    pub async fn apply(&self, manifest: &str) -> Result<String, String> {
        let file = manifest_file(manifest).map_err(|error| error.to_string())?;
        self.kubectl(&["apply", "-f", &file.path().display().to_string()]).await
    }

    /// Creates an object with kubectl and `dryRun`, and returns the warnings that it printed, one in a line.
    ///
    /// # Panics
    /// If the object is rejected.
    pub async fn warnings_of(&self, namespace: &str, manifest: &str) -> String {
        let file = manifest_file(manifest).unwrap();
        let args = ["create", "--dry-run=server", "-n", namespace, "-f", &file.path().display().to_string()];
        let output = giveway::kubectl(&self.plane.kubeconfig(), &args).await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        said.trim().to_owned()
    }
}

//! The container runtime: configuration, command line and pod network.

use super::programs;
use crate::control_plane::{MachineEntry, Process, Program};
use crate::wait;
use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

/// Addresses of pods, which are visible only in the node's machine.
const PODS: &str = "10.88.0.0/16";

/// Returns the path of containerd's socket in the node's folder.
pub(super) fn socket(folder: &Path) -> PathBuf {
    folder.join("containerd.sock")
}

/// Returns containerd with all its files below this folder and `pause` as the image of sandboxes.
///
/// # Errors
/// If the program is not built or a file cannot be written.
pub(super) fn program(directory: &Path, folder: &Path, pause: &str) -> Result<Program> {
    let networks = folder.join("networks");
    fs::create_dir_all(&networks)?;
    fs::write(networks.join("10-giveway.conflist"), network(&folder.join("addresses")).to_string())?;
    let config = folder.join("containerd.toml");
    let text = configuration(folder, &networks, &programs::directory().join("cni"), pause);
    fs::write(&config, text).with_context(|| format!("writing {}", config.display()))?;
    Ok(Program {
        name: "containerd".to_owned(),
        path: programs::path("containerd")?,
        args: vec!["--config".to_owned(), config.display().to_string()],
        env: BTreeMap::from([("PATH".to_owned(), programs::search_path())]),
        directory: directory.to_path_buf(),
    })
}

/// Returns the configuration. `restrict_oom_score_adj` is set because sandboxes fail if this session may not lower the score.
fn configuration(folder: &Path, networks: &Path, plugins: &Path, pause: &str) -> String {
    let path = |path: &Path| path.display().to_string();
    format!(
        r#"version = 2
root = "{root}"
state = "{state}"
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{opt}"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "{pause}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{networks}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
"#,
        root = path(&folder.join("containerd")),
        state = path(&folder.join("state")),
        socket = path(&socket(folder)),
        opt = path(&folder.join("opt")),
        plugins = path(plugins),
        networks = path(networks),
    )
}

fn network(addresses: &Path) -> serde_json::Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "giveway",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "pods0",
                "isGateway": true,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": PODS}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "dataDir": addresses.display().to_string(),
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

/// Waits until containerd answers.
///
/// # Errors
/// If it has ended or the deadline has passed.
pub(super) async fn wait_ready(
    entry: &MachineEntry,
    folder: &Path,
    process: &mut Process,
    limit: Duration,
) -> Result<()> {
    let ready = wait::until("containerd answers", limit, async || {
        if let Some(status) = process.exited() {
            return Ok(Err(anyhow!("containerd has ended ({status}):\n{}", process.log_tail(15))));
        }
        let said = ctr(entry, folder, &["plugins", "ls", "id==cri"]).map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        // The plugin `cri` is loaded last and listens once it is loaded.
        if said.status.success() && text.contains("ok") { Ok(Ok(())) } else { Err(format!("its plugins: {text}")) }
    });
    ready.await?
}

/// Imports an image archive from this file.
///
/// # Errors
/// If the import fails; the message has the error output of ctr.
pub(super) fn import(entry: &MachineEntry, folder: &Path, archive: &Path) -> Result<()> {
    let archive = archive.display().to_string();
    let said = ctr(entry, folder, &["images", "import", "--local", &archive])?;
    if !said.status.success() {
        bail!("ctr images import {archive}: {}", String::from_utf8_lossy(&said.stderr).trim());
    }
    Ok(())
}

fn ctr(entry: &MachineEntry, folder: &Path, args: &[&str]) -> Result<Output> {
    let mut command = entry.command(&programs::path("ctr")?);
    command.arg("--address").arg(socket(folder)).args(["--namespace", "k8s.io"]).args(args);
    command.output().context("starting ctr")
}

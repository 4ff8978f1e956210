//! The kubelet: configuration and command line.

use super::{containerd, programs};
use crate::control_plane::Program;
use anyhow::Result;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

/// Returns the kubelet of the node `name` with all its files below this folder.
///
/// # Errors
/// If the program is not built or a file cannot be written.
pub(super) fn program(
    directory: &Path,
    folder: &Path,
    kubeconfig: &Path,
    name: &str,
    address: Ipv4Addr,
) -> Result<Program> {
    let names = folder.join("resolv.conf");
    fs::write(&names, "nameserver 127.0.0.1\n")?;
    let path = |path: &Path| path.display().to_string();
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": format!("unix://{}", path(&containerd::socket(folder))),
        // Only the machine and its host can reach the kubelet.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "readOnlyPort": 0,
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": false,
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "resolvConf": path(&names),
        "podLogsDir": path(&folder.join("pods")),
        // A full disk on the developer's machine must not cause evictions.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "registerNode": true,
    });
    let file = folder.join("kubelet.json");
    fs::write(&file, config.to_string())?;
    Ok(Program {
        name: "kubelet".to_owned(),
        path: programs::path("kubelet")?,
        args: vec![
            format!("--config={}", path(&file)),
            format!("--kubeconfig={}", path(kubeconfig)),
            format!("--hostname-override={name}"),
            format!("--node-ip={address}"),
            format!("--root-dir={}", path(&folder.join("kubelet"))),
            format!("--cert-dir={}", path(&folder.join("certificates"))),
        ],
        env: BTreeMap::from([("PATH".to_owned(), programs::search_path())]),
        directory: directory.to_path_buf(),
    })
}

//! kube-proxy, by which pods reach the API server and the API server reaches a webhook's Service.

use super::programs;
use crate::control_plane::Program;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// The port of its health checks.
pub(super) const HEALTH: u16 = 10256;

/// Returns kube-proxy of the node `name`. It does not change system-wide settings such as the size of connection tracking.
///
/// # Errors
/// If the program is not built.
pub(super) fn program(directory: &Path, kubeconfig: &Path, name: &str) -> Result<Program> {
    Ok(Program {
        name: "kube-proxy".to_owned(),
        path: programs::path("kube-proxy")?,
        args: vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--hostname-override={name}"),
            "--proxy-mode=iptables".to_owned(),
            // Pods of one node reach each other through a bridge without iptables, so answers must be masqueraded.
            "--masquerade-all=true".to_owned(),
            "--conntrack-max-per-core=0".to_owned(),
            "--conntrack-tcp-timeout-established=0s".to_owned(),
            "--conntrack-tcp-timeout-close-wait=0s".to_owned(),
            format!("--healthz-bind-address=0.0.0.0:{HEALTH}"),
            "--metrics-bind-address=127.0.0.1:10249".to_owned(),
        ],
        env: BTreeMap::new(),
        directory: directory.to_path_buf(),
    })
}

//! Paths of the programs of a node.

use crate::paths;
use anyhow::{Result, bail};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the directory of `make node`; `GIVEWAY_NODE_BIN` sets another one.
pub(super) fn directory() -> PathBuf {
    env::var_os("GIVEWAY_NODE_BIN").map_or_else(|| paths::repository().join("target/node/bin"), PathBuf::from)
}

/// Returns the path of one of the node's programs, such as `kubelet`.
///
/// # Errors
/// If it has not been built.
pub(super) fn path(name: &str) -> Result<PathBuf> {
    let path = directory().join(name);
    if !path.is_file() {
        bail!("{} is missing: run `make node` first", path.display());
    }
    Ok(path)
}

/// Returns `PATH` for programs that start other programs of the node: containerd starts its shims.
pub(super) fn search_path() -> String {
    format!("{}:{}", directory().display(), env::var("PATH").unwrap_or_default())
}

/// Checks whether a node can run here: Linux, root, namespaces and installed packages.
///
/// # Errors
/// If it cannot; the message says why and which packages to install.
pub fn check() -> Result<(), String> {
    let script = Path::new("tests/node/can.sh");
    let said = Command::new("/bin/sh").arg(script).current_dir(paths::repository()).output();
    let said = said.map_err(|error| format!("starting /bin/sh: {error}"))?;
    if said.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said.stdout).trim().to_owned()) }
}

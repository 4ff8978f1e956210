//! Where the programs of a node are.

use crate::paths;
use anyhow::{Result, bail};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory that `make node` fills; `GIVEWAY_NODE_BIN` names another one.
pub(super) fn directory() -> PathBuf {
    env::var_os("GIVEWAY_NODE_BIN").map_or_else(|| paths::repository().join("target/node/bin"), PathBuf::from)
}

/// One of the node's programs, such as `kubelet`.
///
/// # Errors
/// It has not been built.
pub(super) fn path(name: &str) -> Result<PathBuf> {
    let path = directory().join(name);
    if !path.is_file() {
        bail!("{} is missing: run `make node` first", path.display());
    }
    Ok(path)
}

/// The value of `PATH` for programs that start further programs of the node: containerd starts its shims.
pub(super) fn search_path() -> String {
    format!("{}:{}", directory().display(), env::var("PATH").unwrap_or_default())
}

/// Whether a node can run here: Linux, root, namespaces, and what the machine itself must bring.
///
/// # Errors
/// It cannot; one sentence says why, and which packages to install.
pub fn check() -> Result<(), String> {
    let script = Path::new("tests/node/can.sh");
    let said = Command::new("/bin/sh").arg(script).current_dir(paths::repository()).output();
    let said = said.map_err(|error| format!("starting /bin/sh: {error}"))?;
    if said.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said.stdout).trim().to_owned()) }
}

//! Where things are in the repository.

use anyhow::{Result, bail};
use std::env;
use std::path::{Path, PathBuf};

/// The root of the repository that this crate was built in.
pub fn repository() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_path_buf()
}

/// A program of the control plane, built by `make controlplane`; `GIVEWAY_CONTROLPLANE_BIN` names another directory.
///
/// # Errors
/// It has not been built.
pub fn control_plane_program(name: &str) -> Result<PathBuf> {
    let directory = env::var_os("GIVEWAY_CONTROLPLANE_BIN")
        .map_or_else(|| repository().join("target/controlplane/bin"), PathBuf::from);
    let path = directory.join(name);
    if !path.is_file() {
        bail!("{} is missing: run `make controlplane` first", path.display());
    }
    Ok(path)
}

/// promtool, built by `make promtool`.
///
/// # Errors
/// It has not been built.
pub fn promtool() -> Result<PathBuf> {
    let path = repository().join("target/promtool/bin/promtool");
    if !path.is_file() {
        bail!("{} is missing: run `make promtool` first", path.display());
    }
    Ok(path)
}

/// A program of Giveway: next to the running program (`target/debug` for tests), or in `GIVEWAY_BIN_DIR`.
///
/// # Errors
/// It has not been built.
pub fn giveway_program(name: &str) -> Result<PathBuf> {
    let directory = match env::var_os("GIVEWAY_BIN_DIR") {
        Some(directory) => repository().join(directory),
        None => {
            let program = env::current_exe()?;
            let directory = program.parent().unwrap_or(Path::new("/"));
            let in_deps = directory.file_name().is_some_and(|name| name == "deps");
            directory.parent().filter(|_| in_deps).unwrap_or(directory).to_path_buf()
        }
    };
    let path = directory.join(name);
    if !path.is_file() {
        bail!(
            "{} is missing: run `cargo build -p {name}`, or use `make e2e`, `make up` or `make demo`, which build it",
            path.display()
        );
    }
    Ok(path)
}

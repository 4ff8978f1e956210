//! Paths of the repository and of built programs.

use anyhow::{Result, bail};
use std::env;
use std::path::{Path, PathBuf};

/// Returns the root of the repository in which this crate was built.
pub fn repository() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_path_buf()
}

/// Returns the path of a program of the control plane, which `make controlplane` builds. `GIVEWAY_CONTROLPLANE_BIN` sets another
/// directory.
///
/// # Errors
/// If the program has not been built.
pub fn control_plane_program(name: &str) -> Result<PathBuf> {
    let directory = env::var_os("GIVEWAY_CONTROLPLANE_BIN")
        .map_or_else(|| repository().join("target/controlplane/bin"), PathBuf::from);
    let path = directory.join(name);
    if !path.is_file() {
        bail!("{} is missing: run `make controlplane` first", path.display());
    }
    Ok(path)
}

/// Returns the path of promtool, which `make promtool` builds.
///
/// # Errors
/// If promtool has not been built.
pub fn promtool() -> Result<PathBuf> {
    let path = repository().join("target/promtool/bin/promtool");
    if !path.is_file() {
        bail!("{} is missing: run `make promtool` first", path.display());
    }
    Ok(path)
}

/// Returns the path of a program of Giveway: next to the running program (`target/debug` for tests), or in `GIVEWAY_BIN_DIR`.
///
/// # Errors
/// If the program has not been built.
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

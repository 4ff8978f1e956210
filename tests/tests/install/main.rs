//! Tests of the files of a release, which `make dist` writes to `target/dist`: images are pushed, pulled and run, and the
//! packaged chart is installed and uninstalled. `make test-install` runs them.
// A test panics with a message when an expectation fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod images;
mod path;
mod policy;
mod registry;
mod sbom;

use giveway_tests::paths;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of all programs and files.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the path of a file in `target/dist`. Panics if it does not exist.
fn shipped(name: &str) -> PathBuf {
    let path = paths::repository().join("target/dist").join(name);
    assert!(path.exists(), "{} is missing: run `make dist` first", path.display());
    path
}

/// Returns the path of a file of an image or program for this machine's architecture; `ending` is, for example, `oci.tar`.
fn for_this_machine(name: &str, ending: &str) -> PathBuf {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    shipped(&format!("{name}-{VERSION}-linux-{architecture}.{ending}"))
}

/// Returns the archive of an image for this machine's architecture.
fn archive(image: &str) -> PathBuf {
    for_this_machine(image, "oci.tar")
}

/// Runs a program, expects it to succeed and returns its output.
fn run(program: &Path, args: &[&str], env: &[(&str, &str)]) -> String {
    let output = Command::new(program).args(args).envs(env.iter().copied()).current_dir(paths::repository()).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{} {args:?}: {}", program.display(), text(&output.stderr));
    text(&output.stdout)
}

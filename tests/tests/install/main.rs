//! What a release ships, as `make dist` has put it into `target/dist`: images that are pushed, pulled and run, and the packaged
//! chart from `helm install` to a cluster in which nothing is left. `make test-install` runs it.
// Tests end on the spot, with a message, when an expectation fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod images;
mod path;
mod policy;
mod registry;
mod sbom;

use giveway_tests::paths;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of everything.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A file of `target/dist`.
fn shipped(name: &str) -> PathBuf {
    let path = paths::repository().join("target/dist").join(name);
    assert!(path.exists(), "{} is missing: run `make dist` first", path.display());
    path
}

/// The file about an image or a program for this machine, such as `oci.tar`.
fn for_this_machine(name: &str, ending: &str) -> PathBuf {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    shipped(&format!("{name}-{VERSION}-linux-{architecture}.{ending}"))
}

/// The archive of an image, for this machine.
fn archive(image: &str) -> PathBuf {
    for_this_machine(image, "oci.tar")
}

/// Runs a program to its end; what it printed.
fn run(program: &Path, args: &[&str], env: &[(&str, &str)]) -> String {
    let output = Command::new(program).args(args).envs(env.iter().copied()).current_dir(paths::repository()).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{} {args:?}: {}", program.display(), text(&output.stderr));
    text(&output.stdout)
}

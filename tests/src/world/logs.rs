//! Keeps and prints the logs of a failed test.

use crate::control_plane::ControlPlane;
use crate::control_plane::process::tail;
use crate::paths;
use std::fs;
use std::path::{Path, PathBuf};

/// Copies the logs of a failed test and prints the end of the daemons' logs.
pub(super) fn report(plane: &ControlPlane) {
    let name = plane.directory().file_name().unwrap_or_default();
    let kept = paths::repository().join("target/e2e").join(name);
    let mut copied = Vec::new();
    if fs::create_dir_all(&kept).is_ok() {
        copied = copy_logs(plane.directory(), &kept);
    }
    eprintln!("\nthe logs of this test are in {}: {}", kept.display(), copied.join(", "));
    for daemon in ["giveway-operator", "giveway-operator-2", "giveway-webhook"] {
        let log = plane.directory().join("logs").join(format!("{daemon}.log"));
        if log.exists() {
            eprintln!("--- the end of {daemon}.log:\n{}", tail(&log, 30));
        }
    }
}

/// Returns the logs of every process.
pub(super) fn daemon_logs(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory.join("logs")).into_iter().flatten().flatten().map(|entry| entry.path())
}

pub(super) fn copy_logs(from: &Path, to: &Path) -> Vec<String> {
    let files = daemon_logs(from).chain([from.join("audit.log"), from.join("giveway.yaml")]);
    let named = files.filter_map(|file| Some((file.file_name()?.to_string_lossy().into_owned(), file.clone())));
    named
        .chain(pod_logs(&from.join("node/pods")))
        .filter_map(|(name, file)| fs::copy(&file, to.join(&name)).ok().map(|_| name))
        .collect()
}

/// Returns the logs of containers on a real node (POD/CONTAINER/RESTARTS.log), with names for their copies.
fn pod_logs(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let containers = entries(folder.to_path_buf()).flat_map(entries);
    let logs = containers.flat_map(entries).filter_map(|file| {
        let name = file.strip_prefix(folder).ok()?.display().to_string();
        Some((name.replace('/', "."), file))
    });
    logs.collect()
}

//! Reuse of control planes by several tests, because starting one takes longer than most tests.
//!
//! A passed test leaves an idle control plane without Giveway's daemons. The next test restores it to the [state](super::State)
//! that it needs, with empty logs. Processes that a test stopped, restarted or started with options of its own are replaced.

use super::foundation::Foundation;
use super::guard::Guard;
use super::options::Options;
use super::pki::Pki;
use super::ports::Block;
use super::process::Process;
use super::version::Version;
use anyhow::Result;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The processes that a reused control plane must have, because they store the state.
pub(super) const STORING: [&str; 2] = ["etcd", "kube-apiserver"];
/// Files in the directory that the processes of a control plane and later tests need.
const KEPT: [&str; 9] = [
    super::REMEMBERED,
    "audit.log",
    "etcd",
    "kube-controller-manager.kubeconfig",
    "kube-scheduler.kubeconfig",
    "kubeconfig",
    "kwok.kubeconfig",
    "logs",
    "pki",
];
/// Environment variable that disables reuse, to find out whether an earlier test causes a failure.
const FRESH: &str = "GIVEWAY_FRESH";

/// An idle control plane.
pub(super) struct Idle {
    pub(super) processes: BTreeMap<String, Process>,
    pub(super) guard: Guard,
    pub(super) ports: Arc<Block>,
    pub(super) directory: PathBuf,
    pub(super) pki: Arc<Pki>,
    pub(super) server: String,
    pub(super) kubernetes: Version,
    pub(super) foundation: Foundation,
}

/// Idle control planes, at most one for each test thread. Their guards end them with the program.
static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

/// Returns true if a test with these options can share its control plane with others.
pub(super) fn shares(options: &Options) -> bool {
    options.is_reusable() && std::env::var_os(FRESH).is_none()
}

/// Takes an idle control plane, if there is one.
pub(super) fn take(kubernetes: Version) -> Option<Idle> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let index = idle.iter().position(|idle| idle.kubernetes == kubernetes)?;
    Some(idle.swap_remove(index))
}

/// Adds an idle control plane.
pub(super) fn give(idle: Idle) {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(idle);
}

/// Removes the files of a test from the directory, except those that running processes need, and empties the logs.
///
/// # Errors
/// If a file cannot be removed.
pub(super) fn sweep(directory: &Path, running: &BTreeMap<String, Process>) -> Result<()> {
    remove_others(directory, |name| KEPT.contains(&name))?;
    let logs: Vec<String> = running.keys().map(|name| format!("{name}.log")).collect();
    remove_others(&directory.join("logs"), |name| logs.iter().any(|log| log == name))?;
    empty_logs(directory)
}

/// Empties all logs and the audit log.
///
/// # Errors
/// If a log cannot be written.
pub(super) fn empty_logs(directory: &Path) -> Result<()> {
    let logs = fs::read_dir(directory.join("logs"))?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    for log in logs.into_iter().chain([directory.join("audit.log")]) {
        File::options().write(true).truncate(true).create(true).open(log)?;
    }
    Ok(())
}

fn remove_others(directory: &Path, kept: impl Fn(&str) -> bool) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if kept(&entry.file_name().to_string_lossy()) {
            continue;
        }
        let path = entry.path();
        if entry.file_type()?.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    Ok(())
}

//! Control planes that serve one test after the other: starting one takes longer than most tests.
//!
//! A test that ended well leaves its control plane behind, without Giveway. The next one gets it in the [state](super::State) that it
//! asks for, with empty logs. The processes that the test before stopped, restarted or started with options of its own are replaced.

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

/// The processes without which a control plane serves no other test: what they store is the state.
pub(super) const STORING: [&str; 2] = ["etcd", "kube-apiserver"];
/// What the processes of a control plane, and later tests, need of its directory.
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
/// An environment variable that has every test start its own control plane, to see whether a failure comes from a test before.
const FRESH: &str = "GIVEWAY_FRESH";

/// A control plane that no test uses.
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

/// At most one for each thread that runs tests. They end with the program: their guards see to that.
static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

/// Whether a test with these options shares its control plane with others.
pub(super) fn shares(options: &Options) -> bool {
    options.is_reusable() && std::env::var_os(FRESH).is_none()
}

/// A control plane for a test, if one is idle.
pub(super) fn take(kubernetes: Version) -> Option<Idle> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let index = idle.iter().position(|idle| idle.kubernetes == kubernetes)?;
    Some(idle.swap_remove(index))
}

/// A control plane that its test needs no more.
pub(super) fn give(idle: Idle) {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(idle);
}

/// Removes what a test left in the directory, but what running processes need, and empties their logs, which they append to.
///
/// # Errors
/// Something cannot be removed.
pub(super) fn sweep(directory: &Path, running: &BTreeMap<String, Process>) -> Result<()> {
    remove_others(directory, |name| KEPT.contains(&name))?;
    let logs: Vec<String> = running.keys().map(|name| format!("{name}.log")).collect();
    remove_others(&directory.join("logs"), |name| logs.iter().any(|log| log == name))?;
    empty_logs(directory)
}

/// Empties all logs, and the audit log.
///
/// # Errors
/// One cannot be written.
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

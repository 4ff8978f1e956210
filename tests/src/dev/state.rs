//! A file about a detached control plane, so that another program can find and end it.

use crate::World;
use crate::control_plane::process::pid_of;
use crate::{paths, wait};
use anyhow::{Context as _, Result};
use rustix::process::{Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A process that was left running.
#[derive(Debug, Deserialize, Serialize)]
struct Left {
    pid: u32,
    program: PathBuf,
}

/// Returns the directory of the detached control plane.
pub(super) fn directory() -> PathBuf {
    paths::repository().join("target/up")
}

fn file() -> PathBuf {
    directory().join("processes.json")
}

/// Detaches the world and records its processes, so that [`end`] can end them.
pub(super) fn leave_running(world: &mut World) -> Result<()> {
    let left: Vec<Left> = world.processes().into_iter().map(|(pid, program)| Left { pid, program }).collect();
    fs::write(file(), serde_json::to_string_pretty(&left)?).context("recording the running processes")?;
    world.detach();
    Ok(())
}

/// Returns the number of live processes of a detached control plane.
pub(super) fn running() -> usize {
    left().iter().filter(|left| left.alive()).count()
}

/// Ends a detached control plane and removes its directory. Returns the number of its processes.
pub(super) async fn end() -> Result<usize> {
    let left: Vec<Left> = left().into_iter().filter(Left::alive).collect();
    for left in &left {
        if let Some(pid) = pid_of(left.pid) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
    wait::until("all processes have ended", Duration::from_secs(20), async || {
        let alive: Vec<u32> = left.iter().filter(|left| left.alive()).map(|left| left.pid).collect();
        if alive.is_empty() { Ok(()) } else { Err(format!("{alive:?} are alive")) }
    })
    .await?;
    let directory = directory();
    if directory.exists() {
        fs::remove_dir_all(&directory).with_context(|| format!("removing {}", directory.display()))?;
    }
    Ok(left.len())
}

fn left() -> Vec<Left> {
    let text = fs::read_to_string(file()).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

impl Left {
    /// Returns true if the process is alive and still the recorded one: its id may have been reused.
    fn alive(&self) -> bool {
        let output = Command::new("ps").args(["-o", "stat=,args=", "-p", &self.pid.to_string()]).output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let (state, command) = text.trim().split_once(char::is_whitespace).unwrap_or_default();
        !state.starts_with('Z') && runs(command.trim(), &self.program)
    }
}

fn runs(command: &str, program: &Path) -> bool {
    command.starts_with(&*program.to_string_lossy())
}

//! One process of a control plane, with a clean environment and a log file of its own. It is ended on drop.

use super::guard::Guard;
use super::machine_entry::MachineEntry;
use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A program to start.
#[derive(Clone, Debug)]
pub struct Program {
    /// Name for messages and for the log file.
    pub name: String,
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment besides `PATH` and `HOME`. Proxy and certificate settings of the user are not inherited.
    pub env: BTreeMap<String, String>,
    /// Working and home directory; the log is `logs/NAME.log` in it, appended to.
    pub directory: PathBuf,
}

impl Program {
    /// Returns the path of the log with standard output and error.
    pub fn log(&self) -> PathBuf {
        self.directory.join("logs").join(format!("{}.log", self.name))
    }
}

/// A running or ended process.
pub struct Process {
    program: Program,
    child: Child,
    guard: Guard,
    status: Option<ExitStatus>,
    detached: bool,
}

impl Process {
    /// Starts a program in a process group of its own, so that Ctrl-C reaches only the program that started it. With an entry it
    /// runs in that machine.
    ///
    /// # Errors
    /// If the executable is missing or cannot be started.
    pub fn spawn(program: Program, guard: &Guard, entry: Option<&MachineEntry>) -> Result<Self> {
        let log = program.log();
        fs::create_dir_all(program.directory.join("logs"))?;
        let out: File = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("opening the log {}", log.display()))?;
        let command = entry.map_or_else(|| Command::new(&program.path), |entry| entry.command(&program.path));
        let child = { command }
            .args(&program.args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &program.directory)
            .envs(&program.env)
            .current_dir(&program.directory)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("starting {}", program.path.display()))?;
        guard.add(child.id());
        Ok(Self { program, child, guard: guard.clone(), status: None, detached: false })
    }

    /// Returns the program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status if the process has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
            if self.status.is_some() {
                self.guard.remove_process(self.child.id());
            }
        }
        self.status
    }

    /// Terminates the process (SIGTERM).
    pub fn terminate(&mut self) {
        if self.exited().is_none()
            && let Some(pid) = pid_of(self.child.id())
        {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Kills the process and its children (SIGKILL) and waits until it has ended.
    pub fn kill(&mut self) {
        if self.exited().is_none() {
            if let Some(pid) = pid_of(self.child.id()) {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            self.status = self.child.wait().ok();
            self.guard.remove_process(self.child.id());
        }
    }

    /// Waits until the process has ended, for at most `limit`.
    pub async fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            match self.exited() {
                None if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(5)).await,
                status => return status,
            }
        }
    }

    /// Detaches the process, so that it keeps running after this handle is dropped.
    pub fn detach(&mut self) {
        self.detached = true;
    }

    /// Returns the first error in the log with the lines that belong to it.
    pub fn first_error(&self) -> String {
        first_error(&self.program.log())
    }

    /// Returns the last lines of the log.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.program.log(), lines)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.detached {
            self.kill();
        }
    }
}

/// Returns the first error in a log with the two lines after it, or the last lines if there is none. Errors are the messages of
/// Rust and Go programs at their end (`Error:`, `panicked at`, `panic:`) and lines of level error (`ERROR` in text, `E0131` of
/// klog).
fn first_error(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    match lines.iter().position(|line| is_error(line)) {
        Some(first) => lines[first..].iter().take(3).copied().collect::<Vec<_>>().join("\n"),
        None => tail(log, 15),
    }
}

fn is_error(line: &str) -> bool {
    let klog =
        line.strip_prefix('E').is_some_and(|rest| rest.len() > 4 && rest.chars().take(4).all(|c| c.is_ascii_digit()));
    let words = ["Error:", "error:", "panicked at", "panic:", " ERROR ", "\"level\":\"ERROR\"", "\"level\":\"fatal\""];
    klog || words.iter().any(|word| line.contains(word))
}

/// Returns the last lines of a text file; empty if it cannot be read.
pub fn tail(path: &Path, lines: usize) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Converts a process id for sending signals; `None` if it is not valid.
pub fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_of_a_log_is_returned_without_its_backtrace() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let backtrace: String =
            (0..60).map(|frame| format!("  {frame}: core::ops::function::FnOnce::call_once\n")).collect();
        let text =
            format!("INFO started\nError: listening on 127.0.0.1:20003\n\nCaused by: address in use\n{backtrace}");
        fs::write(log.path(), text).unwrap();
        assert_eq!(first_error(log.path()), "Error: listening on 127.0.0.1:20003\n\nCaused by: address in use");
        fs::write(log.path(), "I0131 started\nE0131 12:00:00 cannot listen\nmore").unwrap();
        assert_eq!(first_error(log.path()), "E0131 12:00:00 cannot listen\nmore");
        fs::write(log.path(), "one\ntwo").unwrap();
        assert_eq!(first_error(log.path()), "one\ntwo");
    }
}

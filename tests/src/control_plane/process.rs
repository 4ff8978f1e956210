//! One process of the control plane: started with a clean environment, logged to a file of its own, ended on drop.

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

/// What to start.
#[derive(Clone, Debug)]
pub struct Program {
    /// Name for messages and for the log file.
    pub name: String,
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment, besides `PATH` and `HOME`: no proxy and no certificate settings of the user get in.
    pub env: BTreeMap<String, String>,
    /// Working and home directory; the log is `logs/NAME.log` in it, appended to.
    pub directory: PathBuf,
}

impl Program {
    /// The file to which the process writes its standard output and error.
    pub fn log(&self) -> PathBuf {
        self.directory.join("logs").join(format!("{}.log", self.name))
    }
}

/// A running process, or one that ended and was not noticed yet.
pub struct Process {
    program: Program,
    child: Child,
    guard: Guard,
    status: Option<ExitStatus>,
    detached: bool,
}

impl Process {
    /// Starts a program in a process group of its own, so that Ctrl-C reaches only the program that started it; with an
    /// entry it runs in that machine.
    ///
    /// # Errors
    /// The executable is missing or cannot be started.
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

    /// What was started.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How the process ended, if it has.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
            if self.status.is_some() {
                self.guard.gone(self.child.id());
            }
        }
        self.status
    }

    /// Asks the process to end (SIGTERM).
    pub fn terminate(&mut self) {
        if self.exited().is_none()
            && let Some(pid) = pid_of(self.child.id())
        {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Ends the process and all it started at once (SIGKILL), and waits until it is gone.
    pub fn kill(&mut self) {
        if self.exited().is_none() {
            if let Some(pid) = pid_of(self.child.id()) {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            self.status = self.child.wait().ok();
            self.guard.gone(self.child.id());
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

    /// Lets the process live on after this handle is dropped.
    pub fn detach(&mut self) {
        self.detached = true;
    }

    /// Why the process ended, as its log tells: the first error and what belongs to it.
    pub fn first_error(&self) -> String {
        first_error(&self.program.log())
    }

    /// The last lines of the log.
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

/// The first error that a log tells, with the two lines after it; the last lines where it tells none. Errors are what Rust and Go programs
/// print when they end (`Error:`, `panicked at`, `panic:`), and lines of that level (`ERROR` in text, `E0131` of klog).
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

/// The last lines of a text file; empty when it cannot be read.
pub fn tail(path: &Path, lines: usize) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// The process id in the form that signals want; `None` for numbers that no process can have.
pub fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_of_a_log_is_told_without_the_backtrace_after_it() {
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

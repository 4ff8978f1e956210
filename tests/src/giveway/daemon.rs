//! One of Giveway's processes, which tests can kill, terminate and restart.

use super::{http, skew};
use crate::control_plane::process::pid_of;
use crate::control_plane::{Process, Program, Spawner};
use anyhow::{Result, anyhow, bail};
use rustix::process::{Signal, kill_process};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A daemon, running or not.
pub struct Daemon {
    spawner: Spawner,
    program: Program,
    metrics: u16,
    process: Option<Process>,
    /// Receives the exit status if the process ended by itself before this handle was dropped.
    ends: Option<Ends>,
    /// Whether a test stopped, froze or reconfigured it.
    touched: AtomicBool,
}

/// Messages about processes that ended by themselves.
pub(crate) type Ends = Arc<Mutex<Vec<String>>>;

impl Daemon {
    pub(super) fn new(spawner: Spawner, program: Program, metrics: u16) -> Self {
        Self { spawner, program, metrics, process: None, ends: None, touched: AtomicBool::new(false) }
    }

    /// Sets where the exit status is reported if the process ends by itself before this handle is dropped.
    pub(crate) fn report_end_to(&mut self, ends: &Ends) {
        self.ends = Some(Arc::clone(ends));
    }

    /// Sets the name of the process and of its log for the next start.
    pub(super) fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.program.name);
    }

    /// Sets the program for the next start.
    pub(super) fn set_program(&mut self, path: PathBuf) {
        self.program.path = path;
    }

    /// Freezes the process (SIGSTOP) or continues it (SIGCONT).
    ///
    /// # Panics
    /// If it does not run.
    pub fn freeze(&self, frozen: bool) {
        self.touched.store(true, Ordering::Relaxed);
        let pid = self.pid().and_then(pid_of).expect("the daemon runs");
        let signal = if frozen { Signal::STOP } else { Signal::CONT };
        kill_process(pid, signal).unwrap();
    }

    /// Requests a dump of its state (SIGUSR1).
    ///
    /// # Panics
    /// If it does not run.
    pub fn request_dump(&self) {
        let pid = self.pid().and_then(pid_of).expect("the daemon runs");
        kill_process(pid, Signal::USR1).unwrap();
    }

    /// Sets the number of seconds by which its wall clock is ahead from the next start on.
    ///
    /// # Panics
    /// If there is no C compiler.
    pub fn clock_ahead(&mut self, seconds: i64) {
        self.touched.store(true, Ordering::Relaxed);
        let library = skew::library(&self.program.directory).unwrap();
        self.program.env.insert("LD_PRELOAD".to_owned(), library.display().to_string());
        self.program.env.insert("CLOCK_AHEAD".to_owned(), seconds.to_string());
    }

    /// Starts the process without waiting for it.
    ///
    /// # Errors
    /// If it cannot be started or runs already.
    pub fn spawn(&mut self) -> Result<()> {
        if self.process.as_mut().is_some_and(|process| process.exited().is_none()) {
            bail!("{} runs already", self.program.name);
        }
        self.process = Some(self.spawner.spawn(self.program.clone())?);
        Ok(())
    }

    /// Starts the process and waits until it is ready.
    ///
    /// # Panics
    /// If it does not become ready.
    pub async fn start(&mut self) {
        self.spawn().unwrap();
        self.wait_ready(Duration::from_secs(60)).await.unwrap();
    }

    /// Kills the process (SIGKILL) and waits until it has ended.
    pub fn kill(&mut self) {
        self.touched.store(true, Ordering::Relaxed);
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Terminates the process (SIGTERM). Returns its exit status and the time until it ended.
    ///
    /// # Panics
    /// If it does not run or has not ended after 30 s.
    pub async fn terminate(&mut self) -> (ExitStatus, Duration) {
        self.touched.store(true, Ordering::Relaxed);
        let mut process = self.process.take().expect("the daemon runs");
        let start = Instant::now();
        process.terminate();
        let status = process.wait(Duration::from_secs(30)).await;
        let name = &self.program.name;
        (status.unwrap_or_else(|| panic!("{name} has not ended 30 s after SIGTERM")), start.elapsed())
    }

    /// Waits until the process has ended by itself.
    ///
    /// # Panics
    /// If it does not run or has not ended before the deadline.
    pub async fn wait_exit(&mut self, limit: Duration) -> ExitStatus {
        let process = self.process.as_mut().expect("the daemon was started");
        let status = process.wait(limit).await.unwrap_or_else(|| panic!("{} still runs", self.program.name));
        self.process = None;
        status
    }

    /// Returns the exit status if the process has ended by itself.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.process.as_mut().and_then(Process::exited)
    }

    /// Returns true if a test stopped, froze or reconfigured it.
    pub(crate) fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed)
    }

    /// Returns the process id if the process runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// Returns a line of the process's status in MiB, such as `VmRSS` (resident memory) or `VmHWM` (its peak).
    ///
    /// # Panics
    /// If the process does not run.
    pub fn memory(&self, line: &str) -> f64 {
        let pid = self.pid().expect("the process runs");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
        let found = status.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'));
        let kibibytes = found.and_then(|value| value.trim().trim_end_matches(" kB").parse::<f64>().ok());
        kibibytes.expect("a size in kB") / 1024.0
    }

    /// Sets a flag, as `--name=value`, for the next start.
    pub fn flag(&mut self, flag: &str) {
        self.touched.store(true, Ordering::Relaxed);
        let name = flag.split('=').next().unwrap_or(flag);
        self.program.args.retain(|arg| arg.split('=').next() != Some(name));
        self.program.args.push(flag.to_owned());
    }

    /// Returns the path of the log file, which all starts append to.
    pub fn log(&self) -> PathBuf {
        self.program.log()
    }

    /// Returns status and body of the answer on this path of the metrics address, such as `/metrics`.
    ///
    /// # Errors
    /// If the daemon does not answer.
    pub async fn http(&self, path: &str) -> Result<(u16, String)> {
        Ok(http::get(self.metrics, path).await?)
    }

    /// Waits until `/readyz` answers 200.
    ///
    /// # Errors
    /// If the process has ended or the deadline has passed.
    pub async fn wait_ready(&mut self, limit: Duration) -> Result<()> {
        let (metrics, name) = (self.metrics, self.program.name.clone());
        let process = self.process.as_mut().ok_or_else(|| anyhow!("{name} was not started"))?;
        http::wait_ready(process, &name, metrics, "/readyz", limit).await
    }

    /// Returns the program that is started.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Detaches the process, so that it keeps running after this value is dropped.
    pub fn detach(&mut self) {
        if let Some(process) = &mut self.process {
            process.detach();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let (status, name) = (self.exited(), &self.program.name);
        if let (Some(ends), Some(status)) = (&self.ends, status) {
            let message = format!("{name} has ended by itself ({status})");
            ends.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        }
    }
}

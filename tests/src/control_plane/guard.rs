//! A guard process that ends all processes of a control plane and removes its directory, cgroups and links when the program that
//! started them has ended for any reason.
//!
//! Destructors do not run after Ctrl-C or `kill -9`, but the guard always notices the end of its pipe.

use super::ports::Block;
use anyhow::{Context as _, Result};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

const SCRIPT: &str = include_str!("guard.sh");

/// Handle of the guard of one directory. Dropping the last clone lets the guard clean up and waits for it.
#[derive(Clone)]
pub struct Guard(Arc<Inner>);

struct Inner {
    child: Mutex<Child>,
    pipe: Mutex<Option<ChildStdin>>,
}

impl Guard {
    /// Starts the guard of this directory. It keeps the lock of these ports until it has ended.
    ///
    /// # Errors
    /// If `/bin/sh` cannot be started.
    pub(super) fn start(directory: &Path, ports: &Block) -> Result<Self> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "giveway-guard"])
            .arg(directory)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::from(ports.lock()?))
            .stderr(Stdio::null())
            .spawn()
            .context("starting /bin/sh as the guard of a control plane")?;
        let pipe = child.stdin.take();
        Ok(Self(Arc::new(Inner { child: Mutex::new(child), pipe: Mutex::new(pipe) })))
    }

    /// Adds the process group of `pid`, which the guard will end.
    pub(super) fn add(&self, pid: u32) {
        self.write("add", &pid.to_string());
    }

    /// Removes a process that has ended, because its id may be reused.
    pub(super) fn remove_process(&self, pid: u32) {
        self.write("gone", &pid.to_string());
    }

    /// Detaches the guard: it does not clean up when this program ends.
    pub(super) fn keep(&self) {
        self.write("keep", "");
    }

    /// Adds a cgroup, which the guard removes with those below it after all processes have ended.
    pub(super) fn cgroup(&self, path: &Path) {
        self.write("cgroup", &path.display().to_string());
    }

    /// Adds a network link of the host, which the guard removes.
    pub(super) fn link(&self, name: &str) {
        self.write("link", name);
    }

    fn write(&self, word: &str, about: &str) {
        let mut pipe = self.0.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipe) = pipe.as_mut() {
            // Errors are ignored if the guard has ended: the processes are ended by their own destructors as well.
            drop(writeln!(pipe, "{word} {about}").and_then(|()| pipe.flush()));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        drop(self.pipe.lock().unwrap_or_else(PoisonError::into_inner).take());
        drop(self.child.lock().unwrap_or_else(PoisonError::into_inner).wait());
    }
}
